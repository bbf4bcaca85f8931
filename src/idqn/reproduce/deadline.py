"""Stopping after so long, so that the same command can go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

UNFINISHED = 75
"""Exit code of a command that should be given again (EX_TEMPFAIL)."""


class OutOfTimeError(Exception):
    """The rest is for the next command."""


class Deadline:
    def __init__(self, minutes: float = float("inf")) -> None:
        self._end = time.monotonic() + 60 * minutes

    @property
    def passed(self) -> bool:
        return time.monotonic() > self._end

    def require(self, purpose: str) -> None:
        """`purpose` is what there must be time for."""
        if self.passed:
            raise OutOfTimeError(f"no time left {purpose}")

    def watching(self, observer: Callable[[Any], None]) -> Callable[[Any], None]:
        """The observer of a training, which is stopped when time is up."""

        def watch(progress: Any) -> None:
            observer(progress)
            if self.passed:
                signal.raise_signal(signal.SIGTERM)  # as if somebody had: checkpoints are written

        return watch


def require_frames(what: str, done: int, wanted: int) -> None:
    """A training that was stopped, by the deadline or by somebody, is for the next command."""
    if done < wanted:
        raise OutOfTimeError(f"{what}: stopped at {done:,} of {wanted:,} frames")
