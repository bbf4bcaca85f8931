"""Refusing values that make no sense, as soon as a config is built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from idqn.errors import UserError

_checking = True


def require(condition: bool, message: str) -> None:
    if _checking and not condition:
        raise UserError(message)


@contextmanager
def unchecked() -> Iterator[None]:
    """Let configs be built that make no sense yet: a command line is read in two passes."""
    global _checking
    _checking = False
    try:
        yield
    finally:
        _checking = True
