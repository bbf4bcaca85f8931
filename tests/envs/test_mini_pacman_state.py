"""MiniPacman's state, edits, snapshots and pictures: what explanation tests rely on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from typing import Any

import cv2
import numpy as np
import pytest

from idqn.envs.mini_pacman import COLOURS, MAZE, OPEN_CELLS, Frame, MiniPacman, MiniPacmanState
from idqn.errors import UserError

NOOP, RIGHT = 0, 2
START = MiniPacmanState(pacman=(1, 1), ghost=(9, 9), pellets=frozenset({(1, 2), (1, 3)}), steps=0)


def play(env: MiniPacman, steps: int, seed: int) -> Iterator[tuple[Frame, float, bool, bool]]:
    """Random play that goes on into the next episode; the actions depend on `seed` alone."""
    for action in np.random.default_rng(seed).integers(5, size=steps):
        frame, reward, terminated, truncated, _ = env.step(action)
        yield frame, reward, terminated, truncated
        if terminated or truncated:
            env.reset()


def draw(state: MiniPacmanState) -> Frame:
    """A second implementation of the picture: pixel by pixel, from nothing."""
    frame = np.zeros((33, 33, 3), np.uint8)
    for y in range(33):
        for x in range(33):
            cell, inside = (y // 3, x // 3), (y % 3, x % 3)
            if MAZE[cell[0]][cell[1]] == "#":
                frame[y, x] = COLOURS["walls"]
            elif cell == state.ghost:
                frame[y, x] = (0, 0, 0) if inside == (2, 1) else COLOURS["ghost"]
            elif cell == state.pacman:
                frame[y, x] = (0, 0, 0) if inside == (1, 2) else COLOURS["pacman"]
            elif cell in state.pellets and inside == (1, 1):
                frame[y, x] = COLOURS["pellets"]
    return frame


# --- edits and snapshots


def test_same_seed_same_game() -> None:
    first, second, other = MiniPacman(), MiniPacman(), MiniPacman()
    first.reset(seed=5)
    second.reset(seed=6)
    list(play(second, steps=50, seed=0))  # a past must not matter
    second.reset(seed=5)
    other.reset(seed=6)
    games = [list(play(env, steps=300, seed=1)) for env in (first, second, other)]
    for (frame, *rest), (frame_again, *rest_again) in zip(games[0], games[1], strict=True):
        np.testing.assert_array_equal(frame, frame_again)
        assert rest == rest_again
    assert any((a[0] != b[0]).any() for a, b in zip(games[0], games[2], strict=True))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"pacman": (0, 0)}, r"pacman is on \(0, 0\)"),
        ({"ghost": (5, 5)}, r"ghost is on \(5, 5\)"),
        ({"ghost": (-2, -2)}, r"ghost is on \(-2, -2\)"),
        ({"ghost": None}, "ghost is on None"),
        ({"pellets": frozenset({(1, 2), (4, 2)})}, r"a pellet is on \(4, 2\)"),
        ({"ghost": (1, 1)}, r"both on \(1, 1\)"),
        ({"pellets": frozenset()}, "at least one"),
        ({"pellets": frozenset({(1, 1)})}, "under pacman"),
        ({"steps": -1}, "steps is -1; expected 0 to 199"),
        ({"steps": 200}, "steps is 200; expected 0 to 199"),
    ],
)
def test_refused_edits_leave_the_game_untouched(edit: dict[str, Any], message: str) -> None:
    env = MiniPacman()
    env.reset(seed=0)
    list(play(env, steps=5, seed=0))
    before, frame = env.save(), env.observe()
    with pytest.raises(UserError, match=message):
        env.set_state(replace(START, **edit))
    assert env.save() == before
    np.testing.assert_array_equal(env.observe(), frame)


def test_state_round_trip_is_frozen_and_plain() -> None:
    env = MiniPacman()
    assert (env.set_state(START) == draw(START)).all()
    assert env.state == START
    with pytest.raises(FrozenInstanceError):
        env.state.steps = 3  # type: ignore[misc]
    row_col: Any = tuple(np.array([1, 1]))
    env.set_state(replace(START, pacman=row_col))
    assert all(type(index) is int for index in env.state.pacman)


def test_save_and_restore_continue_identically() -> None:
    env = MiniPacman()
    env.reset(seed=3)
    list(play(env, steps=10, seed=0))
    snapshot = env.save()
    once = list(play(env, steps=200, seed=1))
    for target in (env, MiniPacman()):  # also in an env that was never reset
        np.testing.assert_array_equal(target.restore(snapshot), draw(snapshot.state))
        again = list(play(target, steps=200, seed=1))
        for (frame, *rest), (frame_again, *rest_again) in zip(once, again, strict=True):
            np.testing.assert_array_equal(frame, frame_again)
            assert rest == rest_again


def test_a_finished_episode_is_restored_as_finished() -> None:
    env = MiniPacman(ghost_speed=0)
    env.set_state(replace(START, ghost=(1, 2)))
    assert env.step(RIGHT)[2]
    snapshot = env.save()
    env.reset()
    env.restore(snapshot)
    with pytest.raises(UserError, match="reset"):
        env.step(NOOP)


# --- pictures


def test_every_frame_equals_drawing_from_scratch() -> None:
    env = MiniPacman()
    frame, _ = env.reset(seed=0)
    np.testing.assert_array_equal(frame, draw(env.state))
    for frame, *_ in play(env, steps=500, seed=0):
        np.testing.assert_array_equal(frame, draw(env.state))
        frame.fill(7)  # a frame is the caller's own


def test_object_masks_match_the_cells() -> None:
    env = MiniPacman()
    env.reset(seed=0)
    for _ in play(env, steps=100, seed=2):
        state = env.state
        masks = {name: env.object_mask(name) for name in COLOURS}
        for name, cell, pixels in (("pacman", state.pacman, 8), ("ghost", state.ghost, 8)):
            if state.pacman == state.ghost:
                continue
            y0, x0, y1, x1 = env.cell_box(*cell)
            assert masks[name].sum() == masks[name][y0:y1, x0:x1].sum() == pixels
        visible = sorted(state.pellets - {state.ghost})
        centres = [(3 * row + 1, 3 * col + 1) for row, col in visible]
        assert [tuple(pixel) for pixel in np.argwhere(masks["pellets"])] == centres
        assert masks["walls"].sum() == 9 * (121 - len(OPEN_CELLS))
        drawn = env.observe().any(axis=-1)
        np.testing.assert_array_equal(np.sum(list(masks.values()), axis=0), drawn.astype(int))


def test_cell_box_and_unknown_objects() -> None:
    assert MiniPacman.cell_box(0, 10) == (0, 30, 3, 33)
    with pytest.raises(UserError, match=r"\(11, 0\)"):
        MiniPacman.cell_box(11, 0)
    with pytest.raises(UserError, match="did you mean 'pellets'"):
        MiniPacman().object_mask("pellet")


def test_grey_levels_stay_apart() -> None:
    colours = np.array([[(0, 0, 0), *COLOURS.values()]], np.uint8)
    levels = sorted(cv2.cvtColor(colours, cv2.COLOR_RGB2GRAY).ravel().tolist())
    assert np.diff(levels).min() >= 40


def test_render_is_the_frame_scaled_up() -> None:
    env = MiniPacman(render_mode="rgb_array")
    frame, _ = env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (264, 264, 3)
    for offset in (0, 7):
        np.testing.assert_array_equal(picture[offset::8, offset::8], frame)
    assert MiniPacman().render() is None
    assert env.metadata["render_fps"] == 8
