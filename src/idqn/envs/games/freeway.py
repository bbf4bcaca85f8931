"""Freeway: the chicken, the cars and their colours. Lanes are numbered from the top."""

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

LANES = 10
CHICKEN, LOWEST_CAR, LOWEST_COLOUR = 14, 108, 77
CHICKEN_BASE = 193  # its byte counts upwards from here
CAR_OFFSET = 3
WIDTH = 160


def _chicken_box(y: int) -> Box:
    return y, 44, y + 8, 50


def _chicken_now(ram: Ram) -> Box:
    return _chicken_box(CHICKEN_BASE - ram[CHICKEN])


def _car_box(lane: int, x: int) -> Box:
    top = 27 + 16 * lane
    return top, x, top + 10, x + 8


def _car_now(ram: Ram, lane: int) -> tuple[Box, ...]:
    """One box, or two while the car leaves on one side and comes back on the other."""
    left = (ram[_car(lane)] - CAR_OFFSET) % WIDTH
    top, _, bottom, right = _car_box(lane, left)
    if right <= WIDTH:
        return ((top, left, bottom, right),)
    return (top, left, bottom, WIDTH), (top, 0, bottom, right - WIDTH)


def _car(lane: int) -> int:
    return LOWEST_CAR + LANES - 1 - lane


def _colour(lane: int) -> int:
    return LOWEST_COLOUR + LANES - 1 - lane


def objects(ram: Ram) -> dict[str, Box]:
    cars = {f"car {lane}": _car_now(ram, lane)[0] for lane in range(LANES)}
    return {"chicken": _chicken_now(ram)} | cars


def _move_chicken(ram: Ram, y: int) -> Pokes:
    for lane in range(LANES):
        if any(touch(_chicken_box(y), car) for car in _car_now(ram, lane)):
            raise refuse("chicken", f"the car of lane {lane} is there", "choose another place")
    return changed(ram, {CHICKEN: CHICKEN_BASE - y}, "chicken")


def _move_car(ram: Ram, lane: int, x: int) -> Pokes:
    if touch(_car_box(lane, x), _chicken_now(ram)):
        raise refuse("car", "the chicken is there", "choose another place")
    return changed(ram, {_car(lane): x + CAR_OFFSET}, "car")


def _paint_car(ram: Ram, lane: int, colour: int) -> Pokes:
    if colour >> 1 == ram[_colour(lane)] >> 1:  # bit 0 is not drawn
        raise refuse("car_colour", f"the car has colour {colour}", "choose another")
    return changed(ram, {_colour(lane): colour}, "car_colour")


_LANE = number("lane", 0, LANES - 1, "lane from the top")

GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(103, 104),
    objects=objects,
    edits=(
        Edit(
            "chicken",
            "Move the chicken",
            (number("y", 20, 187, "top edge on the screen; 187 is the start", step=8),),
            ("no car touches it",),
            _move_chicken,
            lambda ram, y: (_chicken_now(ram), _chicken_box(y)),
            frozenset((CHICKEN,)),
        ),
        Edit(
            "car",
            "Move a car along its lane",
            (_LANE, number("x", 8, 152, "left edge on the screen", step=8)),
            ("the chicken does not touch it",),
            _move_car,
            lambda ram, lane, x: (*_car_now(ram, lane), _car_box(lane, x)),
            frozenset(range(LOWEST_CAR, LOWEST_CAR + LANES)),
        ),
        Edit(
            "car_colour",
            "Paint a car; 6 is the road's grey, and leaves only the wheels to be seen",
            (_LANE, number("colour", 0, 254, "colour of the console's palette, even", step=6)),
            (),
            _paint_car,
            lambda ram, lane, colour: _car_now(ram, lane),
            frozenset(range(LOWEST_COLOUR, LOWEST_COLOUR + LANES)),
        ),
    ),
)
