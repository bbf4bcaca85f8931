"""What may be edited without mattering, what can be put beside a way, and what became of both."""

from __future__ import annotations

import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs.editable import EditableAtari
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.games import edits_for, mspacman
from idqn.envs.mini_pacman import DISTANCES, ENV_ID, OPEN_CELLS
from idqn.envs.single import make_editable
from idqn.evaluate import random_policy
from idqn.explain.counterfactuals import (
    Branch,
    Line,
    Moment,
    Original,
    changes_only_the_picture,
    play_branches,
    play_originals,
    return_within,
    same_actions,
)
from idqn.explain.edited_worlds import FOOD, IRRELEVANT, food_beside, irrelevant_edits, reached
from idqn.explain.noticing import Stage, different
from idqn.presets import preset

MINI = preset("quick", ENV_ID).env


@pytest.fixture(scope="module")
def mini() -> EditableMiniPacman:
    env = make_editable(MINI)
    assert isinstance(env, EditableMiniPacman)
    env.reset(5)
    for action in (2, 2, 4, 4, 3, 1):
        env.step(action)
    return env


def test_irrelevant_pellets_are_far_from_the_way(mini: EditableMiniPacman) -> None:
    way = [mini.objects()["pacman"]]
    found = irrelevant_edits(mini, IRRELEVANT[ENV_ID], way)
    cells = {(params["row"], params["col"]) for _, params in found}
    row, col = mini.state.pacman
    assert cells
    expected = {c for c in OPEN_CELLS if max(abs(c[0] - row), abs(c[1] - col)) >= 3}
    assert cells == expected


def test_food_is_put_beside_the_way_on_foot(mini: EditableMiniPacman) -> None:
    pacman = mini.state.pacman
    found = food_beside(mini, FOOD[ENV_ID], [mini.objects()["pacman"]], steps=15)
    cells = {(params["row"], params["col"]) for _, params in found}
    empty = set(OPEN_CELLS) - mini.state.pellets
    assert cells == {c for c in empty if 1 <= DISTANCES[pacman][c] <= 3}


def test_rules_name_edits_and_players_that_exist() -> None:
    for env_id, rule in {**IRRELEVANT, **FOOD}.items():
        if env_id != ENV_ID:
            assert rule.edit in edits_for(env_id).edits
    assert set(FOOD) <= set(IRRELEVANT)


def test_cars_are_not_painted_like_the_road() -> None:
    allowed = IRRELEVANT["ALE/Freeway-v5"].allowed
    assert not allowed({"lane": 1, "colour": 6})
    assert not allowed({"lane": 1, "colour": 22})
    assert allowed({"lane": 1, "colour": 30})


def test_cells_of_mspacman_are_those_of_its_pellets() -> None:
    for row, col in ((0, 0), (2, 8), (2, 9), (13, 17)):
        x, y = mspacman._cell_position(row, col)
        box = mspacman._figure_box(x, y)
        assert FOOD["ALE/MsPacman-v5"].cell(box) == (row, col)
        assert reached([box], [mspacman._pellet_box(row, col)])
        assert not reached([box], [mspacman._pellet_box(row, col + 1)])


# ------------------------------------------------------------------ moments and branches


def test_unedited_branches_are_the_original_again() -> None:
    def policy(seen: np.ndarray) -> np.ndarray:
        return seen.reshape(len(seen), -1).sum(1).astype(np.int64) % 5

    envs = [make_editable(MINI) for _ in range(3)]
    originals = play_originals(policy, envs, "pacman", 4, max_steps=30, every=4)
    moments = [Moment(game, step) for game in originals for step in game.snapshots]
    lines = play_branches(
        policy, envs, "pacman", [Branch(moment, None, moment.left) for moment in moments]
    )
    assert len(moments) > 3  # more than environments
    for (game, step), line in zip(moments, lines, strict=True):
        assert line.actions == game.actions[step:]
        assert line.rewards == game.rewards[step:]
        assert line.way == game.way[step:]


def test_branches_first_repeat_the_original_and_then_decide() -> None:
    env = make_editable(MINI)
    (original,) = play_originals(
        lambda seen: np.zeros(len(seen), np.int64), [env], "pacman", 4, max_steps=8, every=1
    )
    (line,) = play_branches(
        lambda seen: np.ones(len(seen), np.int64),
        [env],
        "pacman",
        [Branch(Moment(original, 1), None, 5)],
    )
    settle = env.settle_steps
    assert line.actions == [0] * settle + [1] * (5 - settle)


def test_an_edit_is_made_once_and_seen_by_the_branch_alone() -> None:
    env = make_editable(MINI)
    assert isinstance(env, EditableMiniPacman)
    (original,) = play_originals(random_policy(MINI, 1), [env], "pacman", 4, 12, every=1)
    env.restore(original.snapshots[3])
    name, params = irrelevant_edits(env, IRRELEVANT[ENV_ID], original.way[3:])[0]
    moment = Moment(original, 3)
    play_branches(
        random_policy(MINI, 2), [env], "pacman", [Branch(moment, (name, params), env.settle_steps)]
    )
    cell = params["row"], params["col"]
    assert (cell in env.state.pellets) == params["on"]
    env.restore(original.snapshots[3])
    assert (cell in env.state.pellets) != params["on"]


def test_a_fuel_gauge_that_is_not_shown_is_no_irrelevant_edit() -> None:
    """In Gravitar it is shown in turn with the ships left; and nothing else goes by what is
    edited."""
    env = make_editable(EnvConfig("ALE/Gravitar-v5"))
    rule = IRRELEVANT["ALE/Gravitar-v5"]
    (original,) = play_originals(
        lambda seen: np.zeros(len(seen), np.int64), [env], "ship", 4, 80, every=20
    )
    moment = Moment(original, 20)
    env.restore(original.snapshots[20])
    edit = irrelevant_edits(env, rule, original.way[20:])[-1]
    assert not changes_only_the_picture(env, moment, edit, 30)
    assert changes_only_the_picture(env, moment, edit, 54)


def test_an_egg_that_turns_an_alien_is_no_irrelevant_edit() -> None:
    """Aliens go by how many are left; so far from the player's way, only the game itself tells."""
    config = EnvConfig("ALE/Alien-v5")
    envs = [make_editable(config) for _ in range(3)]
    originals = play_originals(random_policy(config, 3), envs, "player", 100, 120, every=25)
    for game, row, col, fits in ((1, 12, 9, False), (0, 10, 0, True)):
        moment = Moment(originals[game], 50)
        edit = ("egg", {"row": row, "col": col, "on": False})
        envs[0].restore(moment.original.snapshots[50])
        assert edit in irrelevant_edits(envs[0], IRRELEVANT[config.id], moment.original.way[50:])
        assert changes_only_the_picture(envs[0], moment, edit, 54) == fits


def test_food_on_the_way_does_not_change_the_picture_alone() -> None:
    env = make_editable(MINI)
    right, steps = 2, 4
    (original,) = play_originals(
        lambda seen: np.full(len(seen), right), [env], "pacman", 4, steps, every=1
    )
    moment, cell = Moment(original, 0), FOOD[ENV_ID].cell
    way = {cell(box) for box in original.way}
    env.restore(original.snapshots[0])
    edits = [("pellet", params) for params in env.choices("pellet")]
    on_it = [edit for edit in edits if (edit[1]["row"], edit[1]["col"]) in way]
    assert on_it
    assert not any(changes_only_the_picture(env, moment, edit, steps) for edit in on_it)
    beside = [edit for edit in edits if edit not in on_it]
    assert all(changes_only_the_picture(env, moment, edit, steps) for edit in beside)


def test_of_games_that_are_the_same_one_is_edited() -> None:
    here, there = (1, 1, 2, 2), (3, 3, 4, 4)
    one = Original([1, 2], [0.0, 1.0], [here, here, there])
    same = Original([1, 2], [0.0, 1.0], [here, here, there])
    elsewhere = Original([1, 2], [0.0, 1.0], [here, there, there])
    found = different([one, same, elsewhere])
    assert [id(game) for game in found] == [id(one), id(elsewhere)]


def test_games_of_a_steady_player_that_begin_alike_are_edited_once() -> None:
    env = EnvConfig(noop_max=1)
    with Stage(lambda seen: np.zeros(len(seen), np.int64), env, "pacman", 12, seed=0) as stage:
        assert stage.games == 2  # with one no-op, and without


def test_same_actions_by_hand() -> None:
    original = Original(actions=[0, 1, 2, 3, 4, 0, 1])
    branch = Line(actions=[2, 3, 4, 4])
    same = same_actions(Moment(original, 2), branch, settle=1, steps=4)
    assert same.tolist() == [True, True, False, False]  # and it is over before the last
    assert return_within(Line(rewards=[1, 2, 4, 8]), 1, 2) == 6


def test_mspacman_has_both_kinds_of_edits() -> None:
    config = EnvConfig(noop_max=0)
    env = make_editable(config)
    assert isinstance(env, EditableAtari)
    policy = random_policy(config, 0)
    (original,) = play_originals(policy, [env], "pacman", 1, max_steps=130, every=100)
    env.restore(original.snapshots[100])
    way = original.way[100:]
    far = irrelevant_edits(env, IRRELEVANT[config.id], way)
    near = food_beside(env, FOOD[config.id], way, steps=30)
    assert far
    assert near
    assert all(params["on"] for _, params in near)
    for name, params in (*far[:1], *near[:1]):
        env.apply(name, **params)
