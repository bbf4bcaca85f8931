"""EditableAtari is the native vector environment, to the bit, with RAM that can be edited."""

from typing import Any

import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari import native_options
from idqn.envs.editable import EditableAtari
from idqn.errors import UserError
from tests.envs.alone import GAMES, config_of

LONGEST = 4_000  # steps; random play ends sooner in all nine games, from the seeds below


class Native:
    """The native environment, in EditableAtari's words."""

    def __init__(self, config: EnvConfig) -> None:
        self.env = AtariVectorEnv(
            num_envs=1, num_threads=1, stack_num=config.frame_stack, **native_options(config)
        )

    def reset(self, seed: int) -> NDArray[np.uint8]:
        options = {"reset_mask": np.array([True])}
        observation, _ = self.env.reset(seed=np.array([seed]), options=options)
        return self._channels_first(observation)

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        observation, reward, terminated, truncated, _ = self.env.step(np.array([action]))
        frames = self._channels_first(observation)
        return frames, float(reward[0]), bool(terminated[0]), bool(truncated[0])

    @staticmethod
    def _channels_first(observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        frames = np.asarray(observation[0], np.uint8)  # [stack, H, W] or [stack, H, W, 3]
        if frames.ndim == 3:
            return frames
        return np.concatenate([frame.transpose(2, 0, 1) for frame in frames])


def assert_same(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1:] == theirs[1:]


def assert_plays_like_native(config: EnvConfig, *plan: tuple[int, int]) -> list[str]:
    """Play at most so many steps from each seed, one after the other; how each one ended."""
    ours, native = EditableAtari(config), Native(config)
    assert ours.num_actions == len(native.env.ale.get_action_set())
    ends = []
    for seed, steps in plan:
        rng = np.random.default_rng(seed)
        np.testing.assert_array_equal(ours.reset(seed), native.reset(seed))
        end = ""
        for _ in range(steps):
            action = int(rng.integers(ours.num_actions))
            answer = ours.step(action)
            assert_same(answer, native.step(action))
            if answer[2] or answer[3]:
                end = "terminated" if answer[2] else "truncated"
                break
        ends.append(end)
    return ends


@pytest.mark.parametrize("game", GAMES)
def test_whole_episodes_equal_native(game: str) -> None:
    plan = ((2, LONGEST), (3, 40), (4, 10), (5, 2))
    assert assert_plays_like_native(config_of(game), *plan)[0] == "terminated"


def test_starts_equal_native() -> None:
    """Many seeds are many numbers of no-ops."""
    assert_plays_like_native(config_of("Pong"), *((seed, 1) for seed in range(100, 110)))


@pytest.mark.parametrize("seed", [3_639_800, 7_778_977])
def test_noops_are_drawn_by_multiply_and_shift(seed: int) -> None:
    """Seeds and a range for which the older libstdc++ algorithm draws another number."""
    assert_plays_like_native(config_of("Pong", noop_max=289_999_999), (seed, 3))


@pytest.mark.parametrize(("game", "sticky"), [("MsPacman", 0.25), ("Pong", 0.25), ("Qbert", 0.9)])
def test_sticky_actions_equal_native(game: str, sticky: float) -> None:
    assert_plays_like_native(config_of(game, sticky_probability=sticky), (3, 300), (4, 100))


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "colour, full size": ("Qbert", {"color": True, "frame_height": None, "frame_width": None}),
    "colour, small": ("Venture", {"color": True}),
    "grey, full size": ("Alien", {"frame_height": None, "frame_width": None, "frame_stack": 1}),
    "another size": ("Gravitar", {"frame_height": 96, "frame_width": 160}),
    "one frame a step": ("Qbert", {"frame_skip": 1, "frame_stack": 3}),
    "two frames a step": ("SpaceInvaders", {"frame_skip": 2}),
    "five frames a step": ("Freeway", {"frame_skip": 5}),
    "no pooling": ("SpaceInvaders", {"max_pool": False}),
    "no no-ops": ("Qbert", {"noop_max": 0}),
    "no fire": ("SpaceInvaders", {"fire_on_reset": False}),
    "neither": ("Qbert", {"noop_max": 0, "fire_on_reset": False}),
    "one no-op": ("Qbert", {"noop_max": 1}),
    "all actions": ("Frostbite", {"full_action_space": True}),
    "all actions, and so FIRE": ("MsPacman", {"full_action_space": True}),
    "no time limit": ("Pong", {"max_episode_frames": None}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_equal_native(name: str) -> None:
    game, options = OPTIONS[name]
    assert_plays_like_native(config_of(game, **options), (6, 120))


@pytest.mark.parametrize("options", [{"frame_skip": 3}, {"max_pool": False}, {"color": True}])
def test_the_last_step_of_an_episode_equals_native(options: dict[str, Any]) -> None:
    """Games end in the middle of a step, which then shows what earlier frames left."""
    config = config_of("Frostbite", **options)
    assert assert_plays_like_native(config, (8, LONGEST), (9, LONGEST)) == ["terminated"] * 2


@pytest.mark.parametrize("frames", [4, 101, 104])
def test_truncation_equals_native(frames: int) -> None:
    config = config_of("MsPacman", max_episode_frames=frames)
    assert assert_plays_like_native(config, (11, 40), (12, 40)) == ["truncated"] * 2


def test_restoring_does_not_leave_the_native_path() -> None:
    config = config_of("Qbert", sticky_probability=0.25)
    ours, native = EditableAtari(config), Native(config)
    rng = np.random.default_rng(23)
    np.testing.assert_array_equal(ours.reset(23), native.reset(23))
    for _ in range(200):
        snapshot = ours.save()
        ours.step(int(rng.integers(ours.num_actions)))  # an excursion
        ours.restore(snapshot)
        action = int(rng.integers(ours.num_actions))
        answer = ours.step(action)
        assert_same(answer, native.step(action))
        if answer[2]:
            break


def test_properties() -> None:
    env = EditableAtari(config_of("MsPacman", color=True, frame_stack=2))
    observation = env.reset(0)
    assert env.action_names[:3] == ("NOOP", "UP", "RIGHT")
    assert env.num_actions == len(env.action_names) == 9
    assert EditableAtari(config_of("MsPacman", full_action_space=True)).num_actions == 18
    assert env.frame_shape == (3, 84, 84)
    assert observation.shape == (6, 84, 84)
    assert not observation[:3].any()  # nothing before the first frame
    assert observation[3:].any()
    assert env.lives == 3
    assert env.screen().shape == (210, 160, 3)
    assert env.screen().dtype == env.ram.dtype == observation.dtype == np.uint8


@pytest.fixture(scope="module")
def pong() -> EditableAtari:
    env = EditableAtari(config_of("Pong"))
    env.reset(0)
    return env


def test_what_is_given_out_is_a_copy(pong: EditableAtari) -> None:
    for array in (pong.observation, pong.ram, pong.screen()):
        array[:] = 1
    assert not (pong.observation == 1).all()
    assert not (pong.ram == 1).all()
    assert not (pong.screen() == 1).all()


def test_poke_sets_ram_and_shows_after_a_step() -> None:
    env = EditableAtari(config_of("MsPacman"))
    env.reset(0)
    for _ in range(80):  # the game plays a tune first
        env.step(0)
    before, screen = env.ram, env.screen()
    env.poke({59: 0, 60: 0, 61: 0})  # the first row of pellets
    changed = np.flatnonzero(env.ram != before)
    assert set(changed) <= {59, 60, 61}
    assert changed.size > 0
    np.testing.assert_array_equal(env.screen(), screen)
    env.step(0)
    assert (env.screen()[5:12] != screen[5:12]).any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({128: 0}, "0 to 127, got 128"),
        ({-1: 0}, "0 to 127, got -1"),
        ({3: 256}, "0 to 255, got 256 for byte 3"),
        ({3: -1}, "0 to 255, got -1 for byte 3"),
        ({3: 1.5}, "0 to 255, got 1.5"),
        ({"x": 1}, "0 to 127, got 'x'"),
        ({3: True}, "0 to 255, got True"),
    ],
)
def test_a_bad_poke_changes_nothing(
    pong: EditableAtari, values: dict[Any, Any], message: str
) -> None:
    before = pong.ram
    with pytest.raises(UserError, match=message):
        pong.poke({5: int(before[5]) ^ 255, **values})
    np.testing.assert_array_equal(pong.ram, before)


def test_numpy_integers_can_be_poked(pong: EditableAtari) -> None:
    pong.poke({np.int64(49): np.uint8(100)})  # type: ignore[dict-item]
    assert pong.ram[49] == 100


def test_misuse_is_told() -> None:
    env = EditableAtari(config_of("Pong"))
    for call in (env.save, lambda: env.step(0), lambda: env.poke({0: 0})):
        with pytest.raises(RuntimeError, match="reset"):
            call()
    for seed in (-1, 2**31):
        with pytest.raises(UserError, match="seed"):
            env.reset(seed)
    env.reset(0)
    with pytest.raises(UserError, match="from 0 to 5, got 6"):
        env.step(6)
    with pytest.raises(UserError, match="did you mean 'ALE/Pong-v5'"):
        EditableAtari(EnvConfig(id="ALE/Pongg-v5"))
