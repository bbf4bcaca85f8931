"""Results of measurements as JSON: always a list, and with the machine they are from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from idqn.errors import UserError
from idqn.run_dir import write_atomically


def check_place(path: Path | None) -> None:
    """What would otherwise be found out when all has been measured."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise UserError(f"there is no directory '{path.parent}' for --json {path}; make it first")
    if path.exists():
        raise UserError(f"'{path}' exists already; choose another name for --json")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"'{path.parent}' cannot be written to; choose another place for --json")


def machine(info: dict[str, Any]) -> dict[str, Any]:
    """Where and with what; the last part of every result."""
    hardware = {name: info[name] for name in ("device", "cpu", "cores", "platform")}
    return {
        "hardware": hardware,
        "versions": {"python": info["python"]} | info["versions"],
        "started": info["started"],
    }


def load_average() -> float:
    """Of the last minute."""
    return round(os.getloadavg()[0], 2)


def write(results: list[dict[str, Any]], path: Path | None) -> None:
    if path is not None:
        write_atomically(path, (json.dumps(results, indent=2) + "\n").encode())
