"""Numbers and maps of attention, counted again by hand and by plain loops."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idqn.errors import UserError
from idqn.explain import Attention, States, collect
from idqn.explain import attention as explain_attention
from idqn.explain.attention import entropy, key_use, keys_carrying, of_chosen
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained


@pytest.fixture(scope="module")
def states() -> States:
    """Of four games of different length, with attention that no two states share."""
    met = collect(untrained(), episodes=4, max_steps=30, seed=3)
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.full(6, 0.1), (len(met), 5)).astype(np.float32)
    return dataclasses.replace(
        met,
        attention=attention,
        action=rng.integers(0, 5, len(met)),
        uncertainty=rng.random((len(met), 5)).astype(np.float32),
    )


def test_entropy_by_hand() -> None:
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.25, 0.25, 0]])
    np.testing.assert_allclose(entropy(weights), [math.log(4), 0, 1.5 * math.log(2)])


def test_key_use_by_hand() -> None:
    chosen = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    use = key_use(chosen, np.array([0, 2, 0, 2]), 3)
    assert use.tolist() == [[0, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ([[95, 5]], 1),
        ([[94, 0], [1, 5]], 2),
        ([[1] * 10, [1] * 10], 19),
        ([[0, 3], [0, 0]], 1),
        ([[50, 44], [1, 5]], 3),
    ],
)
def test_how_few_keys_carry_use(use: list[list[int]], expected: int) -> None:
    if use == [[50, 44], [1, 5]]:  # 50 + 44 + 5 are the first to reach 95 of 100
        assert keys_carrying(np.array(use), share=0.94) == 2
    assert keys_carrying(np.array(use)) == expected


def test_numbers_are_over_all_states(states: States) -> None:
    found = explain_attention(untrained(), states)
    entropies, certain, used = [], 0, {}
    for t in range(len(states)):
        assert states.attention is not None
        row = states.attention[t, states.action[t]].astype(float)
        entropies.append(-sum(w * math.log(w) for w in row if w > 0))
        certain += row.max() > 0.9
        key = (int(states.action[t]), int(row.argmax()))
        used[key] = used.get(key, 0) + 1
    assert found.states == len(states)
    assert found.entropy == pytest.approx(np.mean(entropies))
    assert found.relative_entropy == pytest.approx(np.mean(entropies) / math.log(6))
    assert 0 < found.certain_share == certain / len(states) < 1
    assert {(a, n): int(found.use[a, n]) for a, n in np.argwhere(found.use)} == used
    need, count = 0.95 * len(states), 0
    for number in sorted(used.values(), reverse=True):
        need, count = need - number, count + 1
        if need <= 1e-9:
            break
    assert found.keys_for_95 == count


def test_maps_are_of_the_longest_game(states: States) -> None:
    found = explain_attention(untrained(), states, moments=4)
    lengths = [int((states.episode == e).sum()) for e in range(4)]
    assert found.episode == lengths.index(max(lengths))
    place = [t for t in range(len(states)) if states.episode[t] == found.episode]
    assert states.attention is not None
    assert states.uncertainty is not None
    np.testing.assert_allclose(found.attention, states.attention[place], atol=1e-3)
    np.testing.assert_array_equal(found.q, states.q[place])
    np.testing.assert_array_equal(found.action, states.action[place])
    np.testing.assert_array_equal(found.reward, states.reward[place])
    own = [states.uncertainty[t, states.action[t]] for t in place]
    assert found.most_uncertain == own.index(max(own))
    assert found.least_uncertain == own.index(min(own))
    assert {0, len(place) - 1, found.most_uncertain, found.least_uncertain} <= set(found.moments)
    assert 4 <= len(found.moments) <= 6
    assert found.moments.tolist() == sorted(set(found.moments.tolist()))
    for screen, moment in zip(found.screens, found.moments, strict=True):
        np.testing.assert_array_equal(screen, states.screen(place[moment]))


def test_more_moments_than_steps(states: States) -> None:
    found = explain_attention(untrained(), states, moments=1_000)
    assert found.moments.tolist() == list(range(len(found.action)))
    assert len(explain_attention(untrained(), states, moments=1).moments) <= 3


def test_what_the_agent_says_is_what_is_told() -> None:
    agent = untrained()
    met = collect(agent, episodes=1, max_steps=5, seed=1)
    found = explain_attention(agent, met)
    out = agent.look(met.observations(slice(None)), decode=False)
    np.testing.assert_allclose(found.attention, out.attention.numpy(), atol=1e-3)
    np.testing.assert_allclose(found.q, out.q.numpy(), atol=1e-5)
    np.testing.assert_allclose(found.values, np.linspace(-25, 25, 6))
    assert found.finished is False
    np.testing.assert_array_equal(
        of_chosen(out.attention.numpy(), met.action)[3], out.attention[3, met.action[3]].numpy()
    )


def test_it_is_kept(states: States, tmp_path: Path) -> None:
    found = explain_attention(untrained(), states)
    run = RunDir(tmp_path / "run")
    found.save(run)
    again = Attention.load(run)
    for field in dataclasses.fields(found):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(found, field.name))


@pytest.mark.parametrize("name", ["c51", "ddqn", "ensemble"])
def test_agents_without_keys_are_refused_before_they_play(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = untrained(name)

    def refuse(*_: Any) -> None:
        raise AssertionError("it plays")

    monkeypatch.setattr(type(agent), "make_env", refuse)
    with pytest.raises(UserError, match=f"{name} agent: it has no keys; only idqn"):
        explain_attention(agent)


def test_bad_input(states: States) -> None:
    agent = untrained()
    with pytest.raises(UserError, match="1 moment or more, got 0"):
        explain_attention(agent, states, moments=0)
    with pytest.raises(UserError, match="the rollout is empty"):
        explain_attention(agent, dataclasses.replace(states, action=states.action[:0]))
    with pytest.raises(UserError, match="an agent without keys met them"):
        explain_attention(agent, dataclasses.replace(states, attention=None))
