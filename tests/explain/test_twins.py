"""Two games from one moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from idqn.envs.edits import Params
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.explain.twins import (
    COUNTERFACTUAL,
    FACTUAL,
    Game,
    Trajectory,
    first_difference,
    first_with_place,
    goes_on,
    play_twins,
    record,
    seconds_ahead,
    walk,
)
from tests.envs.edited import assert_same, everything
from tests.explain.scripted import Rule, round_and_round, scripted, to_nearest_pellet
from tests.explain.untrained import untrained


@pytest.mark.parametrize("env", ["idqn/MiniPacman-v0", "ALE/MsPacman-v5"])
def test_the_unchanged_side_is_the_agents_own_game_bit_for_bit(env: str) -> None:
    agent = untrained(env=env)
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=5, max_steps=24)
    step = len(trajectory) // 3
    observation = game.reset(5)
    own = []
    for action in trajectory.actions:
        own.append(observation)
        observation = game.step(int(action))[0]
    rest = len(trajectory) - step
    eaten = next(p for p in _choices(game, trajectory, step, "pellet") if not p["on"])
    changes = {COUNTERFACTUAL: ("pellet", eaten), FACTUAL: None}
    sides = play_twins(agent, game, trajectory, step, changes, 6, rest)
    factual = sides[FACTUAL]
    np.testing.assert_array_equal(factual.action, trajectory.actions[step:])
    np.testing.assert_array_equal(factual.reward, trajectory.rewards[step:])
    np.testing.assert_array_equal(factual.observations, own[step : step + 6])
    channels = agent.spec.frame_shape[0]
    assert factual.frames == tuple(each[-channels:].tobytes() for each in own[step:])
    settle = game.settle_steps
    edited = sides[COUNTERFACTUAL]
    np.testing.assert_array_equal(edited.action[:settle], trajectory.actions[step : step + settle])
    assert first_difference(edited.frames, factual.frames) in range(1, settle + 1)


def _choices(game: Game, trajectory: Trajectory, step: int, name: str) -> list[Params]:
    found: list[Params] = []
    for _ in walk(game, trajectory, [step]):
        found = game.choices(name)
    return found


def test_where_two_sequences_part() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2
    assert first_difference([], []) is None


class Place(NamedTuple):
    step: int
    whole: bool


def test_the_first_game_with_a_whole_film_is_taken() -> None:
    places = {3: None, 4: Place(1, False), 5: Place(2, True), 6: Place(3, True)}

    def play(seed: int) -> Trajectory:
        return Trajectory(seed, np.zeros(9, np.int64), np.zeros(9), True)

    def find(game: Trajectory) -> Place:
        place = places.get(game.seed)
        if place is None:
            raise UserError(f"nothing in {game.seed}")
        return place

    def taken(seed: int, step: int | None = None) -> tuple[int, int]:
        trajectory, place = first_with_place(find, play, seed, step)
        return trajectory.seed, place.step

    assert taken(3) == (5, 2)
    assert taken(6) == (6, 3)
    assert taken(4, step=1) == (4, 1)  # whoever names a step means this game
    with pytest.raises(UserError, match="nothing in 3"):
        taken(3, step=1)
    with pytest.raises(UserError, match="nothing in 7"):
        taken(7)
    del places[5], places[6]
    assert taken(3) == (4, 1)


def test_a_game_goes_on_to_its_end_or_to_where_it_was_cut_off() -> None:
    game = Trajectory(0, np.zeros(9, np.int64), np.zeros(9), True)
    assert goes_on(game, 4, 5)
    assert not goes_on(game, 5, 5)
    assert goes_on(Trajectory(0, game.actions, game.rewards, False), 5, 5)


def test_a_game_is_walked_again_to_the_moments_asked_for() -> None:
    agent = untrained()
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=2, max_steps=9)
    found = {}
    for step in walk(game, trajectory, [4, 1]):
        found[step] = game.observation
    assert list(found) == [1, 4]
    observation = game.reset(2)
    for step, action in enumerate(trajectory.actions):
        if step in found:
            np.testing.assert_array_equal(found[step], observation)
        observation = game.step(int(action))[0]
    assert list(walk(game, trajectory)) == list(range(len(trajectory)))


def test_a_refused_change_leaves_the_game_where_it_was() -> None:
    agent = scripted(round_and_round)
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=1, max_steps=20)
    for _ in walk(game, trajectory, [5]):
        before = everything(game)
    wall = {"row": 2, "col": 2, "on": True}
    with pytest.raises(UserError, match="is a wall"):
        play_twins(agent, game, trajectory, 5, {COUNTERFACTUAL: ("pellet", wall)}, 3, 9)
    assert_same(everything(game), before)


@pytest.mark.parametrize(("rule", "parts"), [(to_nearest_pellet, True), (round_and_round, False)])
def test_who_minds_a_pellet_parts_from_its_game(rule: Rule, parts: bool) -> None:
    agent = scripted(rule)
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=3, max_steps=60)
    eaten = [p for p in _choices(game, trajectory, 34, "pellet") if p["on"]]
    pellet = min(eaten, key=lambda p: abs(p["row"] - 4) + abs(p["col"] - 9))
    changes = {FACTUAL: None, COUNTERFACTUAL: ("pellet", pellet)}
    sides = play_twins(agent, game, trajectory, 34, changes, 4, 10)
    one, other = (sides[name].action.tolist() for name in (FACTUAL, COUNTERFACTUAL))
    assert (first_difference(one, other) is not None) == parts


def test_how_far_to_play_on() -> None:
    assert seconds_ahead(untrained(), None) == 24  # 3 seconds at 8 steps
    assert seconds_ahead(untrained(), 5) == 5
    with pytest.raises(UserError, match="nothing can be compared in 0 steps"):
        seconds_ahead(untrained(), 0)
