"""Playing full games, one by one and many at once, and what the scores say."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.envs import describe
from idqn.envs.episodes import episode_seed
from idqn.envs.mini_pacman import MiniPacman
from idqn.envs.single import make_single
from idqn.errors import UserError
from idqn.evaluate import (
    EVALUATION_SEED,
    Episode,
    bootstrap_interval,
    evaluate,
    play,
    play_many,
    random_policy,
    summarize,
)
from idqn.presets import preset
from idqn.run_dir import RunDir

MINI = preset("paper", "idqn/MiniPacman-v0").env
SHORT_PONG = replace(preset("paper", "ALE/Pong-v5").env, max_episode_frames=40)

Policy = Callable[[NDArray[np.uint8]], NDArray[np.int64]]


def by_looks(observation: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Deterministic, and sensitive to every pixel of every frame in the stack."""
    weights = np.arange(1, observation[0].size + 1)
    return observation.reshape(len(observation), -1).astype(np.int64) @ weights % 97 % 5


def scripted(actions: list[int]) -> Policy:
    waiting = iter(actions)
    return lambda observation: np.full(len(observation), next(waiting))


# --- one game


def test_play_shows_every_moment_of_one_episode() -> None:
    actions = np.random.default_rng(2).integers(5, size=200).tolist()
    moments = list(play(scripted(actions), make_single(MINI), seed=5))

    game, single = MiniPacman(render_mode="rgb_array"), make_single(MINI)
    game.reset(seed=5)
    observation = single.reset(5)
    over = False
    for moment, action in zip(moments, actions, strict=False):
        assert not over
        np.testing.assert_array_equal(moment.observation, observation)
        np.testing.assert_array_equal(moment.screen, game.render())
        _, reward, terminated, truncated, _ = game.step(action)
        observation = single.step(action)[0]
        over = terminated or truncated
        assert (moment.action, moment.reward, moment.last) == (action, reward, over)
    assert over
    assert len(moments) > 5
    assert sum(moment.reward for moment in moments) > 0


def test_play_does_not_play_ahead() -> None:
    asked: list[int] = []

    def policy(observation: NDArray[np.uint8]) -> NDArray[np.int64]:
        asked.append(len(observation))
        return np.zeros(1, np.int64)

    assert len(list(islice(play(policy, make_single(MINI)), 3))) == 3
    assert asked == [1, 1, 1]


# --- many games


def test_the_games_do_not_depend_on_how_many_are_played_at_once() -> None:
    """Nor is a short one favoured: they are the first eight of a fixed list."""
    listed = []
    for number in range(8):
        seed = episode_seed(EVALUATION_SEED, 0, number)
        rewards = [moment.reward for moment in play(by_looks, make_single(MINI), seed)]
        listed.append(Episode(sum(rewards), len(rewards)))
    assert len(set(listed)) > 4
    for envs in (1, 3, 8, 16):
        assert sorted(play_many(by_looks, MINI, 8, envs=envs)) == sorted(listed)


def test_more_episodes_begin_with_the_same_ones() -> None:
    few = list(play_many(by_looks, MINI, 4, envs=4))
    many = list(play_many(by_looks, MINI, 11, envs=4))
    assert len(many) == 11
    for episode in few:
        many.remove(episode)


def test_workers_change_nothing_and_are_gone_afterwards() -> None:
    played = [
        list(play_many(random_policy(SHORT_PONG), SHORT_PONG, 5, envs=3, workers=workers))
        for workers in (0, 2)
    ]
    assert played[0] == played[1]
    assert [episode.length for episode in played[0]] == [10] * 5
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("episodes", [1, 2, 5, 16, 17])
def test_exactly_as_many_episodes_as_asked(episodes: int) -> None:
    assert len(list(play_many(by_looks, MINI, episodes, envs=4))) == episodes


def test_other_seeds_are_other_games() -> None:
    first, second = (sorted(play_many(by_looks, MINI, 8, seed=seed)) for seed in (1, 2))
    assert first != second


def test_scores_are_raw_and_complete() -> None:
    """Truncated after 20 steps: the score is the sum of that episode's rewards, and no more."""
    config = replace(MINI, max_episode_frames=20)
    for episode in play_many(by_looks, config, 12, envs=5):
        assert episode.length <= 20
        assert 0 <= episode.score <= episode.length


@pytest.mark.parametrize("episodes", [0, -3])
def test_no_episodes_are_refused(episodes: int) -> None:
    with pytest.raises(UserError, match=f"at least 1, got {episodes}"):
        list(play_many(by_looks, MINI, episodes))


# --- what the scores say


def test_summarize_by_hand() -> None:
    played = [Episode(1.0, 10), Episode(2.0, 30), Episode(4.0, 20), Episode(1.0, 5)]
    result = summarize(played, SHORT_PONG, "idqn", frames_trained=1_000, seed=7)
    assert (result.env, result.policy, result.frames_trained) == ("ALE/Pong-v5", "idqn", 1_000)
    assert (result.episodes, result.sticky_probability, result.seed) == (4, 0.0, 7)
    assert (result.mean, result.median) == (2.0, 1.5)
    assert result.std == pytest.approx(2**0.5)  # of n - 1: (1 + 0 + 4 + 1) / 3
    assert result.distinct == 3
    assert (result.returns, result.lengths) == ((1.0, 2.0, 4.0, 1.0), (10, 30, 20, 5))
    assert 1.0 <= result.interval[0] < 2.0 < result.interval[1] <= 4.0


def test_one_game_says_nothing_about_the_spread() -> None:
    result = summarize([Episode(3.0, 8)], MINI, "random", 0, 0)
    assert (result.mean, result.median, result.std, result.distinct) == (3.0, 3.0, 0.0, 1)
    assert result.interval == (3.0, 3.0)


def test_an_evaluation_is_stored_as_json(tmp_path: Path) -> None:
    sticky = replace(SHORT_PONG, sticky_probability=0.25)
    result = summarize([Episode(-21.0, 800), Episode(-20.0, 900)], sticky, "idqn", 4_000, 0)
    result.save(RunDir(tmp_path))
    (file,) = (tmp_path / "evaluation").iterdir()
    assert file.name == "idqn-000000004000-sticky0.25-seed0-2episodes.json"
    expected = dataclasses.asdict(result)
    for name in ("interval", "returns", "lengths"):
        expected[name] = list(expected[name])
    assert json.loads(file.read_text()) == expected


def test_evaluate_plays_and_summarizes() -> None:
    result = evaluate(by_looks, MINI, episodes=6, name="looks", seed=3, envs=2)
    played = sorted(play_many(by_looks, MINI, 6, seed=3))
    assert (result.policy, result.seed, result.episodes) == ("looks", 3, 6)
    assert sorted(zip(result.returns, result.lengths, strict=True)) == played
    assert evaluate(by_looks, MINI, episodes=1).seed == EVALUATION_SEED


# --- the interval of the mean


def test_the_interval_of_many_samples_is_the_textbooks() -> None:
    """By the central limit theorem, 1.96 standard errors to either side."""
    samples = np.random.default_rng(0).gamma(2.0, 100.0, size=400)
    error = samples.std(ddof=1) / 20
    low, high = bootstrap_interval(samples)
    assert low == pytest.approx(samples.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(samples.mean() + 1.96 * error, abs=0.1 * error)


def test_the_interval_shrinks_with_more_samples_and_lower_levels() -> None:
    samples = np.random.default_rng(1).normal(5, 2, size=640)
    widths = []
    for count in (10, 40, 160, 640):
        low, high = bootstrap_interval(samples[:count])
        assert low < samples[:count].mean() < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    outer, inner = (bootstrap_interval(samples[:40], level) for level in (0.95, 0.5))
    assert outer[0] < inner[0] < inner[1] < outer[1]


def test_the_interval_of_constants_is_a_point() -> None:
    assert bootstrap_interval(np.full(30, 7.5)) == (7.5, 7.5)


def test_the_interval_is_the_same_every_time() -> None:
    samples = np.array([1.0, 5.0, 2.0, 8.0])
    assert bootstrap_interval(samples) == bootstrap_interval(samples)


# --- the random policy


def test_the_random_policy_is_seeded_and_uniform() -> None:
    observation = np.zeros((500, 2, 33, 33), np.uint8)
    first, again, other = (random_policy(MINI, seed) for seed in (4, 4, 5))
    actions = first(observation)
    assert actions.shape == (500,)
    assert actions.dtype == np.int64
    np.testing.assert_array_equal(actions, again(observation))
    assert (first(observation) != actions).any()  # it goes on
    assert (other(observation) != actions).any()
    counts = np.bincount(actions, minlength=5)
    assert len(counts) == describe(MINI).num_actions == 5
    assert (counts > 60).all()  # 100 expected, 9 the standard deviation
    assert random_policy(SHORT_PONG)(np.zeros((200, 4, 84, 84), np.uint8)).max() == 5
