"""Venture: Winky and the monsters in the first hall, the only room whose walls are known here."""

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
    touch,
)

ROOM, FIRST_HALL = 90, 8
PLAYER_X, PLAYER_Y, SPRITE_X, SPRITE_Y = 85, 26, 79, 20
SPRITES = 6  # moved to the side only: at most heights, the game smears them down the screen
_SPRITE_LEFT = (1, 1, 7, 1, 1, 7)  # of its byte over the left edge
BLOCK, TOP = 4, 24  # of the map below, in pixels

# #: walls; -: rooms and their doors.
HALL = (
    "........................................",
    "........................................",
    "................###...#############.....",
    ".....########...###...#-----------#.....",
    ".....#------#...###...#-----------#.....",
    ".....#------#...###...-------------.....",
    ".....#------#...###...#-----------#.....",
    ".....#-------...###...#-----------#.....",
    ".....#------#...###...#-----------#.....",
    ".....-------#...###...##########--#.....",
    ".....#------#..................#--#.....",
    ".....#------#..................#--#.....",
    ".....#------#..................#--#.....",
    ".....#------#..................#--#.....",
    ".....########....###########...#--#.....",
    ".................###########...####.....",
    "........................................",
    "........................................",
    "....####-######.........................",
    "....#---------#..........###########....",
    "....#---------#..........#---------#....",
    "....#---------#..........#---------#....",
    "....#----######....##....#---------#....",
    "....#----#.........##....#---------#....",
    "....#----#.........##....##-###-----....",
    "....#----#.........##.........#----#....",
    "....#----#.........##.........#----#....",
    "....#----#.........##.........#----#....",
    "....#----#######...##.........#----#....",
    "....#----------#...##..########----#....",
    "....#----------#...##..#-----------#....",
    "....#-----------...##..#-----------#....",
    "....#----------#...##..#-----------#....",
    "....#----------#...##..#-----------#....",
    "....############...##..#-----------#....",
    ".......................#############....",
    "........................................",
    "........................................",
    "........................................",
    "........................................",
)


def _player_box(x: int, y: int) -> Box:
    """From the bytes of its position: it is a dot."""
    return 2 * y + 25, x - 1, 2 * y + 27, x


def _player_now(ram: Ram) -> Box:
    return _player_box(ram[PLAYER_X], ram[PLAYER_Y])


def _sprite_now(ram: Ram, i: int) -> Box:
    y = ram[SPRITE_Y + i]
    return _sprite_box(ram[SPRITE_X + i] - _SPRITE_LEFT[i], 2 * (y - 256 if y > 127 else y) + 26)


def _sprite_box(left: int, top: int) -> Box:
    return top, left, top + 10, left + 8


def objects(ram: Ram) -> dict[str, Box]:
    if ram[ROOM] != FIRST_HALL:
        return {}
    return {"player": _player_now(ram)} | {
        f"sprite {i}": _sprite_now(ram, i) for i in range(SPRITES)
    }


def _check_free(ram: Ram, edit: str, box: Box) -> None:
    if ram[ROOM] != FIRST_HALL:
        raise refuse(
            edit, f"this is room {ram[ROOM]}", f"room {FIRST_HALL}, the first hall, is known"
        )
    top, left, bottom, right = box
    rows = range((top - TOP) // BLOCK, (bottom - 1 - TOP) // BLOCK + 1)
    cols = range(left // BLOCK, (right - 1) // BLOCK + 1)
    if any(HALL[row][col] != "." for row in rows for col in cols):
        raise refuse(edit, "a wall or a room is there", "expected a place in the hall")


def _move_player(ram: Ram, x: int, y: int) -> Pokes:
    pokes = {PLAYER_X: x + 1, PLAYER_Y: (y - 25) // 2}
    box = _player_box(pokes[PLAYER_X], pokes[PLAYER_Y])
    _check_free(ram, "player", box)
    for i in range(SPRITES):
        if touch(box, _sprite_now(ram, i), margin=4):
            raise refuse("player", f"monster {i} is there", "choose another place")
    return changed(ram, pokes, "player")


def _moved_sprite(ram: Ram, i: int, x: int) -> Box:
    top, _, bottom, _ = _sprite_now(ram, i)
    return top, x, bottom, x + 8


def _move_sprite(ram: Ram, i: int, x: int) -> Pokes:
    box = _moved_sprite(ram, i, x)
    _check_free(ram, "sprite", box)
    if touch(box, _player_now(ram), margin=4):
        raise refuse("sprite", "the player is there", "choose another place")
    return changed(ram, {SPRITE_X + i: x + _SPRITE_LEFT[i]}, "sprite")


GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(71, 72),
    objects=objects,
    edits=(
        Edit(
            "player",
            "Move Winky, who is a dot in the hall",
            (
                number("x", 8, 128, "left edge on the screen", step=8),
                number("y", 33, 179, "top edge on the screen, to the pixel pair", step=8),
            ),
            ("it is the first hall", "neither wall nor room nor monster is there"),
            _move_player,
            lambda ram, x, y: (_player_now(ram), _player_box(x + 1, (y - 25) // 2)),
            frozenset((PLAYER_X, PLAYER_Y)),
        ),
        Edit(
            "sprite",
            "Move a monster of the hall to the side",
            (
                number("i", 0, SPRITES - 1, "which monster"),
                number("x", 8, 144, "left edge on the screen", step=8),
            ),
            ("it is the first hall", "neither wall nor room nor the player is there"),
            _move_sprite,
            lambda ram, i, x: (_sprite_now(ram, i), _moved_sprite(ram, i, x)),
            frozenset(range(SPRITE_X, SPRITE_X + SPRITES)),
        ),
    ),
)
