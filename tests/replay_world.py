"""Random episodes for replay, and a naive replay that keeps whole stacks to compare it with.

Every frame holds a number of its own in its pixels, so a draw can be recognised and compared.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.priorities import Priorities
from idqn.replay import Replay, Returns
from idqn.types import Batch, Step

RUNS, ENVS = 2, 3
GREY, COLOUR = (1, 1, 2), (3, 2, 1)


class Stored(NamedTuple):
    observation: NDArray[np.uint8]
    action: int
    reward: float
    next_observation: NDArray[np.uint8]
    terminated: bool
    ended: bool


class Summed(NamedTuple):
    """What follows a transition, up to n steps."""

    reward: float
    next_observation: NDArray[np.uint8]
    discount: float


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
        turns: int = 1,
        returns: Returns | None = None,
        priorities: Priorities | None = None,
    ) -> None:
        self.capacity, self.stack, self.shape = capacity, stack, frame_shape
        self.runs, self.envs, self.turns = runs, envs, turns
        self.returns = returns or Returns(1, [0.99] * runs, [False] * runs)
        self.priorities = priorities
        self.terminating, self.truncating = terminating, truncating
        self.random = np.random.default_rng(seed)
        self.seeds = [17 + run for run in range(runs)]
        self.replay = self.new_replay()
        self.frames, self.transitions, self.truncations = 0, 0, 0
        self.stacks: list[deque[NDArray[np.uint8]]] = []
        self.stored: list[dict[int, Stored]] = [{} for _ in range(runs)]
        self.histories: list[list[int]] = [[] for _ in range(runs * envs)]  # by environment
        self.episodes = np.zeros(runs * envs, np.int64)
        self.start()

    def new_replay(self, runs: slice = slice(None), device: str = "cpu") -> Replay:
        returns = self.returns._replace(
            discount=self.returns.discount[runs], clip_rewards=self.returns.clip_rewards[runs]
        )
        return Replay(
            self.capacity,
            self.shape,
            self.stack,
            self.envs,
            self.seeds[runs],
            torch.device(device),
            self.turns,
            returns=returns,
            priorities=self.priorities,
        )

    def frame(self) -> NDArray[np.uint8]:
        """A frame like no other, and never black: 16-bit numbers, one per channel."""
        numbers = self.frames * self.shape[0] + np.arange(1, self.shape[0] + 1)
        self.frames += 1
        assert numbers[-1] < 2**16
        return np.stack([numbers // 256, numbers % 256], 1).astype(np.uint8).reshape(self.shape)

    def start(self) -> None:
        first = [self.frame() for _ in range(self.runs * self.envs)]
        self.stacks = [self._episode(frame) for frame in first]
        self.episodes[:] = 0
        for i, history in enumerate(self.histories):
            if history:  # what follows is another episode
                stored = self.stored[i // self.envs]
                stored[history[-1]] = stored[history[-1]]._replace(ended=True)
        self.replay.start(np.stack(first))

    def _episode(self, first: NDArray[np.uint8]) -> deque[NDArray[np.uint8]]:
        black = [np.zeros(self.shape, np.uint8)] * (self.stack - 1)
        return deque([*black, first], maxlen=self.stack)

    def step(self, turn: int = 0) -> tuple[NDArray[np.int64], Step]:
        """One step of all environments whose turn it is, appended to both replays."""
        every = np.arange(self.runs * self.envs).reshape(self.runs, self.turns, -1)
        acting = every[:, turn].flatten()
        n = len(acting)
        action = self.random.integers(0, 5, n)
        terminated = self.random.random(n) < self.terminating
        truncated = (self.random.random(n) < self.truncating) & ~terminated
        reward = np.zeros(n, np.float32)
        frames = np.zeros((n, *self.shape), np.uint8)
        finals = np.full((n, *self.shape), 255, np.uint8)  # where not valid, easily recognised
        for i, env in enumerate(acting):
            reward[i] = (self.transitions * 37 % 11 - 5) / 2  # -2.5 .. 2.5
            stack = self.stacks[env]
            before = np.concatenate(list(stack))
            last = self.frame()
            stack.append(last)
            ended = bool(terminated[i] or truncated[i])
            self.stored[env // self.envs][self.transitions] = Stored(
                observation=before,
                action=int(action[i]),
                reward=float(reward[i]),
                next_observation=np.concatenate(list(stack)),
                terminated=bool(terminated[i]),
                ended=ended,
            )
            self.histories[env].append(self.transitions)
            self.transitions += 1
            self.episodes[env] += ended
            frames[i] = last
            if ended:
                finals[i], frames[i] = last, self.frame()
                self.stacks[env] = self._episode(frames[i])
        self.truncations += int(truncated.sum())
        step = Step(frames, reward, terminated, truncated, finals)
        self.replay.append(action, step, turn)
        return action, step

    def observation(self) -> NDArray[np.uint8]:
        stacked = np.stack([np.concatenate(list(stack)) for stack in self.stacks])
        return stacked.reshape(self.runs, self.envs, *stacked.shape[1:])

    def newest(self, run: int) -> list[int]:
        """Numbers of the transitions that fit in, oldest first."""
        return list(self.stored[run])[-self.capacity :]

    def complete(self, run: int) -> list[int]:
        """Those of the newest that are live and have had their n steps, oldest first."""
        live = int(self.replay.books.written[run] - self.replay.books.oldest[run])
        newest = self.newest(run)[-live:]
        return newest[: len(newest) - (self.returns.n_step - 1) * self.envs]

    def numbers(self, run: int, place: Tensor) -> list[int]:
        """Of the transitions that lie there now."""
        there = {ever % self.capacity: number for ever, number in enumerate(self.stored[run])}
        return [there[int(p)] for p in place]

    def places(self, run: int, numbers: set[int]) -> set[int]:
        """Where transitions lie that are live."""
        return {e % self.capacity for e, number in enumerate(self.stored[run]) if number in numbers}

    def summed(self, run: int, number: int) -> Summed:
        """The n-step return, the slow way."""
        (history,) = (h for h in self.histories if number in h)
        begin = history.index(number)
        total, gamma = 0.0, self.returns.discount[run]
        for m, later in enumerate(history[begin : begin + self.returns.n_step]):
            stored = self.stored[run][later]
            clipped = min(1.0, max(-1.0, stored.reward))
            total += gamma**m * (clipped if self.returns.clip_rewards[run] else stored.reward)
            if stored.ended:
                break
        return Summed(
            total, stored.next_observation, 0.0 if stored.terminated else gamma ** (m + 1)
        )

    def check(self, batch: Batch) -> list[set[int]]:
        """Compare every transition of a batch; returns which ones each run drew."""
        drawn: list[set[int]] = []
        for run in range(self.runs):
            numbers = self.numbers(run, batch.place[run])
            expected = [self.stored[run][number] for number in numbers]
            after = [self.summed(run, number) for number in numbers]
            same, close = np.testing.assert_array_equal, np.testing.assert_allclose
            same(batch.observation[run], np.stack([s.observation for s in expected]))
            same(batch.action[run], [s.action for s in expected])
            close(batch.reward[run], [s.reward for s in after], rtol=1e-6, atol=1e-6)
            close(batch.discount[run], [s.discount for s in after], rtol=1e-6)
            # after termination nobody looks at the next observation
            alive = np.array([s.discount > 0 for s in after])
            following = np.stack([s.next_observation for s in after])
            same(batch.next_observation[run].numpy()[alive], following[alive])
            assert set(numbers) <= set(self.complete(run))
            drawn.append(set(numbers))
        return drawn


def assert_same_batch(one: Batch, other: Batch) -> None:
    for left, right in zip(one, other, strict=True):
        assert torch.equal(left, right)


def one_run(world: World, action: NDArray[np.int64], step: Step, run: int) -> tuple:
    own = slice(run * world.envs, (run + 1) * world.envs)
    return action[own], Step(*(part[own] for part in step))
