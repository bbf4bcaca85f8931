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


def export(run: RunDir, frames: int, target: Path, evaluations: bool = True) -> RunDir:
    """Write a small run directory with the checkpoint at `frames`: weights alone, large ones in
    half precision, some rows of metrics, and what tables are made of: the stored Agreement and, if
    they are wanted, evaluations. It is still the same run, and keeps its id."""
    weights = checkpoint.load_weights(run, frames)
    small = RunDir(target)
    small.checkpoints.mkdir(parents=True)
    small.system_file.write_bytes(run.system_file.read_bytes())
    rows = [row for row in run.metrics() if row["frames"] <= frames]
    lines = [json.dumps(row) for row in thinned(rows, _ROWS)]
    write_atomically(small.metrics_file, "".join(f"{line}\n" for line in lines).encode())
    checkpoint.save_weights(small, frames, {name: _small(w) for name, w in weights.items()})
    if evaluations:
        for name, data in run.evaluations().items():
            if data.get("frames_trained", 0) <= frames:
                _write_json(small.evaluation(name), data)
    _keep_agreement(run, small, frames)
    write_atomically(small.config_file, to_json(run.config()).encode())  # now it is a run
    return small


def _keep_agreement(run: RunDir, small: RunDir, frames: int) -> None:
    """If there is one, and it is not of a later checkpoint."""
    kind = "agreement"
    try:
        found = json.loads(run.explanation(kind).read_text())
        arrays = run.explanation_arrays(kind).read_bytes()
        later = found["about"]["frames"] > frames
    except (OSError, ValueError, KeyError, TypeError):
        return
    if not later:
        _write_json(small.explanation(kind), found)
        write_atomically(small.explanation_arrays(kind), arrays)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(data, indent=1).encode() + b"\n")


def thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Evenly spaced rows, at most so many, up to the last."""
    count = min(most, len(rows))
    return [rows[(number + 1) * len(rows) // count - 1] for number in range(count)]


def size_mb(run: RunDir) -> float:
    """Of all files, in 2**20 bytes."""
    return sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file()) / 2**20


def _small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half() if tensor.numel() >= _LARGE else tensor
