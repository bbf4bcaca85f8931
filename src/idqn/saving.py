"""Writing checkpoints beside training."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from idqn import checkpoint
from idqn.checkpoint import Checkpoint
from idqn.run_dir import RunDir


class Saving:
    """Compressing and writing a checkpoint, `beside` training where a GPU does the training: what
    is written are copies then, and a core to spare."""

    def __init__(self, beside: bool, keep: int) -> None:
        self._thread = ThreadPoolExecutor(1, "idqn-checkpoint") if beside else None
        self._writing: Future[None] | None = None
        self._keep = keep

    def begin(
        self, runs: Sequence[RunDir], frames: int, checkpoints: list[Checkpoint], best: list[int]
    ) -> None:
        """One checkpoint of each run; those of the runs number `best` are their best so far."""
        write = partial(_write, runs, frames, checkpoints, best, self._keep)
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


def _write(
    runs: Sequence[RunDir],
    frames: int,
    checkpoints: list[Checkpoint],
    best: list[int],
    keep: int,
) -> None:
    for run, own in zip(runs, checkpoints, strict=True):
        checkpoint.save(run, frames, own)
    for number in best:
        checkpoint.mark_best(runs[number], frames)
    for run in runs:  # only once all have the new one: resuming needs a common one
        checkpoint.prune(run, keep)
