"""Replay on the training device, for P runs at once, each frame stored once.

Frames live in a ring; a transition is a row of frame numbers: the k frames of s, then the newest
frame of s'. Number 0 is a frame of zeros, which is what precedes an episode's first frame. The
current observations are rows of frame numbers too, so that acting needs no second frame stack.

The books (where each ring stands) are kept on the host, because only the host knows when an
episode was truncated and an extra frame must be stored; draws and pixels stay on the device. What
a step adds goes there in two copies, from memory of its own for each turn (`Staging`), and is
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
from idqn.rng import make_lanes, random_index
from idqn.types import Batch, Step


class Shrink(Protocol):
    """Makes frames smaller, on the device."""

    given_shape: tuple[int, int, int]

    def __call__(self, frames: Tensor) -> Tensor:
        """[..., c, h, w] to [..., c', h', w']."""
        ...


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
    ) -> None:
        """`turns` equal parts of each run's environments are appended one at a time. With
        `shrink`, what is given are larger frames, which it makes `frame_shape` on the device."""
        runs = len(seeds)
        self.capacity, self.stack, self.runs, self.envs = capacity, frame_stack, runs, envs
        self.device = device
        # A transition's frames span k+1 steps of all environments, which write two frames each
        # where episodes are truncated: so much is always kept. An eighth more leaves room for
        # the extra frames of truncated episodes; if they are still more frequent, `_forget`
        # drops the transitions that lost a frame.
        self.ring = capacity + capacity // 8 + 2 * (frame_stack + 1) * envs
        self.frames = torch.zeros(
            (runs, 1 + self.ring, *frame_shape), dtype=torch.uint8, device=device
        )
        self.slots = torch.zeros(
            (runs, capacity, frame_stack + 1), dtype=torch.int32, device=device
        )
        self.action = torch.zeros((runs, capacity), dtype=torch.int64, device=device)
        self.reward = torch.zeros((runs, capacity), dtype=torch.float32, device=device)
        self.terminated = torch.zeros((runs, capacity), dtype=torch.bool, device=device)
        self.seeds = torch.tensor(seeds, device=device)
        self._run = torch.arange(runs, device=device)[:, None]

        # what the device must know of the books: first live transition and how many, and the
        # places of the current observations' frames
        self._live = torch.zeros((2, runs), dtype=torch.int64, device=device)
        self._current_slots = torch.zeros(
            (runs, envs, frame_stack), dtype=torch.int64, device=device
        )

        self._shrink = shrink
        given_shape = frame_shape if shrink is None else shrink.given_shape
        size = envs // turns
        self._turns = [slice(turn * size, (turn + 1) * size) for turn in range(turns)]
        self._staging = [
            _Staging(runs, size, frame_stack, given_shape, device) for _ in range(turns)
        ]
        self._commit = [
            Captured(lambda t=turn: self._sort_in(t), device)  # type: ignore[misc]
            for turn in range(turns)
        ]
        self._draw = compiled(_draw, device)
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
        self.current[:] = -1
        self.current[:, :, -1] = newest = self._next_frames(self.envs)
        pixels = self.as_stored(frame).view(self.runs, self.envs, *self.frames.shape[2:])
        self.frames[self._run, self._to_device(self._slot(newest))] = pixels
        self._publish()

    def observation(self, turn: int | None = None) -> Tensor:
        """The current observations, of one turn's environments or all, [P, E, C, H, W]."""
        part = slice(None) if turn is None else self._turns[turn]
        return _gather(self.frames, self._current_slots[:, part])

    def append(self, action: NDArray[np.int64], step: Step, turn: int = 0) -> None:
        """Store what `action` [P*E/turns] led to from the current observations, and move on."""
        part, staging = self._turns[turn], self._staging[turn]
        shape = (self.runs, part.stop - part.start)
        terminated, truncated = step.terminated.reshape(shape), step.truncated.reshape(shape)
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
        after[terminated | truncated, :-1] = -1
        self.current[:, part] = after
        staging.fill(
            step.frame,
            step.reward.reshape(shape),
            transition=self._slot(row),
            frame_place=self._slot(newest),
            place=at,
            action=action.reshape(shape),
            terminated=terminated,
            current=self._slot(after),
            live=self._live_books(),
        )
        self._commit[turn]()

    def sample(self, batch_size: int, draw: int | Tensor) -> Batch:
        """Batch number `draw` of each run: uniform over live transitions, with replacement."""
        if self._lanes is None or len(self._lanes) != batch_size:
            self._lanes = make_lanes(batch_size, self.device)
        counter = torch.zeros_like(self.seeds) + draw
        stored = (self.slots, self.action, self.reward, self.terminated)
        batch: Batch = self._draw(self.frames, stored, self._live, self.seeds, counter, self._lanes)
        return batch

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
        tensors = {name: getattr(self, name)[run].cpu() for name in _TENSORS}
        books = {name: torch.from_numpy(getattr(self, name)[run, None].copy()) for name in _BOOKS}
        return tensors | books

    def load_state(self, run: int, state: dict[str, Tensor]) -> None:
        for name in _TENSORS:
            getattr(self, name)[run].copy_(state[name])
        for name in _BOOKS:
            getattr(self, name)[run] = state[name][0].numpy()
        self._publish()

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
        self._current_slots[:, self._turns[turn]] = staged.current
        self._live.copy_(staged.live)

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
        self._live.copy_(torch.from_numpy(self._live_books()))
        self._current_slots.copy_(torch.from_numpy(self._slot(self.current)))

    def _live_books(self) -> NDArray[np.int64]:
        return np.stack([self.oldest, self.written - self.oldest])

    def _slot(self, ever: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ever-count to place in `frames`."""
        return np.where(ever < 0, 0, 1 + ever % self.ring)

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


class _Staged(NamedTuple):
    """One turn's step on the device."""

    frames: Tensor  # [P, e, c, h, w] uint8
    reward: Tensor  # [P, e]
    transition: Tensor  # [P, e, k+1]
    frame_place: Tensor  # [P, e]
    place: Tensor  # [P, e]
    action: Tensor  # [P, e]
    terminated: Tensor  # [P, e] bool
    current: Tensor  # [P, e, k]
    live: Tensor  # [2, P]


class _Staging:
    """Where a turn's steps wait, on the host and on the device, always in the same memory.

    Filling it again must wait until the device has copied it. It has, once the actions chosen
    after it have been read.
    """

    def __init__(
        self,
        runs: int,
        envs: int,
        stack: int,
        frame_shape: tuple[int, int, int],
        device: torch.device,
    ) -> None:
        self._shape, self._stack = (runs, envs), stack
        # one block of memory, so that one copy takes it there: books, rewards, frames
        count = runs * envs * (2 * stack + 5) + 2 * runs
        self._sizes = [count * 8, runs * envs * 4, runs * envs * math.prod(frame_shape)]
        self._frame_shape = frame_shape
        on_gpu = device.type == "cuda"
        self._host = torch.zeros(sum(self._sizes), dtype=torch.uint8, pin_memory=on_gpu)
        self._device = self._host.to(device) if on_gpu else self._host
        self._books, self._reward, self._frames = (part.numpy() for part in self._parts(self._host))

    def fill(
        self, frames: NDArray[np.uint8], reward: NDArray[np.float32], **books: NDArray[np.generic]
    ) -> None:
        np.copyto(self._frames, frames.reshape(self._frames.shape))
        np.copyto(self._reward, reward)
        flat = [books[name].reshape(-1) for name in _Staged._fields[2:]]
        np.concatenate(flat, out=self._books, casting="unsafe")
        if self._device is not self._host:
            self._device.copy_(self._host, non_blocking=True)

    def on_device(self) -> _Staged:
        books, reward, frames = self._parts(self._device)
        n, k = self._shape[0] * self._shape[1], self._stack
        sizes = [n * (k + 1), n, n, n, n, n * k, 2 * self._shape[0]]
        transition, frame_place, place, action, terminated, current, live = torch.split_with_sizes(
            books, sizes
        )
        return _Staged(
            frames,
            reward,
            transition.view(*self._shape, k + 1).int(),
            frame_place.view(self._shape),
            place.view(self._shape),
            action.view(self._shape),
            terminated.view(self._shape).bool(),
            current.view(*self._shape, k),
            live.view(2, -1),
        )

    def _parts(self, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        books, reward, frames = torch.split_with_sizes(block, self._sizes)
        return (
            books.view(torch.int64),
            reward.view(torch.float32).view(self._shape),
            frames.view(*self._shape, *self._frame_shape),
        )


def _draw(
    frames: Tensor,
    stored: tuple[Tensor, Tensor, Tensor, Tensor],
    live: Tensor,
    seeds: Tensor,
    counter: Tensor,
    lanes: Tensor,
) -> Batch:
    """A batch per run. A function of tensors alone, so that it can be compiled."""
    oldest, size = live
    every_slots, every_action, every_reward, every_terminated = stored
    run = torch.arange(len(seeds), device=seeds.device)[:, None]
    index = random_index(seeds, counter, lanes, size)  # [P, B]
    index = (index + oldest[:, None]) % every_slots.shape[1]
    slots = every_slots[run, index]  # [P, B, k+1]
    return Batch(
        observation=_gather(frames, slots[:, :, :-1]),
        action=every_action[run, index],
        reward=every_reward[run, index],
        next_observation=_gather(frames, slots[:, :, 1:]),
        terminated=every_terminated[run, index],
    )


def _gather(frames: Tensor, slots: Tensor) -> Tensor:
    """[P, B, k] frame places to [P, B, k*c, h, w] observations."""
    run = torch.arange(len(frames), device=frames.device)[:, None, None]
    return frames[run, slots.long()].flatten(2, 3)


_TENSORS = ("frames", "slots", "action", "reward", "terminated")
_BOOKS = ("frames_written", "written", "oldest", "first_frame", "current")
