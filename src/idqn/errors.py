"""Errors a user can cause and mend. The command line prints them as one line and exits with 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """What was given, what was expected, what to do: in one sentence or two."""


class DivergenceError(Exception):
    """Training produced a NaN or an infinity; the last good checkpoint is intact."""


def nearest(name: str, known: Iterable[str], prefix: str = "; did you mean ") -> str:
    """A suggestion to append to a message: `; did you mean 'x' or 'y'?`, or nothing."""
    by_lower = {k.lower(): k for k in known}
    close = get_close_matches(name.lower(), by_lower, n=2, cutoff=0.6)
    if not close:
        return ""
    return prefix + " or ".join(f"'{by_lower[c]}'" for c in close) + "?"
