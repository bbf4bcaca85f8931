"""Comparing runs bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from idqn import checkpoint
from idqn.run_dir import RunDir


def metrics(path: Path) -> list[dict[str, Any]]:
    """All rows, without what the clock decides."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def assert_same_checkpoint(one: Path, other: Path) -> None:
    """Weights, optimiser, replay, environments and statistics, to the bit."""
    first, second = (checkpoint.load(RunDir(p), checkpoint.find(RunDir(p))) for p in (one, other))
    for kind in ("weights", "training", "replay"):
        left, right = getattr(first, kind), getattr(second, kind)
        assert left.keys() == right.keys()
        for name in left:
            assert torch.equal(left[name], right[name]), f"{kind} {name}"
    ignored = {"elapsed_s", "metrics_bytes", "population", "member"}  # clocks, names
    for name in first.state.keys() - ignored:
        assert first.state[name] == second.state[name], name
