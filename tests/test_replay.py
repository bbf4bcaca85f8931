"""Every pixel of every draw, against a naive replay."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.replay import Replay
from idqn.types import Step
from tests.replay_world import COLOUR, ENVS, GREY, RUNS, World, assert_same_batch


@pytest.mark.parametrize("frame_shape", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("stack", [1, 2, 4])
@pytest.mark.parametrize("capacity", [20, 33])
def test_every_draw_is_right(capacity: int, stack: int, frame_shape: tuple[int, int, int]) -> None:
    world = World(capacity, stack, frame_shape)

    for t in range(80):  # 240 transitions per run: the rings turn over 7 to 12 times
        world.step()
        np.testing.assert_array_equal(world.replay.observation(), world.observation())
        world.check(world.replay.sample(16, draw=t))

    assert world.truncations > 3
    assert world.replay.books.frames_written.min() > 7 * capacity


@pytest.mark.parametrize("stack", [1, 4])
def test_all_of_the_newest_transitions_are_drawn(stack: int) -> None:
    world = World(capacity=20, stack=stack)

    for t in range(30):
        world.step()
        if t % 5 == 0:
            # of 20 equally likely ones, 600 draws miss one with a probability of 1e-12
            drawn = world.check(world.replay.sample(600, draw=t))
            assert drawn == [set(world.newest(run)) for run in range(RUNS)]
            assert len(world.replay) == len(world.newest(0)) == min(20, 3 * (t + 1))


def test_stacks_are_black_before_the_first_frame() -> None:
    world = World(capacity=20, stack=4, terminating=0.0, truncating=0.0)
    first = world.replay.observation()
    assert not first[:, :, :3].any()
    assert first[:, :, 3].flatten(2).any(2).all()

    world.step()
    batch = world.replay.sample(50, draw=0)

    assert not batch.observation[:, :, :3].any()
    assert not batch.next_observation[:, :, :2].any()
    assert batch.next_observation[:, :, 2:].flatten(3).any(3).all()


@pytest.mark.parametrize("stack", [1, 2, 4])
def test_truncation_shows_the_final_frame_and_never_the_next_episode(stack: int) -> None:
    # one environment, three steps: frames 1, 2, 3 are an episode, cut short; 4 begins the next
    replay = Replay(8, (1, 1, 1), stack, 1, [0], torch.device("cpu"))

    def pixel(value: int) -> NDArray[np.uint8]:
        return np.full((1, 1, 1, 1), value, np.uint8)

    def step(frame: int, final: int, truncated: bool) -> Step:
        ended = np.array([truncated])
        reward = np.array([final], np.float32)
        return Step(pixel(frame), reward, np.array([False]), ended, pixel(final))

    replay.start(pixel(1))
    replay.append(np.array([0]), step(2, 2, False))
    replay.append(np.array([1]), step(4, 3, True))
    replay.append(np.array([2]), step(5, 5, False))

    batch = replay.sample(64, draw=0)
    seen = {
        int(reward): (observation.flatten().tolist(), following.flatten().tolist())
        for reward, observation, following in zip(
            batch.reward[0], batch.observation[0], batch.next_observation[0], strict=True
        )
    }
    expected = {
        2: ([0, 0, 0, 1], [0, 0, 1, 2]),
        3: ([0, 0, 1, 2], [0, 1, 2, 3]),
        5: ([0, 0, 0, 4], [0, 0, 4, 5]),
    }
    assert seen == {k: (s[-stack:], n[-stack:]) for k, (s, n) in expected.items()}
    assert replay.observation().flatten().tolist() == [0, 0, 4, 5][-stack:]
    assert (batch.discount == np.float32(0.99)).all()


@pytest.mark.parametrize("stack", [1, 2, 4])
@pytest.mark.parametrize("truncating", [0.5, 1.0])
def test_truncations_all_the_time_cost_transitions_but_never_pixels(
    stack: int, truncating: float
) -> None:
    world = World(capacity=60, stack=stack, terminating=0.0, truncating=truncating)

    for t in range(100):
        world.step()
        np.testing.assert_array_equal(world.replay.observation(), world.observation())
        drawn = world.check(world.replay.sample(40, draw=t))
        live = world.replay.books.written - world.replay.books.oldest
        for run in range(RUNS):  # what is left is the newest
            assert drawn[run] <= set(world.newest(run)[-int(live[run]) :])

    assert 60 / 3 < len(world.replay) < 60


@pytest.mark.parametrize("stack", [1, 4, 8])
def test_the_smallest_replay_keeps_the_current_observation(stack: int) -> None:
    # even fewer transitions than the config allows; environment 0 never ends, so that its stack
    # is as old as can be, while all others write two frames in every step
    envs = 8
    truncating = np.array([0.0] + [1.0] * (envs - 1))
    world = World(envs, stack, terminating=0.0, truncating=truncating, runs=1, envs=envs)

    for t in range(40):
        world.step()
        np.testing.assert_array_equal(world.replay.observation(), world.observation())
        assert len(world.replay) == envs
        world.check(world.replay.sample(20, draw=t))


def test_every_frame_is_stored_once() -> None:
    world = World(capacity=300, stack=4, terminating=0.1, truncating=0.1)
    for _ in range(60):
        world.step()

    # per run: the first frames, one per step, and one more for each truncation
    assert int(world.replay.books.frames_written.sum()) == 2 * (3 + 3 * 60) + world.truncations
    for run in range(RUNS):
        written = int(world.replay.books.frames_written[run])
        kept = world.replay.frames[run].flatten(1)
        assert int(kept.any(1).sum()) == written
        assert len(kept.unique(dim=0)) == written + 1  # and the black one


def test_memory_is_one_frame_and_a_little_for_each_transition() -> None:
    replay = Replay(10_000, (1, 2, 2), 4, 8, [0, 1], torch.device("cpu"))

    assert replay.frames.shape[0] == 2
    assert 10_000 < replay.frames.shape[1] < 11_500  # whole stacks would be 80,000


def test_types() -> None:
    world = World(capacity=20, stack=2, frame_shape=COLOUR)
    world.step()
    batch = world.replay.sample(5, draw=0)

    assert batch.observation.shape == batch.next_observation.shape == (2, 5, 6, 2, 1)
    assert batch.observation.dtype == batch.next_observation.dtype == torch.uint8
    for tensor in (batch.action, batch.place):
        assert tensor.shape == (2, 5)
        assert tensor.dtype == torch.int64
    for tensor in (batch.reward, batch.discount, batch.weight):
        assert tensor.shape == (2, 5)
        assert tensor.dtype == torch.float32
    assert world.replay.observation().shape == (2, 3, 6, 2, 1)
    assert world.replay.observation().dtype == torch.uint8


def test_rewards_are_kept_as_they_are() -> None:
    replay = Replay(4, GREY, 1, 1, [0], torch.device("cpu"))
    frame, no = np.zeros((1, *GREY), np.uint8), np.array([False])
    replay.start(frame)
    replay.append(np.array([3]), Step(frame, np.array([-1234.5], np.float32), no, no, frame))

    assert set(replay.sample(4, draw=0).reward[0].tolist()) == {-1234.5}


def test_a_draw_is_repeatable_and_differs_from_the_next() -> None:
    world = World(capacity=50, stack=2)
    for _ in range(20):
        world.step()

    assert_same_batch(world.replay.sample(32, draw=5), world.replay.sample(32, draw=5))
    fifth, sixth = world.replay.sample(32, draw=5), world.replay.sample(32, draw=6)
    assert not torch.equal(fifth.place, sixth.place)
    assert not torch.equal(fifth.place[0], fifth.place[1])  # each run draws its own


def test_starting_anew_keeps_what_is_stored() -> None:
    world = World(capacity=40, stack=4)
    for t in range(60):
        if t % 7 == 3:
            world.start()
        np.testing.assert_array_equal(world.replay.observation(), world.observation())
        world.step()
        world.check(world.replay.sample(20, draw=t))


@pytest.mark.parametrize("chunk", [7, 256])
@pytest.mark.parametrize("steps", [4, 40])
def test_mean_observation(steps: int, chunk: int) -> None:
    world = World(capacity=50, stack=4, frame_shape=COLOUR)
    for _ in range(steps):
        world.step()

    assert_mean(world, world.replay.mean_observation(chunk))


def test_mean_observation_when_one_run_lost_more_than_the_other() -> None:
    often = np.array([1.0] * ENVS + [0.0] * ENVS)  # run 0 is truncated in every step
    world = World(capacity=60, stack=2, terminating=0.0, truncating=often)
    for _ in range(60):
        world.step()
    live = world.replay.books.written - world.replay.books.oldest
    assert live[0] < live[1] == 60

    assert_mean(world, world.replay.mean_observation())


def assert_mean(world: World, actual: Tensor) -> None:
    live = world.replay.books.written - world.replay.books.oldest
    for run in range(world.runs):
        numbers = world.newest(run)[-int(live[run]) :]
        mean = np.mean([world.stored[run][n].observation for n in numbers], axis=0, dtype=float)
        np.testing.assert_array_equal(actual[run].numpy(), mean.astype(np.float32))
