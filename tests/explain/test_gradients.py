"""Gradients beside finite differences, and what integrated gradients must add up to."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.explain import gradients
from idqn.explain.gradients import baseline, gradient, integrated_gradients
from idqn.networks import members
from tests.explain.single_pixel import PLACE, single_pixel_agent
from tests.explain.untrained import untrained

NAMES = ("idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble")


def subject(name: str) -> tuple[Agent, NDArray[np.uint8], NDArray[np.int64]]:
    std = {} if name == "noisy" else {"agent__linear_init_std": 0.1}
    agent = untrained(name, **std)
    for member in members(agent.network):
        member.mean_image.fill_(60)
    states = np.random.default_rng(1).integers(0, 256, (3, *agent.observation_shape), np.uint8)
    return agent, states, np.array([4, 0, 2])


def value(agent: Agent, state: NDArray[np.floating], action: int) -> float:
    """In float64, but for the pixels."""
    exact = copy.deepcopy(agent.network).double()
    with torch.no_grad():
        return float(exact(torch.from_numpy(state)[None].float(), False).q[0, action])


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_slope(name: str) -> None:
    agent, states, actions = subject(name)
    found = gradient(agent, states, actions)
    assert found.shape == states.shape
    for slope, state, action in zip(found, states, actions, strict=True):
        step = 0.01 * np.sign(slope)  # so little that hardly any ReLU turns
        up, down = (value(agent, state + sign * step, int(action)) for sign in (1, -1))
        assert (up - down) / 2 == pytest.approx(float((slope * step).sum()), rel=0.02)
        y, x = np.unravel_index(np.abs(slope[0]).argmax(), slope[0].shape)
        one = np.zeros_like(slope)
        one[0, y, x] = 0.1
        up, down = (value(agent, state + sign * one, int(action)) for sign in (1, -1))
        assert (up - down) / 0.2 == pytest.approx(slope[0, y, x], rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_integrated_gradients_are_complete(name: str) -> None:
    agent, states, actions = subject(name)
    found = integrated_gradients(agent, states, actions)
    mean = baseline(agent).numpy()
    assert mean.min() == 60
    for parts, state, action in zip(found, states, actions, strict=True):
        whole = value(agent, state, int(action)) - value(agent, mean, int(action))
        assert float(parts.sum()) == pytest.approx(whole, rel=0.02, abs=2e-4)
        assert not parts[state == 60].any()


def test_of_one_pixel_by_hand() -> None:
    agent = single_pixel_agent(weights=(2.0, -1.0))
    members(agent.network)[0].mean_image.fill_(51)
    state = np.full((1, *agent.observation_shape), 102, np.uint8)
    for action, weight in ((0, 2.0), (1, -1.0)):
        expected = np.zeros(state.shape)
        expected[0, -1, *PLACE] = weight / 255
        np.testing.assert_allclose(gradient(agent, state, np.array([action])), expected, atol=1e-9)
        parts = integrated_gradients(agent, state, np.array([action]))
        np.testing.assert_allclose(parts, 51 * expected, atol=1e-7)  # from 51 to 102


def test_small_batches_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, states, actions = subject("idqn")
    whole = gradient(agent, states, actions), integrated_gradients(agent, states, actions, steps=4)
    monkeypatch.setattr(gradients, "_PIXELS_AT_ONCE", 3 * states[0].size)
    parts = gradient(agent, states, actions), integrated_gradients(agent, states, actions, steps=4)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_where_gradients_are_off() -> None:
    agent, states, actions = subject("ddqn")
    with torch.no_grad():
        assert gradient(agent, states, actions).any()
    assert not any(parameter.requires_grad for parameter in agent.network.parameters())
