"""Alien: eggs, the player, the aliens, in the first hallway.

Eggs lie on 13 rows by 12 columns; those that were eaten are counted. Two halves of the eggs are
drawn in turns, so a single frame shows only one.
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
    refuse,
    switch,
    touch,
)

EATEN, FIRST_EGG = 91, 65
PLAYER_X, PLAYER_Y, ALIEN_X, ALIEN_Y = 52, 45, 49, 42
ALIENS = 3

# Where eggs are when the game begins.
HALLWAY = (
    "............",
    ".##.####.##.",
    "............",
    "..###..###..",
    "..#......#..",
    "#.#.####.#.#",
    "............",
    "#.###..###.#",
    "............",
    ".##.####.##.",
    "............",
    ".#.######.#.",
    ".....##.....",
)
ROWS, COLS = len(HALLWAY), len(HALLWAY[0])
_BITS = (4, 16, 64, 8, 32, 128)
_LEFT = (26, 34, 42, 56, 64, 72, 89, 97, 105, 118, 126, 134)
_DOWN = (0, 2, 4) * 4


def has_egg(ram: Ram, row: int, col: int) -> bool:
    return bool(ram[_byte(row, col)] & _BITS[col % 6])


def _byte(row: int, col: int) -> int:
    return FIRST_EGG + row + ROWS * (col // 6)


def _egg_box(row: int, col: int) -> Box:
    top = 19 + 12 * row + _DOWN[col]
    return top, _LEFT[col], top + 2, _LEFT[col] + 1


def _figure_box(x: int, y: int) -> Box:
    top = 14 + 2 * (91 - y)
    return top, x + 17, top + 14, x + 27


def _cell_position(row: int, col: int) -> tuple[int, int]:
    return _LEFT[col] - 20, 91 - 6 * row


def _player_now(ram: Ram) -> Box:
    return _figure_box(ram[PLAYER_X], ram[PLAYER_Y])


def _alien_now(ram: Ram, i: int) -> Box:
    return _figure_box(ram[ALIEN_X + i], ram[ALIEN_Y + i])


def _is_out(ram: Ram, i: int) -> bool:
    return ram[ALIEN_Y + i] > 0


def objects(ram: Ram) -> dict[str, Box]:
    aliens = {f"alien {i}": _alien_now(ram, i) for i in range(ALIENS) if _is_out(ram, i)}
    return {"player": _player_now(ram)} | aliens


def _check_hallway(ram: Ram, edit: str, row: int, col: int) -> None:
    cells = ((r, c) for r in range(ROWS) for c in range(COLS))
    if any(has_egg(ram, r, c) and HALLWAY[r][c] != "." for r, c in cells):
        raise refuse(edit, "this is not the first hallway", "no other one is known")
    if HALLWAY[row][col] != ".":
        raise refuse(edit, f"cell {(row, col)} is a wall", "expected one that begins with an egg")


def _egg(ram: Ram, row: int, col: int, on: bool) -> Pokes:
    _check_hallway(ram, "egg", row, col)
    if has_egg(ram, row, col) == on:
        raise refuse("egg", f"on={on} at {(row, col)}", "that is how it is already")
    if on and touch(_egg_box(row, col), _player_now(ram), margin=2):
        raise refuse("egg", f"the player is on {(row, col)}", "expected a cell it has left")
    if on and ram[EATEN] == 0:
        raise refuse("egg", "nothing was eaten yet", "the count cannot go below 0")
    if not on and sum(has_egg(ram, r, c) for r in range(ROWS) for c in range(COLS)) < 2:
        raise refuse("egg", "it is the last one", "the level must not end without being eaten up")
    byte = _byte(row, col)
    return {byte: ram[byte] ^ _BITS[col % 6], EATEN: ram[EATEN] + (-1 if on else 1)}


def _move_player(ram: Ram, row: int, col: int) -> Pokes:
    _check_hallway(ram, "player", row, col)
    x, y = _cell_position(row, col)
    for i in range(ALIENS):
        if _is_out(ram, i) and touch(_figure_box(x, y), _alien_now(ram, i)):
            raise refuse("player", f"alien {i} is on {(row, col)}", "expected a cell free of them")
    return changed(ram, {PLAYER_X: x, PLAYER_Y: y}, "player")


def _move_alien(ram: Ram, i: int, row: int, col: int) -> Pokes:
    _check_hallway(ram, "alien", row, col)
    if not _is_out(ram, i):
        raise refuse("alien", f"alien {i} is not in the hallway", "wait until it has come")
    x, y = _cell_position(row, col)
    if touch(_figure_box(x, y), _player_now(ram)):
        raise refuse("alien", f"the player is on {(row, col)}", "expected a cell it does not touch")
    return changed(ram, {ALIEN_X + i: x, ALIEN_Y + i: y}, "alien")


_ROW = number("row", 0, ROWS - 1, "row of eggs from the top")
_COL = number("col", 0, COLS - 1, "column of eggs from the left")

GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(3, 5, 7, 9, 11),
    objects=objects,
    edits=(
        Edit(
            "egg",
            "Lay an egg, or take it away",
            (_ROW, _COL, switch("there or not")),
            (
                "it is the first hallway, and the cell begins with an egg",
                "the player is not on it",
                "something has been eaten before one is added",
                "the last one stays",
            ),
            _egg,
            lambda ram, row, col, on: (_egg_box(row, col),),
            frozenset((EATEN, *range(FIRST_EGG, FIRST_EGG + 2 * ROWS))),
        ),
        Edit(
            "player",
            "Move the player to a cell (an egg there is eaten)",
            (_ROW, _COL),
            ("it is the first hallway, and the cell begins with an egg", "no alien touches it"),
            _move_player,
            lambda ram, row, col: (_player_now(ram), _figure_box(*_cell_position(row, col))),
            frozenset((PLAYER_X, PLAYER_Y)),
        ),
        Edit(
            "alien",
            "Move an alien to a cell",
            (number("i", 0, ALIENS - 1, "which alien"), _ROW, _COL),
            (
                "the alien has come into the hallway",
                "it is the first hallway, and the cell begins with an egg",
                "the player does not touch it",
            ),
            _move_alien,
            lambda ram, i, row, col: (_alien_now(ram, i), _figure_box(*_cell_position(row, col))),
            frozenset((*range(ALIEN_X, ALIEN_X + ALIENS), *range(ALIEN_Y, ALIEN_Y + ALIENS))),
        ),
    ),
)
