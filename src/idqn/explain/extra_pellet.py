"""The paper's first adversarial example: a pellet is put back beside the way the agent takes.

An agent that has learnt to eat pellets takes it along; one that repeats what it did in training
passes by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from idqn.agent import Agent
from idqn.envs.editable import EditableAtari
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.games import mspacman
from idqn.envs.games.mspacman_mazes import MAZES
from idqn.envs.mini_pacman import ENV_ID as MINI_PACMAN
from idqn.envs.mini_pacman import OPEN_CELLS, Cell
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.mazes import distances, open_cells
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import (
    COUNTERFACTUAL,
    FACTUAL,
    Game,
    Trajectory,
    Twins,
    check_step,
    compared,
    first_with_place,
    goes_on,
    play_twins,
    record,
    seconds_ahead,
    walk,
)

GAMES = ("ALE/MsPacman-v5", MINI_PACMAN)
FARTHEST = 3  # cells from the agent's way


@dataclass(frozen=True, eq=False, kw_only=True)
class ExtraPellet(Twins):
    kind: ClassVar[str] = "extra-pellet"
    cell: tuple[int, int]
    distance: int
    """Cells from the agent's way to the pellet."""
    passed: int
    """Steps after the change at which the unchanged game comes so near."""
    horizon: int
    """Steps, from when the agent decides, within which the way comes near; it does not visit the
    cell for twice as long."""
    nearest: int
    """Cells from the pellet to where the agent came in the same steps, with the pellet there."""
    eaten: int | None
    """Steps after the change at which it is eaten; None: never in this game."""


def extra_pellet(
    agent: Agent,
    step: int | None = None,
    seed: int = EVALUATION_SEED,
    horizon: int | None = None,
    max_steps: int = 1_000,
    progress: Progress = silent,
) -> ExtraPellet:
    """Play a game, put a pellet back beside its way, and play on with and without it. Without a
    step, games that offer no place, or are over before the film is, give way to the next seed's."""
    ahead = seconds_ahead(agent, horizon)
    env = make_editable(agent.config.env)
    try:
        trajectory, place = first_with_place(
            lambda game: _choose(env, game, step, ahead),
            lambda number: record(agent, env, number, max_steps, progress),
            seed,
            step,
        )
        pellet = _pellet_at(place.cell)
        settle = env.settle_steps
        filmed = settle + ahead
        for _ in walk(env, trajectory, [place.step]):
            box, cells = env.region("pellet", **pellet), _seen(env).open_cells
        sides = play_twins(
            agent,
            env,
            trajectory,
            place.step,
            {FACTUAL: None, COUNTERFACTUAL: ("pellet", pellet)},
            filmed,
            max(max_steps - place.step, filmed),
            _seen,
            progress,
        )
    finally:
        env.close()
    seen = sides[COUNTERFACTUAL].watched
    gone = [i for i, moment in enumerate(seen) if i and place.cell not in moment.pellets]
    away = distances(cells, [place.cell])
    row, col = place.cell
    return ExtraPellet(
        **compared(agent, sides, progress),
        seed=trajectory.seed,
        step=place.step,
        game_steps=len(trajectory),
        because=_because(step is not None, place.whole),
        changes={FACTUAL: "nothing", COUNTERFACTUAL: f"a pellet in row {row}, column {col}"},
        boxes=np.array(box, np.int64),
        settle=settle,
        filmed=filmed,
        cell=place.cell,
        distance=place.distance,
        passed=place.passed,
        horizon=ahead,
        nearest=min(
            (away.get(moment.pacman, len(cells)) for moment in seen[settle : filmed + 1]),
            default=len(cells),
        ),
        eaten=gone[0] if gone else None,
    )


class _Place(NamedTuple):
    step: int
    cell: Cell
    distance: int
    passed: int
    whole: bool


class _Moment(NamedTuple):
    pacman: Cell
    pellets: frozenset[Cell]
    open_cells: frozenset[Cell]


def _choose(env: Game, trajectory: Trajectory, step: int | None, ahead: int) -> _Place:
    check_step(step, trajectory)
    game = [_seen(env) for _ in walk(env, trajectory)]
    env.step(int(trajectory.actions[-1]))
    game.append(_seen(env))  # where it ends, it has been too
    steps = range(len(trajectory)) if step is None else [step]
    settle = env.settle_steps
    found = [
        _Place(at, *place, goes_on(trajectory, at, settle + ahead))
        for at in steps
        for place in _beside(game, at, settle, ahead)
    ]
    middle = len(trajectory) / 2
    found.sort(key=lambda p: (not p.whole, p.distance, abs(p.step - middle), p.passed, p.cell))
    for place in found:
        for _ in walk(env, trajectory, [place.step]):
            if _pellet_at(place.cell) in env.choices("pellet"):
                return place
    where = "at any step" if step is None else f"at step {step}"
    raise UserError(
        f"no pellet can be put back {where} of this game: each cell that was eaten empty is more "
        f"than {FARTHEST} cells from the agent's way, or it comes there itself within "
        f"{2 * ahead} steps; choose another --step or --seed"
    )


def _beside(
    game: list[_Moment], step: int, settle: int, ahead: int
) -> Iterator[tuple[Cell, int, int]]:
    """Empty cells beside the way ahead, which the way itself does not visit; how far from it, and
    after how many steps the way passes."""
    now = game[step]
    visited = {moment.pacman for moment in game[step : step + settle + 2 * ahead]}
    way = [moment.pacman for moment in game[step + settle : step + settle + ahead + 1]]
    for cell in now.open_cells - now.pellets - visited:
        away = distances(now.open_cells, [cell])
        near = [away.get(at, FARTHEST + 1) for at in way]
        if near and min(near) <= FARTHEST:
            yield cell, min(near), settle + near.index(min(near))


def _because(given: bool, whole: bool) -> str:
    if given:
        return "the step asked for; of its empty cells beside the way ahead, the nearest to it"
    which = (
        "all steps after which this game goes on for the whole film"
        if whole
        else "all steps (no game that was tried goes on for the whole film)"
    )
    return (
        f"an empty cell is nearest to the way ahead here, of {which}; of several such steps, the "
        f"one nearest to the middle of the game"
    )


def _pellet_at(cell: Cell) -> dict[str, Any]:
    return {"row": cell[0], "col": cell[1], "on": True}


def _seen(env: Game) -> _Moment:
    if isinstance(env, EditableMiniPacman):
        return _Moment(env.state.pacman, env.state.pellets, frozenset(OPEN_CELLS))
    assert isinstance(env, EditableAtari)
    ram = env.ram.tolist()
    cells = _maze_cells(ram[mspacman.MAZE])
    pills = frozenset(mspacman.PILL_CELLS)  # where pills are, or were, no pellet can be
    pellets = pills.union(cell for cell in cells if mspacman.has_pellet(ram, *cell))
    top, left, bottom, right = mspacman.objects(ram)["pacman"]
    middles = np.array([_middle(cell) for cell in cells])
    away = np.abs(middles - ((top + bottom) / 2, (left + right) / 2)).sum(1)
    return _Moment(cells[int(away.argmin())], pellets, frozenset(cells))


@cache
def _maze_cells(number: int) -> tuple[Cell, ...]:
    """Of MsPacman."""
    if number >= len(MAZES):
        raise UserError(f"maze {number} of MsPacman is not known; expected 0 to {len(MAZES) - 1}")
    return tuple(sorted(open_cells(MAZES[number])))


@cache
def _middle(cell: Cell) -> tuple[float, float]:
    """Of a cell's pellet, on MsPacman's screen."""
    ((top, left, bottom, right),) = mspacman.GAME.edits["pellet"].boxes((), *cell, True)
    return (top + bottom) / 2, (left + right) / 2
