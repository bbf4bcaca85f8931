"""Replay on the training device, for P runs at once, each frame stored once.

Frames live in a ring; a transition is a row of frame numbers: the k frames of s, then the newest
frame of s'. Number 0 is a frame of zeros, which is what precedes an episode's first frame. The
current observations are rows of frame numbers too, so that acting needs no second frame stack.

The books (where each ring stands) are kept on the host, because only the host knows when an
episode was truncated and an extra frame must be stored; draws and pixels stay on the device.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.rng import random_index
from idqn.types import Batch, Step


class Replay:
    def __init__(
        self,
        capacity: int,
        frame_shape: tuple[int, int, int],
        frame_stack: int,
        envs: int,
        seeds: list[int],
        device: torch.device,
    ) -> None:
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
        self.current[:, :, -1] = self._write_all(frame)
        self._publish()

    def observation(self) -> Tensor:
        """The current observations, [P, E, C, H, W]."""
        return self._gather(self._current_slots)

    def append(self, action: NDArray[np.int64], step: Step) -> None:
        """Store what `action` [P*E] led to from the current observations, and move on."""
        shape = (self.runs, self.envs)
        terminated, truncated = step.terminated.reshape(shape), step.truncated.reshape(shape)
        final = self._write_some(truncated, step.final_frame)  # [P, E], valid where truncated
        newest = self._write_all(step.frame)  # [P, E]
        # after termination nothing is looked up, so any live frame will do
        following = np.where(truncated, final, newest)
        before = self.current
        row = np.concatenate([before, following[..., None]], axis=2)  # [P, E, k+1]

        ever = self.written[:, None] + np.arange(self.envs)  # [P, E] transition numbers
        at = ever % self.capacity
        # one bound for all environments of a step: it never decreases, so that `_forget` may
        # stop at the first transition that is whole
        first = np.where(row < 0, newest[..., None], row).min((1, 2))  # [P]
        np.put_along_axis(self.first_frame, at, np.broadcast_to(first[:, None], shape), axis=1)
        at_device = self._to_device(at)
        self.slots[self._run, at_device] = self._to_device(self._slot(row).astype(np.int32))
        self.action[self._run, at_device] = self._to_device(action.reshape(shape))
        self.reward[self._run, at_device] = self._to_device(step.reward.reshape(shape))
        self.terminated[self._run, at_device] = self._to_device(terminated)
        self.written += self.envs
        self._forget()

        self.current = np.concatenate([before[:, :, 1:], newest[..., None]], axis=2)
        self.current[terminated | truncated, :-1] = -1
        self._publish()

    def sample(self, batch_size: int, draw: int | Tensor) -> Batch:
        """Batch number `draw` of each run: uniform over live transitions, with replacement."""
        oldest, size = self._live
        counter = torch.zeros_like(self.seeds) + draw
        index = random_index(self.seeds, counter, batch_size, size)  # [P, B]
        index = (index + oldest[:, None]) % self.capacity
        slots = self.slots[self._run, index]  # [P, B, k+1]
        return Batch(
            observation=self._gather(slots[:, :, :-1]),
            action=self.action[self._run, index],
            reward=self.reward[self._run, index],
            next_observation=self._gather(slots[:, :, 1:]),
            terminated=self.terminated[self._run, index],
        )

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

    def _write_all(self, frame: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Store one frame per environment; returns their ever-counts [P, E]."""
        ever = self.frames_written[:, None] + np.arange(self.envs)
        pixels = self._to_device(frame.reshape(self.runs, self.envs, *frame.shape[1:]))
        self.frames[self._run, self._to_device(self._slot(ever))] = pixels
        self.frames_written += self.envs
        return ever

    def _write_some(self, mask: NDArray[np.bool_], frame: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Store the frames of the masked environments [P, E] only."""
        ever = np.zeros(mask.shape, np.int64)
        if mask.any():
            ever = self.frames_written[:, None] + mask.cumsum(1) - 1
            run, _ = np.nonzero(mask)
            slot = self._to_device(self._slot(ever[mask]))
            self.frames[self._to_device(run), slot] = self._to_device(frame[mask.reshape(-1)])
            self.frames_written += mask.sum(1)
        return ever

    def _forget(self) -> None:
        """Drop the transitions that left the ring, or whose frames did."""
        self.oldest = np.maximum(self.oldest, self.written - self.capacity)
        for run in range(self.runs):
            gone = self.frames_written[run] - self.ring  # frames with a lower count are overwritten
            while (
                self.oldest[run] < self.written[run]
                and self.first_frame[run, self.oldest[run] % self.capacity] < gone
            ):
                self.oldest[run] += 1

    def _publish(self) -> None:
        """Bring the device up to date, in place: captured graphs read these tensors."""
        live = np.stack([self.oldest, self.written - self.oldest])
        self._live.copy_(torch.from_numpy(live))
        self._current_slots.copy_(torch.from_numpy(self._slot(self.current)))

    def _slot(self, ever: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ever-count to place in `frames`."""
        return np.where(ever < 0, 0, 1 + ever % self.ring)

    def _gather(self, slots: Tensor) -> Tensor:
        """[P, B, k] frame places to [P, B, k*c, h, w] observations."""
        run = self._run[:, :, None].expand_as(slots)
        return self.frames[run, slots.long()].flatten(2, 3)

    def _to_device(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


_TENSORS = ("frames", "slots", "action", "reward", "terminated")
_BOOKS = ("frames_written", "written", "oldest", "first_frame", "current")
