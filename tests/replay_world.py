"""Random episodes for replay, and a naive replay that keeps whole stacks to compare it with.

Every frame holds a number of its own in its pixels and every transition one in its reward, so a
draw can be recognised and compared.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

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


def one_run(world: World, action: NDArray[np.int64], step: Step, run: int) -> tuple:
    own = slice(run * world.envs, (run + 1) * world.envs)
    return action[own], Step(*(part[own] for part in step))
