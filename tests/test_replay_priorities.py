"""What surprised is drawn more often: frequencies, weights, and what may be drawn at all."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from idqn.config import Config
from idqn.errors import UserError
from idqn.priorities import Priorities, Prioritized, pick
from idqn.replay import Returns
from idqn.types import Batch
from tests.replay_world import ENVS, RUNS, World, assert_same_batch

BATCH = 32
PLAIN = Returns(1, [0.99] * RUNS, [False] * RUNS)


def prioritized(
    capacity: int = 21,
    exponent: float = 0.6,
    correction: float = 0.4,
    correction_draws: int = 100,
    returns: Returns = PLAIN,
    steps: int = 0,
) -> World:
    priorities = Priorities(exponent, correction, correction_draws)
    world = World(capacity, 2, truncating=0.1, returns=returns, priorities=priorities)
    for _ in range(steps):
        world.step()
    return world


def priority(world: World) -> Tensor:
    assert world.replay.prioritized is not None
    return world.replay.prioritized.priority


def learn(world: World, surprise: Callable[[int, int], float]) -> None:
    """Let all places of all runs be as surprising as `surprise(run, place)`."""
    place = torch.arange(world.capacity).expand(world.runs, -1)
    world.replay.learned(
        place, torch.tensor([[surprise(r, int(p)) for p in place[r]] for r in range(world.runs)])
    )


def counted(world: World, draws: int) -> Tensor:
    """How often each place is drawn, [P, capacity]."""
    count = torch.zeros(world.runs, world.capacity)
    for draw in range(draws):
        place = world.replay.sample(BATCH, draw).place
        count.scatter_add_(1, place, torch.ones(place.shape))
    return count


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_frequencies_follow_priorities(exponent: float) -> None:
    world = prioritized(exponent=exponent, steps=30)
    learn(world, lambda run, place: (-1.0) ** place * (place + 0.5) * 10.0**run)

    count = counted(world, draws=400)

    mass = (torch.arange(world.capacity) + 0.5) ** exponent
    expected = 400 * BATCH * mass / mass.sum()
    deviation = ((count - expected) ** 2 / expected).sum(1)
    assert (deviation < 45.3).all()  # chi-squared with 20 degrees of freedom: 0.1 %
    assert not torch.equal(count[0], count[1])  # each run draws its own


def test_weights_are_those_of_the_paper() -> None:
    world = prioritized(correction=0.4, correction_draws=100, steps=30)
    learn(world, lambda run, place: place + 1.0 + run)
    probability = priority(world).double() ** 0.6
    probability /= probability.sum(1, keepdim=True)

    for draw, beta in [(0, 0.4), (50, 0.7), (99, 0.994), (100, 1.0), (12345, 1.0)]:
        batch = world.replay.sample(BATCH, draw)
        weight = (world.capacity * probability.gather(1, batch.place)) ** -beta
        weight /= weight.amax(1, keepdim=True)
        assert torch.allclose(batch.weight.double(), weight, rtol=1e-5)
        assert (batch.weight.amax(1) == 1.0).all()
        tensor = world.replay.sample(BATCH, torch.tensor(draw))
        assert_same_batch(batch, tensor)


def test_weights_undo_the_bias() -> None:
    # with β = 1, what is drawn more often counts less, so that every place counts the same
    world = prioritized(exponent=1.0, correction=1.0, steps=30)
    learn(world, lambda _, place: 1.0 + place % 4)

    total = torch.zeros(RUNS, world.capacity)
    for draw in range(400):
        batch = world.replay.sample(BATCH, draw)
        total.scatter_add_(1, batch.place, batch.weight)

    assert (total / total.mean(1, keepdim=True) - 1).abs().max() < 0.15


def test_new_transitions_get_the_highest_priority_so_far() -> None:
    world = prioritized(steps=1)
    assert priority(world)[:, :ENVS].eq(1.0).all()

    place = torch.tensor([[0, 1], [2, 1]])
    world.replay.learned(place, torch.tensor([[-7.0, 0.25], [0.5, 0.0]]))
    assert priority(world)[0, :ENVS].tolist() == pytest.approx([7.0, 0.25, 1.0], rel=1e-5)
    assert priority(world)[1, :ENVS].tolist() == pytest.approx([1.0, 1e-6, 0.5], rel=1e-5)

    world.step()
    assert priority(world)[0, ENVS : 2 * ENVS].tolist() == pytest.approx([7.0] * 3)
    assert priority(world)[1, ENVS : 2 * ENVS].tolist() == [1.0] * 3

    # the highest ever: that it is no longer there does not matter
    world.replay.learned(place, torch.tensor([[2.0, 0.25], [3.0, 0.0]]))
    world.step()
    assert priority(world)[0, 2 * ENVS : 3 * ENVS].tolist() == pytest.approx([7.0] * 3)
    assert priority(world)[1, 2 * ENVS : 3 * ENVS].tolist() == pytest.approx([3.0] * 3)


def test_a_place_drawn_twice_gets_its_larger_surprise() -> None:
    world = prioritized(steps=10)
    place = torch.tensor([[4, 4, 5], [6, 4, 6]])

    world.replay.learned(place, torch.tensor([[0.5, -0.25, 1.0], [0.125, 1.0, 0.25]]))

    assert priority(world)[0, 4].item() == pytest.approx(0.5, rel=1e-5)
    assert priority(world)[1, 6].item() == pytest.approx(0.25, rel=1e-5)


def test_what_was_learned_changes_what_is_drawn() -> None:
    world = prioritized(exponent=1.0, steps=30)
    learn(world, lambda _, place: 1.0 if place == 5 else 1e-3)
    assert (world.replay.sample(BATCH, draw=0).place == 5).float().mean() > 0.9

    learn(world, lambda _, place: 1.0 if place == 9 else 1e-3)
    assert (world.replay.sample(BATCH, draw=0).place == 9).float().mean() > 0.9


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("capacity", [21, 35])
def test_every_draw_is_right(capacity: int, n_step: int) -> None:
    rule = Returns(n_step, [0.9, 0.5], [True, False])
    world = prioritized(capacity, exponent=1.0, returns=rule)
    surprises = np.random.default_rng(1)

    for t in range(80):
        world.step()
        if t >= n_step:
            batch = world.replay.sample(16, draw=t)
            world.check(batch)
            errors = surprises.normal(size=(RUNS, 16)) ** 3
            world.replay.learned(batch.place, torch.from_numpy(errors))


@pytest.mark.parametrize("n_step", [1, 4])
def test_all_complete_transitions_are_drawn_and_no_other(n_step: int) -> None:
    # truncations all the time: the replay also drops transitions whose frames are gone
    rule = PLAIN._replace(n_step=n_step)
    world = World(
        60, 1, terminating=0, truncating=0.9, returns=rule, priorities=Priorities(0.6, 0.4, 10)
    )

    for t in range(40):
        world.step()
        complete = [set(world.complete(run)) for run in range(RUNS)]
        live = [world.places(run, complete[run]) for run in range(RUNS)]
        # the highest priorities where nothing may be drawn
        learn(world, lambda run, place, live=live: 1.0 if place in live[run] else 50.0)
        if t >= n_step - 1:
            assert world.check(world.replay.sample(1000, draw=t)) == complete

    assert len(world.replay) < 50


@pytest.mark.parametrize(("oldest", "ends"), [(0, [0, 3]), (103, [3, 6]), (108, [0, 9])])
def test_the_very_first_and_the_very_last_share_are_drawable(oldest: int, ends: list[int]) -> None:
    prioritized = Prioritized(Priorities(0.6, 0.4, 10), 2, 10, torch.device("cpu"))
    prioritized.enter(torch.arange(10).expand(2, -1))
    drawable = torch.tensor([[oldest, oldest], [4, 4]])
    shares = prioritized.shares(drawable, torch.zeros(2, dtype=torch.int64))

    lowest, _ = pick(shares, torch.zeros(2, 1, dtype=torch.int64))
    highest, _ = pick(shares, torch.full((2, 1), 2**32 - 1))

    assert torch.cat([lowest, highest], 1).tolist() == [ends, ends]


@pytest.mark.parametrize("capacity", range(33_000, 33_010))
def test_shares_are_the_same_for_a_run_alone(capacity: int) -> None:
    runs, threads = 3, 2  # who share out what is this long, no matter where a run ends
    cpu, options = torch.device("cpu"), Priorities(0.6, 0.4, 10)
    together = Prioritized(options, runs, capacity, cpu)
    together.priority.copy_(torch.rand(runs, capacity, generator=torch.manual_seed(0)))
    drawable, counter = torch.tensor([[0] * runs, [capacity] * runs]), torch.zeros(runs)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        each = together.shares(drawable, counter).each
        for run in range(runs):
            alone = Prioritized(options, 1, capacity, cpu)
            alone.priority.copy_(together.priority[run])
            assert torch.equal(each[run], alone.shares(drawable[:, :1], counter[:1]).each[0])
    finally:
        torch.set_num_threads(before)


def test_without_priorities_learning_changes_nothing() -> None:
    world = World(capacity=20, stack=2)
    for _ in range(10):
        world.step()
    before = world.replay.sample(BATCH, draw=3)

    world.replay.learned(before.place, torch.rand(RUNS, BATCH))

    assert_same_batch(before, world.replay.sample(BATCH, draw=3))
    assert (before.weight == 1).all()
    assert world.replay.prioritized is None


def test_a_draw_is_repeatable_and_spread_over_all_priorities() -> None:
    world = prioritized(exponent=0.0, steps=30)

    batch = world.replay.sample(80, draw=5)

    assert_same_batch(batch, world.replay.sample(80, draw=5))
    assert not torch.equal(batch.place, world.replay.sample(80, draw=6).place)
    # one from each of 80 equal parts: each of 21 places two to five times
    times = torch.stack([torch.bincount(own, minlength=21) for own in batch.place])
    assert times.min() >= 2
    assert times.max() <= 5


def test_drawing_before_there_is_anything_is_harmless() -> None:
    batch: Batch = prioritized().replay.sample(BATCH, draw=0)  # as when warming up

    assert batch.weight.isfinite().all()


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        ("replay.priority_exponent", -0.1),
        ("replay.priority_correction", -0.1),
        ("replay.priority_correction", 1.1),
        ("replay.priority_correction_steps", 0),
    ],
)
def test_impossible_priorities_are_refused(dotted: str, value: float) -> None:
    with pytest.raises(UserError) as caught:
        Config().replace(**{dotted: value})

    assert dotted in str(caught.value)
    assert str(value) in str(caught.value)
