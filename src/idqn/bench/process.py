"""Measurements in processes of their own: their memory and start-up are then theirs alone."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from idqn.envs.worker import end_with_parent
from idqn.errors import UserError

T = TypeVar("T")
Say = Callable[[str, str], None]
"""Told what is being done, and how far it is."""


def alone(function: Callable[..., T], *arguments: Any, say: Say) -> T:
    """What `function` returns in a process of its own; it ends with this one's patience."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    # not a daemon, which could have no emulator processes
    process = context.Process(target=_work, args=(theirs, function, arguments))
    with _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    try:
        while isinstance(message := ours.recv(), _News):
            say(*message)
    except EOFError:
        process.join()
        raise UserError(
            f"a measuring process ended early, with exit code {process.exitcode}; if a signal "
            f"killed it (-9), there may not have been enough memory"
        ) from None
    except BaseException:
        process.terminate()
        raise
    finally:
        ours.close()
        process.join(timeout=20)
        process.kill()
        process.join()
    if isinstance(message, Exception):
        raise message
    result: T = message
    return result


class _News(NamedTuple):
    doing: str
    how_far: str


def _work(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()

    def say(doing: str, how_far: str) -> None:
        pipe.send(_News(doing, how_far))

    with suppress(BrokenPipeError):  # nobody waits for it any more
        try:
            pipe.send(function(*arguments, say=say))
        except Exception as error:
            error.add_note(f"In the measuring process:\n{traceback.format_exc()}")
            pipe.send(error)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes born meanwhile ignore Ctrl-C: whoever started them decides when they end."""
    with _handling(signal.SIGINT, signal.SIG_IGN):
        yield


@contextmanager
def tidy_when_terminated() -> Iterator[None]:
    """SIGTERM, too, ends what was begun, and throws away what was written."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    with _handling(signal.SIGTERM, leave):
        yield


@contextmanager
def _handling(number: signal.Signals, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
