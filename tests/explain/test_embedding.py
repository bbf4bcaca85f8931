"""Maps of states and keys, of small agents."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from idqn.errors import UserError
from idqn.explain import Embedding, States, collect, embedding
from idqn.explain.kinds import KINDS, Settings, Subject
from idqn.explain.tsne import pca, tsne
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained


def played(steps: int = 30, **changes: Any) -> tuple[Any, States]:
    """An agent and its games, in which it is made to have acted in all ways."""
    agent = untrained(agent__key_init_std=1.0, **changes) if "name" not in changes else None
    agent = agent or untrained(**changes)
    states = collect(agent, episodes=2, max_steps=steps)
    action = np.arange(len(states)) % len(agent.action_names)
    return agent, dataclasses.replace(states, action=action)


def test_states_and_keys_are_mapped_together() -> None:
    agent, states = played()
    found = embedding(agent, states, perplexity=9)
    t, k = len(states), 5 * 6
    together = torch.cat([torch.from_numpy(states.embedding), agent.keys.reshape(k, -1)])
    drawn, flat = tsne(together, 9), pca(together)
    assert found.key_tsne is not None
    assert found.key_pca is not None
    np.testing.assert_array_equal(np.concatenate([found.tsne, found.key_tsne]), drawn.position)
    np.testing.assert_array_equal(np.concatenate([found.pca, found.key_pca]), flat[0])
    assert found.pca_share == tuple(flat[1].tolist())
    assert (found.states, len(found.tsne), found.perplexity) == (t, t, 9)
    np.testing.assert_array_equal(found.key_action, np.repeat(np.arange(5), 6))
    np.testing.assert_allclose(found.key_value, np.tile(np.linspace(-25, 25, 6), 5))
    np.testing.assert_array_equal(found.action, states.action)
    np.testing.assert_array_equal(found.q, states.q[np.arange(t), states.action])
    np.testing.assert_array_equal(found.step, states.step)
    np.testing.assert_array_equal(found.frames, states.frames[states.stacks[:, -1], 0])


def test_keys_guess_the_chosen_action() -> None:
    agent, states = played()
    found = embedding(agent, states)
    keys = agent.keys.numpy()
    right = np.zeros(4)
    for state, action in zip(states.embedding, states.action, strict=True):
        far = np.linalg.norm(keys - state, axis=2)  # [A, N]
        product = keys @ state
        guesses = (far.min(1).argmin(), product.max(1).argmax())
        largest = (far[:, -1].argmin(), product[:, -1].argmax())
        right += np.array([*guesses, *largest]) == action
    expected = right / len(states)
    assert found.nearest_key == pytest.approx(expected[0])
    assert found.strongest_key == pytest.approx(expected[1])
    assert found.nearest_key_of_value == pytest.approx(expected[2])
    assert found.strongest_key_of_value == pytest.approx(expected[3])
    assert found.most_frequent == np.bincount(states.action).max() / len(states)
    assert found.mixed == len(states) / (len(states) + 29)


def test_states_with_high_attention_are_marked() -> None:
    agent, states = played()
    assert states.attention is not None
    largest = states.attention[..., -1]
    middle = float(np.median(largest.max(1)))
    found = embedding(agent, states, threshold=middle)
    assert found.value == 25
    np.testing.assert_array_equal(found.attending, largest.argmax(1))
    np.testing.assert_array_equal(found.above, largest.max(1) > middle)
    best = states.attention.argmax(2)
    used = [(best[:, a] == n).any() for a in range(5) for n in range(6)]
    np.testing.assert_array_equal(found.key_used, used)

    other = embedding(agent, states, value=-6, threshold=middle)
    assert other.value == -5  # the nearest there is
    np.testing.assert_array_equal(other.attention, states.attention[..., 2].max(1))

    only = embedding(agent, states, threshold=middle, above_only=True)
    place = np.flatnonzero(largest.max(1) > middle)
    np.testing.assert_array_equal(only.step, states.step[place])
    assert only.states == len(states)
    with pytest.raises(UserError, match=r"no state gives more than 0\.999 .* value 25; the most"):
        embedding(agent, states, threshold=0.999, above_only=True)


def test_many_states_are_thinned_evenly() -> None:
    agent, states = played()
    found = embedding(agent, states, max_states=11)
    place = np.linspace(0, len(states) - 1, 11).round().astype(int)
    np.testing.assert_array_equal(found.step, states.step[place])
    np.testing.assert_array_equal(found.episode, states.episode[place])
    assert (len(found.tsne), found.states) == (11, len(states))


@pytest.mark.parametrize("name", ["ddqn", "c51", "bootstrap"])
def test_agents_without_keys_have_maps_too(name: str) -> None:
    agent, states = played(name=name)
    found = embedding(agent, states)
    assert found.key_tsne is found.key_action is found.attention is found.above is None
    assert found.nearest_key is found.value is found.mixed is None
    assert found.centroid is not None
    assert found.perplexity == pytest.approx(min(40, (len(states) - 1) / 3))
    assert found.perplexity_asked == 40
    with pytest.raises(UserError, match=f"this is a {name} agent: it has no keys"):
        embedding(agent, states, above_only=True)


def test_large_frames_are_reduced_and_keep_their_colours() -> None:
    agent, states = played(
        4, env="ALE/Pong-v5", env__frame_height=100, env__frame_width=120, env__color=True
    )
    found = embedding(agent, states)
    assert found.frames.shape == (len(states), 70, 84, 3)
    newest = states.frames[states.stacks[:, -1]].mean((2, 3))  # [T, c]
    np.testing.assert_allclose(found.frames.mean((1, 2)), newest, atol=1)


def test_one_action_has_no_silhouette() -> None:
    agent, states = played()
    found = embedding(agent, dataclasses.replace(states, action=np.full(len(states), 2)))
    assert found.silhouette is None
    assert found.most_frequent == found.centroid == 1


def test_it_survives_the_disk(tmp_path: Path) -> None:
    agent, states = played()
    run = RunDir(tmp_path)
    for found in (embedding(agent, states), embedding(*played(name="ddqn"))):
        found.save(run)
        again = Embedding.load(run)
        for field in dataclasses.fields(Embedding):
            one, same = getattr(found, field.name), getattr(again, field.name)
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one, same)
            else:
                assert one == same, field.name


def test_settings_reach_it() -> None:
    agent, _ = played()
    settings = Settings(episodes=1, max_steps=20, perplexity=3, attention_threshold=0.25)
    found = KINDS["embedding"](Subject(agent, settings=settings))
    assert isinstance(found, Embedding)
    assert (found.perplexity, found.threshold, found.states) == (3, 0.25, 20)


def test_wrong_wishes_are_explained() -> None:
    agent, states = played()
    with pytest.raises(UserError, match="take at least 1"):
        embedding(agent, states, max_states=0)
    with pytest.raises(UserError, match=r"cannot exceed 1\.5"):
        embedding(agent, states, threshold=1.5)
    with pytest.raises(UserError, match="no states to map"):
        embedding(agent, _none(states))
    with pytest.raises(UserError, match="not collected from this agent"):
        embedding(agent, played(name="ddqn")[1])
    ddqn, few = played(1, name="ddqn")
    with pytest.raises(UserError, match="at least 4 points, got 2"):
        embedding(ddqn, few)


def _none(states: States) -> States:
    parts = ("stacks", "episode", "step", "action", "reward", "embedding", "q", "attention")
    return dataclasses.replace(states, **{part: getattr(states, part)[:0] for part in parts})
