"""Writing checkpoints beside training."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Saving:
    """Compressing and writing a checkpoint, `beside` training where a GPU does the training: what
    is written are copies then, and a core to spare."""

    def __init__(self, beside: bool) -> None:
        self._thread = ThreadPoolExecutor(1, "idqn-checkpoint") if beside else None
        self._writing: Future[None] | None = None

    def begin(self, write: Callable[[], None]) -> None:
        if self._thread is None:
            write()
        else:
            self._writing = self._thread.submit(write)

    def finish(self) -> None:
        """Wait for the last one; raises what went wrong with it."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
