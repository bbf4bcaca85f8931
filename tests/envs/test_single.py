"""Single environments show what the agent saw in training: the vector path, stack by stack."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import RunEnvs, VectorEnv, describe
from idqn.envs.editable import EditableAtari
from idqn.envs.episodes import episode_seed
from idqn.envs.mini_pacman import RENDER_SCALE
from idqn.envs.single import FrameStack, SingleImageEnv, make_single
from idqn.errors import UserError
from idqn.presets import preset
from tests.envs.film_env import FilmEnv

MINI = preset("paper", "idqn/MiniPacman-v0").env
PONG = preset("paper", "ALE/Pong-v5").env

# --- FrameStack by hand


def pixels(*levels: int) -> NDArray[np.uint8]:
    """Frames of one grey pixel, one for each environment."""
    return np.array(levels, np.uint8).reshape(-1, 1, 1, 1)


def test_the_newest_frame_comes_last_and_an_episode_begins_with_zeros() -> None:
    stack = FrameStack(2, 3, (1, 1, 1))
    nobody, second = np.array([False, False]), np.array([False, True])
    pushed = [
        stack.push(pixels(1, 11), ~nobody),
        stack.push(pixels(2, 12), nobody),
        stack.push(pixels(3, 13), nobody),
        stack.push(pixels(4, 14), second),
        stack.push(pixels(5, 15), nobody),
    ]
    assert [observation[0].ravel().tolist() for observation in pushed] == [
        [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5],
    ]  # fmt: skip
    assert [observation[1].ravel().tolist() for observation in pushed] == [
        [0, 0, 11], [0, 11, 12], [11, 12, 13], [0, 0, 14], [0, 14, 15],
    ]  # fmt: skip
    assert pushed[0].dtype == np.uint8
    np.testing.assert_array_equal(stack.observation, pushed[-1])


def test_colours_of_a_frame_stay_together() -> None:
    stack = FrameStack(1, 2, (3, 1, 1))
    stack.push(np.array([1, 2, 3], np.uint8).reshape(1, 3, 1, 1), np.array([True]))
    both = stack.push(np.array([4, 5, 6], np.uint8).reshape(1, 3, 1, 1), np.array([False]))
    assert both.ravel().tolist() == [1, 2, 3, 4, 5, 6]


def test_a_stack_of_one_is_the_frame() -> None:
    stack = FrameStack(1, 1, (1, 1, 1))
    for number, fresh in ((1, True), (2, False), (3, True)):
        assert stack.push(pixels(number), np.array([fresh])).ravel().tolist() == [number]


# --- the same as training


@pytest.mark.parametrize(
    ("config", "episodes", "most"),
    [
        (MINI, 4, 1_000),
        (replace(MINI, color=True, frame_stack=3, frame_height=11, frame_width=20), 2, 1_000),
        (replace(MINI, frame_skip=3, max_pool=True, max_episode_frames=13), 4, 1_000),
        (replace(PONG, max_episode_frames=160, sticky_probability=0.25), 2, 1_000),
        (replace(PONG, color=True, frame_stack=3, frame_height=None), 1, 20),
    ],
    ids=["mini", "mini in colour", "mini, skipping", "pong", "pong in colour"],
)
def test_a_single_environment_equals_the_vector_path(
    config: EnvConfig, episodes: int, most: int
) -> None:
    """Observations, rewards and ends of environment 1 of 2, last observations included."""
    rng = np.random.default_rng(0)
    seed, spec = 17, describe(config)
    single = make_single(config)
    stack = FrameStack(2, config.frame_stack, spec.frame_shape)
    with VectorEnv([RunEnvs(config, seed)], 2, workers=0) as vector:
        seen = stack.push(vector.start(), np.ones(2, bool))
        ended = 0
        for episode in range(episodes):
            observation, over = single.reset(episode_seed(seed, 1, episode)), False
            for _ in range(most):
                np.testing.assert_array_equal(observation, seen[1], strict=True)
                action = int(rng.integers(spec.num_actions))
                observation, reward, terminated, truncated = single.step(action)
                step = vector.step(np.array([0, action]))
                assert reward == step.reward[1]
                assert (terminated, truncated) == (step.terminated[1], step.truncated[1])
                over = terminated or truncated
                before = seen[1]
                seen = stack.push(step.frame, step.terminated | step.truncated)
                if over:
                    last = np.concatenate([before[spec.frame_shape[0] :], step.final_frame[1]])
                    np.testing.assert_array_equal(observation, last)
                    ended += 1
                    break
    single.close()
    assert ended == (episodes if most > 100 else 0)


def test_what_an_earlier_observation_shows_never_changes() -> None:
    for config in (MINI, PONG):
        single = make_single(config)
        first = single.reset(3)
        kept = first.copy()
        for _ in range(3):
            single.step(1)
        single.reset(4)
        np.testing.assert_array_equal(first, kept)
        single.close()


# --- the rest of the interface


def test_atari_games_are_editable() -> None:
    assert isinstance(make_single(PONG), EditableAtari)
    assert isinstance(make_single(MINI), SingleImageEnv)


def test_screens_are_in_colour_and_large() -> None:
    mini, pong = make_single(MINI), make_single(PONG)
    mini.reset(0)
    pong.reset(0)
    assert mini.screen().shape == (33 * RENDER_SCALE, 33 * RENDER_SCALE, 3)
    assert pong.screen().shape == (210, 160, 3)
    before = mini.screen()
    assert before.dtype == pong.screen().dtype == np.uint8
    for _ in range(3):
        mini.step(1)
    assert (mini.screen() != before).any()


def test_unknown_ids_are_a_users_mistake() -> None:
    for given, suggested in (("idqn/MiniPackman-v0", MINI.id), ("ALE/Pongg-v5", PONG.id)):
        with pytest.raises(UserError, match=f"did you mean '{suggested}'"):
            make_single(preset("paper", given).env)


def test_an_environment_that_cannot_be_drawn_shows_what_the_agent_sees() -> None:
    frames = [np.full((6, 5), level, np.uint8) for level in (10, 200, 30)]
    gym.register("tests/Undrawn-v0", lambda: FilmEnv(frames))
    config = replace(MINI, id="tests/Undrawn-v0")
    env = SingleImageEnv(config)
    env.reset(seed=0)
    env.step(1)
    screen = env.screen()
    assert screen.shape == (6, 5, 3)
    assert (screen == 200).all()
