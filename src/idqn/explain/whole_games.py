"""Full games of several policies: as usual, with sticky actions, and from random starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.evaluate import Policy, random_policy
from idqn.explain.arena import Arena, Choose, Games
from idqn.explain.progress import Progress, silent

STICKY = 0.25
_AT_ONCE = 50  # games


class Player(NamedTuple):
    policy: Policy
    env: EnvConfig
    steady: bool = False
    """Does the same whenever it sees the same, and so plays what begins alike alike."""


class WholeGames(NamedTuple):
    usual: Games
    sticky: Games | None
    pushed: Games
    """Begun with random actions; games that were over before the policy's turn are left out."""


class Stadium:
    """An arena for each kind of environment; half as many games with sticky actions, which only
    Atari has, and from random starts."""

    def __init__(
        self, envs: Iterable[EnvConfig], episodes: int, seed: int, workers: int | None = None
    ) -> None:
        self._every, self._half = np.arange(episodes), np.arange(max(1, episodes // 2))
        self._seed = seed
        kinds = {kind for env in envs for kind in (env, _unsteady(env)) if kind is not None}
        with ExitStack() as stack:
            self._arenas = {
                env: stack.enter_context(Arena(env, min(_AT_ONCE, episodes), seed, workers))
                for env in kinds
            }
            self._close = stack.pop_all().close

    def play(
        self, name: str, player: Player, random_start_steps: int, progress: Progress = silent
    ) -> WholeGames:
        policy, env, steady = player
        act, usual = _always(policy), self._arenas[env]
        doing = f"{name} plays"
        own = usual.play(act, self._every, doing=doing, progress=progress, steady=steady)
        sticky, unsteady = None, _unsteady(env)
        if unsteady is not None:
            doing = f"{name} plays with sticky actions"
            sticky = self._arenas[unsteady].play(act, self._half, doing=doing, progress=progress)
        rng = np.random.default_rng(self._seed)
        until = rng.integers(1, random_start_steps + 1, len(self._half))
        anyhow = _taking_over(policy, random_policy(env, self._seed + 1), until)
        doing = f"{name} plays from random starts"
        pushed = usual.play(anyhow, self._half, doing=doing, progress=progress)
        return WholeGames(own, sticky, _outlived(pushed, until))

    def give_up(self) -> None:
        """From another thread: nothing more can be played."""
        for arena in self._arenas.values():
            arena.give_up()

    def __enter__(self) -> Stadium:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()


def _unsteady(env: EnvConfig) -> EnvConfig | None:
    """With sticky actions, where they are something new."""
    if not env.is_atari or env.sticky_probability >= STICKY:
        return None
    return dataclasses.replace(env, sticky_probability=STICKY)


def _always(policy: Policy) -> Choose:
    return lambda observation, games, steps: policy(observation)


def _taking_over(policy: Policy, before: Policy, until: NDArray[np.int64]) -> Choose:
    """`before` plays the first `until` [games] steps."""

    def choose(
        observation: NDArray[np.uint8], games: NDArray[np.int64], steps: int
    ) -> NDArray[np.int64]:
        early = until[games] > steps
        actions = np.zeros(len(games), np.int64)
        for who, own in ((before, early), (policy, ~early)):
            if own.any():
                actions[own] = who(observation[own])
        return actions

    return choose


def _outlived(games: Games, until: NDArray[np.int64]) -> Games:
    kept = np.flatnonzero(games.lengths > until)
    return Games(tuple(games.actions[i] for i in kept), games.returns[kept])
