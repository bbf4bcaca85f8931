"""Agreement, beside plain loops over states, actions and keys."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import Agreement, States, collect
from idqn.explain import agreement as explain_agreement
from idqn.explain.agreement import by_rollout, decide, similarity, softmax
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

module = importlib.import_module("idqn.explain.agreement")

COLOUR: dict[str, Any] = {
    "env": "ALE/Pong-v5",
    "env__frame_height": 21,
    "env__frame_width": 17,
    "env__color": True,
    "env__noop_max": 0,
}


def subject(**changes: Any) -> tuple[Agent, States]:
    """Keys far apart, whose images differ too."""
    agent = untrained(agent__key_init_std=1.0, agent__linear_init_std=0.5, **changes)
    agent.network.mean_image.uniform_(0, 120, generator=torch.Generator().manual_seed(3))
    return agent, collect(agent, episodes=3, max_steps=12, seed=2)


def cosine(one: NDArray[Any], other: NDArray[Any]) -> float:
    a, b = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def slowly(agent: Agent, states: States, temperature: float, factor: float) -> list[int]:
    """The actions that decoded keys suggest."""
    images = agent.decode(agent.keys).numpy()
    values = agent.values.tolist()
    found = []
    for t in range(len(states)):
        seen = states.observations(np.array([t]))[0]
        scores = []
        for action in images:
            raised = [math.exp(cosine(seen, image) / temperature) for image in action]
            weights = [r / sum(raised) for r in raised]
            q = sum(w * v for w, v in zip(weights, values, strict=True))
            variance = sum(w * (v - q) ** 2 for w, v in zip(weights, values, strict=True))
            scores.append(q + factor * math.sqrt(variance))
        found.append(int(np.argmax(scores)))
    return found


@pytest.mark.parametrize("changes", [{}, COLOUR], ids=["grey", "colour"])
def test_similarity_is_the_cosine_of_whole_stacks(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, states = subject(**changes)
    images = agent.decode(agent.keys).numpy()
    observations = states.observations(slice(None))
    expected = [[[cosine(s, k) for k in action] for action in images] for s in observations]
    np.testing.assert_allclose(similarity(agent, states), expected, atol=1e-5)
    # and in many small parts
    monkeypatch.setattr(module, "_FLOATS", 4 * observations[0].size)
    monkeypatch.setattr(module, "_STATES", 5)
    told: list[tuple[int, int]] = []
    again = similarity(agent, states, lambda _, done, total: told.append((done, total)))
    np.testing.assert_allclose(again, expected, atol=1e-5)
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.parametrize(("temperature", "factor"), [(1.0, 0.01), (0.01, 2.0)])
def test_agreement_is_what_loops_find(temperature: float, factor: float) -> None:
    agent, states = subject()
    agent.network.mean_image.zero_()  # so that images of keys are less alike
    rng = np.random.default_rng(1)  # and states too
    frames = rng.choice([0, 0, 0, 255], states.frames.shape).astype(np.uint8)
    states = dataclasses.replace(states, frames=frames)
    found = explain_agreement(agent, states, temperature, factor)
    suggested = slowly(agent, states, temperature, factor)
    assert states.uncertainty is not None
    own = (states.q + factor * states.uncertainty).argmax(1)
    for rollout in range(3):
        place = [t for t in range(len(states)) if states.episode[t] == rollout]
        agree = sum(own[t] == suggested[t] for t in place)
        assert found.rollouts[rollout] == pytest.approx(100 * agree / len(place))
        counts = [sum(own[t] == a for t in place) for a in range(5)]
        assert found.most_frequent[rollout] == pytest.approx(100 * max(counts) / len(place))
        assert found.lengths[rollout] == len(place)
    expected = np.zeros((5, 5), int)
    for a, b in zip(own, suggested, strict=True):
        expected[a, b] += 1
    np.testing.assert_array_equal(found.confusion, expected)
    assert found.mean == pytest.approx(found.rollouts.mean())
    assert found.advantage == pytest.approx((found.rollouts - found.most_frequent).mean())
    assert found.random == 20
    assert found.interval is not None
    assert found.interval[0] <= found.mean <= found.interval[1]
    assert found.temperatures[0] == temperature
    assert found.temperature_means[0] == found.mean
    assert len(set(suggested)) > 1  # or loops would find it by luck


def test_the_agents_own_exploration_factor_is_the_default() -> None:
    agent, states = subject(agent__exploration_factor=0.5)
    found = explain_agreement(agent, states)
    assert found.exploration_factor == 0.5
    assert found.temperature == 1
    assert found.temperatures == (1.0, 0.1, 0.01, 0.001)
    assert list(found.temperature_flatness) == sorted(found.temperature_flatness, reverse=True)
    assert found.flatness == found.temperature_flatness[0] > 0.99


def test_images_that_attend_like_the_agent_agree_always(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, states = subject()
    log_attention = agent.look(states.observations(slice(None)), decode=False).log_attention
    monkeypatch.setattr(module, "similarity", lambda *_: log_attention.numpy())
    found = explain_agreement(agent, states)
    assert found.rollouts.tolist() == [100, 100, 100]
    assert found.confusion.sum() == np.trace(found.confusion) == len(states)
    monkeypatch.setattr(module, "similarity", lambda *_: -log_attention.numpy())
    assert explain_agreement(agent, states).mean < 60


def test_decide_by_hand() -> None:
    values = np.array([-1.0, 0.0, 1.0])
    certain, wide = [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]  # the same Q of 0; U of 0 and 1
    weights = np.array([[certain, wide], [[0.0, 0.9, 0.1], wide]])
    assert decide(weights, values, 0.0).tolist() == [0, 0]
    assert decide(weights, values, 0.01).tolist() == [1, 0]  # 0.01 > 0, but not > 0.1


def test_softmax_by_hand() -> None:
    found = softmax(np.array([[0.0, math.log(3)], [1e5, 0.0]]))
    np.testing.assert_allclose(found, [[0.25, 0.75], [1, 0]])


def test_by_rollout_by_hand() -> None:
    agree = np.array([True, False, True, True, True])
    found = by_rollout(agree, np.array([0, 0, 1, 1, 1]))
    assert found.tolist() == [50, 100]


def test_black_states_are_like_nothing() -> None:
    agent, states = subject()
    black = dataclasses.replace(states, frames=np.zeros_like(states.frames))
    assert not similarity(agent, black).any()
    assert np.isfinite(explain_agreement(agent, black).mean)


def test_one_game_has_no_interval_and_games_may_be_left_out() -> None:
    agent, states = subject()
    kept = states.episode == 1
    names = ("stacks", "episode", "step", "action", "reward", "q", "uncertainty", "attention")
    one = dataclasses.replace(states, **{name: getattr(states, name)[kept] for name in names})
    found = explain_agreement(agent, one)
    assert found.lengths.tolist() == [kept.sum()]
    assert found.interval is None
    assert found.advantage_interval is None
    assert found.mean == pytest.approx(explain_agreement(agent, states).rollouts[1])


def test_it_is_kept(tmp_path: Path) -> None:
    found = explain_agreement(*subject())
    run = RunDir(tmp_path / "run")
    found.save(run)
    again = Agreement.load(run)
    for field in dataclasses.fields(found):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(found, field.name))


def test_bad_input() -> None:
    agent, states = subject()
    with pytest.raises(UserError, match="this is a c51 agent: it has no keys"):
        explain_agreement(untrained("c51"))
    with pytest.raises(UserError, match=r"trained with agent\.decoder = 'none'"):
        explain_agreement(untrained(agent__decoder="none"))
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(UserError, match="temperature of a softmax is above 0, got"):
            explain_agreement(agent, states, temperature=wrong)
    with pytest.raises(UserError, match="the rollout is empty"):
        explain_agreement(agent, dataclasses.replace(states, action=states.action[:0]))
