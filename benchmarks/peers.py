"""Training throughput of other libraries' DQN on an Atari game, emulators included.

    python benchmarks/peers.py sb3 --device cuda --envs 16 --seconds 60 --json sb3.json

Stable-Baselines3 gets the fastest environment there is, ale-py's native vector environment. The
clock runs only after the first hundred updates. `benchmarks/README.md` says what is equalised.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ale_py
import gymnasium
import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from report import STEPS_PER_UPDATE, WARM_UP_UPDATES, hardware, publish, rates, versions
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

_UNREACHABLE_STEPS = 10**12  # the clock ends training, not the number of steps


class NativeAtari(VecEnv):
    """ale-py's vector environment as Stable-Baselines3 wants it.

    Both reset a finished game within the step that ends it; they differ only in where they put
    that game's last observation.
    """

    def __init__(self, game: str, count: int, seed: int) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._env = AtariVectorEnv(
            rom_name(game),
            num_envs=count,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=84,
            img_width=84,
            grayscale=True,
            stack_num=4,
            frameskip=4,
            reward_clipping=True,
            episodic_life=False,
            repeat_action_probability=0.0,
        )
        self._seed = seed
        super().__init__(count, self._env.single_observation_space, self._env.single_action_space)

    def reset(self) -> NDArray[np.uint8]:
        observations: NDArray[np.uint8] = self._env.reset(seed=self._seed)[0]
        return observations

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._env.send(actions)

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, native_infos = self._env.recv()
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i]["terminal_observation"] = native_infos["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return observations, rewards.astype(np.float32), done, infos

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name != "render_mode":  # the one attribute that VecEnv itself asks for
            raise AttributeError(f"the native environment has no '{attr_name}'")
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Mark(NamedTuple):
    """How far training was at a moment."""

    time: float
    steps: int
    updates: int


class Stopwatch(BaseCallback):
    """Lets training warm up, marks a window of `seconds`, and ends training."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.begin: Mark | None = None
        self.end: Mark | None = None

    def _on_step(self) -> bool:
        if self.begin is None:
            if self.model._n_updates >= WARM_UP_UPDATES:
                self.begin = self._mark()
        elif time.perf_counter() >= self.begin.time + self._seconds:
            self.end = self._mark()
        return self.end is None

    def _mark(self) -> Mark:
        if self.model.device.type == "cuda":
            torch.cuda.synchronize()
        return Mark(time.perf_counter(), self.num_timesteps, self.model._n_updates)


def rom_name(game: str) -> str:
    """The emulator's name of a Gymnasium id: `"ALE/MsPacman-v5"` is `"ms_pacman"`."""
    gymnasium.register_envs(ale_py)
    name: str = gymnasium.spec(game).kwargs["game"]
    return name


def update_schedule(envs: int) -> dict[str, int]:
    """One gradient step per four agent steps, in Stable-Baselines3's terms.

    Its `train_freq` counts steps of the whole vector: sixteen environments make sixteen agent
    steps in one, and owe four gradient steps after it.
    """
    if STEPS_PER_UPDATE % envs == 0:
        return {"train_freq": STEPS_PER_UPDATE // envs, "gradient_steps": 1}
    if envs % STEPS_PER_UPDATE == 0:
        return {"train_freq": 1, "gradient_steps": envs // STEPS_PER_UPDATE}
    raise SystemExit(f"--envs must be 1, 2 or a multiple of {STEPS_PER_UPDATE}, got {envs}")


def measure_sb3(args: argparse.Namespace) -> dict[str, Any]:
    machine = hardware(torch.cuda.get_device_name() if args.device == "cuda" else None)
    settings: dict[str, Any] = {
        "batch_size": 32,
        "buffer_size": 100_000,
        "optimize_memory_usage": True,
        "replay_buffer_kwargs": {"handle_timeout_termination": False},  # the line above needs it
        "learning_starts": 1_000,
        "learning_rate": 1e-4,
        "target_update_interval": 10_000,
        "exploration_initial_eps": 0.01,
        "exploration_final_eps": 0.01,
        **update_schedule(args.envs),
    }
    env = NativeAtari(args.game, args.envs, args.seed)
    model = DQN("CnnPolicy", env, device=args.device, seed=args.seed, **settings)
    stopwatch = Stopwatch(args.seconds)
    model.learn(_UNREACHABLE_STEPS, callback=stopwatch)
    env.close()

    begin, end = stopwatch.begin, stopwatch.end
    assert begin is not None
    assert end is not None
    return {
        "peer": "stable-baselines3 DQN",
        "versions": versions(("stable-baselines3", "torch", "numpy", "gymnasium", "ale-py")),
        "hardware": machine,
        "device": args.device,
        "envs": args.envs,
        "game": args.game,
        **rates(end.time - begin.time, end.steps - begin.steps, end.updates - begin.updates),
        "gpu_memory_mb": gpu_memory_mb() if args.device == "cuda" else None,
        "settings": {"policy": "CnnPolicy", "torch_threads": torch.get_num_threads(), **settings},
    }


def gpu_memory_mb() -> int:
    """The most that torch has held of the GPU, its cache included, the CUDA context not."""
    return round(torch.cuda.max_memory_reserved() / 2**20)


PEERS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"sb3": measure_sb3}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--envs", type=int, default=1, help="games played at once")
    parser.add_argument("--game", default="ALE/Pong-v5", help="Gymnasium id, ALE/NAME-v5")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the window")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    args = parser.parse_args(arguments)
    publish(PEERS[args.peer](args), args.json)


if __name__ == "__main__":
    main()
