"""Ms. Pac-Man: pellets, power pills, Ms. Pac-Man, the ghosts.

Cells are 14 rows by 18 columns. Eaten pellets and pills are counted; the level ends when the count
reaches their number, so whatever comes or goes is counted too.
"""

from __future__ import annotations

from idqn.envs.edits import (
    Box,
    Edit,
    GameEdits,
    Pokes,
    Ram,
    changed,
    game_edits,
    number,
    one_of,
    refuse,
    switch,
    touch,
)
from idqn.envs.games.mspacman_mazes import MAZES

MAZE, EATEN, PILLS = 0, 119, 117
PACMAN_X, PACMAN_Y, PACMAN_DIRECTIONS = 10, 16, (5, 56)
GHOSTS = ("sue", "inky", "pinky", "blinky")
GHOST_STATE, GHOST_X, GHOST_Y, EDIBLE_TIME = 1, 6, 12, 116
IN_HOUSE = 14  # from this on, bits 3 to 6 of a ghost's state say that it is at home or leaving
EDIBLE, EDIBLE_TICKS = 0x80, 61  # as after the first level's pills
DIRECTIONS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}  # in RAM 0 to 3

# Byte and bit of each column's pellet in the first row; three bytes further for each row below.
# fmt: off
_BITS = (
    (59, 64), (60, 128), (60, 32), (60, 8), (60, 2), (61, 1), (61, 4), (61, 16), (61, 64),
    (60, 64), (60, 16), (60, 4), (60, 1), (61, 2), (61, 8), (61, 32), (61, 128), (59, 16),
)
# fmt: on
PILL_BITS = (32, 8, 16, 4)
PILL_CELLS = ((1, 0), (1, 17), (12, 0), (12, 17))

ROWS, COLS = len(MAZES[0]), len(MAZES[0][0])


def _maze(ram: Ram, edit: str) -> tuple[str, ...]:
    if ram[MAZE] >= len(MAZES):
        raise refuse(edit, f"byte 0 says maze {ram[MAZE]}", "mazes 0 to 3 are known")
    return MAZES[ram[MAZE]]


def _is_open(maze: tuple[str, ...], row: int, col: int) -> bool:
    return 0 <= row < ROWS and 0 <= col < COLS and maze[row][col] != "#"


def _x(col: int) -> int:
    """Screen column of a cell's pellet; the two halves of the maze are 4 pixels further apart."""
    return 8 + 8 * col + 4 * (col > 8)


def _pellet_box(row: int, col: int) -> Box:
    return 7 + 12 * row, _x(col), 9 + 12 * row, _x(col) + 4


def _pill_box(i: int) -> Box:
    row, col = PILL_CELLS[i]
    return 2 + 12 * row, _x(col), 10 + 12 * row, _x(col) + 4


def _figure_box(x: int, y: int) -> Box:
    """From the bytes of a figure's position."""
    return y, x - 12, y + 11, x - 4


def _cell_position(row: int, col: int) -> tuple[int, int]:
    return _x(col) + 10, 12 * row + 2


def _pacman(ram: Ram) -> Box:
    return _figure_box(ram[PACMAN_X], ram[PACMAN_Y])


def _ghost_box(ram: Ram, i: int) -> Box:
    return _figure_box(ram[GHOST_X + i], ram[GHOST_Y + i])


def objects(ram: Ram) -> dict[str, Box]:
    return {"pacman": _pacman(ram)} | {name: _ghost_box(ram, i) for i, name in enumerate(GHOSTS)}


def has_pellet(ram: Ram, row: int, col: int) -> bool:
    byte, bit = _BITS[col]
    return bool(ram[byte + 3 * row] & bit)


def left(ram: Ram) -> int:
    """Pellets and pills that are still to be eaten."""
    maze = _maze(ram, "pellet")
    cells = ((r, c) for r in range(ROWS) for c in range(COLS) if maze[r][c] == ".")
    pills = sum(bool(ram[PILLS] & bit) for bit in PILL_BITS)
    return sum(has_pellet(ram, row, col) for row, col in cells) + pills


def _counted(ram: Ram, edit: str, on: bool) -> int:
    """The count of eaten ones after one more or less was put there."""
    if on and ram[EATEN] == 0:
        raise refuse(edit, "nothing was eaten on this level yet", "the count cannot go below 0")
    if not on and left(ram) < 2:
        raise refuse(edit, "it is the last one", "the level must not end without being eaten up")
    return ram[EATEN] - 1 if on else ram[EATEN] + 1


def _pellet(ram: Ram, row: int, col: int, on: bool) -> Pokes:
    if _maze(ram, "pellet")[row][col] != ".":
        raise refuse("pellet", f"cell {(row, col)} is a wall or a pill's", "expected a free cell")
    if has_pellet(ram, row, col) == on:
        raise refuse("pellet", f"on={on} at {(row, col)}", "that is how it is already")
    if on and touch(_pellet_box(row, col), _pacman(ram)):
        raise refuse("pellet", f"pacman is on {(row, col)}", "expected a cell it has left")
    byte, bit = _BITS[col]
    return {byte + 3 * row: ram[byte + 3 * row] ^ bit, EATEN: _counted(ram, "pellet", on)}


def _power_pill(ram: Ram, i: int, on: bool) -> Pokes:
    if bool(ram[PILLS] & PILL_BITS[i]) == on:
        raise refuse("power_pill", f"on={on} for {i}", "that is how it is already")
    if on and touch(_pill_box(i), _pacman(ram)):
        raise refuse("power_pill", f"pacman is on {PILL_CELLS[i]}", "expected a cell it has left")
    return {PILLS: ram[PILLS] ^ PILL_BITS[i], EATEN: _counted(ram, "power_pill", on)}


def _place(ram: Ram, edit: str, row: int, col: int, direction: str) -> tuple[int, int, int]:
    """x, y and direction, checked; a figure that heads for a wall leaves the maze."""
    maze = _maze(ram, edit)
    if not _is_open(maze, row, col):
        raise refuse(edit, f"cell {(row, col)} is a wall", "expected a free cell")
    down, right = DIRECTIONS[direction]
    if not _is_open(maze, row + down, col + right):
        raise refuse(edit, f"{direction} of {(row, col)} is a wall", "expected a free way")
    x, y = _cell_position(row, col)
    return x, y, list(DIRECTIONS).index(direction)


def _move_pacman(ram: Ram, row: int, col: int, direction: str) -> Pokes:
    x, y, code = _place(ram, "pacman", row, col, direction)
    for i, name in enumerate(GHOSTS):
        if touch(_figure_box(x, y), _ghost_box(ram, i)):
            raise refuse("pacman", f"{name} is on {(row, col)}", "expected a cell free of ghosts")
    first, second = PACMAN_DIRECTIONS
    pokes = {PACMAN_X: x, PACMAN_Y: y, first: ram[first] & ~3 | code, second: code}
    return changed(ram, pokes, "pacman")


def _move_ghost(ram: Ram, name: str, row: int, col: int, direction: str) -> Pokes:
    x, y, code = _place(ram, "ghost", row, col, direction)
    if touch(_figure_box(x, y), _pacman(ram)):
        raise refuse("ghost", f"pacman is on {(row, col)}", "expected a cell it does not touch")
    i = GHOSTS.index(name)
    state = ram[GHOST_STATE + i]
    errand = 0 if state >> 3 & 15 >= IN_HOUSE else state & 0x7C  # out of the house: no errand
    pokes = {GHOST_X + i: x, GHOST_Y + i: y, GHOST_STATE + i: state & EDIBLE | errand | code}
    return changed(ram, pokes, "ghost")


def _edible(ram: Ram, on: bool) -> Pokes:
    if bool(ram[EDIBLE_TIME]) == on:
        raise refuse("edible", f"on={on}", "that is how it is already")
    states = {GHOST_STATE + i: ram[GHOST_STATE + i] for i in range(len(GHOSTS))}
    if on:
        flagged = {byte: state | EDIBLE for byte, state in states.items()}
    else:
        flagged = {byte: state & ~EDIBLE for byte, state in states.items()}
    return flagged | {EDIBLE_TIME: EDIBLE_TICKS if on else 0}


_ROW = number("row", 0, ROWS - 1, "row of cells from the top")
_COL = number("col", 0, COLS - 1, "column of cells from the left")
_DIRECTION = one_of("direction", tuple(DIRECTIONS), "where it heads")
_PELLET_BYTES = frozenset(byte + 3 * row for byte, _ in _BITS for row in range(ROWS))
_STATES = frozenset(range(GHOST_STATE, GHOST_STATE + len(GHOSTS)))

GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(120, 121, 122),
    objects=objects,
    edits=(
        Edit(
            "pellet",
            "Put a pellet into a cell, or take it away",
            (_ROW, _COL, switch("there or not")),
            (
                "the cell is neither wall, nor house, nor a power pill's",
                "pacman is not on it",
                "something has been eaten before one is added",
                "the last one stays",
            ),
            _pellet,
            lambda ram, row, col, on: (_pellet_box(row, col),),
            _PELLET_BYTES | {EATEN},
        ),
        Edit(
            "power_pill",
            "Put a power pill into its corner, or take it away",
            (number("i", 0, 3, "0, 1: top left, right; 2, 3: bottom"), switch("there or not")),
            ("as for pellets",),
            _power_pill,
            lambda ram, i, on: (_pill_box(i),),
            frozenset((PILLS, EATEN)),
        ),
        Edit(
            "pacman",
            "Move Ms. Pac-Man to the middle of a cell (a pellet there is eaten)",
            (_ROW, _COL, _DIRECTION),
            ("the cell and the next one in that direction are free", "no ghost touches it"),
            _move_pacman,
            lambda ram, row, col, direction: (
                _pacman(ram),
                _figure_box(*_cell_position(row, col)),
            ),
            frozenset((PACMAN_X, PACMAN_Y, *PACMAN_DIRECTIONS)),
        ),
        Edit(
            "ghost",
            "Move a ghost to the middle of a cell, out of the house if it is there",
            (one_of("name", GHOSTS, "which ghost"), _ROW, _COL, _DIRECTION),
            ("the cell and the next one in that direction are free", "pacman does not touch it"),
            _move_ghost,
            lambda ram, name, row, col, direction: (
                _ghost_box(ram, GHOSTS.index(name)),
                _figure_box(*_cell_position(row, col)),
            ),
            _STATES | set(range(GHOST_X, GHOST_X + 4)) | set(range(GHOST_Y, GHOST_Y + 4)),
        ),
        Edit(
            "edible",
            "Make the ghosts edible as a power pill does, or dangerous again",
            (switch("edible or not"),),
            ("they are not so already",),
            _edible,
            lambda ram, on: tuple(_ghost_box(ram, i) for i in range(len(GHOSTS))),
            _STATES | {EDIBLE_TIME},
        ),
    ),
)
