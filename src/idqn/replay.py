"""Replay on the training device, for P runs at once, each frame stored once.

Frames live in a ring; a transition is a row of frame numbers: the k frames of s, then the newest
frame of s'. Number 0 is a frame of zeros, which is what precedes an episode's first frame. The
current observations are rows of frame numbers too, so that acting needs no second frame stack.

All environments take their turns in a fixed order, so the next step of the same environment lies
`envs` places further on: that is how rewards are summed over n steps.

The books (where each ring stands) are kept on the host, because only the host knows when an
episode was truncated and an extra frame must be stored; draws and pixels stay on the device. What
a step adds goes there in two copies, from memory of its own for each turn (`staging.py`), and is
sorted in there.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.capture import Captured, compiled
from idqn.draws import Source, Stored, Sums, draw_batch, gather
from idqn.priorities import Priorities, Prioritized
from idqn.rng import make_lanes
from idqn.staging import Staging
from idqn.types import Batch, Step


class Shrink(Protocol):
    """Makes frames smaller, on the device."""

    given_shape: tuple[int, int, int]

    def __call__(self, frames: Tensor) -> Tensor:
        """[..., c, h, w] to [..., c', h', w']."""
        ...


class Returns(NamedTuple):
    """How rewards are summed up until the next state is valued."""

    n_step: int
    discount: list[float]  # of each run
    clip_rewards: list[bool]  # of each run: to [-1, 1], before they are summed


class Replay:
    def __init__(
        self,
        capacity: int,
        frame_shape: tuple[int, int, int],
        frame_stack: int,
        envs: int,
        seeds: list[int],
        device: torch.device,
        turns: int = 1,
        shrink: Shrink | None = None,
        returns: Returns | None = None,
        priorities: Priorities | None = None,
    ) -> None:
        """`turns` equal parts of each run's environments are appended one at a time. With
        `shrink`, what is given are larger frames, which it makes `frame_shape` on the device.
        Without `returns`, batches hold single rewards as they are, and a discount of 0.99; without
        `priorities`, they are drawn uniformly."""
        runs = len(seeds)
        returns = returns or Returns(1, [0.99] * runs, [False] * runs)
        self.capacity, self.stack, self.runs, self.envs = capacity, frame_stack, runs, envs
        self.device = device
        # The frames of n transitions in a row span k+n steps of all environments, which write two
        # frames each where episodes are truncated: so much is always kept. An eighth more leaves
        # room for the extra frames of truncated episodes; if they are still more frequent,
        # `_forget` drops the transitions that lost a frame.
        self.ring = capacity + capacity // 8 + 2 * (frame_stack + returns.n_step) * envs
        self.frames = torch.zeros(
            (runs, 1 + self.ring, *frame_shape), dtype=torch.uint8, device=device
        )
        self.slots = torch.zeros(
            (runs, capacity, frame_stack + 1), dtype=torch.int32, device=device
        )
        self.action = torch.zeros((runs, capacity), dtype=torch.int64, device=device)
        self.reward = torch.zeros((runs, capacity), dtype=torch.float32, device=device)
        self.terminated = torch.zeros((runs, capacity), dtype=torch.bool, device=device)
        self.ended = torch.zeros((runs, capacity), dtype=torch.bool, device=device)
        self.episodes = torch.zeros((runs, envs), dtype=torch.int64, device=device)  # ended so far
        self.prioritized = (
            None if priorities is None else Prioritized(priorities, runs, capacity, device)
        )
        self._stored = Stored(
            self.frames, self.slots, self.action, self.reward, self.terminated, self.ended
        )
        self._sums = Sums(
            torch.tensor(returns.discount, device=device)[:, None],
            torch.tensor(
                [1.0 if clip else math.inf for clip in returns.clip_rewards], device=device
            )[:, None],
            tuple(range(envs, returns.n_step * envs, envs)),
        )
        self.seeds = torch.tensor(seeds, device=device)
        self._run = torch.arange(runs, device=device)[:, None]

        # what the device must know of the books: the first transition that may be drawn and how
        # many may, and the places of the current observations' frames
        self._drawable = torch.zeros((2, runs), dtype=torch.int64, device=device)
        self._current_slots = torch.zeros(
            (runs, envs, frame_stack), dtype=torch.int64, device=device
        )

        self._shrink = shrink
        given_shape = frame_shape if shrink is None else shrink.given_shape
        size = envs // turns
        self._turns = [slice(turn * size, (turn + 1) * size) for turn in range(turns)]
        self._staging = [
            Staging(runs, size, frame_stack, given_shape, device) for _ in range(turns)
        ]
        self._commit = [
            Captured(lambda t=turn: self._sort_in(t), device)  # type: ignore[misc]
            for turn in range(turns)
        ]
        self._draw = compiled(draw_batch, device)
        self._lanes: Tensor | None = None

        # books: how many frames and transitions each run ever wrote, and the oldest live one
        self.frames_written = np.zeros(runs, np.int64)
        self.written = np.zeros(runs, np.int64)
        self.oldest = np.zeros(runs, np.int64)
        self.first_frame = np.zeros((runs, capacity), np.int64)  # of each transition, ever-count
        # ever-count of each frame of the current observations; -1 where it is zeros
        self.current = np.full((runs, envs, frame_stack), -1, np.int64)

    def __len__(self) -> int:
        """Live transitions in the run that has fewest."""
        return int((self.written - self.oldest).min())

    def start(self, frame: NDArray[np.uint8]) -> None:
        """Begin an episode in every environment; frame [P*E, c, h, w]."""
        self.episodes.zero_()
        latest = self.written[:, None] - 1 - np.arange(self.envs)
        self.ended[self._run, self._to_device(latest % self.capacity)] = True
        self.current[:] = -1
        self.current[:, :, -1] = newest = self._next_frames(self.envs)
        pixels = self.as_stored(frame).view(self.runs, self.envs, *self.frames.shape[2:])
        self.frames[self._run, self._to_device(self._slot(newest))] = pixels
        self._publish()

    def observation(self, turn: int | None = None) -> Tensor:
        """The current observations, of one turn's environments or all, [P, E, C, H, W]."""
        part = slice(None) if turn is None else self._turns[turn]
        return gather(self.frames, self._current_slots[:, part])

    def episode(self, turn: int | None = None) -> Tensor:
        """The numbers of the current episodes, of one turn's environments or all, [P, E]."""
        return self.episodes if turn is None else self.episodes[:, self._turns[turn]]

    def append(self, action: NDArray[np.int64], step: Step, turn: int = 0) -> None:
        """Store what `action` [P*E/turns] led to from the current observations, and move on."""
        part, staging = self._turns[turn], self._staging[turn]
        assert (self.written % self.envs == part.start).all(), "turns come in a fixed order"
        shape = (self.runs, part.stop - part.start)
        terminated, truncated = step.terminated.reshape(shape), step.truncated.reshape(shape)
        ended = terminated | truncated
        final = self._write_some(truncated, step.final_frame)  # [P, e], valid where truncated
        newest = self._next_frames(shape[1])  # [P, e]
        # after termination nothing is looked up, so any live frame will do
        following = np.where(truncated, final, newest)
        before = self.current[:, part]
        row = np.concatenate([before, following[..., None]], axis=2)  # [P, e, k+1]

        ever = self.written[:, None] + np.arange(shape[1])  # [P, e] transition numbers
        at = ever % self.capacity
        # one bound for all environments of a step: it never decreases, so that `_forget` may
        # stop at the first transition that is whole
        oldest_now = np.where(self.current < 0, newest.min(1)[:, None, None], self.current)
        first = oldest_now.min((1, 2))  # [P]
        self.first_frame[np.arange(self.runs)[:, None], at] = first[:, None]
        self.written += shape[1]
        self._forget()

        after = np.concatenate([before[:, :, 1:], newest[..., None]], axis=2)
        after[ended, :-1] = -1
        self.current[:, part] = after
        staging.fill(
            step.frame,
            step.reward.reshape(shape),
            transition=self._slot(row),
            frame_place=self._slot(newest),
            place=at,
            action=action.reshape(shape),
            terminated=terminated,
            ended=ended,
            current=self._slot(after),
            drawable=self._drawable_books(),
        )
        self._commit[turn]()

    def sample(self, batch_size: int, draw: int | Tensor) -> Batch:
        """Batch number `draw` of each run, drawn with replacement from the live transitions whose
        n steps are complete."""
        if self._lanes is None or len(self._lanes) != batch_size:
            self._lanes = make_lanes(batch_size, self.device)
        counter = torch.zeros_like(self.seeds) + draw
        source = Source(self._drawable, self.seeds, counter, self._lanes)
        shares = None
        if self.prioritized is not None:
            shares = self.prioritized.shares(self._drawable, counter)
        batch: Batch = self._draw(source, shares, self._stored, self._sums)
        return batch

    def learned(self, place: Tensor, surprise: Tensor) -> None:
        """What was drawn at `place` turned out to be this surprising (an error); both [P, B]."""
        if self.prioritized is not None:
            self.prioritized.learned(place, surprise)

    def as_stored(self, frame: NDArray[np.uint8]) -> Tensor:
        """Given frames [n, c, h, w] as they are kept, on the device."""
        given = self._to_device(frame)
        return given if self._shrink is None else self._shrink(given)

    def mean_observation(self, chunk: int = 256) -> Tensor:
        """The mean of all live observations of each run, [P, C, H, W]; exact, in any order."""
        live = self.written - self.oldest  # [P]: truncations cost some runs more than others
        channels = self.stack * self.frames.shape[2]
        total = torch.zeros(
            (self.runs, channels, *self.frames.shape[3:]), dtype=torch.int64, device=self.device
        )
        for run in range(self.runs):
            for start in range(0, live[run], chunk):
                ever = self.oldest[run] + np.arange(start, min(start + chunk, live[run]))
                slots = self.slots[run, self._to_device(ever % self.capacity), :-1]  # [n, k]
                pixels = self.frames[run, slots.long()].flatten(1, 2)  # [n, C, H, W]
                total[run] += pixels.sum(0, dtype=torch.int64)
        return (total.double() / self._to_device(live)[:, None, None, None]).float()

    def state(self, run: int) -> dict[str, Tensor]:
        """Everything about one run's replay, for a checkpoint."""
        tensors = {name: tensor[run].cpu() for name, tensor in self._tensors().items()}
        books = {name: torch.from_numpy(getattr(self, name)[run, None].copy()) for name in _BOOKS}
        return tensors | books

    def load_state(self, run: int, state: dict[str, Tensor]) -> None:
        for name, tensor in self._tensors().items():
            tensor[run].copy_(state[name])
        for name in _BOOKS:
            getattr(self, name)[run] = state[name][0].numpy()
        self._publish()

    def _tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the books; each [P, ...]."""
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in _TENSORS}
        if self.prioritized is not None:
            tensors["priority"] = self.prioritized.priority
            tensors["highest_priority"] = self.prioritized.highest[:, None]
        return tensors

    def _next_frames(self, count: int) -> NDArray[np.int64]:
        """Ever-counts [P, count] of the frames that are stored next."""
        ever: NDArray[np.int64] = self.frames_written[:, None] + np.arange(count)
        self.frames_written += count
        return ever

    def _sort_in(self, turn: int) -> None:
        """Put what was staged where it belongs; all of it on the device."""
        staged = self._staging[turn].on_device()
        frames = staged.frames if self._shrink is None else self._shrink(staged.frames)
        self.frames[self._run, staged.frame_place] = frames
        self.slots[self._run, staged.place] = staged.transition
        self.action[self._run, staged.place] = staged.action
        self.reward[self._run, staged.place] = staged.reward
        self.terminated[self._run, staged.place] = staged.terminated
        self.ended[self._run, staged.place] = staged.ended
        if self.prioritized is not None:
            self.prioritized.enter(staged.place)
        self.episodes[:, self._turns[turn]] += staged.ended
        self._current_slots[:, self._turns[turn]] = staged.current
        self._drawable.copy_(staged.drawable)

    def _write_some(self, mask: NDArray[np.bool_], frame: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Store the frames of the masked environments [P, E] only."""
        ever = np.zeros(mask.shape, np.int64)
        if mask.any():
            ever = self.frames_written[:, None] + mask.cumsum(1) - 1
            run, _ = np.nonzero(mask)
            slot = self._to_device(self._slot(ever[mask]))
            self.frames[self._to_device(run), slot] = self.as_stored(frame[mask.reshape(-1)])
            self.frames_written += mask.sum(1)
        return ever

    def _forget(self) -> None:
        """Drop the transitions that left the ring, or whose frames did."""
        self.oldest = np.maximum(self.oldest, self.written - self.capacity)
        gone = self.frames_written - self.ring  # frames with a lower count are overwritten
        runs = np.arange(self.runs)
        while True:
            first = self.first_frame[runs, self.oldest % self.capacity]
            broken = (first < gone) & (self.oldest < self.written)
            if not broken.any():
                return
            self.oldest += broken

    def _publish(self) -> None:
        """Bring the device up to date, in place: captured graphs read these tensors."""
        self._drawable.copy_(torch.from_numpy(self._drawable_books()))
        self._current_slots.copy_(torch.from_numpy(self._slot(self.current)))

    def _drawable_books(self) -> NDArray[np.int64]:
        complete = self.written - self.envs * len(self._sums.ahead)
        return np.stack([self.oldest, np.maximum(complete - self.oldest, 0)])

    def _slot(self, ever: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ever-count to place in `frames`."""
        return np.where(ever < 0, 0, 1 + ever % self.ring)

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


_TENSORS = ("frames", "slots", "action", "reward", "terminated", "ended", "episodes")
_BOOKS = ("frames_written", "written", "oldest", "first_frame", "current")
