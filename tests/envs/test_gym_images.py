"""Any Gymnasium environment with images and discrete actions, through prepared films."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import mini_pacman
from idqn.envs.gym_images import ImageEnv, ImageGroup, make_image_env
from idqn.errors import UserError
from idqn.presets import preset
from tests.envs.film_env import FilmEnv

mini_pacman.register()

Make = Callable[..., tuple[ImageEnv, FilmEnv]]


@pytest.fixture
def register() -> Iterator[Callable[..., str]]:
    """Register a film with the arguments of FilmEnv; returns its id."""
    registered: list[str] = []

    def add(**film: Any) -> str:
        env_id = f"test/Film{len(registered)}-v0"
        gym.register(env_id, entry_point=FilmEnv, kwargs=film)
        registered.append(env_id)
        return env_id

    yield add
    for env_id in registered:
        del gym.registry[env_id]


def as_it_is(env_id: str, **changes: Any) -> EnvConfig:
    return replace(preset("paper", env_id).env, **changes)


@pytest.fixture
def make(register: Callable[..., str]) -> Make:
    """Register a film and make it as a config with these changes asks."""

    def build(frames: list[NDArray[Any]], config: dict[str, Any] | None = None, **film: Any) -> Any:
        env = make_image_env(as_it_is(register(frames=frames, **film), **(config or {})))
        return env, env.env.unwrapped

    return build


def grey_levels(*levels: int) -> list[NDArray[np.uint8]]:
    return [np.full((2, 2), level, np.uint8) for level in levels]


def level(frame: NDArray[np.uint8]) -> int:
    assert (frame == frame.flat[0]).all()
    return int(frame.flat[0])


# --- frames

RAMP = np.arange(12, dtype=np.uint8).reshape(3, 4)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1)])
def test_grey_images_stay_as_they_are(make: Make, shape: tuple[int, ...]) -> None:
    env, _ = make([RAMP.reshape(shape), RAMP.reshape(shape) + 100])
    assert env.frame_shape == (1, 3, 4)
    np.testing.assert_array_equal(env.reset(0), RAMP[None], strict=True)
    np.testing.assert_array_equal(env.step(0)[0], RAMP[None] + 100, strict=True)


COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)


def test_rgb_becomes_grey(make: Make) -> None:
    """0.299, 0.587 and 0.114 of 255."""
    env, _ = make([COLOURS] * 2)
    assert env.frame_shape == (1, 2, 2)
    np.testing.assert_array_equal(env.reset(0), np.array([[[76, 150], [29, 255]]], np.uint8))


def test_rgb_is_kept_where_asked(make: Make) -> None:
    env, _ = make([COLOURS] * 2, {"color": True})
    assert env.frame_shape == (3, 2, 2)
    frame = env.reset(0)
    for channel in range(3):
        np.testing.assert_array_equal(frame[channel], COLOURS[:, :, channel], strict=True)


MARKS = np.random.default_rng(0).random((3, 4, 6)) < 0.5


@pytest.mark.parametrize(
    "space", [None, gym.spaces.MultiBinary((3, 4, 6))], ids=["Box", "MultiBinary"]
)
def test_marks_become_black_and_white(make: Make, space: gym.Space[Any] | None) -> None:
    """MinAtar has one plane of booleans for each kind of object."""
    marks = MARKS if space is None else MARKS.astype(np.int8)
    env, _ = make([marks] * 2, space=space)
    assert env.frame_shape == (6, 3, 4)
    expected = np.where(MARKS, 255, 0).astype(np.uint8).transpose(2, 0, 1)
    np.testing.assert_array_equal(env.reset(0), expected, strict=True)
    np.testing.assert_array_equal(env.step(0)[0], expected, strict=True)


def test_resizing_down_averages(make: Make) -> None:
    image = np.array([[0, 10, 100, 100], [20, 30, 100, 100]], np.uint8)
    env, _ = make([image] * 2, {"frame_height": 1, "frame_width": 2})
    assert env.frame_shape == (1, 1, 2)
    np.testing.assert_array_equal(env.reset(0), np.array([[[15, 100]]], np.uint8), strict=True)


def test_resizing_up_repeats(make: Make) -> None:
    image = np.array([[0, 100], [200, 50]], np.uint8)
    env, _ = make([image] * 2, {"frame_height": 4, "frame_width": 6})
    np.testing.assert_array_equal(env.reset(0), image.repeat(2, 0).repeat(3, 1)[None], strict=True)


@pytest.mark.parametrize("colour", [True, False])
def test_resizing_keeps_channels_apart(make: Make, colour: bool) -> None:
    images = np.stack([np.full((4, 4), 10 * n, np.uint8) for n in range(6)], axis=2)
    env, _ = make([images] * 2, {"frame_height": 2, "frame_width": 3, "color": colour})
    assert env.frame_shape == (6, 2, 3)
    assert [level(channel) for channel in env.reset(0)] == [0, 10, 20, 30, 40, 50]


def test_one_side_can_keep_its_size(make: Make) -> None:
    image = np.zeros((4, 6, 3), np.uint8)
    assert make([image] * 2, {"frame_height": 2})[0].frame_shape == (1, 2, 6)
    assert make([image] * 2, {"frame_width": 3, "color": True})[0].frame_shape == (3, 4, 3)


# --- steps


def test_seeds_reach_the_environment(make: Make) -> None:
    env, film = make(grey_levels(0, 1))
    env.reset(123)
    env.reset(2**31 - 1)
    assert film.seeds == [123, 2**31 - 1]


def test_actions_count_from_zero_whatever_the_environment_calls_them(make: Make) -> None:
    env, film = make(grey_levels(0, 1, 2, 3), actions=gym.spaces.Discrete(3, start=5))
    assert env.num_actions == 3
    env.reset(0)
    for action in (2, 0, 1):
        env.step(action)
    assert film.actions_taken == [7, 5, 6]


def test_skipped_frames_repeat_the_action_and_sum_the_rewards(make: Make) -> None:
    frames, rewards = grey_levels(0, 90, 80, 70, 60, 50, 40, 30), [1, 2, 4, -8, 16, 5, 9]
    env, film = make(frames, {"frame_skip": 3}, rewards=rewards)
    assert level(env.reset(0)) == 0
    frame, reward, terminated, truncated = env.step(2)
    assert (level(frame), reward, terminated, truncated) == (70, 7.0, False, False)
    frame, reward, terminated, truncated = env.step(1)
    assert (level(frame), reward, terminated, truncated) == (40, 13.0, False, False)
    frame, reward, terminated, truncated = env.step(0)  # only one frame is left
    assert (level(frame), reward, terminated, truncated) == (30, 9.0, True, False)
    assert film.actions_taken == [2, 2, 2, 1, 1, 1, 0]


def test_max_pool_takes_the_brighter_of_the_last_two_frames(make: Make) -> None:
    pooled = {"frame_skip": 3, "max_pool": True}
    env, _ = make(grey_levels(0, 90, 80, 70, 60, 50, 55, 30), pooled)
    env.reset(0)
    assert level(env.step(0)[0]) == 80  # of 90, 80, 70
    assert level(env.step(0)[0]) == 55  # of 60, 50, 55
    assert level(env.step(0)[0]) == 30  # nothing from the step before


def test_max_pool_is_pixel_by_pixel(make: Make) -> None:
    """Sprites that blink in turns are both seen."""
    one, other = np.array([[9, 0]], np.uint8), np.array([[0, 7]], np.uint8)
    env, _ = make([one, one, other, one], {"frame_skip": 2, "max_pool": True})
    env.reset(0)
    np.testing.assert_array_equal(env.step(0)[0], [[[9, 7]]])


def test_max_pool_without_skipping_changes_nothing(make: Make) -> None:
    env, _ = make(grey_levels(90, 50, 20, 30), {"max_pool": True})
    assert [level(env.reset(0)), *(level(env.step(0)[0]) for _ in range(3))] == [90, 50, 20, 30]


# --- ends


def test_truncation_at_the_frame_limit(make: Make) -> None:
    env, film = make(grey_levels(*range(20)), {"frame_skip": 2, "max_episode_frames": 5})
    for _ in range(2):  # the limit is of each episode
        env.reset(0)
        ends = [env.step(0) for _ in range(3)]
        assert [level(frame) for frame, *_ in ends] == [2, 4, 5]
        assert [end[2:] for end in ends] == [(False, False), (False, False), (False, True)]
    assert len(film.actions_taken) == 10


def test_without_a_limit_nothing_is_truncated(make: Make) -> None:
    env, _ = make(grey_levels(*range(200)))
    env.reset(0)
    ends = [env.step(0)[2:] for _ in range(199)]
    assert ends == [(False, False)] * 198 + [(True, False)]


@pytest.mark.parametrize(
    ("end", "limit", "expected"),
    [
        ((True, False), None, (True, False)),
        ((False, True), None, (False, True)),
        ((True, True), None, (True, False)),
        ((True, False), 2, (True, False)),
        ((False, True), 2, (False, True)),
    ],
)
def test_terminated_wins_over_truncated(
    make: Make, end: tuple[bool, bool], limit: int | None, expected: tuple[bool, bool]
) -> None:
    env, _ = make(grey_levels(0, 1, 2), {"max_episode_frames": limit}, end=end)
    env.reset(0)
    assert env.step(0)[2:] == (False, False)
    assert env.step(0)[2:] == expected


# --- names


def test_action_names(make: Make) -> None:
    film = grey_levels(0, 1)
    assert make(film)[0].action_names == ("action 0", "action 1", "action 2")
    env = make_image_env(preset("paper", "idqn/MiniPacman-v0").env)
    assert env.action_names == ("NOOP", "UP", "RIGHT", "LEFT", "DOWN")


# --- groups


def test_a_group_resets_and_steps_each_environment_by_itself(register: Callable[..., str]) -> None:
    film = grey_levels(0, 1, 2, 3, 4)
    group = ImageGroup(as_it_is(register(frames=film, rewards=[1, 2, 4, 8])), 3)
    every = np.ones(3, bool)
    assert group.reset(every, np.array([5, 6, 7])).shape == (3, 1, 2, 2)
    group.step(np.array([0, 1, 2]))
    group.reset(np.array([False, True, False]), np.array([0, 9, 0]))
    frames, rewards, terminated, truncated = group.step(np.array([2, 2, 2]))
    assert [level(frame) for frame in frames] == [2, 1, 2]
    assert rewards.dtype == np.float32
    assert rewards.tolist() == [2, 1, 2]
    group.step(np.zeros(3, np.int64))
    _, _, terminated, truncated = group.step(np.zeros(3, np.int64))
    assert terminated.tolist() == [True, False, True]
    assert not truncated.any()
    films: list[Any] = [env.env.unwrapped for env in group._envs]
    assert [film.seeds for film in films] == [[5], [6, 9], [7]]
    assert [film.actions_taken for film in films] == [[0, 2, 0, 0], [1, 2, 0, 0], [2, 2, 0, 0]]
    group.close()


# --- what is refused, in words


def assert_refused(config: EnvConfig, *said: str) -> None:
    with pytest.raises(UserError) as error:
        make_image_env(config)
    for words in said:
        assert words in str(error.value)


def test_observations_that_are_no_images_are_refused() -> None:
    images = "images are needed: HxW or HxWxC, uint8 or bool"
    assert_refused(as_it_is("CartPole-v1"), "'CartPole-v1'", "(4,), float32", images)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (gym.spaces.Box(0, 255, (8,), np.uint8), "(8,), uint8"),
        (gym.spaces.Box(0, 255, (2, 8, 8, 3), np.uint8), "(2, 8, 8, 3), uint8"),
        (gym.spaces.Box(0, 1, (8, 8), np.float32), "(8, 8), float32"),
        (gym.spaces.Box(0, 9, (8, 8), np.int64), "(8, 8), int64"),
        (gym.spaces.MultiBinary(8), "MultiBinary(8)"),
        (gym.spaces.Discrete(8), "Discrete(8)"),
        (gym.spaces.Dict({"a": gym.spaces.Discrete(2)}), "Dict('a': Discrete(2))"),
        (gym.spaces.Tuple([gym.spaces.Discrete(2)]), "Tuple(Discrete(2))"),
    ],
)
def test_other_observation_spaces_are_refused(
    register: Callable[..., str], space: gym.Space[Any], said: str
) -> None:
    env_id = register(frames=grey_levels(0, 1), space=space)
    assert_refused(as_it_is(env_id), f"'{env_id}'", said, "images are needed", "uint8 or bool")


def test_continuous_actions_are_refused() -> None:
    needs = "needs discrete actions (gymnasium.spaces.Discrete)"
    assert_refused(as_it_is("Pendulum-v1"), "'Pendulum-v1'", "Box(-2.0, 2.0, (1,), float32)", needs)


def test_several_actions_at_once_are_refused(register: Callable[..., str]) -> None:
    env_id = register(frames=grey_levels(0, 1), actions=gym.spaces.MultiDiscrete([2, 3]))
    assert_refused(as_it_is(env_id), "MultiDiscrete([2 3])", "needs discrete actions")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noop_max", 30),
        ("fire_on_reset", True),
        ("sticky_probability", 0.25),
        ("full_action_space", True),
    ],
)
def test_atari_options_are_refused_elsewhere(name: str, value: object) -> None:
    config = as_it_is("idqn/MiniPacman-v0", **{name: value})
    assert_refused(config, f"env.{name}", "Atari (ALE/...) only", "'idqn/MiniPacman-v0'", "default")
