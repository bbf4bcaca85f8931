"""What every benchmark result says about itself, whichever program was measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

FRAMES_PER_STEP = 4
STEPS_PER_UPDATE = 4
WARM_UP_UPDATES = 100


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Python and the packages, by the names `pip` knows them by; None if it does not know one,
    such as idqn run from where its source lies."""
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def hardware(gpu: str | None = None) -> dict[str, Any]:
    """The machine, and how busy others kept it just before (call this first)."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "gpu": gpu,
        "load_average_1_min": round(os.getloadavg()[0], 2),
    }


def rates(seconds: float, steps: int, updates: float) -> dict[str, float]:
    """Throughput over the measured window; `steps` are agent steps of all environments."""
    return {
        "seconds": round(seconds, 2),
        "frames_per_s": round(FRAMES_PER_STEP * steps / seconds, 1),
        "agent_steps_per_s": round(steps / seconds, 1),
        "updates_per_s": round(updates / seconds, 2),
    }


def publish(result: dict[str, Any], path: Path | None) -> None:
    """Print the result, and write it to `path` if one was given."""
    text = json.dumps(result, indent=1)
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
