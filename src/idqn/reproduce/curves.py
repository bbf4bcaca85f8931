"""Curves of training: the running mean of 100 episodes, of each seed and of all together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idqn.reproduce.published import DDQN, DOPAMINE, IDQN, SCALES, of_agent
from idqn.reproduce.results import CellResult, Results
from idqn.reproduce.scores import last_at, rows
from idqn.run_dir import RunDir

Floats = NDArray[np.float64]
_POINTS = 200  # of a curve, at most: a chart has not many more pixels


@dataclass(frozen=True, eq=False)
class Together:
    """Of all seeds, where all have values."""

    frames: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Curve:
    name: str
    seeds: dict[int, tuple[Floats, Floats]]
    """Frames and scores of each, also of runs that have not come to their end."""
    together: Together | None
    """Of two seeds or more."""


@dataclass(frozen=True)
class Mark:
    """A published number."""

    name: str
    value: float
    agent: str | None = None
    """Ours of the same kind."""


@dataclass(frozen=True, eq=False)
class Panel:
    """What there is of a game."""

    game: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...]


def panels(results: Results) -> list[Panel]:
    games: dict[str, list[CellResult]] = {}
    for result in results.cells:
        games.setdefault(result.cell.game, []).append(result)
    return [
        Panel(game, tuple(curve(each, results.frames) for each in cells), _marks(game, cells))
        for game, cells in games.items()
    ]


def curve(result: CellResult, frames: int) -> Curve:
    seeds = {}
    for score in result.scores:
        run = RunDir(Path(score.run))
        last = last_at(run.config(), frames)
        points = [
            (row["frames"], row["return_last_100"])
            for row in rows(run)
            if row["frames"] <= last and row.get("return_last_100") is not None
        ]
        if points:
            x, y = np.array(points, np.float64).T
            some = np.unique(np.linspace(0, len(x) - 1, _POINTS).round().astype(np.int64))
            seeds[score.seed] = (x[some], y[some])
    return Curve(result.cell.config.agent.name, seeds, together(list(seeds.values())))


def together(seeds: list[tuple[Floats, Floats]]) -> Together | None:
    """Mean and range, from the first frame that all seeds have to the last; in between, straight
    lines."""
    if len(seeds) < 2:
        return None
    first, last = max(x[0] for x, _ in seeds), min(x[-1] for x, _ in seeds)
    if first > last:
        return None
    frames = np.unique(np.concatenate([x[(x >= first) & (x <= last)] for x, _ in seeds]))
    scores = np.stack([np.interp(frames, x, y) for x, y in seeds])
    return Together(frames, scores.mean(0), scores.min(0), scores.max(0))


def _marks(game: str, cells: list[CellResult]) -> tuple[Mark, ...]:
    """The paper's number for each of our agents, Dopamine's, and random play."""
    marks = []
    for agent in dict.fromkeys(result.cell.config.agent.name for result in cells):
        column = of_agent(agent, game)
        if column is not None:
            name = f"paper's {column.name}" if column in (IDQN, DDQN) else column.name
            millions = column.frames // 1_000_000
            marks.append(Mark(f"{name} ({millions}M)", column.scores[game], agent))
    for frames, scores in DOPAMINE.items():
        if game in scores:
            for name, value in zip(("C51", "Rainbow"), scores[game], strict=True):
                marks.append(Mark(f"Dopamine {name} ({frames // 1_000_000}M)", value))
    if game in SCALES:
        marks.append(Mark("random play", SCALES[game].random))
    return tuple(marks)
