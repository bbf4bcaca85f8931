"""EditableMiniPacman is what agents train on, with the state's edits by name."""

from dataclasses import replace

import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.mini_pacman import ENV_ID, OPEN_CELLS, MiniPacmanState
from idqn.envs.single import SingleImageEnv, make_editable
from idqn.errors import UserError
from tests.envs.alone import MINI

RIGHT = 2


def play(env: EditableMiniPacman | SingleImageEnv, seed: int, steps: int) -> list[object]:
    rng = np.random.default_rng(seed)
    seen: list[object] = []
    for action in rng.integers(5, size=steps):
        seen += env.step(int(action))
        if seen[-1] or seen[-2]:
            break
    return seen


@pytest.mark.parametrize("changes", [{}, {"frame_skip": 3, "max_pool": True, "frame_stack": 4}])
def test_it_plays_like_the_single_environment(changes: dict[str, int]) -> None:
    config = replace(MINI, **changes)
    ours, single = make_editable(config), SingleImageEnv(config)
    assert isinstance(ours, EditableMiniPacman)
    for seed in (1, 2):
        np.testing.assert_array_equal(ours.reset(seed), single.reset(seed))
        for one, other in zip(play(ours, seed, 300), play(single, seed, 300), strict=True):
            np.testing.assert_array_equal(one, other)
    assert ours.action_names[RIGHT] == "RIGHT"
    assert ours.num_actions == 5


def test_save_and_restore_continue_identically_in_any_instance() -> None:
    config = replace(MINI, max_episode_frames=60)
    env = EditableMiniPacman(config)
    env.reset(4)
    play(env, 0, 10)
    snapshot = env.save()
    reference = play(env, 1, 200)
    for other in (env, EditableMiniPacman(config)):
        np.testing.assert_array_equal(other.restore(snapshot), snapshot.observation)
        for one, two in zip(reference, play(other, 1, 200), strict=True):
            np.testing.assert_array_equal(one, two)
        with pytest.raises(UserError, match="over"):
            other.step(0)
    with pytest.raises(UserError, match="snapshot was made with"):
        EditableMiniPacman(MINI).restore(snapshot)


def test_nothing_happens_before_reset() -> None:
    env = EditableMiniPacman(MINI)
    for call in (lambda: env.step(0), lambda: env.choices("pellet")):
        with pytest.raises(UserError, match="reset"):
            call()


@pytest.fixture
def env() -> EditableMiniPacman:
    env = EditableMiniPacman(MINI)
    env.reset(3)
    return env


def boxes_that_changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    changed: np.ndarray = (before != after).any(axis=2)
    return changed


@pytest.mark.parametrize("name", ["pellet", "pacman", "ghost"])
def test_every_choice_shows_exactly_where_it_says(env: EditableMiniPacman, name: str) -> None:
    for _ in range(4):
        env.step(RIGHT)
    if name == "pacman":
        for row, col in ((1, 1), (9, 9)):
            if (row, col) in env.state.pellets:
                env.apply("pellet", row=row, col=col, on=False)
    snapshot, before = env.save(), env.screen()
    choices = env.choices(name)
    assert len(choices) >= (2 if name == "pacman" else 40)
    for params in choices:
        env.restore(snapshot)
        region = env.region(name, **params)
        env.apply(name, **params)
        changed = boxes_that_changed(before, env.screen())
        claimed = np.zeros(changed.shape, bool)
        for top, left, bottom, right in region:
            claimed[top:bottom, left:right] = True
        assert not (changed & ~claimed).any()
        hidden = name == "pellet" and (params["row"], params["col"]) == env.state.ghost
        assert changed.any() or hidden
        ends = {env.state.pacman}
        for action in (1, 2, 3, 4):
            env.restore(snapshot)
            env.apply(name, **params)
            env.step(action)
            ends.add(env.state.pacman)
        assert len(ends) > 2  # actions still matter


def test_objects_are_where_they_are_drawn(env: EditableMiniPacman) -> None:
    for name, colour in (("pacman", (255, 225, 20)), ("ghost", (255, 60, 60))):
        top, left, bottom, right = env.objects()[name]
        drawn = (env.screen() == colour).all(axis=2)
        assert drawn[top:bottom, left:right].sum() == drawn.sum() > 0


def test_an_added_pellet_is_eaten(env: EditableMiniPacman) -> None:
    env.apply("ghost", row=9, col=9)
    env.apply("pellet", row=1, col=1, on=False)
    env.apply("pellet", row=1, col=2, on=False)
    env.apply("pacman", row=1, col=1)
    snapshot = env.save()
    assert env.settle([RIGHT]).reward == 0
    env.restore(snapshot)
    env.apply("pellet", row=1, col=2, on=True)
    assert env.settle([RIGHT]).reward == 1


def test_the_last_pellet_stays_and_is_worth_ten(env: EditableMiniPacman) -> None:
    for row, col in OPEN_CELLS:
        if (row, col) in env.state.pellets - {(1, 2)}:
            env.apply("pellet", row=row, col=col, on=False)
    with pytest.raises(UserError, match="last one"):
        env.apply("pellet", row=1, col=2, on=False)
    env.apply("ghost", row=9, col=9)
    if env.state.pacman != (1, 1):
        env.apply("pacman", row=1, col=1)
    assert env.state == MiniPacmanState((1, 1), (9, 9), frozenset({(1, 2)}), 0)
    settled = env.settle([RIGHT, RIGHT])
    assert (settled.reward, settled.terminated, settled.steps) == (10, True, 1)


def test_edits_keep_the_luck(env: EditableMiniPacman) -> None:
    """Far from both, a pellet changes nothing but itself: the ghost goes the same way."""
    twin = EditableMiniPacman(MINI)
    twin.reset(3)
    row, col = max(env.state.pellets)
    env.apply("pellet", row=row, col=col, on=False)
    for action in (1, 2, 1, 0):
        env.step(action)
        twin.step(action)
        assert env.objects() == twin.objects()
    assert env.config.id == ENV_ID == EnvConfig(id=ENV_ID).id
