"""Independent pieces of work, side by side: emulators and networks leave the interpreter to others
while they compute, and one job's games are waited for while another's are played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from idqn.explain.progress import Progress, silent

T = TypeVar("T")


class _Stopped(Exception):
    """Another job has failed, or somebody wants to leave."""


def _nothing() -> None:
    """There is nothing that they wait for."""


def side_by_side(
    jobs: Sequence[Callable[[Progress], T]],
    progress: Progress = silent,
    give_up: Callable[[], None] = _nothing,
) -> list[T]:
    """What each returns. Nothing may be shared by them that changes, unless it is locked. Shown is
    the progress of the first that is not done. If one fails, or somebody wants to leave, the others
    stop when they next report progress; `give_up` ends what they might be waiting for instead."""
    stop = Event()
    finished = [False] * len(jobs)

    def run(number: int) -> T:
        def show(doing: str, done: int, total: int) -> None:
            if stop.is_set():
                raise _Stopped
            if all(finished[:number]):
                progress(doing, done, total)

        found = jobs[number](show)
        finished[number] = True
        return found

    with ThreadPoolExecutor(max(1, len(jobs))) as pool:
        futures = [pool.submit(run, number) for number in range(len(jobs))]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()  # if one has failed, it is among these, and nobody was stopped yet
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            give_up()
            raise
