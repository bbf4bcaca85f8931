"""Going back in time: what follows a restore is what followed the save, in every bit."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.editable import AtariSnapshot, EditableAtari
from idqn.envs.emulator import EmulatorSnapshot, frame_in_progress
from idqn.errors import UserError
from tests.envs.alone import GAMES, config_of


def stored(snapshot: AtariSnapshot) -> AtariSnapshot:
    """As it comes back from a file: through plain arrays, bytes and numbers."""
    emulator = EmulatorSnapshot(**dataclasses.asdict(snapshot.emulator))
    return dataclasses.replace(snapshot, emulator=emulator)


def play(env: EditableAtari, actions: NDArray[np.int64]) -> list[Any]:
    """All that can be seen while playing, to the episode's end."""
    seen: list[Any] = [(env.observation, env.screen(), env.ram, env.lives)]
    for action in actions:
        answer = env.step(int(action))
        seen.append((*answer, env.screen(), env.ram, env.lives))
        if answer[2] or answer[3]:
            break
    return seen


def assert_identical(left: list[Any], right: list[Any]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def with_another_past(config: EnvConfig) -> EditableAtari:
    env = EditableAtari(config)
    env.reset(77)
    for i in range(60):
        env.step(i % env.num_actions)
    return env


@pytest.mark.parametrize("game", GAMES)
def test_a_restored_game_goes_on_the_same(game: str) -> None:
    # One frame a step: nothing that differs for a single frame stays unseen.
    config = config_of(game, frame_skip=1, noop_max=0, frame_stack=2)
    env, other = EditableAtari(config), with_another_past(config)
    rng = np.random.default_rng(21)
    env.reset(21)
    for steps in (0, 1, 100, 3, 200, 6):
        for _ in range(steps):
            env.step(int(rng.integers(env.num_actions)))
        actions = rng.integers(env.num_actions, size=25)
        snapshot = env.save()
        reference = play(env, actions)
        env.restore(snapshot)
        assert_identical(play(env, actions), reference)
        other.restore(stored(snapshot))
        assert_identical(play(other, actions), reference)
    fresh = EditableAtari(config)
    fresh.restore(snapshot)
    assert_identical(play(fresh, actions), reference)


def test_a_start_goes_on_the_same_in_a_fresh_instance() -> None:
    """Q*bert starts in the middle of a frame, which ALE's own state does not tell."""
    env = EditableAtari(config_of("Qbert", noop_max=0, fire_on_reset=False, frame_skip=1))
    env.reset(21)
    actions = np.zeros(20, np.int64)
    for _ in range(4):
        snapshot, fresh = env.save(), EditableAtari(env.config)
        fresh.restore(snapshot)
        assert_identical(play(fresh, actions), play(env, actions))
        env.restore(snapshot)
        env.step(0)


def test_thinking_longer_than_a_frame_goes_on_the_same() -> None:
    """While this game thinks about its move, acts end in the middle of a frame."""
    config = config_of("TicTacToe3D", frame_skip=1, noop_max=0, fire_on_reset=False)
    env, thinking = EditableAtari(config), EditableAtari(config)
    rng = np.random.RandomState(0)
    env.reset(0)
    snapshots = {}
    for act in range(1, 61):  # with these actions, it thinks from act 37 to act 42
        env.step(0 if act <= 2 else rng.randint(env.num_actions))
        snapshots[act] = env.save()
    states = [snapshot.emulator.state for snapshot in snapshots.values()]
    assert not any(frame_in_progress(state) for state in states if state)
    actions = np.arange(20) % env.num_actions
    for act in range(36, 61):
        env.restore(snapshots[act])
        thinking.restore(snapshots[38])
        thinking.restore(snapshots[act])
        assert_identical(play(thinking, actions), play(env, actions))


@pytest.mark.parametrize("sticky", [0.25, 0.9])
def test_sticky_actions_go_on_the_same(sticky: float) -> None:
    """The held action is not in ALE's state; 0.9 holds one for longer than some replays."""
    config = config_of("SpaceInvaders", sticky_probability=sticky, frame_skip=1)
    env, other = EditableAtari(config), with_another_past(config)
    rng = np.random.default_rng(22)
    env.reset(22)
    for _ in range(60):
        for _ in range(7):
            env.step(int(rng.integers(env.num_actions)))
        actions = rng.integers(env.num_actions, size=12)
        snapshot = env.save()
        reference = play(env, actions)
        other.restore(snapshot)
        assert_identical(play(other, actions), reference)


def test_a_snapshot_of_a_finished_episode_is_finished() -> None:
    env = EditableAtari(config_of("Pong", max_episode_frames=40))
    env.reset(0)
    while not env.step(0)[3]:
        pass
    other = EditableAtari(env.config)
    other.restore(env.save())
    np.testing.assert_array_equal(other.screen(), env.screen())
    with pytest.raises(RuntimeError, match="over"):
        other.step(0)


def test_edits_are_part_of_a_snapshot() -> None:
    env = EditableAtari(config_of("SpaceInvaders"))
    rng = np.random.default_rng(24)
    env.reset(24)
    for _ in range(10):
        env.step(0)
    untouched = env.save()
    env.poke({18: 3, 19: 3, 20: 7, 21: 15, 22: 15, 23: 47, 17: 20})  # the paper's formation
    actions = rng.integers(env.num_actions, size=10)
    snapshot = env.save()
    reference = play(env, actions)
    for back in (env, EditableAtari(env.config)):
        back.restore(snapshot)
        assert back.ram[17] == 20
        assert_identical(play(back, actions), reference)
    env.restore(untouched)
    unedited = play(env, actions)
    assert (unedited[-1][0] != reference[-1][0]).any()


def test_snapshots_are_small_and_do_not_change_later() -> None:
    env = EditableAtari(config_of("MsPacman"))
    first = env.reset(25)
    snapshot = env.save()
    for _ in range(200):
        env.step(0)
    assert len(env.save().emulator.replay) < 20
    np.testing.assert_array_equal(env.restore(snapshot), first)
    np.testing.assert_array_equal(env.observation, first)


def test_a_snapshot_of_another_config_is_refused() -> None:
    env = EditableAtari(config_of("Pong"))
    env.reset(0)
    with pytest.raises(UserError, match="snapshot was made with"):
        EditableAtari(config_of("Pong", color=True)).restore(env.save())
