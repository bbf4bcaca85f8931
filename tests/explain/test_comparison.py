"""Two agents side by side, counted again by plain means."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from idqn.errors import UserError
from idqn.explain import Comparison, States, collect
from idqn.explain import comparison as explain_comparison
from idqn.explain.comparison import differences, measured, paired, row_products
from idqn.explain.kinds import Settings, Subject, explain
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained


def with_attention(states: States, sharpness: float, seed: int) -> States:
    rng = np.random.default_rng(seed)
    drawn = rng.dirichlet(np.full(6, sharpness), (len(states), 5)).astype(np.float32)
    return dataclasses.replace(states, attention=drawn, action=rng.integers(0, 5, len(states)))


@pytest.fixture(scope="module")
def states() -> States:
    return collect(untrained(), episodes=3, max_steps=20, seed=3)


def test_row_products_are_those_of_the_matrix() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(7), 40)
    gram = rows @ rows.T
    beside = gram[~np.eye(40, dtype=bool)].mean()
    assert row_products(rows) == pytest.approx((beside, np.diag(gram).mean()))
    assert row_products(np.array([[0.6, 0.8]])) == pytest.approx((0, 1))
    # what the loss wants, and what it punishes most
    assert row_products(np.eye(4)) == (0, 1)
    assert row_products(np.eye(4)[[1, 1, 1]]) == (1, 1)


def test_measured_by_hand() -> None:
    chosen = np.array([[1, 0], [1, 0], [0.5, 0.5], [0, 1]], np.float32)
    found = measured(chosen, np.array([[2, 0], [1, 1]]))
    assert found["states"] == 4
    assert found["overlap"] == pytest.approx((1 + 0.5 + 0 + 0.5 + 0 + 0.5) / 6)
    assert found["norm"] == pytest.approx(3.5 / 4)
    assert found["entropy"] == pytest.approx(math.log(2) / 4)
    assert found["relative_entropy"] == pytest.approx(0.25)
    assert found["certain_share"] == 0.75
    assert found["keys_used"] == found["keys_for_95"] == 3
    assert found["use_entropy"] == pytest.approx(1.5 * math.log(2))


def test_pairs_have_the_same_actions() -> None:
    first, second = np.array([2, 0, 0, 1, 0]), np.array([0, 2, 0, 2, 3])
    a, b = paired(first, second, 100)
    assert first[a].tolist() == second[b].tolist() == [0, 0, 2]
    assert a.tolist() == [1, 4, 0]  # of three, those at both ends
    assert b.tolist() == [0, 2, 1]
    many = np.repeat([0, 1], [300, 30])
    a, b = paired(many, many, 100)
    assert len(a) <= 100
    assert many[a].tolist() == many[b].tolist() == [0] * 90 + [1] * 9
    none = paired(np.array([0, 1]), np.array([2]), 100)
    assert [len(places) for places in none] == [0, 0]


def test_each_is_measured_in_games_of_its_own(states: States) -> None:
    first, second = with_attention(states, 0.2, 1), with_attention(states, 5.0, 2)
    found = explain_comparison(untrained(), untrained(), first, second)
    assert found.numbers["a"]["entropy"] < found.numbers["b"]["entropy"]
    assert len(found.rows_action) == len(found.rows["a"]) == len(found.rows["b"]) > 10
    for name, met in (("a", first), ("b", second)):
        assert met.attention is not None
        np.testing.assert_allclose(found.mean[name], met.attention.mean(0), rtol=1e-5)
        assert found.use[name].sum() == len(met)
        pairs = zip(met.action, met.attention, strict=True)
        known = {(int(a), w[a].tobytes()) for a, w in pairs}
        rows = zip(found.rows_action, found.rows[name], strict=True)
        assert all((int(a), row.tobytes()) in known for a, row in rows)


def test_an_agent_beside_itself_is_alike(states: States) -> None:
    found = explain_comparison(untrained(), untrained(), states, states)
    assert found.numbers["a"] == found.numbers["b"]
    np.testing.assert_array_equal(found.rows["a"], found.rows["b"])
    assert found.differences == ()


def test_configs_differ() -> None:
    first = untrained().config
    second = first.replace(
        **{"loss.diversity": 0.0, "env.frame_width": 20, "system.threads": 3, "train.seed": 7}
    )
    assert differences(first, second) == (
        ("env.frame_width", "null", "20"),
        ("loss.diversity", "0.01", "0.0"),
        ("train.seed", "0", "7"),
    )


def test_it_is_kept(states: States, tmp_path: Path) -> None:
    found = explain_comparison(
        untrained(), untrained(loss__diversity=0.0), states, with_attention(states, 1, 1)
    )
    run = RunDir(tmp_path / "run")
    found.save(run)
    again = Comparison.load(run)
    for name in ("about", "other", "differences", "numbers"):
        assert getattr(again, name) == getattr(found, name)
    for name in ("rows", "mean", "use"):
        for whose in ("a", "b"):
            np.testing.assert_array_equal(getattr(again, name)[whose], getattr(found, name)[whose])


def test_only_like_is_compared() -> None:
    agent = untrained()
    for other, said in (
        (untrained(agent__keys=7), r"6 keys for each.*; the second has .*7 keys for each"),
        (untrained(agent__value_max=10.0), r"-25 to 25; the second has .*-25 to 10"),
        (untrained(env="ALE/Pong-v5"), r"idqn/MiniPacman-v0, .*; the second has ALE/Pong-v5"),
    ):
        with pytest.raises(UserError, match=f"same game, .*same keys and values; .*{said}"):
            explain_comparison(agent, other)
    with pytest.raises(UserError, match="compare with the second run: this is a c51 agent"):
        explain_comparison(agent, untrained("c51"))
    with pytest.raises(UserError, match="compare with the first run: this is a ddqn agent"):
        explain_comparison(untrained("ddqn"), agent)


def test_what_cannot_be_compared_is_refused_before_anybody_plays() -> None:
    settings = Settings(episodes=1, max_steps=4)
    pong = Subject(untrained(), settings=settings, other=untrained(env="ALE/Pong-v5"))
    (said,) = explain(pong, ["comparison"])
    assert said.refusal is not None
    assert "same game" in said.refusal
    assert "states" not in vars(pong)  # of games that were played


def test_a_second_run_is_asked_for() -> None:
    (said,) = explain(Subject(untrained()), ["comparison"])
    assert said.refusal == "comparison needs a second run: idqn explain A --compare B"
    settings = Settings(episodes=1, max_steps=4)
    pair = Subject(untrained(), settings=settings, other=untrained(loss__diversity=0.0))
    (found,) = explain(pair, ["comparison"])
    assert found.refusal is None
    assert isinstance(found.result, Comparison)
    assert found.result.differences == (("loss.diversity", "0.01", "0.0"),)
