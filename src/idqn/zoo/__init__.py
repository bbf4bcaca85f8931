"""Trained agents that come with idqn, each a small run directory (`idqn export` makes them).

`zoo:NAME` stands for one wherever a run is named. What is written about it goes to a copy under
`runs/zoo/`, because the folder of an installed package is nobody's to write to.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from idqn.errors import UserError, nearest

PREFIX = "zoo:"
_AGENTS = Path(__file__).parent / "agents"


def names() -> list[str]:
    if not _AGENTS.is_dir():
        return []
    return sorted(path.name for path in _AGENTS.iterdir() if (path / "config.json").is_file())


def shipped(name: str) -> Path:
    """The run directory of the agent `name`, to read from."""
    known = names()
    if name not in known:
        there = f"it has {', '.join(known)}" if known else "it is empty"
        raise UserError(f"there is no '{name}' in the zoo{nearest(name, known)} ({there})")
    return _AGENTS / name


def copied(name: str, root: Path) -> Path:
    """A copy of it under `root`, made unless it is there already, to read from and write to."""
    source, target = shipped(name), root / "zoo" / name
    if not target.exists():
        temporary = target.with_name(f".{name}.{os.getpid()}")
        try:
            shutil.copytree(source, temporary)
            temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    if _seals(source) != _seals(target):
        raise UserError(
            f"'{target}' is not the agent that this idqn calls '{PREFIX}{name}': another version "
            f"put it there; move it away, or delete it"
        )
    return target


def _seals(run: Path) -> dict[str, bytes]:
    """What says which weights a run has."""
    return {
        file.parent.name: file.read_bytes() for file in sorted(run.glob("checkpoints/*/COMPLETE"))
    }
