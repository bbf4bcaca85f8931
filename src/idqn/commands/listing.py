"""`idqn runs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from idqn.errors import UserError
from idqn.run_dir import DEFAULT_ROOT


@dataclass(frozen=True)
class RunsOptions:
    """List run directories with progress and scores."""

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = DEFAULT_ROOT
    """Where to look."""


def runs(options: RunsOptions) -> int:
    from idqn import checkpoint, console
    from idqn.run_dir import find_runs

    if not options.directory.is_dir():
        raise UserError(f"there is no directory '{options.directory}'; train something first")
    rows = []
    for run in find_runs(options.directory):
        try:
            config = run.config()
        except UserError:
            rows.append([str(run.path), "config.json cannot be read", *[""] * 6])
            continue
        metrics = run.last_metrics()
        frames = max([metrics.get("frames", 0), *checkpoint.complete(run)])
        rows.append(
            [
                str(run.path),
                config.env.id,
                config.agent.name,
                str(config.train.seed),
                f"{frames:,} ({100 * frames / config.train.frames:.0f} %)",
                console.number(metrics.get("return_last_100")),
                console.number(metrics.get("return_best_100")),
                console.number((run.newest_evaluation(config) or {}).get("mean")),
            ]
        )
    headings = ["run", "environment", "agent", "seed", "frames", "last 100", "best 100"]
    console.print_table([*headings, "evaluated"], rows)
    return 0
