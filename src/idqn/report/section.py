"""One explanation's part of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Section:
    kind: str
    title: str
    reading: str
    """One sentence: how to read it."""
    caveat: str
    """One sentence: what it does not show."""
    html: str
    """What is drawn; texts in it are escaped already."""
    finding: str = ""
    """A sentence computed from the numbers, if there is something to say."""
    weight: float = 0.0
    """How much the finding is worth telling first, from 0 to 1."""
    data: dict[str, Any] = field(default_factory=dict)
    """For `script`, as JSON: `idqn.data(KIND)`."""
    script: str = ""
    """Name of a file in `templates/` that makes the drawing move."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What lies beside the page, by file name."""
