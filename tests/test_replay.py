"""Replay against a naive one that keeps whole stacks: every pixel of every draw.

Every frame holds a number of its own in its pixels and every transition one in its reward, so a
draw can be recognised and compared.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.replay import Replay
from idqn.types import Batch, Step

RUNS, ENVS = 2, 3
GREY, COLOUR = (1, 1, 2), (3, 2, 1)


class Stored(NamedTuple):
    observation: NDArray[np.uint8]
    action: int
    next_observation: NDArray[np.uint8]
    terminated: bool


class World:
    """Random episodes in `runs` x `envs` environments, and what replay should make of them."""

    def __init__(
        self,
        capacity: int,
        stack: int,
        frame_shape: tuple[int, int, int] = GREY,
        terminating: float = 0.1,
        truncating: float | NDArray[np.float64] = 0.02,
        runs: int = RUNS,
        envs: int = ENVS,
        seed: int = 0,
    ) -> None:
        self.capacity, self.stack, self.shape = capacity, stack, frame_shape
        self.runs, self.envs = runs, envs
        self.terminating, self.truncating = terminating, truncating
        self.random = np.random.default_rng(seed)
        self.seeds = [17 + run for run in range(runs)]
        self.replay = self.new_replay()
        self.frames, self.transitions, self.truncations = 0, 0, 0
        self.stacks: list[deque[NDArray[np.uint8]]] = []
        self.stored: list[dict[int, Stored]] = [{} for _ in range(runs)]
        self.start()

    def new_replay(self, runs: slice = slice(None)) -> Replay:
        seeds = self.seeds[runs]
        device = torch.device("cpu")
        return Replay(self.capacity, self.shape, self.stack, self.envs, seeds, device)

    def frame(self) -> NDArray[np.uint8]:
        """A frame like no other, and never black: 16-bit numbers, one per channel."""
        numbers = self.frames * self.shape[0] + np.arange(1, self.shape[0] + 1)
        self.frames += 1
        assert numbers[-1] < 2**16
        return np.stack([numbers // 256, numbers % 256], 1).astype(np.uint8).reshape(self.shape)

    def start(self) -> None:
        first = [self.frame() for _ in range(self.runs * self.envs)]
        self.stacks = [self._episode(frame) for frame in first]
        self.replay.start(np.stack(first))

    def _episode(self, first: NDArray[np.uint8]) -> deque[NDArray[np.uint8]]:
        black = [np.zeros(self.shape, np.uint8)] * (self.stack - 1)
        return deque([*black, first], maxlen=self.stack)

    def step(self) -> tuple[NDArray[np.int64], Step]:
        """One step of all environments, appended to both replays."""
        n = self.runs * self.envs
        action = self.random.integers(0, 5, n)
        terminated = self.random.random(n) < self.terminating
        truncated = (self.random.random(n) < self.truncating) & ~terminated
        reward = np.zeros(n, np.float32)
        frames = np.zeros((n, *self.shape), np.uint8)
        finals = np.full((n, *self.shape), 255, np.uint8)  # where not valid, easily recognised
        for i in range(n):
            reward[i] = self.transitions
            stack = self.stacks[i]
            before = np.concatenate(list(stack))
            last = self.frame()
            stack.append(last)
            run = i // self.envs
            self.stored[run][self.transitions] = Stored(
                before, int(action[i]), np.concatenate(list(stack)), bool(terminated[i])
            )
            self.transitions += 1
            frames[i] = last
            if terminated[i] or truncated[i]:
                finals[i], frames[i] = last, self.frame()
                self.stacks[i] = self._episode(frames[i])
        self.truncations += int(truncated.sum())
        step = Step(frames, reward, terminated, truncated, finals)
        self.replay.append(action, step)
        return action, step

    def observation(self) -> NDArray[np.uint8]:
        stacked = np.stack([np.concatenate(list(stack)) for stack in self.stacks])
        return stacked.reshape(self.runs, self.envs, *stacked.shape[1:])

    def newest(self, run: int) -> list[int]:
        """Numbers of the transitions that fit in, oldest first."""
        return list(self.stored[run])[-self.capacity :]

    def check(self, batch: Batch) -> list[set[int]]:
        """Compare every transition of a batch; returns which ones each run drew."""
        drawn: list[set[int]] = []
        for run in range(self.runs):
            numbers = [int(reward) for reward in batch.reward[run]]
            expected = [self.stored[run][number] for number in numbers]
            alive = ~np.array([stored.terminated for stored in expected])
            same = np.testing.assert_array_equal
            same(batch.observation[run], np.stack([s.observation for s in expected]))
            same(batch.action[run], [s.action for s in expected])
            same(batch.terminated[run], [s.terminated for s in expected])
            # after termination nobody looks at the next observation
            following = np.stack([s.next_observation for s in expected])
            same(batch.next_observation[run].numpy()[alive], following[alive])
            assert set(numbers) <= set(self.newest(run))
            drawn.append(set(numbers))
        return drawn


def assert_same_batch(one: Batch, other: Batch) -> None:
    for left, right in zip(one, other, strict=True):
        assert torch.equal(left, right)


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
    assert world.replay.frames_written.min() > 7 * capacity


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
    assert not batch.terminated.any()


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
        live = world.replay.written - world.replay.oldest
        for run in range(RUNS):  # what is left is the newest
            assert drawn[run] <= set(world.newest(run)[-int(live[run]) :])

    assert 60 / 3 < len(world.replay) < 60


@pytest.mark.parametrize("stack", [1, 4, 8])
def test_the_smallest_replay_keeps_the_current_observation(stack: int) -> None:
    # the config allows as few transitions as environments; environment 0 never ends, so that
    # its stack is as old as can be, while all others write two frames in every step
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
    assert int(world.replay.frames_written.sum()) == 2 * (3 + 3 * 60) + world.truncations
    for run in range(RUNS):
        written = int(world.replay.frames_written[run])
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
    assert batch.action.shape == batch.reward.shape == batch.terminated.shape == (2, 5)
    assert batch.action.dtype == torch.int64
    assert batch.reward.dtype == torch.float32
    assert batch.terminated.dtype == torch.bool
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
    assert not torch.equal(fifth.reward, sixth.reward)
    assert not torch.equal(fifth.reward[0] % 3, fifth.reward[1] % 3)  # each run draws its own


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
    live = world.replay.written - world.replay.oldest
    assert live[0] < live[1] == 60

    assert_mean(world, world.replay.mean_observation())


def assert_mean(world: World, actual: Tensor) -> None:
    live = world.replay.written - world.replay.oldest
    for run in range(world.runs):
        numbers = world.newest(run)[-int(live[run]) :]
        mean = np.mean([world.stored[run][n].observation for n in numbers], axis=0, dtype=float)
        np.testing.assert_array_equal(actual[run].numpy(), mean.astype(np.float32))


def one_run(world: World, action: NDArray[np.int64], step: Step, run: int) -> tuple:
    own = slice(run * world.envs, (run + 1) * world.envs)
    return action[own], Step(*(part[own] for part in step))


@pytest.mark.parametrize("run", range(RUNS))
def test_a_run_in_a_population_is_the_run_alone(run: int) -> None:
    world = World(capacity=20, stack=4, truncating=0.3)
    alone = world.new_replay(slice(run, run + 1))
    newest = world.replay.observation()[run, :, -1:].numpy()
    alone.start(newest)

    for t in range(60):
        alone.append(*one_run(world, *world.step(), run))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[run], right[0])
        assert torch.equal(world.replay.observation()[run], alone.observation()[0])
        assert torch.equal(world.replay.mean_observation()[run], alone.mean_observation()[0])


@pytest.mark.parametrize("steps", [0, 3, 45])
def test_a_restored_replay_goes_on_identically(steps: int) -> None:
    world = World(capacity=20, stack=4, terminating=0.15, truncating=0.15)
    for _ in range(steps):
        world.step()
    restored = world.new_replay()
    for run in range(RUNS):
        restored.load_state(run, world.replay.state(run))
    assert torch.equal(restored.observation(), world.replay.observation())

    for t in range(30):
        restored.append(*world.step())
        assert len(restored) == len(world.replay)
        assert torch.equal(restored.observation(), world.replay.observation())
        assert_same_batch(restored.sample(16, draw=t), world.replay.sample(16, draw=t))
        world.check(restored.sample(16, draw=t))


def test_a_run_restored_alone_goes_on_as_in_its_population() -> None:
    world = World(capacity=20, stack=2, truncating=0.2)
    for _ in range(25):
        world.step()
    alone = world.new_replay(slice(1, 2))
    alone.load_state(0, world.replay.state(1))

    for t in range(25):
        alone.append(*one_run(world, *world.step(), 1))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[1], right[0])


def test_state_is_plain_tensors_of_one_run() -> None:
    world = World(capacity=20, stack=2)
    world.step()

    for tensor in world.replay.state(1).values():
        assert isinstance(tensor, Tensor)
        assert tensor.device.type == "cpu"
    assert world.replay.state(1)["frames"].shape == world.replay.frames.shape[1:]
