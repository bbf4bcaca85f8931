"""Q*bert: the colours of the 21 tiles, in rounds where one visit is enough."""

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
)

# fmt: off
TILES = (
    21,
    52, 54,
    83, 85, 87,
    98, 100, 102, 104,
    1, 3, 5, 7, 9,
    32, 34, 36, 38, 40, 42,
)
_LEFT = (
    68,
    56, 84,
    44, 68, 96,
    32, 56, 84, 108,
    20, 44, 68, 96, 120,
    8, 32, 56, 84, 108, 132,
)
# fmt: on
_TOP = (34, 62, 91, 120, 149, 178)
_ROW_OF = tuple(row for row in range(6) for _ in range(row + 1))
TO_DO, DONE = 148, 26


def tile_box(i: int) -> Box:
    return _TOP[_ROW_OF[i]], _LEFT[i], _TOP[_ROW_OF[i]] + 5, _LEFT[i] + 20


def _tile(ram: Ram, i: int, on: bool) -> Pokes:
    colours = {ram[byte] for byte in TILES}
    if not colours <= {TO_DO, DONE}:
        raise refuse(
            "tile",
            f"the tiles have colours {sorted(colours)}",
            f"rounds with {TO_DO} and {DONE} are known",
        )
    if on and sum(ram[byte] == TO_DO for byte in TILES) < 2:
        raise refuse("tile", "it is the last one to visit", "a round must not end without a jump")
    return changed(ram, {TILES[i]: DONE if on else TO_DO}, "tile")


GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(89, 90, 91),
    edits=(
        Edit(
            "tile",
            "Make a tile count as visited, or as still to visit",
            (number("i", 0, 20, "tile, from the top and from the left"), switch("visited or not")),
            ("the round is one with the colours of the first", "one tile remains to be visited"),
            _tile,
            lambda ram, i, on: (tile_box(i),),
            frozenset(TILES),
        ),
    ),
)
