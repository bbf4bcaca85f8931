"""Gravitar: the ship among the planets of the first system, its velocity and its fuel.

Byte 5, which some memory maps call the fuel, counts frames. The fuel is a decimal number of six
digits in bytes 10 to 12; the screen shows it, in turn with the ships left, while it is used. By its
last two digits (byte 12) the game also decides when bunkers fire, so no edit touches them.
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
    touch,
)

SCREEN, SYSTEM = 1, 2  # byte 1 is 2 among the planets
SHIP_X, SHIP_Y = 31, 32
VELOCITY_X, VELOCITY_Y = (42, 43), (39, 40)  # low and high byte, 1/256 pixels a frame
FUEL = (10, 11)

# The sun, the base and the planets: to touch one is to die, or to land.
BODIES: tuple[Box, ...] = (
    (80, 78, 93, 86),
    (126, 71, 135, 78),
    (41, 123, 52, 130),
    (62, 33, 72, 41),
    (100, 18, 113, 25),
    (152, 138, 162, 146),
    (172, 26, 181, 33),
)


def _ship_box(left: int, top: int) -> Box:
    return top, left, top + 8, left + 6


def _ship_now(ram: Ram) -> Box:
    return _ship_box(ram[SHIP_X] + 2, ram[SHIP_Y] + 29)


def objects(ram: Ram) -> dict[str, Box]:
    return {"ship": _ship_now(ram)} if ram[SCREEN] == SYSTEM else {}


def _check_system(ram: Ram, edit: str) -> None:
    if ram[SCREEN] != SYSTEM:
        raise refuse(edit, "the ship is not among the planets", "choose another moment")


def _move_ship(ram: Ram, x: int, y: int) -> Pokes:
    _check_system(ram, "ship")
    if any(touch(_ship_box(x, y), body, margin=2) for body in BODIES):
        raise refuse("ship", "a planet or the sun is there", "choose another place")
    return changed(ram, {SHIP_X: x - 2, SHIP_Y: y - 29}, "ship")


def _set_velocity(ram: Ram, vx: int, vy: int) -> Pokes:
    _check_system(ram, "velocity")
    pokes = {}
    for velocity, (low, high) in ((vx, VELOCITY_X), (vy, VELOCITY_Y)):
        pokes[low], pokes[high] = velocity & 255, velocity >> 8 & 255
    return changed(ram, pokes, "velocity")


def _set_fuel(ram: Ram, hundreds: int) -> Pokes:
    digits = f"{hundreds:04d}"
    pairs = [int(digits[i : i + 2], 16) for i in (0, 2)]
    return changed(ram, dict(zip(FUEL, pairs, strict=True)), "fuel")


GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(7, 8, 9),
    objects=objects,
    edits=(
        Edit(
            "ship",
            "Move the ship",
            (
                number("x", 8, 150, "left edge on the screen", step=8),
                number("y", 36, 180, "top edge on the screen", step=8),
            ),
            ("the ship is among the planets", "neither planet nor sun is there"),
            _move_ship,
            lambda ram, x, y: (_ship_now(ram), _ship_box(x, y)),
            frozenset((SHIP_X, SHIP_Y)),
        ),
        Edit(
            "velocity",
            "Give the ship another velocity",
            (
                number("vx", -512, 512, "1/256 pixels a frame to the right", step=256),
                number("vy", -512, 512, "1/256 pixels a frame downwards", step=256),
            ),
            ("the ship is among the planets",),
            _set_velocity,
            lambda ram, vx, vy: (_ship_now(ram),),
            frozenset(VELOCITY_X + VELOCITY_Y),
        ),
        Edit(
            "fuel",
            "Set the fuel (which is shown only while it is used)",
            (number("hundreds", 1, 999, "hundreds; the game begins with 100", step=99),),
            (),
            _set_fuel,
            lambda ram, hundreds: ((16, 64, 25, 103),),
            frozenset(FUEL),
        ),
    ),
)
