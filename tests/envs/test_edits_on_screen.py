"""Every named edit on every game shows where it says it does, stays, and leaves a game to play."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.envs.editable import EditableAtari
from idqn.envs.editing import Editable
from idqn.envs.edits import Box
from tests.envs.alone import GAMES
from tests.envs.edited import moment, some_choices

FRAMES = 10  # enough for what blinks and for what is drawn late
MARGIN = 4  # pixels that things move meanwhile, on all sides

# Edits after which the game itself changes nothing of what was put there, unless played upon.
LASTING = {
    "Alien": ("egg",),
    "Freeway": ("car_colour", "chicken"),
    "Frostbite": ("floe_visited", "igloo", "player"),
    "Gravitar": ("fuel",),
    "MsPacman": ("pellet",),
    "Qbert": ("tile",),
    "SpaceInvaders": ("invader", "invaders", "shield", "player"),
    "Venture": ("player",),
}
# What else an edit changes on the screen, by the game's own doing.
ALSO: dict[str, tuple[Box, ...]] = {
    "Alien": ((14, 20, 190, 140),),  # eggs take the colour of the aliens beside them; the score
    "MsPacman": ((185, 70, 196, 110),),  # the score: pacman eats
}
SHOWN_AT_TIMES = (("Gravitar", "fuel"),)


def watch(env: Editable[Any, Any]) -> tuple[NDArray[np.uint8], list[Box]]:
    """All that is shown for some frames, one over the other, and where things were."""
    seen, boxes = np.zeros_like(env.screen()), list[Box]()
    for frame in range(FRAMES):
        env.step(0)
        if frame:  # the first shows what was
            seen = np.maximum(seen, env.screen())
            boxes += env.objects().values()
    return seen, boxes


def mask(boxes: list[Box], margin: int) -> NDArray[np.bool_]:
    inside = np.zeros((210, 160), bool)
    for top, left, bottom, right in boxes:
        rows = slice(max(0, top - margin), bottom + margin)
        inside[rows, max(0, left - margin) : right + margin] = True
    return inside


@pytest.mark.parametrize("game", GAMES)
def test_an_edit_shows_in_its_region_and_nowhere_else(game: str) -> None:
    env = moment(game, frame_skip=1, frame_stack=1, max_pool=False)
    snapshot, choices = env.save(), some_choices(env, 5)
    unedited, objects = watch(env)
    unseen = 0
    for name, params in choices:
        env.restore(snapshot)
        region = env.region(name, **params)
        for top, left, bottom, right in region:
            assert top < bottom <= 210
            assert left < right
        env.apply(name, **params)
        edited, moved = watch(env)
        different = (edited != unedited).any(axis=2)
        claimed = mask(list(region), MARGIN)
        unseen += not (different & claimed).any() and (game, name) not in SHOWN_AT_TIMES
        also = mask([*objects, *moved, *ALSO.get(game, ())], 1)
        assert not (different & ~claimed & ~also).any(), (name, params)
    # something may hide what was changed, or a paddle come to the same place, but rarely
    assert unseen <= len(choices) // 10


@pytest.mark.parametrize("game", GAMES)
def test_an_edit_lasts_and_the_game_goes_on(game: str) -> None:
    env = moment(game)
    assert isinstance(env, EditableAtari)
    snapshot, choices = env.save(), some_choices(env, 2)
    for name, params in choices:
        env.restore(snapshot)
        before = env.ram
        env.apply(name, **params)
        poked = env.ram
        written = np.flatnonzero(poked != before)
        settled = env.settle()
        assert not settled.terminated
        if name in LASTING.get(game, ()):
            np.testing.assert_array_equal(env.ram[written], poked[written], str((name, params)))
        here, plays = env.save(), set()
        for seed in (0, 1):  # 200 frames at random, twice
            rng = np.random.default_rng(seed)
            env.restore(here)
            screens = []
            for _ in range(50):
                assert not env.step(int(rng.integers(env.num_actions)))[2], (name, params)
                screens.append(env.screen().tobytes())
            plays.add(tuple(screens))
        assert len(plays) == 2, f"actions no longer matter after {name} {params}"
