"""Full games in lock-step: one network pass for all that are still being played."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.single import FrameStack
from idqn.envs.troupe import Troupe
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
    with the same numbers begins the same twice. Who finds it taken waits."""

    def __init__(
        self, config: EnvConfig, count: int, seed: int, workers: int | None = None
    ) -> None:
        self._config, self._count = config, count
        self._troupe = Troupe(config, count, seed, workers)
        self._taken = Lock()

    def play(
        self,
        choose: Choose,
        episodes: NDArray[np.int64],
        max_steps: int | None = None,
        doing: str = "playing",
        progress: Progress = silent,
        steady: bool = False,
    ) -> Games:
        """Game i is episode number `episodes[i]`; none is longer than `max_steps`. Of a `steady`
        player, who always does the same if it sees the same, games that begin alike are played
        once."""
        with self._taken:
            first = self._alike(episodes) if steady else np.arange(len(episodes))
            own, inverse = np.unique(first, return_inverse=True)
            actions: list[NDArray[np.int64]] = []
            returns: list[float] = []
            for done in range(0, len(own), self._count):
                games = own[done : done + self._count]

                def show(more: int, done: int = done) -> None:
                    progress(doing, done + more, len(own))

                played = self._round(choose, games, episodes[games], max_steps, show)
                actions += played.actions
                returns += played.returns.tolist()
        return Games(tuple(actions[i] for i in inverse), np.array(returns)[inverse])

    def give_up(self) -> None:
        """From another thread: nothing more can be played."""
        self._troupe.give_up()

    def _alike(self, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n], for each the first that begins as it does."""
        found: dict[object, int] = {}
        beginnings = self._troupe.beginnings(episodes)
        return np.array(
            [
                i if beginning is None else found.setdefault(beginning, i)
                for i, beginning in enumerate(beginnings)
            ],
            np.int64,
        )

    def _round(
        self,
        choose: Choose,
        games: NDArray[np.int64],
        episodes: NDArray[np.int64],
        max_steps: int | None,
        show: Callable[[int], None],
    ) -> Games:
        n = len(games)
        stack = FrameStack(n, self._config.frame_stack, self._troupe.frame_shape)
        stack.push(self._troupe.begin(episodes), np.ones(n, bool))
        playing = np.arange(n)
        actions: list[list[int]] = [[] for _ in games]
        returns = np.zeros(n)
        steps = 0
        while len(playing) and (max_steps is None or steps < max_steps):
            chosen = choose(stack.observation, games[playing], steps)
            answer = self._troupe.step(playing, chosen)
            for game, action in zip(playing.tolist(), chosen.tolist(), strict=True):
                actions[game].append(action)
            returns[playing] += answer.reward
            steps += 1
            left = np.flatnonzero(~answer.over)
            stack.keep(left)
            stack.push(answer.frame[left], np.zeros(len(left), bool))
            playing = playing[left]
            show(n - len(playing))
        return Games(tuple(np.array(own, np.int64) for own in actions), returns)

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._troupe.close()
