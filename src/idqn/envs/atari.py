"""Atari through ale-py's native vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari_ids import rom_name
from idqn.envs.episodes import GroupStep

SCREEN_HEIGHT, SCREEN_WIDTH = 210, 160
SCREEN_SHAPE = (1, SCREEN_HEIGHT, SCREEN_WIDTH)
NO_LIMIT = 2**31 - 1

_SEASON = 256  # episodes

# Games that do not clear all the memory they use when they are reset: what was played before leaves
# traces. Found by filling the memory with random bytes before a reset, and watching which of those
# that survived it ever change in play.
_REMEMBERING = frozenset(
    (
        "crossbow",
        "hangman",
        "haunted_house",
        "ice_hockey",
        "kung_fu_master",
        "pooyan",
        "sir_lancelot",
        "space_war",
        "surround",
        "time_pilot",
        "yars_revenge",
    )
)

# Microseconds of a step of four frames, 84x84, on one core; only the proportions matter. Games that
# are not listed are within a tenth of the last number.
# fmt: off
_STEP_US = {
    "star_gunner": 220, "asterix": 275, "gopher": 280, "phoenix": 285, "crazy_climber": 305,
    "gravitar": 310, "bowling": 310, "pong": 330, "breakout": 405, "skiing": 410, "ice_hockey": 420,
    "pitfall": 425, "tennis": 430, "chopper_command": 435, "double_dunk": 445, "battle_zone": 450,
    "enduro": 470, "hero": 475, "centipede": 475, "riverraid": 475, "private_eye": 480,
    "seaquest": 480, "boxing": 490, "fishing_derby": 495, "alien": 505, "video_pinball": 510,
    "freeway": 530, "road_runner": 550, "solaris": 580, "journey_escape": 655, "up_n_down": 660,
    "robotank": 770,
}
# fmt: on
_OTHER_STEP_US = 360


def native_options(config: EnvConfig) -> dict[str, Any]:
    """Keyword arguments of `AtariVectorEnv`, apart from the number of environments and threads."""
    return {
        "game": rom_name(config.id),
        "img_height": config.frame_height or SCREEN_HEIGHT,
        "img_width": config.frame_width or SCREEN_WIDTH,
        "grayscale": not config.color,
        "frameskip": config.frame_skip,
        "maxpool": config.max_pool,
        # the native env draws 0 .. noop_max - 1, and counts FIRE as one of them
        "noop_max": config.noop_max + 1 if config.noop_max > 0 else 0,
        "use_fire_reset": config.fire_on_reset,
        "repeat_action_probability": config.sticky_probability,
        "full_action_space": config.full_action_space,
        "max_num_frames_per_episode": config.max_episode_frames or NO_LIMIT,
        "episodic_life": False,
        "reward_clipping": False,
    }


def episodes_per_seed(config: EnvConfig) -> int:
    """What a reset draws (how many no-ops, where a timer starts) comes from random numbers that
    nothing but resets advances. But sticky actions go on drawing, and some games remember."""
    if config.sticky_probability > 0 or rom_name(config.id) in _REMEMBERING:
        return 1
    return _SEASON


def step_cost(config: EnvConfig) -> float:
    return float(_STEP_US.get(rom_name(config.id), _OTHER_STEP_US))


class AtariGroup:
    """n emulators of one game in a thread of their own. Single frames: replay does the stacking."""

    def __init__(self, config: EnvConfig, count: int) -> None:
        import ale_py
        from ale_py.vector_env import AtariVectorEnv

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.episodes_per_seed = episodes_per_seed(config)
        self._env = AtariVectorEnv(
            num_envs=count, num_threads=1, stack_num=1, **native_options(config)
        )

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        observation, _ = self._env.reset(seed=seeds[mask], options={"reset_mask": mask})
        return _channels_first(observation)

    def send(self, actions: NDArray[np.int64]) -> None:
        self._env.send(actions)

    def recv(self) -> GroupStep:
        observation, reward, terminated, truncated, _ = self._env.recv()
        return _channels_first(observation), reward.astype(np.float32), terminated, truncated

    def step(self, actions: NDArray[np.int64]) -> GroupStep:
        self.send(actions)
        return self.recv()

    def close(self) -> None:
        self._env.close()


def _channels_first(observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n, 1, h, w] stays; [n, 1, h, w, 3] becomes [n, 3, h, w]."""
    if observation.ndim == 5:
        return np.ascontiguousarray(observation[:, 0].transpose(0, 3, 1, 2))
    return observation
