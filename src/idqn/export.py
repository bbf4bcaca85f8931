"""Trained agents, small enough to send or to ship: run directories without what only training
needs. They can be played, measured and explained like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from idqn import checkpoint
from idqn.config import to_json
from idqn.run_dir import RunDir, write_atomically

_LARGE = 100_000  # numbers: below it a tensor, such as the mean image, is kept as it is
_ROWS = 200  # of metrics: enough for a curve


def export(run: RunDir, frames: int, target: Path) -> RunDir:
    """Write a small run directory with the checkpoint at `frames`: weights alone, large ones in
    half precision, and some rows of metrics. It is still the same run, and keeps its id."""
    weights = checkpoint.load_weights(run, frames)
    small = RunDir(target)
    small.checkpoints.mkdir(parents=True)
    small.system_file.write_bytes(run.system_file.read_bytes())
    rows = [row for row in run.metrics() if row["frames"] <= frames]
    lines = [json.dumps(row) for row in thinned(rows, _ROWS)]
    write_atomically(small.metrics_file, "".join(f"{line}\n" for line in lines).encode())
    checkpoint.save_weights(small, frames, {name: _small(w) for name, w in weights.items()})
    write_atomically(small.config_file, to_json(run.config()).encode())  # now it is a run
    return small


def thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Evenly spaced rows, at most so many, up to the last."""
    count = min(most, len(rows))
    return [rows[(number + 1) * len(rows) // count - 1] for number in range(count)]


def size_mb(run: RunDir) -> float:
    """Of all files, in 2**20 bytes."""
    return sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file()) / 2**20


def _small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half() if tensor.numel() >= _LARGE else tensor
