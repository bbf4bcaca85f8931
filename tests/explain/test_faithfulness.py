from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import Faithfulness, States, collect, faithfulness
from idqn.explain.deletion import FRACTIONS
from idqn.explain.faithfulness import MEASURES, RIVALS, spread, with_interval
from idqn.explain.saliency import METHODS
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

SMALL = {"env__frame_height": 12, "env__frame_width": 12}
MAPS = (*METHODS, *RIVALS)


@pytest.fixture(scope="module")
def agent() -> Agent:
    return untrained(**SMALL)


@pytest.fixture(scope="module")
def states(agent: Agent) -> States:
    return collect(agent, episodes=2, max_steps=5)


@pytest.fixture(scope="module")
def found(agent: Agent, states: States) -> Faithfulness:
    return faithfulness(agent, states, count=5)


def test_spread_is_even_and_never_twice() -> None:
    assert spread(10, 4).tolist() == [0, 3, 6, 9]
    assert spread(3, 24).tolist() == [0, 1, 2]
    with pytest.raises(UserError, match="no states to explain"):
        spread(0, 4)


def test_intervals_are_of_the_mean() -> None:
    found = with_interval(np.array([[3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 4.0]]))
    assert found[0].tolist() == [3, 3, 3]
    assert found[1, 0] == 1
    # the 4 is drawn k times of 4, with chance 1/4: never 32 %, and 4 times 0.4 %, 3 times 4.7 %
    assert found[1, 1:].tolist() == [0, 3]
    with_width = with_interval(np.random.default_rng(0).normal(size=400))
    assert with_width[2] - with_width[1] == pytest.approx(2 * 1.96 / 20, rel=0.1)


def test_intervals_of_one_are_points() -> None:
    assert with_interval(np.array([2.0])).tolist() == [2, 2, 2]


def test_curves_begin_and_end_where_they_must(found: Faithfulness) -> None:
    assert found.kept.shape == (2, 2, len(MAPS), 21, 3)
    deletion, insertion = found.kept[..., 0].swapaxes(0, 1)
    np.testing.assert_allclose(deletion[:, :, 0], 1, atol=1e-5)
    np.testing.assert_allclose(insertion[:, :, -1], 1, atol=1e-5)
    np.testing.assert_allclose(deletion[:, :, -1], insertion[:, :, 0], atol=1e-5)
    assert (found.kept[0, ..., 0] <= 1 + 1e-6).all()
    assert found.kept[0].min() >= -found.states  # the unit is a mean of largest changes
    assert 0 <= found.kept[1].min() <= found.kept[1].max() <= 1
    assert found.largest_change > 0


def test_areas_and_gains_follow_from_curves(found: Faithfulness) -> None:
    expected = np.trapezoid(found.kept[..., 0], FRACTIONS, axis=-1)
    np.testing.assert_allclose(found.areas[..., 0], expected)
    for m in range(len(MEASURES)):
        for i in range(len(METHODS)):
            for r in range(len(RIVALS)):
                own, its = expected[m, :, i], expected[m, :, len(METHODS) + r]
                np.testing.assert_allclose(found.gains[m, 0, i, r, 0], its[0] - own[0])
                np.testing.assert_allclose(found.gains[m, 1, i, r, 0], own[1] - its[1])
    assert (found.gains[..., 1] <= found.gains[..., 0]).all()
    assert (found.gains[..., 0] <= found.gains[..., 2]).all()


def test_it_takes_every_random_map_in_both_curves_to_be_better(found: Faithfulness) -> None:
    gains = np.zeros_like(found.gains)
    gains[0, :, 1, :2] = (0.3, 0.1, 0.5)
    good = dataclasses.replace(found, gains=gains)
    method = METHODS[1]
    assert good.beats(method)
    assert not good.beats(method, measure="action")
    assert not good.beats(method, ("picture detail",))
    assert not good.beats(METHODS[0])
    gains[0, 1, 1, 0] = (0.3, -0.01, 0.5)
    assert not good.beats(method)


@pytest.mark.parametrize(
    ("correlation", "expected"),
    [((0.2, 0.1, 0.3), "passes"), ((0.45, 0.4, 0.55), "unclear"), ((0.7, 0.6, 0.8), "fails")],
)
def test_the_verdict_is_on_all_layers(
    found: Faithfulness, correlation: tuple[float, ...], expected: str
) -> None:
    correlations = np.full_like(found.map_correlation, 0.5)
    correlations[-1, 2] = correlation
    changed = dataclasses.replace(found, map_correlation=correlations)
    assert changed.verdict(METHODS[2]) == expected


def test_an_agent_that_never_learnt_has_its_first_keys(found: Faithfulness) -> None:
    assert found.depths == ("head", "head and linear layer", "all layers")
    assert found.map_correlation.shape == (3, len(METHODS), 3)
    assert (np.abs(found.map_correlation) < 0.999).all()
    assert found.keys == 5 * 6
    assert found.attended_keys is not None
    assert 1 <= found.attended_keys <= 10
    assert found.key_moves is not None
    np.testing.assert_allclose(found.key_moves, 0, atol=1e-6)
    assert found.picture_correlation is not None
    np.testing.assert_allclose(found.picture_correlation["as it began"], 1, atol=1e-6)
    assert found.cycle_error is not None
    assert list(found.cycle_error) == ["states", "all keys", "attended keys"]


def test_attended_keys_are_of_the_action_taken(agent: Agent, states: States) -> None:
    attention = np.full((len(states), 5, 6), 0.1, np.float32)
    attention[:, :, 4] = 0.5
    action = np.zeros_like(states.action)
    action[3] = 2
    chosen = dataclasses.replace(states, attention=attention, action=action)
    assert faithfulness(agent, chosen, count=2).attended_keys == 2


def test_the_same_again(agent: Agent, states: States, found: Faithfulness) -> None:
    again = faithfulness(agent, states, count=5)
    np.testing.assert_array_equal(found.kept, again.kept)
    np.testing.assert_array_equal(found.map_correlation, again.map_correlation)


def test_it_is_kept_and_read_again(found: Faithfulness, tmp_path: Path) -> None:
    found.save(RunDir(tmp_path))
    loaded = Faithfulness.load(RunDir(tmp_path))
    np.testing.assert_array_equal(loaded.gains, found.gains)
    assert loaded.methods == METHODS
    assert loaded.picture_correlation is not None
    assert found.picture_correlation is not None
    assert list(loaded.picture_correlation) == list(found.picture_correlation)
    assert loaded.verdict("gradient") == found.verdict("gradient")


@pytest.mark.parametrize("name", ["ddqn", "bootstrap", "ensemble"])
def test_agents_without_keys_have_the_rest(name: str) -> None:
    agent = untrained(name, **SMALL)
    found = faithfulness(agent, collect(agent, episodes=1, max_steps=3), count=2)
    assert found.kept.shape == (2, 2, len(MAPS), 21, 3)
    assert found.keys is found.key_moves is found.picture_correlation is None
    assert found.decoding_error is found.cycle_error is None


def test_an_idqn_without_a_decoder_still_has_keys_that_moved() -> None:
    agent = untrained(agent__decoder="none", **SMALL)
    found = faithfulness(agent, collect(agent, episodes=1, max_steps=3), count=2)
    assert found.key_moves is not None
    assert found.picture_correlation is found.decoding_error is found.cycle_error is None


def test_an_agent_that_says_the_same_of_everything() -> None:
    agent = untrained("ddqn", **SMALL)
    agent.network.get_parameter("head.weight").zero_()
    found = faithfulness(agent, collect(agent, episodes=1, max_steps=3), count=2)
    assert found.largest_change == 0
    np.testing.assert_array_equal(found.kept, 1)
    assert not any(found.beats(method) for method in METHODS)


def test_one_state_has_no_interval(agent: Agent, states: States) -> None:
    with pytest.raises(UserError, match="at least 2 of them, got count = 1"):
        faithfulness(agent, states, count=1)
