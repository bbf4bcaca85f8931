"""Environments driven one by one, without `VectorEnv`: what its tests compare it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import cv2
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import RunEnvs, VectorEnv
from idqn.envs.atari import episodes_per_seed, native_options
from idqn.envs.editable import EditableAtari
from idqn.envs.episodes import UNSEEDED, episode_seed
from idqn.envs.mini_pacman import MiniPacman
from idqn.presets import preset
from idqn.types import Step

Frame = NDArray[np.uint8]

MINI = preset("paper", "idqn/MiniPacman-v0").env
BREAKOUT = preset("paper", "ALE/Breakout-v5").env  # random play lasts 100 to 250 steps
MSPACMAN = preset("paper", "ALE/MsPacman-v5").env
GAMES = (
    "Alien",
    "Freeway",
    "Frostbite",
    "Gravitar",
    "MsPacman",
    "Pong",
    "Qbert",
    "SpaceInvaders",
    "Venture",
)


def config_of(game: str, **changes: Any) -> EnvConfig:
    return EnvConfig(id=f"ALE/{game}-v5", **changes)


class DirectMiniPacman:
    """The game itself, its frames turned grey; knows of no option but the time limit."""

    def __init__(self, config: EnvConfig) -> None:
        assert config == replace(MINI, max_episode_frames=config.max_episode_frames)
        self.env = MiniPacman()
        self.limit = config.max_episode_frames

    def reset(self, seed: int) -> Frame:
        return self._grey(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> tuple[Frame, float, bool, bool]:
        frame, reward, terminated, truncated, _ = self.env.step(action)
        late = self.limit is not None and self.env.state.steps >= self.limit
        return self._grey(frame), reward, terminated, (truncated or late) and not terminated

    @staticmethod
    def _grey(frame: Frame) -> Frame:
        grey: Frame = np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), np.uint8)
        return grey[None]


class NativeAtari:
    """One game of the native vector environment."""

    def __init__(self, config: EnvConfig) -> None:
        self.env = AtariVectorEnv(num_envs=1, num_threads=1, stack_num=1, **native_options(config))

    def reset(self, seed: int) -> Frame:
        frame: Frame = self.env.reset(seed=np.array([seed]))[0][0]
        return frame

    def step(self, action: int) -> tuple[Frame, float, bool, bool]:
        frame, reward, terminated, truncated, _ = self.env.step(np.array([action]))
        return frame[0], float(reward[0]), bool(terminated[0]), bool(truncated[0])


class Moment(NamedTuple):
    """One environment's part of a `Step`."""

    frame: Frame
    reward: float
    terminated: bool
    truncated: bool
    final_frame: Frame | None


class Alone:
    """Environment `env` of a run by itself, every episode as if no other had been played."""

    def __init__(self, run: RunEnvs, env: int, episode: int = 0) -> None:
        self._run, self._env, self.episode = run, env, episode
        self._game: DirectMiniPacman | EditableAtari | NativeAtari
        self._season = episodes_per_seed(run.config) if run.config.is_atari else 1
        if not run.config.is_atari:
            self._game = DirectMiniPacman(run.config)
        elif self._season == 1:
            self._game = EditableAtari(replace(run.config, frame_stack=1))
        else:
            self._game = NativeAtari(run.config)
        self.length = 0
        self.frame = self._reset()

    def step(self, action: int) -> Moment:
        frame, reward, terminated, truncated = self._game.step(action)
        self.frame = frame
        self.length += 1
        if not (terminated or truncated):
            return Moment(frame, reward, False, False, None)
        self.episode += 1
        self.frame = self._reset()
        return Moment(self.frame, reward, terminated, truncated, frame)

    def _reset(self) -> Frame:
        self.length = 0
        further = self.episode % self._season
        seed = episode_seed(self._run.seed, self._env, self.episode - further)
        frame = self._game.reset(seed)
        for _ in range(further):
            frame = self._game.reset(UNSEEDED)
        return frame


def random_actions(steps: int, num_actions: Sequence[int], seed: int = 0) -> NDArray[np.int64]:
    """[steps, n], for environments with so many actions each."""
    return np.random.default_rng(seed).integers(num_actions, size=(steps, len(num_actions)))


def play(envs: VectorEnv, actions: NDArray[np.int64]) -> list[Step]:
    """Copies of the steps, final frames blank where they mean nothing."""
    steps = []
    for chosen in actions:
        step = Step(*(part.copy() for part in envs.step(chosen)))
        step.final_frame[~over(step)] = 0
        steps.append(step)
    return steps


def over(step: Step) -> NDArray[np.bool_]:
    return step.terminated | step.truncated


def assert_same_steps(one: Sequence[Step], other: Sequence[Step]) -> None:
    for time, (left, right) in enumerate(zip(one, other, strict=True)):
        for name, ours, theirs in zip(Step._fields, left, right, strict=True):
            np.testing.assert_array_equal(ours, theirs, f"{name} of step {time}", strict=True)


def assert_moment(step: Step, env: int, expected: Moment) -> None:
    """Environment `env` of a step is what it would be alone."""
    np.testing.assert_array_equal(step.frame[env], expected.frame)
    assert step.reward[env] == expected.reward
    assert step.terminated[env] == expected.terminated
    assert step.truncated[env] == expected.truncated
    if expected.final_frame is not None:
        np.testing.assert_array_equal(step.final_frame[env], expected.final_frame)
