"""Which run directories are a study's cells: those whose configs agree in all that decides what is
learnt. Runs that are near but differ are named, and not counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from idqn.config import Config
from idqn.errors import UserError
from idqn.reproduce.scores import trained_frames
from idqn.reproduce.settings import Difference, deciding, differences
from idqn.reproduce.studies import Cell, Study
from idqn.run_dir import RunDir, find_runs

Place = tuple[int, int]  # number of the cell, seed


class Found(NamedTuple):
    runs: dict[Place, RunDir]
    remarks: tuple[str, ...]


def find(study: Study, seeds: Sequence[int], folder: Path) -> Found:
    """The study's runs under `folder`, of the seeds that are wanted."""
    known = {_key(cell.config): number for number, cell in enumerate(study.cells)}
    kinds = {(cell.config.env.id, cell.config.agent.name) for cell in study.cells}
    candidates: dict[Place, list[RunDir]] = {}
    remarks = []
    for run in find_runs(folder):
        try:
            config = run.config()
        except UserError:
            remarks.append(f"{run.path} is not counted: its config.json cannot be read")
            continue
        number, seed = known.get(_key(config)), config.train.seed
        if number is not None and seed in seeds:
            candidates.setdefault((number, seed), []).append(run)
        elif number is not None:
            wanted = " ".join(map(str, seeds))
            remarks.append(f"{run.path} is not counted: its seed is {seed}, not of {wanted}")
        elif (config.env.id, config.agent.name) in kinds:
            remarks.append(f"{run.path} is not counted: {_nearest(config, study.cells)}")
    runs = {}
    for place, several in candidates.items():
        runs[place], *others = sorted(several, key=lambda r: (-trained_frames(r), str(r.path)))
        remarks += [f"{run.path} is not counted: {_twin(run, runs[place])}" for run in others]
    return Found(runs, tuple(remarks))


def _key(config: Config) -> str:
    """Equal for configs that differ in nothing but the seed."""
    return json.dumps({name: v for name, v in deciding(config).items() if name != "train.seed"})


def _nearest(config: Config, cells: Sequence[Cell]) -> str:
    """How it differs from the cell that it is nearest to."""
    own = [
        differences(config, cell.of_seed(config.train.seed))
        for cell in cells
        if (cell.config.env.id, cell.config.agent.name) == (config.env.id, config.agent.name)
    ]
    first, *others = min(own, key=len)
    more = f" (and {len(others)} more fields differ)" if len(others) > 1 else ""
    more = " (and one more field differs)" if len(others) == 1 else more
    return f"{_said(first)}{more}"


def _said(difference: Difference) -> str:
    return f"{difference.field} is {_value(difference.theirs)}, not {_value(difference.ours)}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _twin(run: RunDir, counted: RunDir) -> str:
    if run.identity is not None and run.identity == counted.identity:
        return f"it is a copy of {counted.path}"
    return f"{counted.path} has the same settings and the same seed"
