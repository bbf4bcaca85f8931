"""Walks from keys to states: both ends are known, and so is the middle."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from idqn.errors import UserError
from idqn.explain import collect, interpolation
from idqn.explain.interpolation import Interpolation, choose_pairs
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

COLOUR: dict[str, Any] = {
    "env": "ALE/Pong-v5",
    "env__frame_height": 21,
    "env__frame_width": 17,
    "env__color": True,
    "env__noop_max": 0,
}


@pytest.mark.parametrize(
    "changes",
    [{}, {"agent__decoder": "vae"}, COLOUR],
    ids=["plain", "variational", "colour"],
)
def test_walks_begin_at_keys_and_end_at_states(changes: dict[str, Any], tmp_path: Path) -> None:
    agent = untrained(agent__key_init_std=0.5, **changes)
    states = collect(agent, episodes=2, max_steps=20)
    found = interpolation(agent, states, pairs=4, steps=5)
    assert states.attention is not None
    np.testing.assert_allclose(found.mix, [0, 0.25, 0.5, 0.75, 1])
    assert found.frame_channels == agent.spec.frame_shape[0]
    assert 1 <= len(found.action) <= 4
    for i, (a, n, t) in enumerate(zip(found.action, found.key, found.state, strict=True)):
        key, embedding = agent.keys[a, n], torch.from_numpy(states.embedding[t])
        assert found.value[i] == agent.values[n]
        assert states.action[t] == a
        assert states.attention[t, a].argmax() == n
        assert (found.episode[i], found.step[i]) == (states.episode[t], states.step[t])
        np.testing.assert_array_equal(
            found.observations[i], states.observations(slice(t, t + 1))[0]
        )
        np.testing.assert_allclose(found.q[i, -1], states.q[t], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.attention[i, -1], states.attention[t, a, n], rtol=1e-4)
        for step, between in ((0, key), (1, 0.75 * key + 0.25 * embedding), (4, embedding)):
            decoded = agent.decode(between).numpy()
            np.testing.assert_allclose(found.images[i, step], decoded, atol=0.51)
            error = np.abs(decoded - found.observations[i]).mean()
            np.testing.assert_allclose(found.error[i, step], error, rtol=1e-4)
            score = np.exp(agent.keys[a].numpy() @ between.numpy())
            weight = score / score.sum()
            np.testing.assert_allclose(found.attention[i, step], weight[n], rtol=1e-4)
            q = weight @ agent.values.numpy()
            np.testing.assert_allclose(found.q[i, step, a], q, rtol=1e-4, atol=1e-4)
    found.save(RunDir(tmp_path))
    loaded = Interpolation.load(RunDir(tmp_path))
    for field in dataclasses.fields(Interpolation):
        np.testing.assert_equal(getattr(loaded, field.name), getattr(found, field.name))


def test_pairs_are_of_different_actions_first() -> None:
    #      state:  0  1  2  3  4  5  6
    chosen = np.array([1, 1, 1, 0, 0, 3, 1])
    best = [2, 0, 2, 1, 1, 0, 2]  # key of the chosen action
    strength = [0.6, 0.9, 0.8, 0.5, 0.7, 0.4, 0.7]
    attention = np.zeros((7, 4, 3), np.float32)
    attention[np.arange(7), chosen, best] = strength
    attention[:, 2, 1] = 1  # an action that is never chosen
    # action 1 is chosen most often, mostly by key 2, of which state 2 is the strongest
    expected = [(1, 2, 2), (0, 1, 4), (3, 0, 5), (1, 0, 1)]
    assert choose_pairs(attention, chosen, 6) == expected
    assert choose_pairs(attention, chosen, 2) == expected[:2]


def test_what_cannot_be_walked_is_refused() -> None:
    with pytest.raises(UserError, match="c51 agent: it has no keys"):
        interpolation(untrained("c51"))
    with pytest.raises(UserError, match=r"trained with agent\.decoder = 'none'"):
        interpolation(untrained(agent__decoder="none"))
    with pytest.raises(UserError, match="1 pair and 2 steps or more, got 6 and 1"):
        interpolation(untrained(), steps=1)
    agent = untrained()
    states = collect(agent, episodes=1, max_steps=2)
    with pytest.raises(UserError, match="not collected from this agent"):
        interpolation(untrained(agent__keys=4), states)
