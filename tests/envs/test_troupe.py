"""Games that are begun and stepped one by one, against the vector environment's, bit for bit."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs import EnvPositions, RunEnvs, VectorEnv
from idqn.envs.mini_pacman import ENV_ID, MiniPacman
from idqn.envs.troupe import Troupe
from idqn.errors import UserError
from idqn.presets import preset

MINI = preset("quick", ENV_ID).env
WHOLE: dict[str, Any] = {"frame_height": None, "frame_width": None}
SEED = 1_000_003


@pytest.mark.parametrize(
    "config",
    [
        EnvConfig("ALE/MsPacman-v5"),
        EnvConfig("ALE/Qbert-v5", max_episode_frames=160),  # begins with a frame half drawn
        EnvConfig("ALE/Frostbite-v5"),  # has two beginnings
        EnvConfig("ALE/SpaceInvaders-v5", sticky_probability=0.25),  # every episode has its seed
        EnvConfig("ALE/Pong-v5", frame_skip=1),  # beginnings are not remembered
        EnvConfig("ALE/YarsRevenge-v5"),  # remembers the last episode
        EnvConfig("ALE/Alien-v5", color=True, frame_height=42, frame_width=42),  # not shrunk here
        EnvConfig("ALE/Freeway-v5", **WHOLE, max_episode_frames=200),
        MINI,
    ],
    ids=lambda config: f"{config.id}{'-colour' * config.color}",
)
def test_episodes_are_those_of_the_vector_environment(config: EnvConfig) -> None:
    """In another order, twice, and after other games; those that are over rest."""
    episodes = np.array([3, 0, 7, 3])
    rng = np.random.default_rng(0)
    troupe = Troupe(config, 4, SEED, workers=0)
    troupe.begin(np.array([1, 2]))
    playing = np.arange(2)
    for _ in range(12):
        playing = playing[~troupe.step(playing, rng.integers(0, 3, len(playing))).over]
    positions = EnvPositions.start(4)._replace(episode=episodes.copy())
    with VectorEnv([RunEnvs(config, SEED)] * 4, 1, workers=0) as vector:
        expected = vector.start(positions)
        np.testing.assert_array_equal(troupe.begin(episodes), expected)
        playing = np.arange(4)
        for _ in range(45):
            actions = rng.integers(0, 3, 4)
            actions[3] = actions[0]
            step = vector.step(actions)
            answer = troupe.step(playing, actions[playing])
            over = (step.terminated | step.truncated)[playing]
            np.testing.assert_array_equal(answer.over, over)
            np.testing.assert_array_equal(answer.reward, step.reward[playing])
            np.testing.assert_array_equal(answer.frame[~over], step.frame[playing[~over]])
            playing = playing[~over]
    assert config.max_episode_frames != 160 or not len(playing)
    troupe.close()


def test_workers_play_the_same_games(capfd: pytest.CaptureFixture[str]) -> None:
    config, episodes = EnvConfig("ALE/MsPacman-v5"), np.array([2, 1, 5])
    alone, divided = Troupe(config, 3, 4, 0), Troupe(config, 3, 4, 2)
    np.testing.assert_array_equal(alone.begin(episodes), divided.begin(episodes))
    assert alone.beginnings(episodes) == divided.beginnings(episodes)
    for seats in ([0, 1, 2], [0, 1, 2], [1], [0, 2], [2]):
        who = np.array(seats)
        for one, other in zip(alone.step(who, who + 1), divided.step(who, who + 1), strict=True):
            np.testing.assert_array_equal(one, other)
    alone.close()
    divided.close()
    assert capfd.readouterr() == ("", "")  # the emulator is not one to be silent by itself


def test_who_begins_alike_goes_on_alike() -> None:
    """MsPacman begins in as many ways as there are numbers of no-ops."""
    episodes = np.arange(8)
    troupe = Troupe(EnvConfig("ALE/MsPacman-v5", noop_max=3), 8, 0, workers=0)
    beginnings = troupe.beginnings(episodes)
    frames = [troupe.begin(episodes)]
    for action in np.random.default_rng(1).integers(0, 5, 80):
        frames.append(troupe.step(episodes, np.full(8, action)).frame)
    games = [b"".join(frame[i].tobytes() for frame in frames) for i in range(8)]
    assert len(set(games)) == len(set(beginnings)) == 4
    assert len(set(zip(beginnings, games, strict=True))) == 4
    troupe.close()


def test_another_timer_is_another_beginning() -> None:
    """Of Frostbite, which looks at it."""
    troupe = Troupe(EnvConfig("ALE/Frostbite-v5", noop_max=0), 1, 0, workers=0)
    assert len(set(troupe.beginnings(np.arange(12)))) > 6
    troupe.close()


def test_nobody_knows_how_others_begin() -> None:
    for config in (MINI, EnvConfig("ALE/Pong-v5", sticky_probability=0.25)):
        troupe = Troupe(config, 2, 0, workers=0)
        assert troupe.beginnings(np.arange(3)) == [None] * 3
        troupe.close()


def test_what_fails_in_a_worker_is_said() -> None:
    troupe = Troupe(EnvConfig("ALE/Pong-v5"), 2, 0, workers=1)
    troupe.begin(np.array([0, 1]))
    with pytest.raises(RuntimeError, match="list index out of range"):
        troupe.step(np.arange(2), np.array([0, 99]))
    with pytest.raises(RuntimeError, match="died without a word"):
        troupe.step(np.arange(2), np.zeros(2, np.int64))
    with pytest.raises(RuntimeError, match="died without a word"):
        troupe.beginnings(np.arange(2))
    troupe.close()
    with pytest.raises(UserError, match="unknown environment"):
        Troupe(EnvConfig("idqn/Nothing-v0"), 1, 0, workers=0)


def test_workers_that_did_not_fail_still_answer_what_they_are_asked() -> None:
    config = EnvConfig("ALE/Pong-v5")
    troupe, alone = Troupe(config, 2, 0, workers=2), Troupe(config, 2, 0, workers=0)
    for one in (troupe, alone):
        one.begin(np.array([0, 1]))
    with pytest.raises(RuntimeError, match="list index out of range"):
        troupe.step(np.arange(2), np.array([99, 2]))
    alone.step(np.array([1]), np.array([2]))  # which the second worker did
    who, actions = np.array([1]), np.array([3])
    np.testing.assert_array_equal(troupe.step(who, actions).frame, alone.step(who, actions).frame)
    troupe.close()


def test_whoever_waits_for_workers_that_are_given_up_is_told() -> None:
    troupe = Troupe(EnvConfig("ALE/Pong-v5"), 4, 0, workers=1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(troupe.begin, np.arange(4))  # for emulators to be built, at least
        troupe.give_up()
        with pytest.raises(RuntimeError, match="died without a word"):
            waiting.result(60)
    troupe.close()


def test_a_worker_that_cannot_be_built_says_why() -> None:
    """Whoever asks it something may be faster than it, or slower."""
    gym.register("test/KnownHere-v0", entry_point=MiniPacman)  # and not in the worker
    config = dataclasses.replace(MINI, id="test/KnownHere-v0")
    for wait in (False, True):
        troupe = Troupe(config, 1, 0, workers=1)
        if wait:
            troupe._processes[0].join()
        with pytest.raises(UserError, match="unknown environment"):
            troupe.begin(np.array([0]))
        troupe.close()
