"""How far an explanation is, for whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""What is being done, how many of how many are done."""


def silent(doing: str, done: int, total: int) -> None:
    """Shows nothing."""
