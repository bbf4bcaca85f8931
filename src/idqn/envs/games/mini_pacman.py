"""MiniPacman: pellets, pacman, the ghost. Boxes are those of the picture that people see."""

from __future__ import annotations

from dataclasses import replace

from idqn.envs.edits import Box, Edit, GameEdits, game_edits, number, refuse, switch
from idqn.envs.mini_pacman import (
    MAZE_CELLS,
    OPEN_CELLS,
    RENDER_SCALE,
    MiniPacman,
    MiniPacmanState,
)


def _box(row: int, col: int) -> Box:
    y0, x0, y1, x1 = (RENDER_SCALE * edge for edge in MiniPacman.cell_box(row, col))
    return y0, x0, y1, x1


def _pellet_box(row: int, col: int) -> Box:
    y0, x0, y1, x1 = _box(row, col)
    return y0 + RENDER_SCALE, x0 + RENDER_SCALE, y1 - RENDER_SCALE, x1 - RENDER_SCALE


def objects(state: MiniPacmanState) -> dict[str, Box]:
    return {"pacman": _box(*state.pacman), "ghost": _box(*state.ghost)}


def _check_open(edit: str, row: int, col: int) -> None:
    if (row, col) not in OPEN_CELLS:
        raise refuse(edit, f"cell {(row, col)} is a wall", "expected a free cell")


def _pellet(state: MiniPacmanState, row: int, col: int, on: bool) -> MiniPacmanState:
    _check_open("pellet", row, col)
    cell = (row, col)
    if (cell in state.pellets) == on:
        raise refuse("pellet", f"on={on} at {cell}", "that is how it is already")
    if on and cell == state.pacman:
        raise refuse("pellet", f"pacman is on {cell}", "expected a cell it has left")
    if not on and len(state.pellets) == 1:
        raise refuse(
            "pellet", "it is the last one", "the level must not end without being eaten up"
        )
    return replace(state, pellets=state.pellets | {cell} if on else state.pellets - {cell})


def _pacman(state: MiniPacmanState, row: int, col: int) -> MiniPacmanState:
    _check_open("pacman", row, col)
    if (row, col) in state.pellets:
        raise refuse("pacman", f"a pellet is on {(row, col)}", "take it away first")
    if (row, col) in (state.pacman, state.ghost):
        raise refuse("pacman", f"{(row, col)} is taken", "expected an empty cell")
    return replace(state, pacman=(row, col))


def _ghost(state: MiniPacmanState, row: int, col: int) -> MiniPacmanState:
    _check_open("ghost", row, col)
    if (row, col) in (state.pacman, state.ghost):
        raise refuse("ghost", f"{(row, col)} is taken", "expected a cell free of pacman and ghost")
    return replace(state, ghost=(row, col))


_ROW = number("row", 1, MAZE_CELLS - 2, "row of cells from the top")
_COL = number("col", 1, MAZE_CELLS - 2, "column of cells from the left")

GAME: GameEdits[MiniPacmanState, MiniPacmanState] = game_edits(
    objects=objects,
    edits=(
        Edit(
            "pellet",
            "Put a pellet into a cell, or take it away",
            (_ROW, _COL, switch("there or not")),
            ("the cell is free", "pacman is not on it", "the last one stays"),
            _pellet,
            lambda state, row, col, on: (_pellet_box(row, col),),
        ),
        Edit(
            "pacman",
            "Move pacman",
            (_ROW, _COL),
            ("the cell is free", "neither pellet nor ghost is on it"),
            _pacman,
            lambda state, row, col: (_box(*state.pacman), _box(row, col)),
        ),
        Edit(
            "ghost",
            "Move the ghost",
            (_ROW, _COL),
            ("the cell is free", "pacman is not on it"),
            _ghost,
            lambda state, row, col: (_box(*state.ghost), _box(row, col)),
        ),
    ),
)
