"""Replay's books: where each run's rings of frames and transitions stand.

They are kept on the host, because only the host knows when an episode was truncated and an extra
frame must be stored. Frames and transitions are numbered from the very first of a run, for ever;
where they lie in their rings follows from that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int64]


class Entry(NamedTuple):
    """Where a step of e environments of each run goes."""

    transition: Numbers  # [P, e, k+1], places of the frames of s, and of the newest of s'
    frame_place: Numbers  # [P, e], of the new frame
    final_place: Numbers  # [P, e], of the ended episode's last frame, valid where truncated
    place: Numbers  # [P, e], of the transition
    current: Numbers  # [P, e, k], places of the frames of the observation that follows


class Books:
    def __init__(self, runs: int, envs: int, capacity: int, frame_stack: int, n_step: int) -> None:
        self.envs, self.capacity = envs, capacity
        # The frames of n transitions in a row span k+n steps of all environments, which write two
        # frames each where episodes are truncated: so much is always kept. An eighth more leaves
        # room for the extra frames of truncated episodes; if they are still more frequent,
        # `_forget` drops the transitions that lost a frame.
        self.ring = capacity + capacity // 8 + 2 * (frame_stack + n_step) * envs
        self._waiting = envs * (n_step - 1)  # transitions whose n steps are not complete
        # how many frames and transitions each run ever wrote, and the oldest live one
        self.frames_written = np.zeros(runs, np.int64)
        self.written = np.zeros(runs, np.int64)
        self.oldest = np.zeros(runs, np.int64)
        self.first_frame = np.zeros((runs, capacity), np.int64)  # number, of each transition
        # number of each frame of the current observations; -1 where it is zeros
        self.current = np.full((runs, envs, frame_stack), -1, np.int64)

    @property
    def live(self) -> Numbers:
        """Transitions of each run, [P]: truncations cost some runs more than others."""
        live: Numbers = self.written - self.oldest
        return live

    def begin(self) -> Numbers:
        """Begin an episode in every environment; returns the places of their first frames."""
        self.current[:] = -1
        self.current[:, :, -1] = newest = self._next_frames(self.envs)
        return self._frame_place(newest)

    def latest(self) -> Numbers:
        """Places of the newest transition of every environment, [P, E]."""
        latest: Numbers = (self.written[:, None] - 1 - np.arange(self.envs)) % self.capacity
        return latest

    def enter(self, part: slice, truncated: NDArray[np.bool_], ended: NDArray[np.bool_]) -> Entry:
        """A step of the environments of `part`; [P, e] each."""
        count = truncated.shape[1]
        final = self._some_frames(truncated)  # [P, e], valid where truncated
        newest = self._next_frames(count)  # [P, e]
        # after termination nothing is looked up, so any live frame will do
        following = np.where(truncated, final, newest)
        before = self.current[:, part]
        row = np.concatenate([before, following[..., None]], axis=2)  # [P, e, k+1]

        place = (self.written[:, None] + np.arange(count)) % self.capacity  # [P, e]
        # one bound for all environments of a step: it never decreases, so that `_forget` may
        # stop at the first transition that is whole
        oldest_now = np.where(self.current < 0, newest.min(1)[:, None, None], self.current)
        first = oldest_now.min((1, 2))  # [P]
        self.first_frame[np.arange(len(place))[:, None], place] = first[:, None]
        self.written += count
        self._forget()

        after = np.concatenate([before[:, :, 1:], newest[..., None]], axis=2)
        after[ended, :-1] = -1
        self.current[:, part] = after
        return Entry(
            transition=self._frame_place(row),
            frame_place=self._frame_place(newest),
            final_place=self._frame_place(final),
            place=place,
            current=self._frame_place(after),
        )

    def drawable(self) -> Numbers:
        """The first transition that may be drawn and how many may, [2, P]."""
        complete = self.written - self._waiting
        return np.stack([self.oldest, np.maximum(complete - self.oldest, 0)])

    def current_places(self) -> Numbers:
        """Of the frames of the current observations, [P, E, k]."""
        return self._frame_place(self.current)

    def state(self, run: int) -> dict[str, Tensor]:
        return {name: torch.from_numpy(getattr(self, name)[run, None].copy()) for name in _KEPT}

    def load_state(self, run: int, state: dict[str, Tensor]) -> None:
        for name in _KEPT:
            getattr(self, name)[run] = state[name][0].numpy()

    def _next_frames(self, count: int) -> Numbers:
        """Numbers [P, count] of the frames that are stored next."""
        numbers: Numbers = self.frames_written[:, None] + np.arange(count)
        self.frames_written += count
        return numbers

    def _some_frames(self, mask: NDArray[np.bool_]) -> Numbers:
        """Numbers [P, E] of frames that are stored next, of the masked environments only."""
        if not mask.any():
            return np.zeros(mask.shape, np.int64)
        numbers: Numbers = self.frames_written[:, None] + mask.cumsum(1) - 1
        self.frames_written += mask.sum(1)
        return numbers

    def _forget(self) -> None:
        """Drop the transitions that left the ring, or whose frames did."""
        self.oldest = np.maximum(self.oldest, self.written - self.capacity)
        gone = self.frames_written - self.ring  # frames with a lower number are overwritten
        runs = np.arange(len(self.oldest))
        while True:
            first = self.first_frame[runs, self.oldest % self.capacity]
            broken = (first < gone) & (self.oldest < self.written)
            if not broken.any():
                return
            self.oldest += broken

    def _frame_place(self, number: Numbers) -> Numbers:
        """In replay's `frames`, where place 0 is a frame of zeros."""
        return np.where(number < 0, 0, 1 + number % self.ring)


_KEPT = ("frames_written", "written", "oldest", "first_frame", "current")
