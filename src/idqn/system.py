"""The machine a run happens on."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from idqn.errors import UserError


def resolve_device(name: str) -> torch.device:
    """A torch device from `cpu`, `cuda`, `cuda:N` or `auto`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"unknown device '{name}'; use cpu, cuda, cuda:N or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"device '{name}' was asked for, but torch sees {torch.cuda.device_count()} CUDA "
            f"devices; use --device cpu or auto, or install a CUDA build of torch"
        )
    return device


def use_device(device: torch.device) -> None:
    """Make it the calling thread's current one: that is where graphs are recorded, events and
    streams belong, and our kernels are launched, wherever their tensors are."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


def default_threads(device: torch.device) -> int:
    """All cores on the CPU; one beside a GPU, where more would fight the emulators."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def system_info(device: torch.device) -> dict[str, Any]:
    """Hardware and versions, for `system.json` and benchmarks."""
    packages = ("idqn", "torch", "numpy", "gymnasium", "ale-py", "safetensors")
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
    }


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
