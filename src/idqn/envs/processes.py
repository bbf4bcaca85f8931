"""Worker processes: how they are born, and how they are sent home."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

_PATIENCE_S = 5.0  # with all of them together


@contextmanager
def clean_birth() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from birth, that stay on one core, and that do not run the
    user's script again, as `spawn` would: workers need nothing from it, and few scripts are written
    to stand it."""
    program = vars(sys.modules["__main__"])
    names: tuple[str, ...] = ("__file__", "__spec__")
    hidden = {name: program[name] for name in names if name in program}
    one_thread = ("OMP_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")  # read when numpy, OpenCV load
    threads = {name: os.environ.get(name) for name in one_thread}
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        program.update(dict.fromkeys(hidden))
        os.environ.update(dict.fromkeys(one_thread, "1"))
        yield
    finally:
        program.update(hidden)
        for name, value in threads.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def dismiss(pipes: list[Connection], processes: list[Any]) -> None:
    for pipe in pipes:
        pipe.close()  # a worker ends when its pipe does
    end = time.monotonic() + _PATIENCE_S
    for process in processes:
        process.join(timeout=max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
