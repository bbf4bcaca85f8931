"""Which environments a worker steps, and in which groups.

A group is fastest when it is large: with one environment, a step costs a fifth more than with six.
So a worker gets a stretch of the row of all environments, sorted by game: one game or two. Games
differ in speed, and all wait for the slowest worker, so it is the stretches' costs that are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.registry import step_cost


class RunEnvs(NamedTuple):
    """What one run plays."""

    config: EnvConfig
    seed: int


class Seats(NamedTuple):
    """Environments of one kind and one turn, stepped as one group; they may be of many runs."""

    config: EnvConfig
    turn: int
    place: NDArray[np.int64]  # [n], within the turn's arrays
    run_seed: list[int]  # n
    env: list[int]  # n, each one's number within its run


def deal(runs: Sequence[RunEnvs], envs_per_run: int, turns: int, workers: int) -> list[list[Seats]]:
    """What each of `workers` processes steps; fewer, if there are fewer environments.

    Workers step environments of every turn, so that they have work while one turn is acted for;
    but where there is a worker for every environment, each gets one.
    """
    size = envs_per_run // turns  # environments of a run in one turn
    kinds = {run.config: kind for kind, run in enumerate(runs)}  # equal configs are one kind
    row = sorted(range(len(runs) * size), key=lambda i: kinds[runs[i // size].config])
    if len(row) * turns <= workers:
        return [_seats(runs, size, turn, [i]) for turn in range(turns) for i in row]
    costs = [step_cost(runs[i // size].config) for i in row]
    return [
        [seats for turn in range(turns) for seats in _seats(runs, size, turn, stretch)]
        for stretch in _cut(row, costs, min(workers, len(row)))
    ]


def _seats(runs: Sequence[RunEnvs], size: int, turn: int, stretch: list[int]) -> list[Seats]:
    by_config: dict[EnvConfig, list[int]] = {}
    for i in stretch:
        by_config.setdefault(runs[i // size].config, []).append(i)
    return [
        Seats(
            config,
            turn,
            np.array(own),
            run_seed=[runs[i // size].seed for i in own],
            env=[turn * size + i % size for i in own],
        )
        for config, own in by_config.items()
    ]


def _cut(row: list[int], costs: list[float], pieces: int) -> list[list[int]]:
    """Cut a row into pieces, none empty, that cost about the same."""
    cut: list[list[int]] = []
    done = 0
    for left in range(pieces, 0, -1):
        fair = sum(costs[done:]) / left  # of what is left, for each who is left
        end = done + 1
        cost = costs[done]
        while len(row) - end >= left and cost + costs[end] / 2 < fair:
            cost += costs[end]
            end += 1
        cut.append(row[done:end])
        done = end
    return cut
