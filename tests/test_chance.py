"""A population's random numbers: each a function of its run, its purpose and its occasion."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from idqn.chance import Dice, Draw
from idqn.rng import make_lanes, normal, uniform

CPU = torch.device("cpu")
SEEDS = [3, 0, 3, 17]


def number(value: int) -> Tensor:
    return torch.tensor(value)


def distinct(numbers: Tensor) -> bool:
    return len(numbers.flatten().unique()) == numbers.numel()


def everything(dice: Dice, draw: Draw, episode: Tensor, place: Tensor) -> list[Tensor]:
    return [
        dice.per_row(draw, 1, number(9), 5),
        dice.per_env(draw, 2, number(9), 3, 5),
        dice.per_episode(3, episode, 0, 5),
        dice.per_place(4, place, 5),
    ]


@pytest.mark.parametrize("draw", [uniform, normal])
def test_a_run_draws_the_same_alone_and_in_a_population(draw: Draw) -> None:
    episode = torch.tensor([[0, 5], [1, 1], [2, 0], [7, 7]])
    place = torch.randint(0, 300, (4, 6), generator=torch.Generator().manual_seed(0))
    together = everything(Dice(SEEDS, 1, CPU), draw, episode, place)
    for run, seed in enumerate(SEEDS):
        own = slice(run, run + 1)
        alone = everything(Dice([seed], 1, CPU), draw, episode[own], place[own])
        for one, other in zip(together, alone, strict=True):
            assert torch.equal(one[own], other)
            assert one.dtype == torch.float32


def test_shapes() -> None:
    dice = Dice([1, 2], 3, CPU)  # two runs of three networks each

    assert dice.per_row(uniform, 1, number(0), 4).shape == (6, 4)
    assert dice.per_env(uniform, 1, number(0), 5, 4).shape == (2, 5, 4)
    assert dice.per_episode(1, torch.zeros(2, 5, dtype=torch.int64), 0, 4).shape == (2, 5, 4)
    assert dice.per_place(1, torch.zeros(6, 7, dtype=torch.int64), 4).shape == (6, 7, 4)


def test_asking_for_none_gets_none() -> None:
    dice = Dice([1, 2], 3, CPU)

    assert dice.per_row(uniform, 1, number(0), 0).shape == (6, 0)
    assert dice.per_env(normal, 1, number(0), 5, 0).shape == (2, 5, 0)
    assert dice.per_episode(1, torch.zeros(2, 5, dtype=torch.int64), 0, 0).shape == (2, 5, 0)
    assert dice.per_place(1, torch.zeros(6, 7, dtype=torch.int64), 0).shape == (6, 7, 0)


def test_equal_seeds_are_equal_and_all_else_differs() -> None:
    dice = Dice(SEEDS, 1, CPU)
    rows = dice.per_row(uniform, 1, number(9), 50)
    assert torch.equal(rows[0], rows[2])
    assert distinct(rows[[0, 1, 3]])
    # another purpose, another occasion
    assert distinct(torch.stack([rows[0], dice.per_row(uniform, 2, number(9), 50)[0]]))
    assert distinct(torch.stack([rows[0], dice.per_row(uniform, 1, number(10), 50)[0]]))
    environments = dice.per_env(uniform, 1, number(9), 6, 8)
    assert torch.equal(environments[0], environments[2])
    assert distinct(environments[[0, 1, 3]])


def test_the_networks_of_one_run_share_their_numbers() -> None:
    dice = Dice([5, 6], 3, CPU)
    rows = dice.per_row(normal, 1, number(2), 4)
    place = torch.tensor([[10, 20], [10, 20], [30, 10], [10, 20], [20, 20], [10, 30]])
    placed = dice.per_place(1, place, 4)

    for network in range(6):
        run = network // 3
        assert torch.equal(rows[network], rows[3 * run])
        alone = Dice([[5, 6][run]], 1, CPU)
        assert torch.equal(placed[network], alone.per_place(1, place[network, None], 4)[0])
    assert distinct(rows[[0, 3]])


def test_one_networks_numbers_are_the_streams_own() -> None:
    lanes = make_lanes(4, CPU)
    counter = torch.tensor([9 + (6 << 56)])

    expected = normal(torch.tensor([17]), counter, lanes)

    assert torch.equal(Dice([17], 1, CPU).per_row(normal, 6, number(9), 4), expected)


@pytest.mark.parametrize("draw", [uniform, normal])
def test_the_first_numbers_of_an_environment_do_not_depend_on_how_many_there_are(
    draw: Draw,
) -> None:
    dice = Dice(SEEDS, 1, CPU)

    many, rows = dice.per_env(draw, 1, number(4), 5, 12), dice.per_row(draw, 1, number(4), 12)

    for count in (1, 2, 7):
        assert torch.equal(dice.per_env(draw, 1, number(4), 5, count), many[:, :, :count])
        assert torch.equal(dice.per_row(draw, 1, number(4), count), rows[:, :count])


def test_an_environment_keeps_its_numbers_for_an_episode() -> None:
    dice = Dice([3, 4], 1, CPU)
    episode = torch.tensor([[0, 0, 1], [2, 0, 0]])

    before = dice.per_episode(1, episode, 0, 10)
    assert torch.equal(dice.per_episode(1, episode.clone(), 0, 10), before)
    assert distinct(before)  # each run, environment and number its own

    episode[0, 1] += 1  # one episode ends
    after = dice.per_episode(1, episode, 0, 10)
    same = torch.ones(2, 3, dtype=torch.bool)
    same[0, 1] = False
    assert torch.equal(after[same], before[same])
    assert distinct(torch.stack([after[0, 1], before[0, 1]]))
    assert ((before > 0) & (before < 1)).all()


def test_episodes_of_an_environment_all_differ() -> None:
    dice = Dice([3], 1, CPU)
    episodes = torch.arange(50)[:, None, None]

    leading = torch.stack([dice.per_episode(1, episode.expand(1, 8), 0, 1) for episode in episodes])

    assert distinct(leading)  # 50 episodes of 8 environments
    # uniform: mean ½ ± 5 standard deviations of √(1/12/400) = 0.0144
    assert abs(float(leading.mean()) - 0.5) < 0.072


def test_turns_are_parts_of_all_environments() -> None:
    dice = Dice([3, 4], 1, CPU)
    episode = torch.randint(0, 9, (2, 6), generator=torch.Generator().manual_seed(0))

    whole = dice.per_episode(1, episode, 0, 4)

    for first in (0, 2, 4):
        part = slice(first, first + 2)
        assert torch.equal(dice.per_episode(1, episode[:, part], first, 4), whole[:, part])


def test_a_places_numbers_depend_on_the_place_alone() -> None:
    dice = Dice([3, 4], 1, CPU)
    place = torch.tensor([[7, 100, 7, 0], [100, 7, 3, 3]])

    drawn = dice.per_place(1, place, 10)

    assert torch.equal(drawn[0, 0], drawn[0, 2])  # wherever in the batch
    assert torch.equal(drawn[1, 2], drawn[1, 3])
    assert distinct(torch.stack([drawn[0, 0], drawn[0, 1], drawn[0, 3], *drawn[1, :3]]))
    assert torch.equal(dice.per_place(1, place.flip(1), 10), drawn.flip(1))
    assert torch.equal(dice.per_place(1, place[:, 1:2], 10), drawn[:, 1:2])
    assert torch.equal(dice.per_place(1, place, 4), drawn[:, :, :4])
    assert not torch.equal(dice.per_place(2, place, 10), drawn)
