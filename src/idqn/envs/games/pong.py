"""Pong: the ball and the opponent's paddle.

The player's own paddle follows a potentiometer that is read anew in each frame: it cannot be put.
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
)

BALL_X, BALL_Y, BALL_VX, BALL_VY, ENEMY_Y = 49, 54, 58, 56, 21
ENEMY_COPY = 50
X_OFFSET, Y_OFFSET, ENEMY_OFFSET = 49, 14, 15  # of bytes over screen positions
FIELD_TOP, FIELD_BOTTOM = 34, 194


def _clip(box: Box) -> Box:
    """The part inside the field: the rest is not drawn."""
    return max(box[0], FIELD_TOP), box[1], min(box[2], FIELD_BOTTOM), box[3]


def _ball_box(x: int, y: int) -> Box:
    return _clip((y, x, y + 4, x + 2))


def _enemy_box(y: int) -> Box:
    return _clip((y, 16, y + 16, 20))


def _ball_now(ram: Ram) -> Box:
    return _ball_box(ram[BALL_X] - X_OFFSET, ram[BALL_Y] - Y_OFFSET)


def _enemy_now(ram: Ram) -> Box:
    return _enemy_box(ram[ENEMY_Y] - ENEMY_OFFSET)


def _is_enemy_there(ram: Ram) -> bool:
    """It is not, before the first serve."""
    return FIELD_TOP < ram[ENEMY_Y] + 1 < FIELD_BOTTOM + ENEMY_OFFSET


def objects(ram: Ram) -> dict[str, Box]:
    enemy = {"enemy": _enemy_now(ram)} if _is_enemy_there(ram) else {}
    return enemy | ({"ball": _ball_now(ram)} if ram[BALL_Y] else {})


def _ball(ram: Ram, x: int, y: int, vx: int | None, vy: int | None) -> Pokes:
    if not ram[BALL_Y]:
        raise refuse("ball", "no ball is in play", "play on until it is served")
    pokes = {BALL_X: x + X_OFFSET, BALL_Y: y + Y_OFFSET}
    if vx is not None:
        pokes[BALL_VX] = -vx & 255
    if vy is not None:
        pokes[BALL_VY] = vy & 255
    return changed(ram, pokes, "ball")


def _enemy(ram: Ram, y: int) -> Pokes:
    if not _is_enemy_there(ram):
        raise refuse("enemy", "the paddle is not on the screen", "play on until the serve")
    pokes = {ENEMY_Y: y + ENEMY_OFFSET, ENEMY_COPY: y + ENEMY_OFFSET}
    return changed(ram, pokes, "enemy")


GAME: GameEdits[Ram, Pokes] = game_edits(
    score=(13, 14),
    objects=objects,
    edits=(
        Edit(
            "ball",
            "Put the ball somewhere, and give it another velocity",
            (
                number("x", 24, 134, "left edge on the screen, between the paddles", step=10),
                number("y", 36, 188, "top edge on the screen", step=8),
                one_of("vx", (-3, -2, -1, 1, 2, 3), "pixels a frame to the right", optional=True),
                one_of("vy", (-2, -1, 0, 1, 2), "pixels a frame downwards", optional=True),
            ),
            ("a ball is in play",),
            _ball,
            lambda ram, x, y, vx, vy: (_ball_now(ram), _ball_box(x, y)),
            frozenset((BALL_X, BALL_Y, BALL_VX, BALL_VY)),
        ),
        Edit(
            "enemy",
            "Move the opponent's paddle (which then goes on following the ball)",
            (number("y", 34, 178, "top edge on the screen", step=8),),
            ("the paddle is on the screen",),
            _enemy,
            lambda ram, y: (_enemy_now(ram), _enemy_box(y)),
            frozenset((ENEMY_Y, ENEMY_COPY)),
        ),
    ),
)
