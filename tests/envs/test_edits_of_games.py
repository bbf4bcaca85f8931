"""What edits mean for the rules of a game: pellets are eaten, levels and waves still end."""

import itertools
from typing import Any

import numpy as np
import pytest

from idqn.envs.editable import EditableAtari
from idqn.envs.editing import Editable
from idqn.envs.games.mspacman import EATEN, GHOSTS, MAZE, PILL_CELLS, left
from idqn.envs.games.mspacman_mazes import MAZES
from idqn.envs.games.spaceinvaders import INVERTED_TRIANGLE, TRAINING_FORMATION
from idqn.errors import UserError
from tests.envs.alone import config_of
from tests.envs.edited import moment, some_choices

NOOP, UP, RIGHT, LEFT, DOWN = range(5)


def atari(env: Editable[Any, Any]) -> EditableAtari:
    assert isinstance(env, EditableAtari)
    return env


@pytest.fixture(scope="module")
def pacman_start() -> tuple[EditableAtari, Any]:
    env = atari(moment("MsPacman"))
    for _ in range(8):
        env.step(LEFT)
    return env, env.save()


@pytest.fixture
def pacman(pacman_start: tuple[EditableAtari, Any]) -> EditableAtari:
    env, snapshot = pacman_start
    env.restore(snapshot)
    return env


def send_ghosts_away(env: EditableAtari) -> None:
    for i, name in enumerate(GHOSTS):
        env.apply("ghost", name=name, row=0, col=5 + i, direction="right")


def test_a_maze_has_154_pellets_and_pills_eaten_or_not(pacman: EditableAtari) -> None:
    ram = pacman.ram.tolist()
    assert left(ram) + ram[EATEN] == 154
    for _, params in [c for c in some_choices(pacman, 30) if c[0] in ("pellet", "power_pill")]:
        name = "pellet" if "row" in params else "power_pill"
        pacman.apply(name, **params)
        ram = pacman.ram.tolist()
        assert left(ram) + ram[EATEN] == 154
    for maze in MAZES:
        assert all(row == row[::-1] for row in maze)  # all mazes are symmetrical
        assert all(maze[row][col] == "o" for row, col in PILL_CELLS)
        assert sum(row.count("o") for row in maze) == 4


def test_an_added_pellet_is_eaten_and_pays_ten(pacman: EditableAtari) -> None:
    """Beside the way: the corridor is emptied, then one pellet is put back."""
    send_ghosts_away(pacman)
    eaten = pacman.ram[EATEN]
    for col in range(18):
        if any(p == {"row": 13, "col": col, "on": False} for p in pacman.choices("pellet")):
            pacman.apply("pellet", row=13, col=col, on=False)
    emptied = int(pacman.ram[EATEN])
    assert emptied > eaten
    pacman.apply("pacman", row=13, col=2, direction="right")
    snapshot = pacman.save()
    assert pacman.settle([RIGHT] * 20).reward == 0
    pacman.restore(snapshot)
    pacman.apply("pellet", row=13, col=5, on=True)
    assert pacman.ram[EATEN] == emptied - 1
    top, left_edge, bottom, right = pacman.region("pellet", row=13, col=5, on=True)[0]
    pacman.settle([RIGHT])
    assert (pacman.screen()[top:bottom, left_edge:right] == (228, 111, 111)).all()
    assert pacman.settle([RIGHT] * 20).reward == 10
    assert pacman.ram[EATEN] == emptied


def test_the_level_ends_when_what_edits_left_is_eaten(pacman: EditableAtari) -> None:
    cells = [(row, col) for row in range(14) for col in range(18) if MAZES[0][row][col] == "."]
    kept = (13, 5)
    for row, col in cells:
        if {"row": row, "col": col, "on": False} in pacman.choices("pellet") and (row, col) != kept:
            pacman.apply("pellet", row=row, col=col, on=False)
    for i in range(4):
        pacman.apply("power_pill", i=i, on=False)
    assert left(pacman.ram.tolist()) == 1
    with pytest.raises(UserError, match="last one"):
        pacman.apply("pellet", row=13, col=5, on=False)
    send_ghosts_away(pacman)
    pacman.apply("pacman", row=13, col=2, direction="right")
    assert pacman.settle([RIGHT] * 12).reward == 10
    for _ in range(100):
        pacman.step(NOOP)
    assert left(pacman.ram.tolist()) == 154 - pacman.ram[EATEN]
    assert pacman.ram[EATEN] < 20  # a new maze, full of pellets


def test_a_pill_put_back_works(pacman: EditableAtari) -> None:
    pacman.apply("power_pill", i=0, on=False)
    pacman.apply("power_pill", i=0, on=True)
    pacman.apply("pacman", row=2, col=0, direction="up")
    assert pacman.settle([UP] * 6).reward >= 50
    assert pacman.objects()["pacman"][1] < 12
    with pytest.raises(UserError, match="already"):
        pacman.apply("edible", on=True)


def test_edible_ghosts_pay_and_dangerous_ones_kill(pacman: EditableAtari) -> None:
    send_ghosts_away(pacman)
    pacman.apply("pacman", row=13, col=2, direction="right")
    pacman.apply("ghost", name="sue", row=13, col=6, direction="left")
    snapshot, lives = pacman.save(), pacman.lives
    assert pacman.settle([RIGHT] * 10).reward < 200
    for _ in range(40):
        pacman.step(NOOP)
    assert pacman.lives == lives - 1
    pacman.restore(snapshot)
    pacman.apply("edible", on=True)
    assert pacman.settle([RIGHT] * 10).reward >= 200
    assert pacman.lives == lives


def test_ghosts_stay_in_the_corridors(pacman: EditableAtari) -> None:
    here = pacman.save()
    choices = pacman.choices("ghost")
    for i in np.random.default_rng(0).permutation(len(choices))[:25]:
        pacman.restore(here)
        name = choices[i]["name"]
        pacman.apply("ghost", **choices[i])
        for _ in range(15):
            pacman.step(NOOP)
            top, left_edge, _, _ = pacman.objects()[name]
            col = (left_edge - 6 - 4 * (left_edge > 74)) / 8
            row = (top - 2) / 12
            in_tunnel = left_edge < 8 or left_edge > 144
            in_house = 64 < left_edge < 88 and 46 < top < 90
            near = [
                MAZES[0][r][c] != "#"
                for r in {int(row), min(13, int(row + 0.9))}
                for c in {max(0, int(col)), max(0, min(17, int(col + 0.9)))}
            ]
            assert in_tunnel or in_house or all(near), (choices[i], top, left_edge)


def test_mazes_that_are_not_known_are_refused(pacman: EditableAtari) -> None:
    pacman.poke({MAZE: 9})
    for name in ("pellet", "ghost", "pacman"):
        assert pacman.choices(name) == []
    with pytest.raises(UserError, match="maze 9"):
        pacman.apply("pellet", row=0, col=0, on=False)


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ((3, 3, 7, 15, 15, 47), 20),
        ((32, 48, 56, 60, 60, 61), 19),
        ((63,) * 6, 36),
        ((0, 0, 0, 0, 0, 1), 1),
    ],
)
def test_formations_of_the_paper(rows: tuple[int, ...], count: int) -> None:
    assert TRAINING_FORMATION == (3, 3, 7, 15, 15, 47)
    assert INVERTED_TRIANGLE == (32, 48, 56, 60, 60, 61)
    env = EditableAtari(config_of("SpaceInvaders"))
    env.reset(1)
    for _ in range(30):
        env.step(NOOP)
    env.apply("invader", row=2, col=2, on=False)
    assert env.ram[17] == 35
    assert env.ram[20] == 63 - 4
    env.apply("invaders", rows=rows)
    assert env.ram[18:24].tolist() == list(rows)
    assert env.ram[17] == count == sum("invader" in name for name in env.objects())
    env.settle()
    for name, (top, left_edge, bottom, right) in env.objects().items():
        assert env.screen()[top:bottom, left_edge:right].any(), name
    empty = env.screen()[31 : 31 + 18 * 6 + 2 * int(env.ram[16]), 22:138]
    drawn = (empty == (134, 134, 29)).all(axis=2)
    for row in range(6):
        for col in range(6):
            if not rows[row] >> col & 1:
                box = env.region("invader", row=row, col=col, on=True)[0]
                part = drawn[box[0] - 31 : box[2] - 31, max(0, box[1] - 22) : box[3] - 22]
                assert not part.any(), (row, col)


def test_a_wave_still_ends_after_edits() -> None:
    env = EditableAtari(config_of("SpaceInvaders"))
    env.reset(1)
    for _ in range(30):
        env.step(NOOP)
    env.apply("invaders", rows=(0, 0, 0, 0, 0, 2))
    env.apply("invader", row=0, col=1, on=True)
    with pytest.raises(UserError, match="no invader"):
        env.apply("invaders", rows=(0,) * 6)
    for i in range(3):  # a free line of fire
        env.apply("shield", i=i, on=False)
    reward, fire, fire_right, fire_left = 0.0, 1, 4, 5
    for _ in range(600):
        objects = env.objects()
        ahead = max((box for name, box in objects.items() if name != "player"), default=None)
        aim = 0 if ahead is None else ahead[1] - objects["player"][1]
        answer = env.step(fire_right if aim > 3 else fire_left if aim < -3 else fire)
        assert not answer[2]
        reward += answer[1]
        if env.ram[17] == 36:
            break
        assert env.ram[17] <= 2
    assert env.ram[17] == 36
    assert reward >= 35  # bottom row 5, top row 30


def test_invaders_are_not_put_outside_the_field_or_among_the_shields() -> None:
    env = atari(moment("SpaceInvaders"))
    env.apply("invaders", rows=(0, 0, 0, 1, 1, 1))
    while {"row": 5, "col": 5, "on": True} in env.choices("invader"):
        assert not env.step(NOOP)[2]
    with pytest.raises(UserError, match="column 5 is outside the field now"):
        env.apply("invader", row=5, col=5, on=True)
    env.poke({16: 30})
    with pytest.raises(UserError, match="row 0 is down among the shields"):
        env.apply("invader", row=0, col=0, on=True)


def test_the_ball_flies_where_it_is_sent() -> None:
    env = EditableAtari(config_of("Pong", frame_skip=1))
    env.reset(0)
    assert env.choices("ball") == []
    with pytest.raises(UserError, match="no ball is in play"):
        env.apply("ball", x=60, y=100)
    while "ball" not in env.objects():
        env.step(NOOP)
    env.apply("ball", x=80, y=100, vx=-1, vy=1)
    tops = []
    for _ in range(6):
        env.step(NOOP)
        tops.append((env.objects()["ball"][0], env.objects()["ball"][1]))
    steps = {(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(tops)}
    assert steps == {(1, -1)}


def test_the_last_tile_and_rounds_with_other_colours_are_refused() -> None:
    env = atari(moment("Qbert"))
    while len(choices := [p for p in env.choices("tile") if p["on"]]) > 1:
        env.apply("tile", **choices[0])
    assert not choices
    to_do = next(i for i in range(21) if {"i": i, "on": False} not in env.choices("tile"))
    with pytest.raises(UserError, match="last one"):
        env.apply("tile", i=to_do, on=True)
    env.poke({21: 200})
    with pytest.raises(UserError, match="colours"):
        env.apply("tile", i=3, on=False)


def test_a_car_painted_like_the_road_still_hits() -> None:
    def heights(paint: bool) -> list[int]:
        env = atari(moment("Freeway"))
        for lane in range(10 if paint else 0):
            env.apply("car_colour", lane=lane, colour=6)
        return [int(env.step(1) and env.ram[14]) for _ in range(150)]

    assert heights(True) == heights(False)
    assert min(np.diff(heights(True))) < 0  # it was hit


def test_the_blocks_of_the_igloo_and_the_temperature() -> None:
    env = atari(moment("Frostbite"))
    grey = (142, 142, 142)
    sizes = []
    for blocks in range(1, 17):
        env.apply("igloo", blocks=blocks)
        env.settle()
        top, left_edge, bottom, right = env.region("igloo", blocks=1)[0]
        sizes.append(int((env.screen()[top:bottom, left_edge:right] == grey).all(axis=2).sum()))
    assert sizes[0] > 0
    assert sizes[3] > sizes[0]
    assert sizes[14] > sizes[3]
    env.apply("temperature", degrees=27)
    assert env.ram[101] == 0x27
    for row in range(3):
        env.apply("floe_visited", row=row, on=True)
    with pytest.raises(UserError, match="last white row"):
        env.apply("floe_visited", row=3, on=True)


def test_no_bear_comes_before_the_fourth_level() -> None:
    env = EditableAtari(config_of("Frostbite"))
    env.reset(3)
    env.settle([NOOP] * 40)
    assert env.choices("bear") == []
    assert "bear" not in env.objects()
    with pytest.raises(UserError, match="none on level 1; it comes on level 4"):
        env.apply("bear", x=100)


def test_the_bear_is_drawn_where_it_is_put_and_comes_for_the_player() -> None:
    env = atari(moment("Frostbite", frame_skip=1))
    here, player, lives = env.save(), env.objects()["player"], env.lives
    for params in env.choices("bear"):
        env.restore(here)
        env.apply("bear", **params)
        env.settle([NOOP] * 3)
        top, left_edge, bottom, right = env.objects()["bear"]
        assert abs(left_edge - params["x"]) <= 2  # it walks meanwhile
        drawn = (env.screen()[50:76] == (111, 111, 111)).all(axis=2)
        drawn[:, player[1] : player[3]] = False  # who has something grey on
        rows, columns = np.nonzero(drawn)
        assert top <= 50 + rows.min() <= 50 + rows.max() < bottom
        assert left_edge <= columns.min() <= columns.max() < right
    for x in (player[1] - 12, player[1], player[1] + 12):
        with pytest.raises(UserError, match="the player is there"):
            env.apply("bear", x=x)
    bear = env.objects()["bear"][1]
    with pytest.raises(UserError, match="the bear is there"):
        env.apply("player", x=bear)
    env.restore(here)
    env.apply("bear", x=player[3] + 8)
    env.settle([NOOP] * 240)
    assert env.objects()["player"][1] < player[1]  # it flees
    env.settle([NOOP] * 240)
    assert env.lives == lives - 1


def test_an_egg_laid_is_eaten_and_pays_ten() -> None:
    env = atari(moment("Alien"))
    eaten = int(env.ram[91])
    eggs = [p for p in env.choices("egg") if not p["on"] and p["row"] in (2, 6)]
    cell = {name: next(iter(eggs))[name] for name in ("row", "col")}
    env.apply("egg", **cell, on=False)
    assert env.ram[91] == eaten + 1
    here = env.save()
    for laid in (False, True):
        env.restore(here)
        if laid:
            env.apply("egg", **cell, on=True)
            assert env.ram[91] == eaten
        env.apply("player", **cell)
        assert env.settle([NOOP] * 2).reward == (10 if laid else 0)
        assert env.ram[91] == eaten + 1


def test_fuel_is_used_by_thrust_and_frames_are_counted_elsewhere() -> None:
    env = atari(moment("Gravitar"))
    last_digits = int(env.ram[12])
    env.apply("fuel", hundreds=243)
    assert env.ram[10:13].tolist() == [0x02, 0x43, last_digits]
    env.settle([2] * 8)  # UP, in a game with a fire button
    assert env.ram[11] < 0x43
    env.apply("velocity", vx=256, vy=0)
    left_edge = env.objects()["ship"][1]
    env.settle([NOOP] * 4)  # 16 frames
    assert 12 <= env.objects()["ship"][1] - left_edge <= 20
