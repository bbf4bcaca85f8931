"""Frostbite: floes, igloo, player and bear on the shore, the temperature. Rows of floes from the
top."""

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

ROWS = 4
FIRST_FLOE, FIRST_COLOUR = 31, 43  # of the bottom row
FLOE_SHAPE, WHOLE = 30, 8  # floes split in two in later levels, by so much
WHITE, BLUE = 12, 152
IGLOO, NO_IGLOO, BLOCKS = 77, 255, 16
PLAYER_X, PLAYER_Y, SHORE_Y, TEMPERATURE = 102, 100, 30, 101
BEAR_X, LEVEL, FIRST_BEAR = 104, 75, 3  # levels are counted from 0; no bear comes before the fourth
BEAR_LEFT, BEAR_RIGHT = 16, 141  # between which it walks
BEAR_OFFSET = 1
LEFT, RIGHT = 8, 160  # columns further left are black


def _player_box(ram: Ram, x: int) -> Box:
    return ram[PLAYER_Y] + 29, x, ram[PLAYER_Y] + 47, x + 8


def _bear_box(x: int) -> Box:
    return 58, x, 75, x + 16


def _bear_now(ram: Ram) -> Box | None:
    return _bear_box(ram[BEAR_X] + BEAR_OFFSET) if ram[LEVEL] >= FIRST_BEAR else None


def _meet(ram: Ram, player_x: int, bear: Box | None) -> bool:
    """Whether the player is on the shore, and so near the bear that it is caught."""
    if bear is None or ram[PLAYER_Y] > SHORE_Y:
        return False
    return touch(_player_box(ram, player_x), bear, margin=8)


def _floe_boxes(ram: Ram, row: int, first: int) -> tuple[Box, ...]:
    """Of the three floes of a row, given the first one's left edge; they go round the screen."""
    top, bottom = 96 + 26 * row, 103 + 26 * row
    if ram[FLOE_SHAPE] != WHOLE:
        return ((top, LEFT, bottom, RIGHT),)
    boxes = []
    for floe in range(3):
        left = (first + 32 * floe) % RIGHT
        for part in (left, left - RIGHT):
            if part + 24 > LEFT:
                boxes.append((top, max(part, LEFT), bottom, min(part + 24, RIGHT)))
    return tuple(boxes)


def _floes_now(ram: Ram, row: int) -> tuple[Box, ...]:
    return _floe_boxes(ram, row, (ram[_floe(row)] - 8) % RIGHT)


def _floe(row: int) -> int:
    return FIRST_FLOE + ROWS - 1 - row


def _colour(row: int) -> int:
    return FIRST_COLOUR + ROWS - 1 - row


def objects(ram: Ram) -> dict[str, Box]:
    bear = _bear_now(ram)
    found = {"player": _player_box(ram, ram[PLAYER_X])} | ({} if bear is None else {"bear": bear})
    return found | {
        f"floe {row} {i}": box for row in range(ROWS) for i, box in enumerate(_floes_now(ram, row))
    }


def _move_floes(ram: Ram, row: int, x: int) -> Pokes:
    if abs(ram[PLAYER_Y] - (53 + 26 * row)) < 13:
        raise refuse("floe", "the player is on that row or about to be", "choose another row")
    return changed(ram, {_floe(row): (x + 8) % RIGHT}, "floe")


def _visit(ram: Ram, row: int, on: bool) -> Pokes:
    colours = [ram[FIRST_COLOUR + i] for i in range(ROWS)]
    if not set(colours) <= {WHITE, BLUE}:
        raise refuse(
            "floe_visited",
            f"the floes have colours {colours}",
            f"levels with {WHITE} and {BLUE} are known",
        )
    if on and colours.count(WHITE) == 1:
        raise refuse(
            "floe_visited", "it is the last white row", "all would turn white again at once"
        )
    return changed(ram, {_colour(row): BLUE if on else WHITE}, "floe_visited")


def _build(ram: Ram, blocks: int) -> Pokes:
    return changed(ram, {IGLOO: (blocks - 1) & NO_IGLOO}, "igloo")


def _move_player(ram: Ram, x: int) -> Pokes:
    if ram[PLAYER_Y] > SHORE_Y:
        raise refuse("player", "the player is out on the floes", "wait until it is on the shore")
    if _meet(ram, x, _bear_now(ram)):
        raise refuse("player", "the bear is there", "choose another place")
    return changed(ram, {PLAYER_X: x}, "player")


def _move_bear(ram: Ram, x: int) -> Pokes:
    if ram[LEVEL] < FIRST_BEAR:
        raise refuse(
            "bear",
            f"there is none on level {ram[LEVEL] + 1}",
            f"it comes on level {FIRST_BEAR + 1}",
        )
    if _meet(ram, ram[PLAYER_X], _bear_box(x)):
        raise refuse("bear", "the player is there", "choose another place")
    return changed(ram, {BEAR_X: x - BEAR_OFFSET}, "bear")


def _set_temperature(ram: Ram, degrees: int) -> Pokes:
    if not ram[TEMPERATURE]:
        raise refuse("temperature", "it is 0 already", "the player is freezing")
    return changed(ram, {TEMPERATURE: degrees // 10 * 16 + degrees % 10}, "temperature")


_ROW = number("row", 0, ROWS - 1, "row of floes from the top")

GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(72, 73, 74),
    objects=objects,
    edits=(
        Edit(
            "floe",
            "Shift a row of floes",
            (_ROW, number("x", 0, RIGHT - 1, "left edge of the row's first floe", step=8)),
            ("the player is not on that row",),
            _move_floes,
            lambda ram, row, x: _floes_now(ram, row) + _floe_boxes(ram, row, x),
            frozenset(range(FIRST_FLOE, FIRST_FLOE + ROWS)),
        ),
        Edit(
            "floe_visited",
            "Make a row blue, as if it had been jumped on, or white",
            (_ROW, switch("visited or not")),
            ("the level is one with the colours of the first", "one row remains white"),
            _visit,
            lambda ram, row, on: _floes_now(ram, row),
            frozenset(range(FIRST_COLOUR, FIRST_COLOUR + ROWS)),
        ),
        Edit(
            "igloo",
            "Set how much of the igloo is built (the door comes with the last block)",
            (number("blocks", 0, BLOCKS, "how many"),),
            (),
            _build,
            lambda ram, blocks: ((35, 112, 55, 144),),
            frozenset((IGLOO,)),
        ),
        Edit(
            "player",
            "Move the player along the shore",
            (number("x", 10, 150, "left edge on the screen", step=10),),
            ("the player is on the shore", "the bear is not there"),
            _move_player,
            lambda ram, x: (_player_box(ram, ram[PLAYER_X]), _player_box(ram, x)),
            frozenset((PLAYER_X,)),
        ),
        Edit(
            "bear",
            "Move the bear along the shore",
            (number("x", BEAR_LEFT, BEAR_RIGHT, "left edge on the screen", step=5),),
            ("it is the fourth level or a later one", "the player is not there"),
            _move_bear,
            lambda ram, x: tuple(box for box in (_bear_now(ram), _bear_box(x)) if box is not None),
            frozenset((BEAR_X,)),
        ),
        Edit(
            "temperature",
            "Set the temperature, that is, the time left",
            (number("degrees", 1, 45, "degrees", step=4),),
            ("it is not 0 already",),
            _set_temperature,
            lambda ram, degrees: ((22, 23, 30, 41),),
            frozenset((TEMPERATURE,)),
        ),
    ),
)
