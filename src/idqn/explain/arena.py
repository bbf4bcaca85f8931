"""Full games in lock-step: one network pass for all that are still being played."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import EnvPositions, RunEnvs, VectorEnv
from idqn.envs.single import FrameStack
from idqn.explain.progress import Progress, silent

Choose = Callable[[NDArray[np.uint8], NDArray[np.int64], int], NDArray[np.int64]]
"""Observations [n, C, H, W], the games they are of [n], steps played so far -> actions [n]."""


class Games(NamedTuple):
    actions: tuple[NDArray[np.int64], ...]
    """Of each game, one after another."""
    returns: NDArray[np.float64]  # [n]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.array([len(actions) for actions in self.actions], np.int64)


class Arena:
    """Environments that start any episode of one list, which `seed` decides: what is played twice
    with the same numbers begins the same twice."""

    def __init__(
        self, config: EnvConfig, count: int, seed: int, workers: int | None = None
    ) -> None:
        self._config, self._count = config, count
        self._vector = VectorEnv([RunEnvs(config, seed)] * count, 1, workers)

    def play(
        self,
        choose: Choose,
        episodes: NDArray[np.int64],
        max_steps: int | None = None,
        doing: str = "playing",
        progress: Progress = silent,
    ) -> Games:
        """Game i is episode number `episodes[i]`; none is longer than `max_steps`."""
        actions: list[NDArray[np.int64]] = []
        returns: list[float] = []
        for first in range(0, len(episodes), self._count):
            games = np.arange(first, min(first + self._count, len(episodes)))

            def show(done: int, first: int = first) -> None:
                progress(doing, first + done, len(episodes))

            played = self._round(choose, games, episodes[games], max_steps, show)
            actions += played.actions
            returns += played.returns.tolist()
        return Games(tuple(actions), np.array(returns))

    def _round(
        self,
        choose: Choose,
        games: NDArray[np.int64],
        episodes: NDArray[np.int64],
        max_steps: int | None,
        show: Callable[[int], None],
    ) -> Games:
        n, positions = len(games), EnvPositions.start(self._count)
        positions.episode[:n] = episodes
        stack = FrameStack(self._count, self._config.frame_stack, self._vector.frame_shape)
        observation = stack.push(self._vector.start(positions), np.ones(self._count, bool))
        playing = np.arange(self._count) < n  # the others idle: they step, and nobody looks
        actions: list[list[int]] = [[] for _ in range(n)]
        returns = np.zeros(n)
        steps = 0
        while playing.any():
            own = np.flatnonzero(playing)
            chosen = np.zeros(self._count, np.int64)
            chosen[own] = choose(observation[own], games[own], steps)
            step = self._vector.step(chosen)
            for env, action in zip(own.tolist(), chosen[own].tolist(), strict=True):
                actions[env].append(action)
            returns[own] += step.reward[own]
            over = step.terminated | step.truncated
            observation = stack.push(step.frame, over)
            steps += 1
            playing &= ~over
            if max_steps is not None and steps >= max_steps:
                playing[:] = False
            show(n - int(playing.sum()))
        return Games(tuple(np.array(own, np.int64) for own in actions), returns)

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._vector.close()
