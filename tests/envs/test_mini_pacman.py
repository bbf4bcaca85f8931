"""MiniPacman's rules and luck, by hand-made states; pictures and edits: test_mini_pacman_state."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from idqn.envs import mini_pacman
from idqn.envs.mini_pacman import (
    DISTANCES,
    MAZE,
    MOVES,
    NEIGHBOURS,
    OPEN_CELLS,
    MiniPacman,
    MiniPacmanState,
)
from idqn.errors import UserError

NOOP, UP, RIGHT, LEFT, DOWN = range(5)
FAR = (9, 9)
# Pacman in the top left corner with food to its right, the ghost as far away as it gets.
START = MiniPacmanState(pacman=(1, 1), ghost=FAR, pellets=frozenset({(1, 2), (1, 3)}), steps=0)


def still_ghost(**settings: Any) -> MiniPacman:
    return MiniPacman(ghost_speed=0, **settings)


def hunter() -> MiniPacman:
    """A ghost that always moves and always chases: no luck but between equal paths."""
    return MiniPacman(ghost_speed=1, ghost_skill=1)


# --- the maze and the Gymnasium contract


def test_maze_is_connected_without_dead_ends() -> None:
    assert [len(line) for line in MAZE] == [11] * 11
    assert 45 <= len(OPEN_CELLS) <= 60
    assert all(0 < row < 10 and 0 < col < 10 for row, col in OPEN_CELLS)
    assert all(set(DISTANCES[cell]) == set(OPEN_CELLS) for cell in OPEN_CELLS)
    assert all(len(NEIGHBOURS[cell]) >= 2 for cell in OPEN_CELLS)


def test_distances_by_hand() -> None:
    assert DISTANCES[1, 1][1, 1] == 0
    assert DISTANCES[1, 1][9, 9] == 16
    assert DISTANCES[5, 3][5, 7] == 8  # around the block in the middle: up 2, right 4, down 2


def test_gymnasium_contract() -> None:
    mini_pacman.register()
    mini_pacman.register()  # a second call is harmless
    env = gym.make("idqn/MiniPacman-v0", render_mode="rgb_array")
    assert isinstance(env.unwrapped, MiniPacman)
    assert env.spec is not None
    assert env.spec.max_episode_steps is None
    check_env(env.unwrapped)
    assert env.unwrapped.get_action_meanings() == ["NOOP", "UP", "RIGHT", "LEFT", "DOWN"]


def test_torch_is_not_imported() -> None:
    # Read, not run: the package around the module may well import torch.
    nodes = list(ast.walk(ast.parse(Path(mini_pacman.__file__).read_text())))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert "gymnasium" in modules
    assert not any(module.startswith("torch") for module in modules)


@pytest.mark.parametrize(
    "settings",
    [{"max_steps": 0}, {"ghost_skill": 1.5}, {"ghost_speed": -0.1}, {"render_mode": "human"}],
)
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(settings))):
        MiniPacman(**settings)


def test_step_needs_an_episode_and_a_known_action() -> None:
    env = MiniPacman()
    with pytest.raises(UserError, match="reset"):
        env.step(NOOP)
    env.reset(seed=0)
    with pytest.raises(UserError, match="action is 5"):
        env.step(5)
    with pytest.raises(UserError, match="action is -1"):
        env.step(-1)


# --- luck


def test_starts_are_spread_and_apart() -> None:
    env = MiniPacman()
    starts = []
    for seed in range(300):
        _, info = env.reset(seed=seed)
        state = env.state
        assert DISTANCES[state.pacman][state.ghost] >= 6
        assert state.pellets == set(OPEN_CELLS) - {state.pacman}
        assert state.steps == 0
        assert info == {"pellets_left": len(OPEN_CELLS) - 1}
        starts.append(state)
    assert len({state.pacman for state in starts}) > 50
    assert len({state.ghost for state in starts}) > 50


def test_ghost_speed_and_skill_are_probabilities() -> None:
    env = MiniPacman(ghost_speed=0.75, ghost_skill=0.5)
    env.reset(seed=0)
    # From (3, 2) to pacman there is one shortest way out of two: chases are 0.5 + 0.5 * 0.5.
    state = replace(START, pacman=(3, 9), ghost=(3, 2), pellets=frozenset({(9, 1)}))
    ghosts = []
    for _ in range(2000):
        env.set_state(state)
        env.step(NOOP)
        ghosts.append(env.state.ghost)
    assert set(ghosts) == {(3, 1), (3, 2), (3, 3)}
    assert ghosts.count((3, 2)) / 2000 == pytest.approx(0.25, abs=0.04)
    assert ghosts.count((3, 3)) / 2000 == pytest.approx(0.75 * 0.75, abs=0.04)


def test_skilled_ghost_closes_in_on_a_waiting_pacman() -> None:
    env = hunter()
    env.reset(seed=0)
    env.set_state(START)
    for distance in range(15, -1, -1):
        _, _, terminated, _, _ = env.step(NOOP)
        assert DISTANCES[env.state.pacman][env.state.ghost] == distance
        assert terminated == (distance == 0)


def test_an_edit_leaves_the_luck_alone() -> None:
    env = MiniPacman()
    env.reset(seed=0)
    snapshot = env.save()
    # Ghost choices of both games come from the same draws, however the games differ.
    states_after = []
    for pacman in ((1, 1), (9, 9)):
        env.restore(snapshot)
        env.set_state(replace(START, pacman=pacman, ghost=(5, 3)))
        assert env.save().rng_state == snapshot.rng_state
        for _ in range(3):
            env.step(NOOP)
        states_after.append(env.save().rng_state)
    assert states_after[0] == states_after[1]


# --- rules


@pytest.mark.parametrize(
    ("action", "cell"),
    [(NOOP, (3, 4)), (UP, (2, 4)), (RIGHT, (3, 5)), (LEFT, (3, 3)), (DOWN, (3, 4))],
)
def test_moves_and_walls(action: int, cell: tuple[int, int]) -> None:
    env = still_ghost()
    env.set_state(replace(START, pacman=(3, 4)))
    env.step(action)
    assert env.state == replace(START, pacman=cell, steps=1)
    assert MOVES[3, 4][action] == cell


def test_pellets_pay_and_the_last_one_clears_the_level() -> None:
    env = still_ghost()
    env.set_state(START)
    assert env.step(LEFT)[1:] == (0.0, False, False, {"pellets_left": 2})
    assert env.step(RIGHT)[1:] == (1.0, False, False, {"pellets_left": 1})
    assert env.step(RIGHT)[1:] == (10.0, True, False, {"pellets_left": 0})
    with pytest.raises(UserError, match="reset"):
        env.step(NOOP)


@pytest.mark.parametrize(("pellet_there", "reward"), [(False, 0.0), (True, 1.0)])
def test_walking_into_the_ghost(pellet_there: bool, reward: float) -> None:
    pellets = frozenset({(1, 9), (1, 2)}) if pellet_there else frozenset({(1, 9)})
    env = still_ghost()
    env.set_state(replace(START, ghost=(1, 2), pellets=pellets))
    assert env.step(RIGHT)[1:] == (reward, True, False, {"pellets_left": 1})


def test_caught_from_behind() -> None:
    env = hunter()
    env.set_state(replace(START, ghost=(2, 1)))
    assert env.step(NOOP)[1:4] == (0.0, True, False)


def test_caught_by_swapping_places() -> None:
    env = hunter()
    env.set_state(replace(START, ghost=(1, 2), pellets=frozenset({(1, 2), (1, 3)})))
    assert env.step(RIGHT)[1:4] == (1.0, True, False)
    assert (env.state.pacman, env.state.ghost) == ((1, 2), (1, 1))


def test_fleeing_from_a_neighbouring_ghost_works() -> None:
    env = hunter()
    env.set_state(replace(START, ghost=(2, 1)))
    assert env.step(RIGHT)[1:4] == (1.0, False, False)
    assert env.state.ghost == (1, 1)


def test_truncation_at_max_steps() -> None:
    env = still_ghost(max_steps=7)
    env.set_state(replace(START, steps=5))
    assert env.step(NOOP)[2:4] == (False, False)
    assert env.step(NOOP)[2:4] == (False, True)
    with pytest.raises(UserError, match="reset"):
        env.step(NOOP)


def test_clearing_on_the_last_step_is_no_truncation() -> None:
    env = still_ghost(max_steps=7)
    env.set_state(replace(START, pellets=frozenset({(1, 2)}), steps=6))
    assert env.step(RIGHT)[1:4] == (10.0, True, False)
