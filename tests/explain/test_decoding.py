from __future__ import annotations

import numpy as np
import pytest
import torch

from idqn.agent import Agent
from idqn.explain import collect
from idqn.explain.decoding import (
    cycle,
    decoding_error,
    departures,
    has_decoder,
    key_moves,
    key_pictures,
)
from idqn.explain.sanity import redraw
from tests.explain.untrained import untrained


@pytest.fixture(scope="module")
def agent() -> Agent:
    """Its keys are where they began, but for one."""
    agent = untrained(agent__keys=3, env__frame_height=11, env__frame_width=11, train__seed=0)
    agent.network.get_buffer("mean_image").fill_(20.0)
    agent.network.get_parameter("head.keys")[1, 2] *= -3
    return agent


def test_departures_multiply_to_correlations(agent: Agent) -> None:
    keys = agent.keys.flatten(0, 1)[:4]
    pictures = (agent.decode(keys) - 20).flatten(1).numpy()
    own = departures(agent, keys)
    np.testing.assert_allclose(own @ own.T, np.corrcoef(pictures), atol=1e-6)


def test_keys_that_never_moved_look_as_they_began(agent: Agent) -> None:
    moved = 1 * 3 + 2  # actions first
    found, moves = key_pictures(agent, seed=3), key_moves(agent)
    still = np.delete(np.arange(15), moved)
    np.testing.assert_allclose(moves[still], 0, atol=1e-6)
    assert moves[moved] == pytest.approx(4)
    np.testing.assert_allclose(found.as_it_began[still], 1, atol=1e-6)
    assert found.as_it_began[moved] < 0.9


def test_pictures_are_compared_with_all_others(agent: Agent) -> None:
    found = key_pictures(agent, seed=3)
    keys = agent.keys.flatten(0, 1)
    pictures = (agent.decode(keys) - 20).flatten(1).numpy()
    among = np.corrcoef(pictures)
    for i in range(15):
        assert found.other_keys[i] == pytest.approx(np.delete(among[i], i).mean(), abs=1e-6)
    drawn = np.random.default_rng(3).normal(0, float(keys.std()), keys.shape).astype(np.float32)
    random = (agent.decode(drawn) - 20).flatten(1).numpy()
    elsewhere = (redraw(agent, ("decoder.",), 3).decode(keys) - 20).flatten(1).numpy()
    both = np.corrcoef(pictures, random)[:15, 15:]
    np.testing.assert_allclose(found.random_keys, both.mean(1), atol=1e-6)
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(pictures, elsewhere, strict=True)]
    np.testing.assert_allclose(found.random_decoder, pairs, atol=1e-6)


def test_errors_are_mean_grey_levels(agent: Agent) -> None:
    states = collect(agent, episodes=1, max_steps=5).observations(slice(None))
    found = decoding_error(agent, states)
    assert list(found) == ["decoded state", "mean image", "mean of these states"]
    mean = states.astype(np.float64).mean(0)
    for i, state in enumerate(states.astype(np.float64)):
        drawn = agent.look(states[i]).reconstruction.numpy()
        assert found["decoded state"][i] == pytest.approx(np.abs(drawn - state).mean(), rel=1e-4)
        assert found["mean image"][i] == pytest.approx(np.abs(20 - state).mean(), rel=1e-5)
        assert found["mean of these states"][i] == pytest.approx(
            np.abs(mean - state).mean(), rel=1e-5
        )


def test_cycle_is_there_and_back(agent: Agent) -> None:
    keys = agent.keys.flatten(0, 1)
    found = cycle(agent, keys)
    spread = np.mean([float((key - keys.mean(0)).norm()) for key in keys])
    for i, key in enumerate(keys):
        picture = agent.decode(key)  # float pixels, not rounded
        back = agent.network(picture[None], False).embedding[0]
        assert found.error[i] == pytest.approx(float((back - key).norm()) / spread, rel=1e-4)
        nearest = int(torch.stack([(back - other).norm() for other in keys]).argmin())
        assert found.returned[i] == (nearest == i)


def test_a_perfect_cycle_loses_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = agent.keys.flatten(0, 1)
    monkeypatch.setattr(agent, "decode", lambda some: some)
    monkeypatch.setattr("idqn.explain.decoding._encode", lambda agent, images: images)
    found = cycle(agent, keys)
    np.testing.assert_allclose(found.error, 0)
    assert found.returned.all()


def test_who_has_a_decoder() -> None:
    assert has_decoder(untrained())
    assert not has_decoder(untrained(agent__decoder="none"))
    assert not has_decoder(untrained("ensemble"))
