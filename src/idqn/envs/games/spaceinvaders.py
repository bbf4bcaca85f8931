"""Space Invaders: the formation, the cannon, the shields.

Six rows of six, counted; the wave ends when the count reaches 0, so it always follows the bits.
Rows are numbered from the bottom, columns from the left, as in memory.
"""

from __future__ import annotations

from idqn.envs.edits import (
    Box,
    Edit,
    GameEdits,
    Parameter,
    Pokes,
    Ram,
    changed,
    game_edits,
    number,
    refuse,
    switch,
    touch,
)

COUNT, FIRST_ROW, ROWS, COLS = 17, 18, 6, 6
FORMATION_X, FORMATION_Y, PLAYER_X = 26, 16, 28
SHIELDS, SHIELD_BYTES = 43, 9
SHIELD = (60, 126, 126, 126, 126, 255, 255, 255, 195)

# Where the game itself lets invaders be: turning points at the sides; further down, they are
# among the shields, which then vanish.
LEFT_EDGE, RIGHT_EDGE, LOWEST = 22, 138, 157

# As the paper's Figure 5 and its text have it, rows from the bottom.
TRAINING_FORMATION = (3, 3, 7, 15, 15, 47)
INVERTED_TRIANGLE = (32, 48, 56, 60, 60, 61)
FULL = (63,) * ROWS


class _AllFormations:
    """Six rows of six bits each."""

    def __contains__(self, rows: object) -> bool:
        assert isinstance(rows, tuple)
        return len(rows) == ROWS and all(type(row) is int and 0 <= row < 64 for row in rows)


def _formation(ram: Ram) -> list[int]:
    return [ram[FIRST_ROW + row] & 63 for row in range(ROWS)]


def invader_box(ram: Ram, row: int, col: int) -> Box:
    top = 31 + 2 * ram[FORMATION_Y] + 18 * (ROWS - 1 - row)
    left = ram[FORMATION_X] - 1 + 16 * col
    return top, left, top + 10, left + 8


def _player_box(left: int) -> Box:
    return 185, left, 195, left + 7


def _shield_box(i: int) -> Box:
    return 157, 42 + 32 * i, 175, 50 + 32 * i


def objects(ram: Ram) -> dict[str, Box]:
    return {"player": _player_box(ram[PLAYER_X] - 1)} | {
        f"invader {row} {col}": invader_box(ram, row, col)
        for row, bits in enumerate(_formation(ram))
        for col in range(COLS)
        if bits >> col & 1
    }


def _new_formation(ram: Ram, edit: str, rows: list[int]) -> Pokes:
    old = _formation(ram)
    if not any(rows):
        raise refuse(edit, "no invader would be left", "a wave must not end without a shot")
    for row in range(ROWS):
        for col in range(COLS):
            if (rows[row] & ~old[row]) >> col & 1:
                _check_room(edit, invader_box(ram, row, col), row, col)
    pokes = {FIRST_ROW + row: bits for row, bits in enumerate(rows)}
    return changed(ram, pokes | {COUNT: sum(bits.bit_count() for bits in rows)}, edit)


def _check_room(edit: str, box: Box, row: int, col: int) -> None:
    _, left, bottom, right = box
    if left < LEFT_EDGE or right > RIGHT_EDGE:
        raise refuse(edit, f"column {col} is outside the field now", "wait for the formation")
    if bottom > LOWEST:
        raise refuse(edit, f"row {row} is down among the shields", "choose a higher row")


def _invaders(ram: Ram, rows: tuple[int, ...]) -> Pokes:
    return _new_formation(ram, "invaders", list(rows))


def _invader(ram: Ram, row: int, col: int, on: bool) -> Pokes:
    rows = _formation(ram)
    if bool(rows[row] >> col & 1) == on:
        raise refuse("invader", f"on={on} at {(row, col)}", "that is how it is already")
    rows[row] ^= 1 << col
    return _new_formation(ram, "invader", rows)


def _player(ram: Ram, x: int) -> Pokes:
    return changed(ram, {PLAYER_X: x + 1}, "player")


def _shield_bytes(i: int) -> range:
    first = SHIELDS + SHIELD_BYTES * i
    return range(first, first + SHIELD_BYTES)


def _shield(ram: Ram, i: int, on: bool) -> Pokes:
    if any(
        touch(invader_box(ram, row, col), _shield_box(i))
        for row, bits in enumerate(_formation(ram))
        for col in range(COLS)
        if bits >> col & 1
    ):
        raise refuse("shield", "invaders are there", "choose an earlier moment")
    whole = SHIELD if on else (0,) * SHIELD_BYTES
    return changed(ram, dict(zip(_shield_bytes(i), whole, strict=True)), "shield")


def _changed_boxes(ram: Ram, rows: tuple[int, ...]) -> tuple[Box, ...]:
    pairs = list(enumerate(zip(_formation(ram), rows, strict=True)))
    return tuple(
        invader_box(ram, row, col)
        for row, (old, new) in pairs
        for col in range(COLS)
        if (old ^ new) >> col & 1
    )


_I = number("i", 0, 2, "which shield, from the left")
_FORMATION_BYTES = frozenset((COUNT, *range(FIRST_ROW, FIRST_ROW + ROWS)))

GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(102, 104),
    objects=objects,
    edits=(
        Edit(
            "invader",
            "Add one invader to the formation, or take it away",
            (
                number("row", 0, ROWS - 1, "row from the bottom"),
                number("col", 0, COLS - 1, "column from the left"),
                switch("there or not"),
            ),
            (
                "a new one is neither outside the field nor among the shields",
                "one invader is left",
            ),
            _invader,
            lambda ram, row, col, on: (invader_box(ram, row, col),),
            _FORMATION_BYTES,
        ),
        Edit(
            "invaders",
            "Set the whole formation, six bits for each row (bit 0 on the left)",
            (
                Parameter(
                    "rows",
                    "the six rows from the bottom",
                    tuple,
                    _AllFormations(),
                    "six numbers from 0 to 63",
                    (TRAINING_FORMATION, INVERTED_TRIANGLE, FULL),
                ),
            ),
            ("as for one invader",),
            _invaders,
            _changed_boxes,
            _FORMATION_BYTES,
        ),
        Edit(
            "player",
            "Move the cannon",
            (number("x", 34, 116, "left edge on the screen", step=4),),
            (),
            _player,
            lambda ram, x: (_player_box(ram[PLAYER_X] - 1), _player_box(x)),
            frozenset((PLAYER_X,)),
        ),
        Edit(
            "shield",
            "Make a shield whole, or take it away",
            (_I, switch("whole or gone")),
            ("no invader is there",),
            _shield,
            lambda ram, i, on: (_shield_box(i),),
            frozenset(range(SHIELDS, SHIELDS + 3 * SHIELD_BYTES)),
        ),
    ),
)
