"""How long training took, and what it waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Goes on where it stood when training is resumed."""

    def __init__(self) -> None:
        self._before = 0.0  # seconds, in earlier sessions
        self._began = time.monotonic()
        self._last_row = (0, 0.0)  # frames, seconds
        self._waited = {"device": 0.0, "envs": 0.0}  # seconds since the last row

    @property
    def elapsed(self) -> float:
        return self._before + time.monotonic() - self._began

    def resume(self, elapsed: float, frames: int) -> None:
        self._before = elapsed
        self._last_row = (frames, elapsed)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """For the device, or for the environments."""
        began = time.perf_counter()
        yield
        self._waited[what] += time.perf_counter() - began

    def row(self, frames: int) -> dict[str, float]:
        """Metrics of the time since the last row, and a new beginning."""
        elapsed = self.elapsed
        frames_before, elapsed_before = self._last_row
        seconds = max(elapsed - elapsed_before, 1e-9)
        row = {
            "time/elapsed_s": round(elapsed, 3),
            "time/frames_per_s": round((frames - frames_before) / seconds, 1),
        } | {
            f"time/waiting_for_{what}": round(spent / seconds, 4)
            for what, spent in self._waited.items()
        }
        self._last_row = (frames, elapsed)
        self._waited = dict.fromkeys(self._waited, 0.0)
        return row
