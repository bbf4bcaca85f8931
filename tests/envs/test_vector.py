"""What a VectorEnv plays: the same for any number of workers, and each environment as if alone.

That its processes come and go as they should: test_vector_workers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import EnvPositions, RunEnvs, VectorEnv, describe
from idqn.envs.atari import episodes_per_seed
from idqn.envs.editable import EditableAtari
from idqn.envs.episodes import episode_seed
from idqn.envs.gym_images import ImageGroup
from idqn.presets import preset
from tests.envs.alone import (
    BREAKOUT,
    MINI,
    MSPACMAN,
    Alone,
    assert_moment,
    assert_same_steps,
    over,
    play,
    random_actions,
)

# Few and late ends for Atari: a reset takes as long as a few hundred steps.
# Time limits at which some random episodes are cut off and others have ended before.
MIXED_MINI = replace(MINI, max_episode_frames=20)
MIXED_BREAKOUT = replace(BREAKOUT, max_episode_frames=560)
STICKY_BREAKOUT = replace(MIXED_BREAKOUT, sticky_probability=0.25)
FREEWAY = preset("paper", "ALE/Freeway-v5").env  # its cars show how many no-ops there were
SHORT_MSPACMAN = replace(MSPACMAN, max_episode_frames=720)  # truncated before it is lost


@cache
def num_actions(config: EnvConfig, envs: int) -> list[int]:
    return [describe(config).num_actions] * envs


# --- the same steps for any number of workers


@pytest.mark.parametrize(
    ("config", "steps"),
    [(MIXED_MINI, 500), (STICKY_BREAKOUT, 250), (SHORT_MSPACMAN, 200)],
    ids=["mini", "breakout", "mspacman"],
)
def test_workers_change_nothing(config: EnvConfig, steps: int) -> None:
    envs = 3  # two workers cannot share them evenly
    actions = random_actions(steps, num_actions(config, envs))
    starts, played = [], []
    for workers in (0, 1, 2):
        with VectorEnv([RunEnvs(config, 5)], envs, workers) as vector:
            starts.append(vector.start().copy())
            played.append(play(vector, actions))
    for start, steps_played in zip(starts[1:], played[1:], strict=True):
        np.testing.assert_array_equal(start, starts[0])
        assert_same_steps(steps_played, played[0])
    assert sum(over(step).sum() for step in played[0]) >= envs


# --- autoreset is hidden


@pytest.mark.parametrize(
    ("config", "steps", "ends"),
    [
        (MINI, 300, {"terminated"}),
        (MIXED_MINI, 400, {"terminated", "truncated"}),
        (MIXED_BREAKOUT, 500, {"terminated", "truncated"}),
        (SHORT_MSPACMAN, 200, {"truncated"}),
    ],
    ids=["mini", "mini, limited", "breakout", "mspacman"],
)
def test_each_environment_plays_as_if_alone(config: EnvConfig, steps: int, ends: set[str]) -> None:
    """Frames, raw rewards and ends, step by step: a step that played nothing would show."""
    run, envs = RunEnvs(config, 7), 2
    alone = [Alone(run, env) for env in range(envs)]
    seen: Counter[str] = Counter()
    with VectorEnv([run], envs, workers=0) as vector:
        np.testing.assert_array_equal(vector.start(), [one.frame for one in alone])
        for actions in random_actions(steps, num_actions(config, envs)):
            step = vector.step(actions)
            assert not (step.terminated & step.truncated).any()
            for env, one in enumerate(alone):
                assert_moment(step, env, one.step(int(actions[env])))
            seen["terminated"] += int(step.terminated.sum())
            seen["truncated"] += int(step.truncated.sum())
    assert {kind for kind, count in seen.items() if count >= 2} == ends


def test_final_frame_and_first_frame_differ() -> None:
    """Mistaking one for the other could not go unnoticed in the tests above."""
    with VectorEnv([RunEnvs(MIXED_BREAKOUT, 7)], 2, workers=0) as vector:
        vector.start()
        for step in play(vector, random_actions(200, num_actions(BREAKOUT, 2))):
            for env in np.flatnonzero(over(step)):
                assert (step.frame[env] != step.final_frame[env]).any()


def test_no_step_is_lost_between_episodes() -> None:
    """40 frames, 4 a step: every tenth step ends an episode, and no other."""
    config = replace(MSPACMAN, max_episode_frames=40)
    with VectorEnv([RunEnvs(config, 0)], 2, workers=0) as vector:
        vector.start()
        steps = play(vector, random_actions(35, num_actions(config, 2)))
        assert vector.positions().episode.tolist() == [3, 3]
        assert [len(log) for log in vector.positions().actions] == [5, 5]
    for env in (0, 1):
        assert [t for t, step in enumerate(steps, 1) if step.truncated[env]] == [10, 20, 30]
    assert not any(step.terminated.any() for step in steps)


def test_a_game_lost_on_its_last_frame_is_terminated_not_truncated() -> None:
    rng = np.random.default_rng(1)
    game, actions, terminated = EditableAtari(BREAKOUT), [], False
    game.reset(episode_seed(3, 0, 0))
    while not terminated:
        actions.append(int(rng.integers(4)))
        _, _, terminated, _ = game.step(actions[-1])
    limit = game.save().elapsed_frames
    for frames, expected in ((limit, (True, False)), (limit - 1, (False, True))):
        config = replace(BREAKOUT, max_episode_frames=frames)
        with VectorEnv([RunEnvs(config, 3)], 1, workers=0) as vector:
            vector.start()
            last = play(vector, np.array(actions)[:, None])[-1]
        assert (bool(last.terminated[0]), bool(last.truncated[0])) == expected


def test_both_ends_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a group says."""

    class BothEnds(ImageGroup):
        def step(self, actions: NDArray[np.int64]) -> Any:
            frames, reward, _, _ = super().step(actions)
            return frames, reward, np.array([True, False, True]), np.array([True, True, False])

    monkeypatch.setattr("idqn.envs.worker.make_group", lambda c, n, _: BothEnds(c, n))
    with VectorEnv([RunEnvs(MINI, 0)], 3, workers=0) as vector:
        vector.start()
        step = vector.step(np.zeros(3, np.int64))
    assert step.terminated.tolist() == [True, False, True]
    assert step.truncated.tolist() == [False, True, False]


def test_rewards_are_raw() -> None:
    """A pellet in MsPacman is 10 points."""
    with VectorEnv([RunEnvs(SHORT_MSPACMAN, 0)], 2, workers=0) as vector:
        vector.start()
        rewards = [step.reward for step in play(vector, random_actions(120, [9, 9]))]
    assert {0.0, 10.0} <= set(np.concatenate(rewards).tolist())
    assert rewards[0].dtype == np.float32


# --- positions


@pytest.mark.parametrize(
    ("config", "before", "after"),
    [
        (MINI, 0, 2),
        (MIXED_MINI, 2, 1),
        (MIXED_MINI, 1, 0),
        (STICKY_BREAKOUT, 0, 2),
    ],
    ids=["mini", "mini, limited", "mini, back home", "breakout, sticky"],
)
def test_positions_rebuild_exactly(config: EnvConfig, before: int, after: int) -> None:
    """From a moment right after an end of one environment, in the middle of others' episodes."""
    runs, envs = [RunEnvs(config, 11)], 3
    actions = random_actions(700, num_actions(config, envs))
    with VectorEnv(runs, envs, before) as vector:
        vector.start()
        step = vector.step(actions[0])
        now = 1
        while now < 100 or not over(step).any():
            step = vector.step(actions[now])
            now += 1
        ended = over(step)
        frames, positions, kept = step.frame.copy(), vector.positions(), vector.positions()
        following = play(vector, actions[now : now + 200])
        final = vector.positions()
    assert not ended.all()
    assert [len(log) == 0 for log in positions.actions] == ended.tolist()
    with VectorEnv(runs, envs, after) as rebuilt:
        rebuilt.start()
        play(rebuilt, actions[:5])  # wherever it was before
        np.testing.assert_array_equal(rebuilt.start(positions), frames)
        assert_same_positions(rebuilt.positions(), positions)
        assert_same_steps(play(rebuilt, actions[now : now + 200]), following)
        assert_same_positions(rebuilt.positions(), final)
    assert_same_positions(positions, kept)  # neither environment wrote into them


def assert_same_positions(one: EnvPositions, other: EnvPositions) -> None:
    np.testing.assert_array_equal(one.episode, other.episode)
    for left, right in zip(one.actions, other.actions, strict=True):
        np.testing.assert_array_equal(left, right, strict=True)


def longest_log(run: RunEnvs, env: int, episodes: int) -> tuple[int, NDArray[np.uint16]]:
    """The longest of some random episodes, all but the step that ends it."""
    rng, actions = np.random.default_rng(env), describe(run.config).num_actions
    best: tuple[int, list[int]] = 0, []
    for episode in range(episodes):
        one, log = Alone(run, env, episode), []
        while one.episode == episode:
            log.append(int(rng.integers(actions)))
            one.step(log[-1])
        best = max(best, (episode, log[:-1]), key=lambda item: len(item[1]))
    return best[0], np.array(best[1], np.uint16)


@pytest.mark.parametrize(
    ("config", "searched", "workers"),
    [(MINI, 500, 0), (MINI, 500, 2), (STICKY_BREAKOUT, 1, 1)],
    ids=["mini", "mini, two workers", "breakout, sticky"],
)
def test_positions_of_very_different_ages(config: EnvConfig, searched: int, workers: int) -> None:
    """At the very start, at a later episode's start, one and three steps in, one from the end."""
    run = RunEnvs(config, 13)
    oldest, log = longest_log(run, 2, searched)
    positions = EnvPositions(
        np.array([0, 4, oldest, 2, 1]), [log[:0], log[:0], log, log[:1], log[:3]]
    )
    alone = [Alone(run, env, int(episode)) for env, episode in enumerate(positions.episode)]
    for one, own_log in zip(alone, positions.actions, strict=True):
        for action in own_log.tolist():
            one.step(action)
    assert [one.length for one in alone] == [0, 0, len(log), 1, 3]  # none has ended
    assert len(log) >= 40
    with VectorEnv([run], 5, workers) as vector:
        np.testing.assert_array_equal(vector.start(positions), [one.frame for one in alone])
        for actions in random_actions(100, num_actions(config, 5), seed=1):
            step = vector.step(actions)
            for env, one in enumerate(alone):
                assert_moment(step, env, one.step(int(actions[env])))


def test_waiting_environments_lose_games_in_the_test_above() -> None:
    """They play action 0 until it is their turn."""
    run = RunEnvs(MINI, 13)
    _, log = longest_log(run, 2, 500)
    for env, episode in ((0, 0), (1, 4), (3, 2), (4, 1)):
        waiting = Alone(run, env, episode)
        for _ in range(len(log) - 3):
            waiting.step(0)
        assert waiting.episode > episode


def test_positions_before_the_first_step_and_without_argument() -> None:
    actions = random_actions(60, num_actions(MINI, 3))
    with VectorEnv([RunEnvs(MINI, 0)], 3, workers=0) as vector:
        first = vector.start().copy()
        beginning = vector.positions()
        played = play(vector, actions)
        for again in (beginning, None):
            np.testing.assert_array_equal(vector.start(again), first)
            assert vector.positions().episode.tolist() == [0, 0, 0]
            assert_same_steps(play(vector, actions), played)


@pytest.mark.parametrize(
    ("workers", "season", "episodes"),
    [(0, 4, [0, 5, 258, 2, 7]), (2, 256, [0, 5, 258, 512, 1])],
    ids=["short seasons", "real ones, in workers"],
)
def test_positions_in_the_middle_of_a_season(
    workers: int, season: int, episodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes of ten steps; short seasons end in between."""
    if workers == 0:
        monkeypatch.setattr("idqn.envs.atari._SEASON", season)
    assert episodes_per_seed(FREEWAY) == season
    run = RunEnvs(replace(FREEWAY, max_episode_frames=40), 17)
    log = random_actions(9, [3])[:, 0].astype(np.uint16)
    positions = EnvPositions(np.array(episodes), [log[:0], log[:4], log[:9], log[:8], log[:0]])
    alone = [Alone(run, env, int(episode)) for env, episode in enumerate(positions.episode)]
    for one, own_log in zip(alone, positions.actions, strict=True):
        for action in own_log.tolist():
            one.step(action)
    with VectorEnv([run], 5, workers) as vector:
        np.testing.assert_array_equal(vector.start(positions), [one.frame for one in alone])
        for actions in random_actions(25, [3] * 5, seed=1):
            step = vector.step(actions)
            for env, one in enumerate(alone):
                assert_moment(step, env, one.step(int(actions[env])))
        ended = vector.positions().episode - positions.episode
    assert ended.tolist() == [2, 2, 3, 3, 2]


# --- populations


@pytest.mark.parametrize("workers", [0, 3])
def test_a_population_of_different_games_plays_like_its_runs(workers: int) -> None:
    """One process serves both games; of three, two share a game's environments."""
    short = {"max_episode_frames": 160}
    runs = [RunEnvs(replace(BREAKOUT, **short), 3), RunEnvs(replace(MSPACMAN, **short), 8)]
    envs = 2
    actions = random_actions(60, num_actions(BREAKOUT, envs) + num_actions(MSPACMAN, envs))
    with VectorEnv(runs, envs, workers) as vector:
        frames = vector.start().copy()
        together = play(vector, actions)
    for number, run in enumerate(runs):
        own = slice(number * envs, (number + 1) * envs)
        with VectorEnv([run], envs, workers=0) as vector:
            np.testing.assert_array_equal(vector.start(), frames[own])
            single = play(vector, actions[:, own])
        assert_same_steps([type(step)(*(part[own] for part in step)) for step in together], single)
        assert any(over(step).any() for step in single)


def test_neighbours_change_nothing() -> None:
    """The first environment of a run is the same with and without a second, other seeds differ."""
    actions = random_actions(150, num_actions(MINI, 4))
    with VectorEnv([RunEnvs(MINI, 1), RunEnvs(MINI, 2)], 2, workers=0) as vector:
        start = vector.start().copy()
        together = play(vector, actions)
    assert len({frame.tobytes() for frame in start}) == 4
    for number, seed in enumerate((1, 2)):
        with VectorEnv([RunEnvs(MINI, seed)], 1, workers=0) as vector:
            vector.start()
            single = play(vector, actions[:, 2 * number : 2 * number + 1])
        own = slice(2 * number, 2 * number + 1)
        assert_same_steps([type(step)(*(part[own] for part in step)) for step in together], single)
