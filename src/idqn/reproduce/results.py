"""A study's cells with what their runs scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from idqn.reproduce.estimate import Estimate, over_seeds
from idqn.reproduce.matching import find
from idqn.reproduce.scores import Score, score
from idqn.reproduce.studies import Cell, Study


@dataclass(frozen=True)
class CellResult:
    cell: Cell
    scores: tuple[Score, ...]
    """Of the runs that there are, one for each seed, also of those that count for nothing yet."""
    missing: tuple[int, ...]
    """Seeds without a run."""

    def values(self, name: str) -> dict[int, float]:
        """By seed, of those that have it."""
        found = {score.seed: score.values.get(name) for score in self.scores if score.reached}
        return {seed: value for seed, value in found.items() if value is not None}

    def estimate(self, name: str) -> Estimate | None:
        """Over the seeds that have it."""
        return over_seeds(list(self.values(name).values()))

    @property
    def lacking(self) -> str:
        """What stands where there is no value."""
        if self.scores and not any(score.reached for score in self.scores):
            return "unfinished"
        return "missing"

    @property
    def wanted(self) -> int:
        """Seeds."""
        return len(self.scores) + len(self.missing)


@dataclass(frozen=True)
class Results:
    study: Study
    frames: int
    seeds: tuple[int, ...]
    cells: tuple[CellResult, ...]
    remarks: tuple[str, ...]
    """What a reader should know of single runs: which are not counted, and why."""

    @property
    def incomplete(self) -> bool:
        """Whether something is missing that training or measuring could give."""
        names = ["agreement"] if self.study.measure == "agreement" else []
        names += ["evaluation"] if self.study.evaluated else []
        return any(
            cell.missing
            or not all(score.reached for score in cell.scores)
            or any(len(cell.values(name)) < cell.wanted for name in names)
            for cell in self.cells
        )


def gather(study: Study, seeds: Sequence[int], folder: Path, frames: int) -> Results:
    """Read what there is; nothing is trained or played."""
    found = find(study, seeds, folder)
    cells = []
    for number, cell in enumerate(study.cells):
        runs = {seed: found.runs.get((number, seed)) for seed in seeds}
        scores = [score(run, frames, study.measure) for run in runs.values() if run is not None]
        missing = tuple(seed for seed, run in runs.items() if run is None)
        cells.append(CellResult(cell, tuple(scores), missing))
    of_runs = [remark for cell in cells for own in cell.scores for remark in own.remarks]
    return Results(study, frames, tuple(seeds), tuple(cells), (*of_runs, *found.remarks))
