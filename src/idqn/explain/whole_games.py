"""Full games of several policies: as usual, with sticky actions, and from random starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
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


class WholeGames(NamedTuple):
    usual: Games
    sticky: Games | None
    pushed: Games
    """Begun with random actions; games that were over before the policy's turn are left out."""


def whole_games(
    players: Mapping[str, Player],
    episodes: int,
    random_start_steps: int,
    seed: int,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, WholeGames]:
    """Half as many with sticky actions, which only Atari has, and from random starts."""
    every = np.arange(episodes)
    half = every[: max(1, episodes // 2)]
    found = {}
    with ExitStack() as stack:
        arenas: dict[EnvConfig, Arena] = {}

        def arena(env: EnvConfig) -> Arena:
            if env not in arenas:
                opened = Arena(env, min(_AT_ONCE, episodes), seed, workers)
                arenas[env] = stack.enter_context(opened)
            return arenas[env]

        for name, (policy, env) in players.items():
            act = _always(policy)
            usual = arena(env).play(act, every, doing=f"{name} plays", progress=progress)
            sticky = None
            if env.is_atari and env.sticky_probability < STICKY:
                unsteady = arena(dataclasses.replace(env, sticky_probability=STICKY))
                doing = f"{name} plays with sticky actions"
                sticky = unsteady.play(act, half, doing=doing, progress=progress)
            rng = np.random.default_rng(seed)
            until = rng.integers(1, random_start_steps + 1, len(half))
            anyhow = random_policy(env, seed + 1)
            doing = f"{name} plays from random starts"
            pushed = arena(env).play(
                _taking_over(policy, anyhow, until), half, doing=doing, progress=progress
            )
            found[name] = WholeGames(usual, sticky, _outlived(pushed, until))
    return found


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
