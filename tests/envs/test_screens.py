"""Whole screens against the native environment's, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs import RunEnvs, VectorEnv
from idqn.envs.atari import SCREEN_SHAPE, AtariGroup
from idqn.envs.episodes import UNSEEDED
from idqn.envs.screens import ScreenGroup, shows_screens

WHOLE: dict[str, Any] = {"frame_height": None, "frame_width": None}


@pytest.mark.parametrize(
    "config",
    [
        EnvConfig("ALE/MsPacman-v5", **WHOLE),
        EnvConfig("ALE/Qbert-v5", **WHOLE, max_episode_frames=402),
        EnvConfig("ALE/Breakout-v5", **WHOLE, sticky_probability=0.25),
        EnvConfig("ALE/Pong-v5", **WHOLE, frame_skip=1, noop_max=0, fire_on_reset=False),
        EnvConfig("ALE/SpaceInvaders-v5", **WHOLE, frame_skip=3, max_pool=False),
        EnvConfig("ALE/Freeway-v5", **WHOLE, full_action_space=True, max_episode_frames=200),
    ],
    ids=lambda config: config.id,
)
def test_a_group_shows_what_the_native_one_does(config: EnvConfig) -> None:
    count, rng = 3, np.random.default_rng(0)
    ours, native = ScreenGroup(config, count), AtariGroup(config, count)
    assert ours.episodes_per_seed == native.episodes_per_seed
    every, seeds = np.ones(count, bool), np.array([3, 1, 2**31 - 1])
    np.testing.assert_array_equal(ours.reset(every, seeds), native.reset(every, seeds))
    ends = 0
    for _ in range(420):
        actions = rng.integers(0, 3, count)
        screens, *rest = ours.step(actions)
        expected, *others = native.step(actions)
        for got, want in zip((screens, *rest), (expected, *others), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype
        over = rest[1] | rest[2]
        if over.any():
            seeds = np.where(rng.random(count) < 0.3, rng.integers(0, 99, count), UNSEEDED)
            ends += int(over.sum())
            again, there = ours.reset(over, seeds), native.reset(over, seeds)
            np.testing.assert_array_equal(again[over], there[over])
    assert ends > 0 or config.id not in {"ALE/Qbert-v5", "ALE/Breakout-v5", "ALE/Freeway-v5"}
    ours.close()
    native.close()


def test_who_shows_screens() -> None:
    assert shows_screens(EnvConfig("ALE/Pong-v5"))
    assert not shows_screens(EnvConfig("ALE/Pong-v5", color=True))
    assert not shows_screens(EnvConfig("ALE/Pong-v5", **WHOLE))
    assert not shows_screens(EnvConfig("ALE/Pong-v5", frame_height=105, frame_width=80))
    assert not shows_screens(EnvConfig("ALE/Pong-v5", frame_height=300, frame_width=84))


@pytest.mark.parametrize("watchful", [True, False])
def test_workers_show_the_same_screens_as_this_process(watchful: bool) -> None:
    """And the same as the native environment without shrinking; season by season."""
    small = EnvConfig("ALE/Breakout-v5", max_episode_frames=90)
    whole = replace(small, **WHOLE)
    rng = np.random.default_rng(0)
    with (
        VectorEnv([RunEnvs(small, 5)], 4, 2, 2, screens=True, watchful=watchful) as ours,
        VectorEnv([RunEnvs(whole, 5)], 4, 0, 2) as native,
    ):
        assert ours.frame_shape == native.frame_shape == SCREEN_SHAPE
        np.testing.assert_array_equal(ours.start(), native.start())
        for _ in range(60):
            for turn in range(2):
                actions = rng.integers(0, 4, 2)
                for one in (ours, native):
                    one.send(actions, turn)
            for turn in range(2):
                for got, want in zip(ours.recv(turn), native.recv(turn), strict=True):
                    np.testing.assert_array_equal(got, want)
        positions = ours.positions()
        assert int(positions.episode.min()) >= 2
    with VectorEnv([RunEnvs(small, 5)], 4, 0, 2, screens=True) as again:
        frames = again.start(positions)
    with VectorEnv([RunEnvs(whole, 5)], 4, 0, 2) as there:
        np.testing.assert_array_equal(frames, there.start(positions))
