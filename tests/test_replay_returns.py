"""Rewards summed over n steps, against the slow way."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from idqn.config import Config
from idqn.errors import UserError
from idqn.replay import Replay, Returns
from idqn.types import Batch, Step
from tests.replay_world import ENVS, RUNS, World

FRAME = (1, 1, 1)


def returns(n_step: int, clip: bool = False) -> Returns:
    """Of two runs that differ in all they may."""
    return Returns(n_step, [0.9, 0.5], [clip, False])


@pytest.mark.parametrize(("envs", "turns"), [(3, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("n_step", [2, 3, 5])
def test_every_draw_is_right(n_step: int, envs: int, turns: int) -> None:
    world = World(
        capacity=37,  # no multiple of anything: chains wrap around anywhere
        stack=2,
        truncating=0.1,
        envs=envs,
        turns=turns,
        returns=returns(n_step, clip=True),
    )

    for t in range(70 * turns):  # after each turn, not only when all have acted
        world.step(t % turns)
        if t // turns >= n_step:
            world.check(world.replay.sample(16, draw=t))

    assert world.truncations > 20
    assert world.replay.books.written.min() > 5 * 37


@pytest.mark.parametrize("n_step", [1, 2, 4])
def test_all_complete_transitions_are_drawn_and_no_other(n_step: int) -> None:
    world = World(capacity=20, stack=1, returns=returns(n_step))

    for t in range(30):
        world.step()
        if t >= n_step - 1:
            drawn = world.check(world.replay.sample(600, draw=t))
            assert drawn == [set(world.complete(run)) for run in range(RUNS)]
            assert len(drawn[0]) == min(20, ENVS * (t + 1)) - ENVS * (n_step - 1)


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("truncating", [0.5, 1.0])
def test_truncations_all_the_time_leave_something_to_draw(truncating: float, stack: int) -> None:
    # environment 0 never ends, so that its chains are as long as can be
    n_step, envs = 8, 8
    often = np.array([0.0] + [truncating] * (envs - 1))
    world = World(
        capacity=n_step * envs + 1,  # the fewest that the config allows
        stack=stack,
        terminating=0.0,
        truncating=often,
        runs=1,
        envs=envs,
        returns=Returns(n_step, [0.9], [False]),
    )

    for t in range(60):
        world.step()
        if t >= n_step:
            world.check(world.replay.sample(20, draw=t))
            assert len(world.complete(0)) >= envs


def test_starting_anew_ends_all_episodes() -> None:
    world = World(capacity=40, stack=2, terminating=0.02, envs=4, turns=2, returns=returns(3))

    for t in range(160):
        if t % 11 == 6:  # also while half of the environments are ahead of the others
            world.start()
        world.step(t % 2)
        if t > 6:
            world.check(world.replay.sample(20, draw=t))


def test_turns_keep_their_order() -> None:
    world = World(capacity=40, stack=2, envs=4, turns=2)
    world.step(0)

    with pytest.raises(AssertionError, match="order"):
        world.step(0)


def played(rewards: list[float], ends: dict[int, str], rule: Returns) -> dict[int, Batch]:
    """One environment; its drawable transitions by number, each a batch of one."""
    replay = Replay(16, FRAME, 1, 1, [0], torch.device("cpu"), returns=rule)

    def pixel(value: int) -> NDArray[np.uint8]:
        return np.full((1, *FRAME), value, np.uint8)

    replay.start(pixel(0))
    for t, reward in enumerate(rewards):
        terminated, truncated = (np.array([ends.get(t) == kind]) for kind in ("term", "trunc"))
        # the frame after step t is t + 1; after an end, the next episode begins with t + 101
        frame = pixel(t + 101 if t in ends else t + 1)
        got = np.array([reward], np.float32)
        replay.append(np.array([t]), Step(frame, got, terminated, truncated, pixel(t + 1)))
    batch = replay.sample(200, draw=0)
    return {int(batch.action[0, i]): Batch(*(tensor[0, i] for tensor in batch)) for i in range(200)}


def test_three_rewards_by_hand() -> None:
    ends = {2: "trunc", 6: "term"}

    drawn = played([1, 2, 4, 8, 16, 32, 64, 128, 256], ends, Returns(3, [0.5], [False]))

    assert {t: float(b.reward) for t, b in drawn.items()} == {
        0: 1 + 2 / 2 + 4 / 4,
        1: 2 + 4 / 2,  # and no further: truncated
        2: 4,
        3: 8 + 16 / 2 + 32 / 4,
        4: 16 + 32 / 2 + 64 / 4,
        5: 32 + 64 / 2,
        6: 64,
    }
    assert {t: float(b.discount) for t, b in drawn.items()} == {
        0: 0.125,
        1: 0.25,  # two rewards, then the truncated episode's final frame is valued
        2: 0.5,
        3: 0.125,
        4: 0.0,  # terminated: nothing is
        5: 0.0,
        6: 0.0,
    }
    following = {t: int(b.next_observation) for t, b in drawn.items() if b.discount > 0}
    assert following == {0: 3, 1: 3, 2: 3, 3: 6}


def test_rewards_are_clipped_before_they_are_summed() -> None:
    rewards = [3.0, -5.0, 0.25, 7.0]

    drawn = played(rewards, {}, Returns(2, [0.5], [True]))

    assert {t: float(b.reward) for t, b in drawn.items()} == {0: 0.5, 1: -0.875, 2: 0.75}


def test_one_step_is_the_reward_and_the_discount() -> None:
    drawn = played([3.0, -5.0, 0.25], {1: "term", 2: "trunc"}, Returns(1, [0.75], [False]))

    assert {t: float(b.reward) for t, b in drawn.items()} == {0: 3.0, 1: -5.0, 2: 0.25}
    assert {t: float(b.discount) for t, b in drawn.items()} == {0: 0.75, 1: 0.0, 2: 0.75}
    assert all(float(b.weight) == 1.0 for b in drawn.values())


def test_episodes_are_counted() -> None:
    world = World(capacity=40, stack=2, terminating=0.2, truncating=0.2, envs=4, turns=2)
    assert not world.replay.episode().any()

    for t in range(60):
        world.step(t % 2)
        expected = world.episodes.reshape(world.runs, world.envs)
        np.testing.assert_array_equal(world.replay.episode(), expected)
        np.testing.assert_array_equal(world.replay.episode(1), expected[:, 2:])

    assert world.episodes.min() > 3
    world.start()
    assert not world.replay.episode().any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.n_step": 0}, r"train\.n_step must be at least 1, got 0"),
        (
            {"train.n_step": 3, "train.envs": 20, "replay.transitions": 60},
            r"replay\.transitions must be more than train\.n_step x train\.envs \(3 x 20\), got 60",
        ),
        (
            {"train.n_step": 4, "train.envs": 20, "replay.learning_starts_steps": 60},
            r"replay\.learning_starts_steps must be more than .* \(3 x 20\).*got 60",
        ),
    ],
)
def test_impossible_sums_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Config().replace(**changes)

    (last, value) = list(changes.items())[-1]
    Config().replace(**{**changes, last: value + 1})
