"""Decoded keys and the states they stand for, beside slow ways of finding the same."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import States, collect
from idqn.explain import keys as explain_keys
from idqn.explain.decoding import seen_by_attention
from idqn.explain.keys import Keys
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

COLOUR: dict[str, Any] = {
    "env": "ALE/Pong-v5",
    "env__frame_height": 21,
    "env__frame_width": 17,
    "env__color": True,
    "env__noop_max": 0,
}


def subject(**changes: Any) -> tuple[Agent, States]:
    agent = untrained(agent__key_init_std=0.5, **changes)
    agent.network.mean_image.uniform_(0, 120, generator=torch.Generator().manual_seed(3))
    return agent, collect(agent, episodes=3, max_steps=25, seed=2)


@pytest.mark.parametrize(
    "changes",
    [{}, {"agent__decoder": "vae"}, {"agent__subtract_mean_image": False}, COLOUR],
    ids=["plain", "variational", "no mean image", "colour"],
)
def test_keys_are_decoded_and_compared(changes: dict[str, Any]) -> None:
    agent, states = subject(**changes)
    found = explain_keys(agent, states)
    decoded = agent.decode(agent.keys).numpy()  # [A, N, C, h, w]
    mean = agent.network.mean_image.numpy()
    if changes == {"agent__subtract_mean_image": False}:
        mean = agent.decode(torch.zeros(16)).numpy()
    np.testing.assert_array_equal(found.images, decoded.round().astype(np.uint8))
    np.testing.assert_allclose(found.contrast, decoded - decoded.mean(0), atol=0.2)
    np.testing.assert_allclose(found.common, decoded.mean(0) - mean, atol=0.1)
    apart = agent.keys - agent.keys.mean(1, keepdim=True)
    stretched = apart / apart.norm(dim=-1, keepdim=True) * found.state_norm
    seen = agent.decode(stretched).numpy() - mean
    np.testing.assert_allclose(found.seen, seen, atol=0.2)
    np.testing.assert_allclose(found.mean_picture, mean)
    expected = np.abs(decoded - mean).mean((2, 3, 4))
    np.testing.assert_allclose(found.departure, expected, rtol=0.01, atol=0.01)
    of_states = np.abs(agent.decode(states.embedding).numpy() - mean).mean()
    np.testing.assert_allclose(found.state_departure, of_states, rtol=1e-3)
    channels = agent.spec.frame_shape[0]
    assert found.shown_frames.shape[1] == channels
    newest = states.observations(found.shown)[:, -channels:]
    np.testing.assert_array_equal(found.shown_frames, newest)
    np.testing.assert_array_equal(
        found.place(found.nearest), np.searchsorted(found.shown, found.nearest)
    )
    np.testing.assert_array_equal(found.shown[found.place(found.nearest)], found.nearest)


def test_what_attention_sees_of_keys_is_all_that_it_needs() -> None:
    agent, states = subject()
    embedding = torch.as_tensor(states.embedding)
    seen = seen_by_attention(agent.keys, length=7.0)
    torch.testing.assert_close(seen.norm(dim=-1), torch.full(seen.shape[:2], 7.0))
    length = (agent.keys - agent.keys.mean(1, keepdim=True)).norm(dim=-1)  # [A, N]
    logits = torch.einsum("te,ane->tan", embedding, seen / 7.0) * length
    attention = logits.softmax(-1).numpy()
    np.testing.assert_allclose(attention, states.attention, rtol=1e-4, atol=1e-6)


def test_large_pictures_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, states = subject()
    whole = explain_keys(agent, states)
    module = importlib.import_module("idqn.explain.keys")
    monkeypatch.setattr(module, "_CHUNK_PIXELS", 2 * 2 * 33 * 33)
    parts = explain_keys(agent, states)
    # convolutions of other batch sizes round otherwise
    np.testing.assert_allclose(parts.images.astype(int), whole.images, atol=1)
    np.testing.assert_allclose(parts.state_departure, whole.state_departure, rtol=1e-4)


def test_where_keys_are_from() -> None:
    agent, states = subject()
    found = explain_keys(agent, states, top=2, apart=4)
    assert states.attention is not None
    vectors = agent.keys.numpy()
    assert found.states == len(states)
    for a, n in np.ndindex(found.attended.shape):
        attention = states.attention[:, a, n]
        first = [t for t in range(len(states)) if states.attention[t, a].argmax() == n]
        assert found.attended[a, n] == len(first)
        assert found.chosen[a, n] == sum(states.action[t] == a for t in first)
        np.testing.assert_allclose(found.mean_attention[a, n], attention.mean(), rtol=1e-4)
        best = int(attention.argmax())
        far = (states.episode != states.episode[best]) | (
            np.abs(states.step - states.step[best]) >= 4
        )
        second = int(np.where(far, attention, -1).argmax())
        assert found.top[a, n].tolist() == [best, second]
        np.testing.assert_array_equal(found.top_attention[a, n], attention[[best, second]])
        distance = np.linalg.norm(states.embedding - vectors[a, n], axis=1)
        assert found.nearest[a, n] == distance.argmin()
        np.testing.assert_allclose(found.distance[a, n], distance.min(), rtol=1e-4)
        lengths = np.linalg.norm(states.embedding, axis=1) * np.linalg.norm(vectors[a, n])
        cosine = states.embedding @ vectors[a, n] / lengths
        np.testing.assert_allclose(found.cosine[a, n], cosine.max(), rtol=1e-4)
    np.testing.assert_array_equal(found.unused, found.attended == 0)
    between = np.linalg.norm(states.embedding[:, None] - states.embedding, axis=-1)  # [T, T]
    others = between[~np.eye(len(states), dtype=bool)].reshape(len(states), -1)
    np.testing.assert_allclose(found.state_gap, torch.tensor(others.min(1)).median(), rtol=1e-3)
    np.testing.assert_allclose(found.state_spread, torch.tensor(others).median(), rtol=1e-3)
    np.testing.assert_allclose(found.key_norm, np.linalg.norm(vectors, axis=-1).mean(), rtol=1e-5)
    length = np.linalg.norm(states.embedding, axis=1).mean()
    np.testing.assert_allclose(found.state_norm, length, rtol=1e-5)


def with_attention(states: States, attention: np.ndarray[Any, Any]) -> States:
    return dataclasses.replace(states, attention=attention.astype(np.float32))


def test_states_that_attend_most_are_apart() -> None:
    agent, played = subject()
    chosen = np.concatenate([np.flatnonzero(played.episode == e)[:10] for e in (0, 1)])
    assert len(chosen) == 20
    names = ("stacks", "episode", "step", "action", "reward", "embedding", "q", "uncertainty")
    part = {name: getattr(played, name)[chosen] for name in names}
    attention = np.full((20, 5, 6), 0.01)
    attention[:, :, 5] = 0.95
    attention[[4, 5, 6, 14, 13], 0, 2] = [0.5, 0.9, 0.8, 0.7, 0.6]  # 14 and 13 in another game
    states = with_attention(dataclasses.replace(played, **part), attention)
    found = explain_keys(agent, states, top=3, apart=5)
    # 6 and 4 are too near to 5, and 13 to 14; of all others, 0 is the first that is not
    assert found.top[0, 2].tolist() == [5, 14, 0]
    np.testing.assert_allclose(found.top_attention[0, 2], [0.9, 0.7, 0.01], rtol=1e-6)
    # one moment of each game, and there is no third
    lonely = explain_keys(agent, states, top=3, apart=12)
    assert lonely.top[0, 2].tolist() == [5, 14, -1]
    assert lonely.top_attention[0, 2, 2] == 0
    assert lonely.place(lonely.top)[0, 2, 2] == -1
    # key 5 is the most attended everywhere
    assert found.attended[:, 5].tolist() == [20] * 5
    assert found.attended[:, :5].sum() == 0
    np.testing.assert_array_equal(found.chosen[:, 5], np.bincount(states.action, minlength=5))


def test_likeness_is_a_mean_of_correlations_between_keys_in_use() -> None:
    agent, states = subject()
    attention = np.zeros((len(states), 5, 6))
    used = {0: [1, 2], 1: [2, 4], 2: [2], 3: [4], 4: [0]}
    for a, ns in used.items():
        for t in range(len(states)):
            attention[t, a, ns[t % len(ns)]] = 1
    found = explain_keys(agent, with_attention(states, attention))
    departing = agent.decode(agent.keys).numpy() - agent.network.mean_image.numpy()
    same, other = [], []
    pairs = itertools.combinations([(a, n) for a, ns in used.items() for n in ns], 2)
    for (a, n), (b, m) in pairs:
        if a != b:
            correlation = np.corrcoef(departing[a, n].ravel(), departing[b, m].ravel())[0, 1]
            (same if n == m else other).append(correlation)
    assert len(same) == 4  # three of value 2, and one of value 4
    np.testing.assert_allclose(found.alike, np.mean(same), atol=1e-3)
    np.testing.assert_allclose(found.alike_otherwise, np.mean(other), atol=1e-3)
    attention[:] = np.eye(6)[:5]
    alone = explain_keys(agent, with_attention(states, attention))
    assert alone.alike is None
    assert alone.alike_otherwise is not None


def test_one_state_is_enough() -> None:
    agent = untrained()
    states = collect(agent, episodes=1, max_steps=1)
    found = explain_keys(agent, states)
    assert found.state_gap is None
    assert found.state_spread is None
    assert found.top[0, 0].tolist() == [0, -1, -1]
    assert found.attended.sum() == 5


def test_keys_are_stored_and_loaded(tmp_path: Path) -> None:
    agent, states = subject()
    found = explain_keys(agent, states)
    run = RunDir(tmp_path)
    found.save(run)
    loaded = Keys.load(run)
    for field in dataclasses.fields(Keys):
        np.testing.assert_equal(getattr(loaded, field.name), getattr(found, field.name))


def test_agents_without_keys_or_decoder_are_refused() -> None:
    with pytest.raises(UserError, match=r"ddqn agent: it has no keys"):
        explain_keys(untrained("ddqn"))
    with pytest.raises(UserError, match=r"no decoder; it was trained with agent\.decoder = 'none'"):
        explain_keys(untrained(agent__decoder="none"))


def test_states_must_be_some_of_this_agent() -> None:
    agent = untrained()
    states = collect(agent, episodes=1, max_steps=3)
    assert states.attention is not None
    empty = {
        name: getattr(states, name)[:0]
        for name in ("stacks", "episode", "step", "action", "reward", "embedding", "attention")
    }
    with pytest.raises(UserError, match="there are no states to compare keys with"):
        explain_keys(agent, dataclasses.replace(states, **empty))
    with pytest.raises(UserError, match=r"attention \[5, 6\] and embeddings of 16; collect"):
        explain_keys(untrained(agent__keys=4), states)
    with pytest.raises(UserError, match=r"attention \[\] and embeddings of 16"):
        explain_keys(agent, dataclasses.replace(states, attention=None))
