"""Who repeats is told from who plays, on scripts that are known to do the one or the other."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.mini_pacman import (
    COLOURS,
    DISTANCES,
    ENV_ID,
    MAZE_CELLS,
    MOVES,
    OPEN_CELLS,
    Cell,
)
from idqn.errors import UserError
from idqn.evaluate import Policy, random_policy
from idqn.explain import Memorization, memorization
from idqn.explain.arena import Arena
from idqn.explain.memorization import (
    COUNTS,
    NUMBERS,
    Measured,
    Options,
    Player,
    expected_starts,
    measure,
    repeated,
)
from idqn.explain.verdict import FALLS, FEW_GAMES, IGNORES, MEMORISED, PLAYS, UNCLEAR, judge
from idqn.explain.whole_games import Stadium, WholeGames
from idqn.presets import preset
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

MINI = preset("quick", ENV_ID).env
SMALL = Options(episodes=12, moments=40, workers=0)
GREY = {name: round(0.299 * r + 0.587 * g + 0.114 * b) for name, (r, g, b) in COLOURS.items()}


# ------------------------------------------------------------------ scripts


def _cells(observation: NDArray[np.uint8]) -> tuple[Cell, frozenset[Cell]]:
    """Where pacman and pellets are, from the newest frame: 3 x 3 pixels a cell."""
    frame = observation[-1].reshape(MAZE_CELLS, 3, MAZE_CELLS, 3).swapaxes(1, 2).astype(int)
    pacman = [c for c in OPEN_CELLS if abs(frame[c][0, 0] - GREY["pacman"]) <= 1]
    pellets = [c for c in OPEN_CELLS if frame[c][1, 1] == 255 and frame[c][0, 0] == 0]
    return (pacman[0] if pacman else OPEN_CELLS[0]), frozenset(pellets)


def _script(move: Callable[[Cell, frozenset[Cell]], int]) -> Policy:
    return lambda observations: np.array([move(*_cells(each)) for each in observations], np.int64)


def _towards(pacman: Cell, target: Cell) -> int:
    """The first action on a shortest way."""
    away = DISTANCES[target]
    return min(range(1, 5), key=lambda action: away[MOVES[pacman][action]])


def _greedy(pacman: Cell, pellets: frozenset[Cell]) -> int:
    return _towards(pacman, min(pellets, key=lambda c: (DISTANCES[pacman][c], c))) if pellets else 0


def _route(pacman: Cell, pellets: frozenset[Cell]) -> int:
    """To the outer ring and then round it, whatever there is to eat."""
    row, col = pacman
    if row == 1 and col < 9:
        return 2
    if col == 9 and row < 9:
        return 4
    if row == 9 and col > 1:
        return 3
    if col == 1:
        return 1
    return _towards(pacman, (1, col) if (1, col) in OPEN_CELLS else (1, 5))


@pytest.fixture(scope="module")
def scripted() -> dict[str, Measured]:
    players = {
        "route": Player(_script(_route), MINI),
        "random": Player(random_policy(MINI, 0), MINI),
        "greedy": Player(_script(_greedy), MINI),
    }
    return dict(zip(players, measure(players, SMALL), strict=True))


def test_who_replays_a_route_is_said_to_have_memorised(scripted: dict[str, Measured]) -> None:
    route = scripted["route"]
    assert route.counts["added food"] >= 16  # fewer leave it open
    assert route.numbers["same actions"].tolist() == [1, 1, 1]
    assert route.numbers["divergence"].tolist() == [10, 10, 10]
    assert route.numbers["reached"][0] == 0
    assert route.verdict.signs[IGNORES] is True
    assert route.verdict.text == MEMORISED


def test_who_goes_for_the_nearest_pellet_is_not(scripted: dict[str, Measured]) -> None:
    greedy = scripted["greedy"]
    assert greedy.numbers["gain"][1] > 0.1
    assert greedy.numbers["reached, unedited"][0] == 0
    assert greedy.numbers["same actions, unedited"].tolist() == [1, 1, 1]
    assert greedy.verdict.signs[IGNORES] is False
    assert greedy.verdict.text == PLAYS


def test_random_play_repeats_nothing(scripted: dict[str, Measured]) -> None:
    chance = scripted["random"]
    assert chance.counts["distinct games"] == SMALL.episodes
    assert chance.verdict.text == PLAYS
    assert chance.numbers["same actions, unedited"][0] < 0.5  # other dice the second time
    # Atari alone has sticky actions
    assert np.isnan(chance.numbers["lost: sticky"]).all()


# ------------------------------------------------------------------ counts and rules, by hand


def test_repeats_are_counted() -> None:
    assert repeated(["a", "b", "a", "c"])[0] == 0.5
    assert repeated(["a", "b"])[0] == 0
    assert repeated(["a"] * 3).tolist()[0] == 1


def test_distinct_games_are_counted() -> None:
    """Who always stands still plays games that differ in nothing but their length."""
    players = {"still": Player(lambda seen: np.zeros(len(seen), np.int64), MINI)}
    options = Options(episodes=8, moments=2, beginning_steps=3, workers=0)
    played = _whole_games(players["still"], 8, 30, options.seed).usual
    (found,) = measure(players, options)
    assert found.counts["distinct games"] == len({len(actions) for actions in played.actions})
    assert found.counts["distinct beginnings"] == len(
        {min(3, len(actions)) for actions in played.actions}
    )
    assert found.counts["distinct returns"] == len(set(played.returns.tolist()))


def test_starts_of_atari_differ_by_noops_alone() -> None:
    env = EnvConfig(noop_max=1)
    # two coins: the same with probability 1/2, so 1.5 different ones on average
    assert expected_starts(env, 2) == pytest.approx(1.5)
    assert expected_starts(MINI, 100) == 100


def test_random_starts_are_random_until_the_policy_takes_over() -> None:
    players = {"still": Player(lambda seen: np.zeros(len(seen), np.int64), MINI)}
    pushed = _whole_games(players["still"], 20, 6, seed=1).pushed
    assert 1 <= len(pushed.actions) <= 10  # half as many, and some were over before
    assert any((actions[:6] != 0).any() for actions in pushed.actions)
    for actions in pushed.actions:
        assert (actions[6:] == 0).all()


def _whole_games(player: Player, episodes: int, random_steps: int, seed: int) -> WholeGames:
    with Stadium([player.env], episodes, seed, workers=0) as stadium:
        return stadium.play("still", player, random_steps)


def _numbers(**changes: Any) -> dict[str, NDArray[np.float64]]:
    """Of a fine player; others by their names' words."""
    known = {
        "return": (10, 9, 11),
        "lost: sticky": (1, -1, 2),
        "lost: random start": (0, -1, 1),
        "same actions": (0.95, 0.93, 0.97),
        "gain": (0.5, 0.4, 0.6),
    }
    known |= {key.replace("_", " "): value for key, value in changes.items()}
    return {key: np.array(value, np.float64) for key, value in known.items()}


NAN = (math.nan,) * 3


@pytest.mark.parametrize(
    ("changes", "distinct", "verdict"),
    [
        ({}, 20, PLAYS),
        ({"gain": (0.0, -0.1, 0.1)}, 20, MEMORISED),
        ({"gain": (0.0, -0.1, 0.1), "same_actions": (0.4, 0.3, 0.5)}, 20, PLAYS),  # erratic
        ({"gain": (0.0, -0.1, 0.1), "same_actions": (0.88, 0.8, 0.95)}, 20, UNCLEAR),
        ({"gain": (0.0, -0.1, 0.1), "same_actions": (0.91, 0.86, 0.95)}, 20, UNCLEAR),
        ({"gain": (0.1, -0.2, 0.4)}, 20, UNCLEAR),
        ({"gain": NAN}, 20, PLAYS),
        ({"gain": NAN}, 5, PLAYS),  # few games, but it does as well off its path
        ({"lost: sticky": (5, 4, 6)}, 20, PLAYS),  # many games
        ({"lost: sticky": (5, 4, 6)}, 10, MEMORISED),
        ({"lost: sticky": (5, -1, 11)}, 10, PLAYS),  # not for certain
        ({"gain": NAN, "lost: sticky": NAN, "lost: random start": NAN}, 10, UNCLEAR),
        ({"gain": NAN, "return": (1, 0, 2)}, 10, UNCLEAR),  # no better than random: nothing to lose
    ],
)
def test_rules(changes: dict[str, Any], distinct: int, verdict: str) -> None:
    counts = {"distinct games": distinct, "distinct returns": distinct}
    found = judge(_numbers(**changes), counts, 20.0, random_return=2.0, random_returns=30)
    assert found.text == verdict


@pytest.mark.parametrize(
    ("games", "returns", "random_returns", "few"),
    [
        (20, 20, 30, False),
        (10, 20, 30, True),
        (20, 10, 30, True),
        (20, 10, 18, False),  # a game with few different returns
        (11, 11, 22, False),
    ],
)
def test_few_games_are_few_sequences_or_few_returns(
    games: int, returns: int, random_returns: int, few: bool
) -> None:
    counts = {"distinct games": games, "distinct returns": returns}
    found = judge(_numbers(), counts, 20.0, 2.0, random_returns)
    assert found.signs[FEW_GAMES] is few


def test_signs_are_named() -> None:
    found = judge(_numbers(), {"distinct games": 3, "distinct returns": 3}, 20.0, 2.0, 30)
    assert found.signs == {IGNORES: False, FEW_GAMES: True, FALLS: False}


# ------------------------------------------------------------------ the verb


def test_of_an_agent_beside_another(tmp_path: Path) -> None:
    agent, other = untrained(), untrained("ddqn")
    options = Options(moments=3, workers=0)
    found = memorization(agent, 4, other, options)
    assert found.policies == ("-", "random", "- (other)")
    for name in NUMBERS:
        assert found.numbers[name].shape == (3, 3)
    for name in COUNTS:
        assert found.counts[name].shape == (3,)
    assert len(found.verdicts) == len(found.signs) == 3
    with Arena(agent.config.env, 4, options.seed, 0) as arena:
        own = arena.play(lambda seen, games, steps: agent.act(seen), np.arange(4))
    assert found.numbers["return"][0, 0] == pytest.approx(own.returns.mean())
    run = RunDir(tmp_path)
    found.save(run)
    loaded = Memorization.load(run)
    assert (loaded.signs, loaded.verdicts, loaded.about) == (
        found.signs,
        found.verdicts,
        found.about,
    )
    np.testing.assert_array_equal(loaded.numbers["gain"], found.numbers["gain"])
    # what lacks a number of today's, an older version has stored
    stored = json.loads(run.explanation("memorization").read_text())
    del stored["counts"]["edited games"]
    run.explanation("memorization").write_text(json.dumps(stored))
    with pytest.raises(UserError, match="makes it anew"):
        Memorization.load(run)


def test_bad_input() -> None:
    agent = untrained()
    with pytest.raises(UserError, match="episodes is 0; expected at least 1"):
        memorization(agent, 0)
    with pytest.raises(UserError, match="moments is 0; expected at least 1"):
        memorization(agent, 1, options=Options(moments=0))
    other = untrained()
    other.config = other.config.replace(**{"env.id": "idqn/Other-v0"})
    with pytest.raises(UserError, match="between agents of one game"):
        memorization(agent, 1, other)


def test_games_that_cannot_be_edited_are_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("idqn.explain.memorization")
    monkeypatch.setattr(module, "IRRELEVANT", {})
    monkeypatch.setattr(module, "FOOD", {})
    found = memorization(untrained(), 4, options=Options(workers=0))
    assert found.irrelevant is None
    assert found.food_steps == 0
    assert np.isnan(found.numbers["gain"]).all()
    assert found.counts["games"].tolist() == [4, 4]


def test_arena_plays_the_same_games_in_rounds_and_at_once() -> None:
    def choose(seen: NDArray[np.uint8], games: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
        return (games + steps) % 5

    episodes = np.array([3, 0, 0, 1, 3])
    with Arena(MINI, 5, 7, 0) as one, Arena(MINI, 2, 7, 0) as rounds:
        whole = one.play(choose, episodes)
        found = rounds.play(choose, episodes)
        cut = rounds.play(choose, episodes, max_steps=3)
    np.testing.assert_array_equal(whole.returns, found.returns)
    for a, b in zip(whole.actions, found.actions, strict=True):
        np.testing.assert_array_equal(a, b)
    assert cut.lengths.max() <= 3
