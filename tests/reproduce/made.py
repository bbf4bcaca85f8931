"""Run directories as training would leave them, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from idqn.config import Config
from idqn.run_dir import RunDir


def metrics_row(frames: int, best: float, last: float | None = None, episodes: int = 150) -> Any:
    return {
        "frames": frames,
        "episodes": episodes,
        "return_last_100": best if last is None else last,
        "return_best_100": best,
    }


def make_run(
    path: Path,
    config: Config,
    rows: list[dict[str, Any]],
    evaluations: list[dict[str, Any]] | None = None,
) -> RunDir:
    run = RunDir.create_all([path], [config], {})[0]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, data in enumerate(evaluations or []):
        file = run.evaluation(str(number))
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(data))
    return run


def played(config: Config, frames: int, mean: float, episodes: int = 10) -> dict[str, Any]:
    """A stored evaluation."""
    return {
        "policy": config.agent.name,
        "frames_trained": frames,
        "episodes": episodes,
        "sticky_probability": config.env.sticky_probability,
        "mean": mean,
    }
