"""What may be changed in a game without mattering, and what ought to be noticed, by game.

Both are judged by the way the player takes in the game itself: what counts is how far a change is
from that way, on the screen or through the maze.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from idqn.envs.editable import EditableAtari
from idqn.envs.editing import Choice, Editable
from idqn.envs.edits import Box, Params
from idqn.envs.games import mspacman
from idqn.envs.games.mspacman_mazes import MAZES
from idqn.envs.mini_pacman import CELL_PIXELS, ENV_ID, MAZE, RENDER_SCALE, Cell
from idqn.explain.mazes import distances, open_cells

Way = Sequence[Box]
"""Where the player is, step by step."""


def _anything(params: Params) -> bool:
    return True


class Irrelevant(NamedTuple):
    """An edit that does not matter for a while."""

    edit: str
    player: str
    """Among the game's objects."""
    reason: str
    steps: int
    """For so long, the actions before and after are compared."""
    apart: int = 0
    """So many pixels of the screen at least lie between it and the player's way..."""
    way_steps: int = 0
    """...of so many steps, if the game lasts that long."""
    columns_only: bool = False
    """Rows do not count for how far it is."""
    allowed: Callable[[Params], bool] = _anything


class Food(NamedTuple):
    """Something that a player wants, and that can be put into a cell."""

    edit: str
    player: str
    steps: int
    """So long the player has to come and eat it."""
    maze: Callable[[Editable[Any, Any]], tuple[str, ...]]
    """Rows of cells; # is wall."""
    cell: Callable[[Box], Cell]
    """Of the player's box."""


def _is_seen_in_grey(params: Params) -> bool:
    """The low half of a colour is its brightness; that of the road is 6."""
    brightness: int = params["colour"] & 15
    return brightness <= 2 or brightness >= 10


def _mini_pacman_cell(box: Box) -> Cell:
    size = CELL_PIXELS * RENDER_SCALE
    return box[0] // size, box[1] // size


def _mspacman_cell(box: Box) -> Cell:
    """As `mspacman._cell_position` has it, of the nearest cell."""
    left = box[1] + 2  # of a pellet in the middle
    nearest = min(range(mspacman.COLS), key=lambda col: abs(8 + 8 * col + 4 * (col > 8) - left))
    return min(max(round((box[0] - 2) / 12), 0), mspacman.ROWS - 1), nearest


def _mspacman_maze(env: Editable[Any, Any]) -> tuple[str, ...]:
    assert isinstance(env, EditableAtari)
    return MAZES[int(env.ram[mspacman.MAZE]) % len(MAZES)]


IRRELEVANT: dict[str, Irrelevant] = {
    ENV_ID: Irrelevant(
        "pellet",
        "pacman",
        "a pellet put or taken away at least three cells beside pacman's way",
        steps=10,
        apart=2 * CELL_PIXELS * RENDER_SCALE,  # between two cells, if they are three apart
        way_steps=15,
    ),
    "ALE/MsPacman-v5": Irrelevant(
        "pellet",
        "pacman",
        "a pellet put or taken away at least 36 pixels beside Ms. Pac-Man's way of the next "
        "hundred steps",
        steps=50,
        apart=36,
        way_steps=100,
    ),
    "ALE/Alien-v5": Irrelevant(
        "egg",
        "player",
        "an egg laid or taken away at least 36 pixels beside the player's way of the next "
        "hundred steps",
        steps=50,
        apart=36,
        way_steps=100,
    ),
    "ALE/Freeway-v5": Irrelevant(
        "car_colour",
        "chicken",
        "another colour of a car, well apart from the road's grey: cars run over in any colour",
        steps=50,
        allowed=_is_seen_in_grey,
    ),
    "ALE/SpaceInvaders-v5": Irrelevant(
        "shield",
        "player",
        "a shield made whole or taken away at least 24 pixels beside the cannon's way, which "
        "neither shelters it nor stops its shots meanwhile",
        steps=50,
        apart=24,
        way_steps=60,
        columns_only=True,
    ),
    "ALE/Gravitar-v5": Irrelevant(
        "fuel",
        "ship",
        "another amount of fuel, when either lasts for hundreds of steps",
        steps=50,
        allowed=lambda params: params["hundreds"] >= 50,
    ),
}
"""Games that lack here have no edit of which this could be said: in Pong, Q*bert, Frostbite and
Venture, whatever can be edited is what the game is about."""

FOOD: dict[str, Food] = {
    ENV_ID: Food("pellet", "pacman", 20, lambda env: MAZE, _mini_pacman_cell),
    "ALE/MsPacman-v5": Food("pellet", "pacman", 50, _mspacman_maze, _mspacman_cell),
}
NEAREST, FURTHEST = 1, 3  # cells from the way, on foot


def irrelevant_edits(env: Editable[Any, Any], rule: Irrelevant, way: Way) -> list[Choice]:
    """Those that are valid now; `way` begins now."""
    return [
        (rule.edit, params)
        for params in env.choices(rule.edit)
        if rule.allowed(params) and _is_apart(rule, env.region(rule.edit, **params), way)
    ]


def _is_apart(rule: Irrelevant, places: Sequence[Box], way: Way) -> bool:
    return all(
        _gap(place, box, rule.columns_only) >= rule.apart
        for place in places
        for box in way[: rule.way_steps]
    )


def food_beside(env: Editable[Any, Any], rule: Food, way: Way, steps: int) -> list[Choice]:
    """Food that may be added now: not on the way of so many steps, but a few cells beside the
    first half of it, so that there is time to go there."""
    ahead, first_half = way[: steps + 1], way[: steps // 2 + 1]
    starts = {rule.cell(box) for box in first_half}
    away = distances(open_cells(rule.maze(env)), starts)
    return [
        (rule.edit, params)
        for params in env.choices(rule.edit)
        if params["on"]
        and NEAREST <= away.get((params["row"], params["col"]), 0) <= FURTHEST
        and not reached(ahead, env.region(rule.edit, **params))
    ]


def reached(way: Way, places: Sequence[Box]) -> bool:
    """Whether the player came to where something is."""
    return any(_gap(place, box) == 0 for place in places for box in way)


def _gap(one: Box, other: Box, columns_only: bool = False) -> int:
    """Pixels from one box to another, the larger of rows and columns; 0 where they overlap."""
    rows = max(one[0] - other[2], other[0] - one[2]) + 1
    columns = max(one[1] - other[3], other[1] - one[3]) + 1
    return max(0, columns) if columns_only else max(0, rows, columns)
