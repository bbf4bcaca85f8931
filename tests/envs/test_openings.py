"""Remembered beginnings against the native environment, which emulates each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode, roms

from idqn.config import EnvConfig
from idqn.envs import openings
from idqn.envs.atari import AtariGroup
from idqn.envs.episodes import UNSEEDED
from idqn.envs.openings import Openings
from idqn.envs.screens import ScreenGroup

WHOLE: dict[str, Any] = {"frame_height": None, "frame_width": None}


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("MsPacman", {}),  # all beginnings are the same
        ("Frostbite", {}),  # there are two
        ("Qbert", {"noop_max": 3}),  # begins with a frame half drawn
        ("Freeway", {"noop_max": 1}),  # does not press FIRE
        ("Skiing", {}),  # cannot
    ],
)
def test_episodes_are_the_native_ones(game: str, options: dict[str, Any]) -> None:
    """Short ones: there is a reset every other step."""
    config = EnvConfig(f"ALE/{game}-v5", **WHOLE, **options, max_episode_frames=9)
    ours, native = ScreenGroup(config, 2), AtariGroup(config, 2)
    assert ours._games[0]._openings is not None
    every, rng = np.ones(2, bool), np.random.default_rng(0)
    seeds = np.array([4, 5])
    np.testing.assert_array_equal(ours.reset(every, seeds), native.reset(every, seeds))
    ends = 0
    for _ in range(200):
        actions = rng.integers(0, 3, 2)
        step = ours.step(actions)
        for got, want in zip(step, native.step(actions), strict=True):
            np.testing.assert_array_equal(got, want)
        over = step[2] | step[3]
        if over.any():
            ends += int(over.sum())
            again = np.where(rng.random(2) < 0.05, rng.integers(0, 99, 2), UNSEEDED)
            here, there = ours.reset(over, again), native.reset(over, again)
            np.testing.assert_array_equal(here[over], there[over])
    assert ends > 100
    native.close()


def loaded(game: str, seed: int = 0) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(roms.get_rom_path(game)))
    return ale


def test_a_reset_is_restored_whatever_the_seed_and_the_game_before() -> None:
    known = Openings(str(roms.get_rom_path("frostbite")), None)
    assert known.usable
    assert not known.fired
    real, restored = loaded("frostbite", 3), loaded("frostbite", 8)
    noop, *_, other = real.getLegalActionSet()
    memories = set()
    for reset in range(40):
        real.reset_game()
        screens = known.restore(restored, reset)
        np.testing.assert_array_equal(screens[0], real.getScreenGrayscale())
        np.testing.assert_array_equal(restored.getRAM(), real.getRAM())
        memories.add(real.getRAM().tobytes())
        for _ in range(3):
            assert real.act(noop) == restored.act(noop)
        np.testing.assert_array_equal(restored.getScreenGrayscale(), real.getScreenGrayscale())
        for _ in range(reset):
            restored.act(other)
    assert len(memories) == 2  # so which one comes when does matter


def test_a_game_that_begins_in_two_ways_by_one_number_is_not_sped_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openings, "_TIMERS", 5)  # as if fewer things told beginnings apart
    assert not Openings(str(roms.get_rom_path("frostbite")), None).usable


def test_sticky_actions_and_games_that_remember_are_reset_as_ever() -> None:
    sticky = ScreenGroup(EnvConfig("ALE/Pong-v5", sticky_probability=0.25), 1)
    remembering = ScreenGroup(EnvConfig("ALE/KungFuMaster-v5"), 1)
    for group in (sticky, remembering):
        assert group._games[0]._openings is None
