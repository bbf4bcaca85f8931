"""Who steps what: everyone about as long, in few groups."""

from __future__ import annotations

import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs.dealing import RunEnvs, Seats, deal
from idqn.envs.registry import step_cost
from tests.envs.alone import MINI

GAMES = ("Pong", "MsPacman", "Qbert", "Alien", "Frostbite", "Gravitar", "Freeway", "Venture")


def population(games: tuple[str, ...], seeds: int) -> list[RunEnvs]:
    """Ordered by seed: the runs of a game are not neighbours."""
    return [
        RunEnvs(EnvConfig(id=f"ALE/{game}-v5"), seed) for seed in range(seeds) for game in games
    ]


def cost(worker: list[Seats], turn: int) -> float:
    return sum(len(s.place) * step_cost(s.config) for s in worker if s.turn == turn)


@pytest.mark.parametrize("workers", [1, 2, 7, 16, 300])
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_everyone_has_one_seat(workers: int, turns: int) -> None:
    runs, envs = population(GAMES[:3], 2), 8
    size = envs // turns
    dealt = deal(runs, envs, turns, workers)
    every = len(runs) * size * turns
    assert len(dealt) == (every if workers >= every else min(workers, len(runs) * size))
    seen = []
    for seats in (seats for worker in dealt for seats in worker):
        for place, seed, env in zip(seats.place, seats.run_seed, seats.env, strict=True):
            run = int(place) // size
            assert runs[run] == (seats.config, seed)
            assert env == seats.turn * size + place % size
            seen.append((seats.turn, int(place)))
    assert sorted(seen) == [(t, i) for t in range(turns) for i in range(len(runs) * size)]


@pytest.mark.parametrize("workers", [1, 5, 16])
def test_a_worker_has_one_group_of_a_kind_and_turn(workers: int) -> None:
    for worker in deal(population(GAMES, 3), 16, 2, workers):
        kinds = [(seats.config, seats.turn) for seats in worker]
        assert len(set(kinds)) == len(kinds)
        assert {turn for _, turn in kinds} == {0, 1}


def test_the_whole_population_of_the_paper() -> None:
    """24 runs on 16 cores: no worker is 5 % slower than the mean, and no turn has a third group."""
    dealt = deal(population(GAMES, 3), 16, 2, 16)
    for turn in (0, 1):
        costs = [cost(worker, turn) for worker in dealt]
        assert max(costs) < 1.05 * np.mean(costs)
        groups = [sum(seats.turn == turn for seats in worker) for worker in dealt]
        assert max(groups) == 2
        assert sum(groups) <= 16 + len(GAMES) - 1


def test_slow_games_get_more_workers() -> None:
    sizes = [len(worker[0].place) for worker in deal(population(("Freeway",), 3), 16, 1, 4)]
    assert sizes == [12, 12, 12, 12]
    dealt = deal(population(("Gravitar", "Freeway"), 3), 16, 1, 8)
    freeway = [w for w in dealt if any("Freeway" in seats.config.id for seats in w)]
    assert len(freeway) > 4


@pytest.mark.parametrize(("envs", "workers"), [(16, 16), (17, 16), (5, 3), (3, 2), (31, 16)])
def test_equal_environments_are_dealt_evenly(envs: int, workers: int) -> None:
    dealt = deal([RunEnvs(MINI, 0)], envs, 1, workers)
    sizes = [len(worker[0].place) for worker in dealt]
    assert len(sizes) == workers
    assert max(sizes) - min(sizes) <= 1


def test_as_many_workers_as_environments_get_one_each() -> None:
    """However much the games differ."""
    for worker in deal(population(GAMES, 1), 2, 1, 16):
        assert [len(seats.place) for seats in worker] == [1]
