"""The agent's own games, remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from idqn.errors import UserError
from idqn.explain import collect
from tests.explain.untrained import untrained

PONG: dict[str, Any] = {"env": "ALE/Pong-v5", "env__frame_height": 21, "env__frame_width": 21}


@pytest.mark.parametrize(
    "options",
    [{}, {"env__frame_stack": 3}, PONG, {**PONG, "env__color": True, "env__noop_max": 0}],
    ids=["mini", "three frames", "atari", "atari in colour"],
)
def test_states_are_what_the_agent_saw_and_did(options: dict[str, Any]) -> None:
    agent = untrained(**options)
    states = collect(agent, episodes=2, max_steps=12, seed=5)
    for episode in range(2):
        mine = np.flatnonzero(states.episode == episode)
        env = agent.make_env()
        observation = env.reset(5 + episode)
        np.testing.assert_array_equal(states.step[mine], np.arange(len(mine)))
        for i in mine:
            np.testing.assert_array_equal(states.observations(mine)[i - mine[0]], observation)
            np.testing.assert_array_equal(states.screen(i), env.screen())
            assert states.action[i] == agent.act(observation)
            observation, reward, *_ = env.step(int(states.action[i]))
            assert states.reward[i] == reward
    every = agent.look(states.observations(slice(None)))
    np.testing.assert_allclose(states.q, every.q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(states.embedding, every.embedding, rtol=1e-4, atol=1e-4)
    assert states.attention is not None
    np.testing.assert_allclose(states.attention, every.attention, rtol=1e-4, atol=1e-5)


def test_games_end_by_themselves_or_are_cut_off() -> None:
    agent = untrained()
    long = collect(agent, episodes=3, max_steps=1_000)
    assert long.finished == (True, True, True)
    lengths = np.bincount(long.episode)
    short = collect(agent, episodes=3, max_steps=int(lengths.min()))
    assert len(short) == 3 * lengths.min()
    assert short.finished == tuple(lengths == lengths.min())
    assert short.episodes == 3


@pytest.mark.parametrize("name", ["ddqn", "bootstrap"])
def test_agents_without_keys_have_states_too(name: str) -> None:
    agent = untrained(name)
    states = collect(agent, episodes=1, max_steps=5)
    assert states.attention is None
    assert (states.uncertainty is None) == (name == "ddqn")
    np.testing.assert_array_equal(states.action, agent.act(states.observations(slice(None))))


def test_nothing_to_explain_is_refused() -> None:
    agent = untrained()
    with pytest.raises(UserError, match="nothing to explain in 0 episodes; play at least 1"):
        collect(agent, episodes=0)
    with pytest.raises(UserError, match="nothing to explain in 0 steps; play at least 1"):
        collect(agent, max_steps=0)
