"""Where a step waits between the host and the device."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Staged(NamedTuple):
    """One turn's step on the device."""

    frames: Tensor  # [P, e, c, h, w] uint8
    reward: Tensor  # [P, e]
    transition: Tensor  # [P, e, k+1]
    frame_place: Tensor  # [P, e]
    place: Tensor  # [P, e]
    action: Tensor  # [P, e]
    terminated: Tensor  # [P, e] bool
    ended: Tensor  # [P, e] bool
    current: Tensor  # [P, e, k]
    drawable: Tensor  # [2, P]


class Staging:
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
        count = runs * envs * (2 * stack + 6) + 2 * runs
        self._sizes = [count * 8, runs * envs * 4, runs * envs * math.prod(frame_shape)]
        self._frame_shape = frame_shape
        pinned = device.type == "cuda"
        self._host = torch.zeros(sum(self._sizes), dtype=torch.uint8, pin_memory=pinned)
        self._device = self._host.to(device)  # on a CPU, the same
        self._books, self._reward, self._frames = (part.numpy() for part in self._parts(self._host))

    def fill(
        self, frames: NDArray[np.uint8], reward: NDArray[np.float32], **books: NDArray[np.generic]
    ) -> None:
        np.copyto(self._frames, frames.reshape(self._frames.shape))
        np.copyto(self._reward, reward)
        flat = [books[name].reshape(-1) for name in Staged._fields[2:]]
        np.concatenate(flat, out=self._books, casting="unsafe")
        if self._device is not self._host:
            self._device.copy_(self._host, non_blocking=True)

    def on_device(self) -> Staged:
        books, reward, frames = self._parts(self._device)
        n, k = self._shape[0] * self._shape[1], self._stack
        sizes = [n * (k + 1), n, n, n, n, n, n * k, 2 * self._shape[0]]
        transition, frame_place, place, action, terminated, ended, current, drawable = (
            torch.split_with_sizes(books, sizes)
        )
        return Staged(
            frames,
            reward,
            transition.view(*self._shape, k + 1).int(),
            frame_place.view(self._shape),
            place.view(self._shape),
            action.view(self._shape),
            terminated.view(self._shape).bool(),
            ended.view(self._shape).bool(),
            current.view(*self._shape, k),
            drawable.view(2, -1),
        )

    def _parts(self, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        books, reward, frames = torch.split_with_sizes(block, self._sizes)
        return (
            books.view(torch.int64),
            reward.view(torch.float32).view(self._shape),
            frames.view(*self._shape, *self._frame_shape),
        )
