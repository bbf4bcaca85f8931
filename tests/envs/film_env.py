"""A Gymnasium environment that shows prepared frames, whatever is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray


class FilmEnv(gym.Env[Any, Any]):
    """Reset shows the first frame, each step the next; the last one ends the episode."""

    def __init__(
        self,
        frames: Sequence[NDArray[Any]],
        space: gym.Space[Any] | None = None,
        rewards: Sequence[float] | None = None,
        actions: gym.Space[Any] | None = None,
        end: tuple[bool, bool] = (True, False),
    ) -> None:
        """`end`: terminated and truncated of the last step."""
        first = frames[0]
        high = 1 if first.dtype == np.bool_ else 255
        self.observation_space = space or gym.spaces.Box(0, high, first.shape, first.dtype.type)
        self.action_space = actions or gym.spaces.Discrete(3)
        self.frames, self.end = frames, end
        self.rewards = rewards or [0.0] * (len(frames) - 1)
        self.actions_taken: list[int] = []
        self.seeds: list[int | None] = []
        self._shown = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._shown = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action} is not in {self.action_space}"
        self.actions_taken.append(int(action))
        self._shown += 1
        terminated, truncated = self.end if self._shown == len(self.frames) - 1 else (False, False)
        return self._show(), self.rewards[self._shown - 1], terminated, truncated, {}

    def _show(self) -> NDArray[Any]:
        return self.frames[self._shown].copy()


class Broken(FilmEnv):
    """Its third step raises."""

    def __init__(self) -> None:
        super().__init__([np.zeros((5, 5), np.uint8)] * 9)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._shown == 2:
            raise ZeroDivisionError("the third step of a broken environment")
        return super().step(action)


BROKEN_ID = f"{__name__}:test/Broken-v0"  # importing this module registers it, also in a worker

if "test/Broken-v0" not in gym.registry:
    gym.register("test/Broken-v0", entry_point=Broken)


class Surroundings(FilmEnv):
    """Its frames show how many threads libraries may start: OpenMP's tens, OpenCV's ones."""

    def __init__(self) -> None:
        names = ("OMP_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
        threads = "".join(os.environ.get(name, "0") for name in names)
        super().__init__([np.full((5, 5), int(threads), np.uint8)] * 9)


SURROUNDINGS_ID = f"{__name__}:test/Surroundings-v0"

if "test/Surroundings-v0" not in gym.registry:
    gym.register("test/Surroundings-v0", entry_point=Surroundings)
