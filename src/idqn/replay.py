"""Replay on the training device, for P runs at once, each frame stored once.

Frames live in a ring; a transition is a row of frame numbers: the k frames of s, then the newest
frame of s'. Number 0 is a frame of zeros, which is what precedes an episode's first frame. The
current observations are rows of frame numbers too, so that acting needs no second frame stack.

All environments take their turns in a fixed order, so the next step of the same environment lies
`envs` places further on: that is how rewards are summed over n steps.

The books (where each ring stands, `books.py`) are kept on the host; draws and pixels stay on the
device. What a step adds goes there in one copy, from memory of its own for each turn
(`staging.py`), and is sorted in there.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.books import Books
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
        self.books = Books(runs, envs, capacity, frame_stack, returns.n_step)
        self.frames = torch.zeros(
            (runs, 1 + self.books.ring, *frame_shape), dtype=torch.uint8, device=device
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

    def __len__(self) -> int:
        """Live transitions in the run that has fewest."""
        return int(self.books.live.min())

    def start(self, frame: NDArray[np.uint8]) -> None:
        """Begin an episode in every environment; frame [P*E, c, h, w]."""
        self.episodes.zero_()
        self.ended[self._run, self._to_device(self.books.latest())] = True
        pixels = self.as_stored(frame).view(self.runs, self.envs, *self.frames.shape[2:])
        self.frames[self._run, self._to_device(self.books.begin())] = pixels
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
        assert (self.books.written % self.envs == part.start).all(), "turns come in a fixed order"
        shape = (self.runs, part.stop - part.start)
        terminated, truncated = step.terminated.reshape(shape), step.truncated.reshape(shape)
        ended = terminated | truncated
        entry = self.books.enter(part, truncated, ended)
        self._store_some(truncated, entry.final_place, step.final_frame)
        staging.fill(
            step.frame,
            step.reward.reshape(shape),
            transition=entry.transition,
            frame_place=entry.frame_place,
            place=entry.place,
            action=action.reshape(shape),
            terminated=terminated,
            ended=ended,
            current=entry.current,
            drawable=self.books.drawable(),
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
        live = self.books.live
        channels = self.stack * self.frames.shape[2]
        total = torch.zeros(
            (self.runs, channels, *self.frames.shape[3:]), dtype=torch.int64, device=self.device
        )
        for run in range(self.runs):
            for start in range(0, live[run], chunk):
                ever = self.books.oldest[run] + np.arange(start, min(start + chunk, live[run]))
                slots = self.slots[run, self._to_device(ever % self.capacity), :-1]  # [n, k]
                pixels = self.frames[run, slots.long()].flatten(1, 2)  # [n, C, H, W]
                total[run] += pixels.sum(0, dtype=torch.int64)
        return (total.double() / self._to_device(live)[:, None, None, None]).float()

    def state(self, run: int) -> dict[str, Tensor]:
        """Everything about one run's replay, for a checkpoint."""
        tensors = {name: tensor[run].cpu() for name, tensor in self._tensors().items()}
        return tensors | self.books.state(run)

    def load_state(self, run: int, state: dict[str, Tensor]) -> None:
        for name, tensor in self._tensors().items():
            tensor[run].copy_(state[name])
        self.books.load_state(run, state)
        self._publish()

    def _tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the books; each [P, ...]."""
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in _TENSORS}
        if self.prioritized is not None:
            tensors["priority"] = self.prioritized.priority
            tensors["highest_priority"] = self.prioritized.highest[:, None]
        return tensors

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

    def _store_some(
        self, mask: NDArray[np.bool_], place: NDArray[np.int64], frame: NDArray[np.uint8]
    ) -> None:
        """Store the frames of the masked environments [P, E] only."""
        if mask.any():
            run, _ = np.nonzero(mask)
            there = self._to_device(place[mask])
            self.frames[self._to_device(run), there] = self.as_stored(frame[mask.reshape(-1)])

    def _publish(self) -> None:
        """Bring the device up to date, in place: captured graphs read these tensors."""
        self._drawable.copy_(torch.from_numpy(self.books.drawable()))
        self._current_slots.copy_(torch.from_numpy(self.books.current_places()))

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


_TENSORS = ("frames", "slots", "action", "reward", "terminated", "ended", "episodes")
