"""Saliency beside what happens when objects go from the game itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.config import Config
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.errors import UserError
from idqn.explain import Grounding, grounding
from idqn.explain.grounding import ACROSS, METHODS, RIVALS, correlate
from idqn.explain.removed import KINDS, covered, without_objects
from idqn.explain.twins import record
from idqn.look import Look
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

# the package has a verb of the same name
MODULE = sys.modules["idqn.explain.grounding"]


class Weighing(Agent):
    """Its value of every action is a weighted sum of the newest frame: it is known exactly what
    each pixel does."""

    weights: NDArray[np.float32]  # [h, w]

    def look(self, observation: Any, decode: bool = True) -> Look:
        seen = np.asarray(observation, np.float32).reshape(-1, *self.observation_shape)
        q = torch.from_numpy((seen[:, -1] * self.weights).sum((1, 2)))
        all_q = q[:, None].repeat(1, self.spec.num_actions)
        all_q[:, 1] += 1.0
        return Look(self.name, {"q": all_q if np.ndim(observation) == 4 else all_q[0]})


def weighing(weights: NDArray[np.float32]) -> Agent:
    plain = untrained("ddqn")
    agent = Weighing(plain.network, plain.config, plain.spec, plain.device)
    agent.weights = weights
    return agent


def one_region() -> NDArray[np.float32]:
    """Only the upper left of the frame matters, each pixel in its own way."""
    weights = np.zeros((33, 33), np.float32)
    weights[:18, :18] = np.random.default_rng(0).random((18, 18))
    return weights


def knowing(monkeypatch: pytest.MonkeyPatch, weights: NDArray[np.float32]) -> None:
    """The first method knows the truth, the second its opposite, the others nothing."""

    def maps(agent: Agent, seen: Any, actions: Any, method: str) -> NDArray[np.float32]:
        known = {METHODS[0]: weights, METHODS[1]: weights.max() - weights}
        found = known.get(method, np.ones_like(weights))
        return np.stack([found] * len(seen))

    monkeypatch.setattr(MODULE, "saliency_maps", maps)


def test_a_map_of_what_the_value_hangs_on_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = one_region()
    knowing(monkeypatch, weights)
    monkeypatch.delitem(KINDS, "ghost")  # its change hangs on where it goes as well
    found = grounding(weighing(weights), states=8, objects=9, games=2, max_steps=20)
    assert found.objects == ("pellet",)
    assert len(found.change) == 71  # pacman eats one of them anyway
    right, wrong = found.correlation[:, 0, 0, 0], found.correlation[:, 0, 1, 0]
    assert (right > 0.97).all()
    assert (wrong < -0.97).all()
    # per pixel it is no other order, as pellets are equally large; area itself stays as it is
    assert found.correlation[:, 1, 0, 0] == pytest.approx(right, abs=0.01)
    place = len(METHODS) + RIVALS.index("area")
    assert (found.correlation[:, 1, place] == found.correlation[:, 0, place]).all()
    assert found.beats(METHODS[0])
    assert found.beats(METHODS[0], ACROSS[1])
    assert not any(found.beats(method) for method in METHODS[1:])


def test_the_change_is_what_the_weights_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pellet is as bright everywhere, and its region is exactly its pixels."""
    weights = one_region()
    knowing(monkeypatch, weights)
    monkeypatch.delitem(KINDS, "ghost")
    found = grounding(weighing(weights), states=4, objects=9, games=1, max_steps=20)
    quiet = found.mass[0] > 0
    ratio = found.change[quiet] / found.mass[0, quiet]
    assert quiet.sum() > 5
    # what differs apart from the pellet itself (the ghost covers one) is rare
    assert np.mean(np.isclose(ratio, np.median(ratio), rtol=1e-3)) > 0.9


def test_correlations_by_hand() -> None:
    """Two states of three objects; the second's changes are all larger."""
    state = np.array([0, 0, 0, 1, 1, 1])
    change = np.array([1.0, 2, 3, 11, 12, 13])
    scores = np.array([[[1.0, 2, 3, 4, 5, 6], [3, 2, 1, 6, 5, 4], [1] * 6, [2, 1, 3, 6, 4, 5]]] * 2)
    values, gains = correlate(change, scores, state)
    # d² are 0; 4, 0, 4 twice; and 1, 1, 0, 4, 1, 1: 1 - 6 Σd² / (6 · 35)
    assert values[0, 0, :, 0] == pytest.approx([1, 1 - 96 / 210, 0, 1 - 48 / 210])
    # within: 1; -1; 0; and the mean of 0.5 and 1 - 6 · 6 / 24 = -0.5
    assert values[1, 0, :, 0] == pytest.approx([1, -1, 0, 0])
    assert gains.shape == (2, 2, 1, 3, 3)
    assert gains[0, 0, 0, :, 0] == pytest.approx([96 / 210, 1, 48 / 210])
    assert gains[1, 0, 0, :, 0] == pytest.approx([2, 1, 1])
    assert values[1, 0, 3, 1:] == pytest.approx([-0.5, 0.5])  # the two states themselves


def test_states_with_few_objects_say_nothing_within() -> None:
    scores = np.array([[[1.0, 2, 3, 4]] * 4] * 2)
    values, gains = correlate(np.array([1.0, 2, 3, 4]), scores, np.array([0, 0, 1, 1]))
    assert values[0, 0, 0] == pytest.approx([1, 1, 1])
    assert np.isnan(values[1]).all()
    assert np.isnan(gains[1]).all()


def test_pixels_are_covered_in_parts() -> None:
    cover = covered([(1, 2, 4, 6)], (0.5, 0.5), (3, 4))
    expected = np.outer([0.5, 1, 0], [0, 1, 1, 0])
    assert cover == pytest.approx(expected)
    twice = covered([(1, 2, 4, 6), (1, 2, 4, 6)], (0.5, 0.5), (3, 4))
    assert twice == pytest.approx(expected)
    assert not covered([], (0.5, 0.5), (3, 4)).any()


def test_what_moves_is_covered_where_it_is_seen() -> None:
    """Also in the older frame of the stack, and after the steps that settle the edit."""
    agent = untrained("ddqn")
    env = EditableMiniPacman(agent.config.env)
    played = [record(agent, env, 7, 20)]
    frame = env.reset(7)[-1]
    row, col = env.state.ghost
    grey = frame[3 * row + 1, 3 * col + 1]
    made = without_objects(agent, env, played, ["pellet", "ghost"], 6, 3, seed=0)
    env.close()
    assert [each.kind for each in made[0].objects] == ["pellet", "ghost", "pellet"]
    for one in made:
        ghost = next(each for each in one.objects if each.kind == "ghost")
        seen = (one.observation == grey).any(0)
        assert seen.any()
        assert (ghost.cover[seen] > 0.99).all()
        assert ghost.cover.sum() <= 9 * len(one.observation) + 1e-3
        pellets = [each for each in one.objects if each.kind == "pellet"]
        assert all(len(each.edited) == 1 for each in pellets)


def test_a_real_agent_is_looked_at_alike_twice(tmp_path: Path) -> None:
    agent = untrained()
    found = grounding(agent, states=3, objects=4, games=1, max_steps=20)
    assert found.states == 3
    assert found.mass.shape == (len(METHODS) + len(RIVALS), len(found.change))
    assert set(found.object) == {0, 1}  # pellets and the ghost
    assert (found.change >= 0).all()
    assert found.mass[len(METHODS) + RIVALS.index("area")] == pytest.approx(found.area)
    scores = np.stack([found.mass, found.mass / found.area])
    scores[1, len(METHODS) + RIVALS.index("area")] = found.area
    assert (correlate(found.change, scores, found.state)[0] == found.correlation).all()
    again = grounding(agent, states=3, objects=4, games=1, max_steps=20)
    assert (again.mass == found.mass).all()
    assert (again.correlation == found.correlation).all()
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    found.save(run)
    kept = Grounding.load(run)
    assert (kept.change == found.change).all()
    assert kept.objects == found.objects


def test_what_cannot_be_grounded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = untrained("ddqn")
    with pytest.raises(UserError, match=r"Breakout-v5 can be taken away.*expected MiniPacman"):
        grounding(untrained("ddqn", env="ALE/Breakout-v5"))
    with pytest.raises(UserError, match="in 1 states with 5 objects each; take at least 2"):
        grounding(agent, states=1, objects=5)
    with pytest.raises(UserError, match="in 0 moments of the agent's 1 games"):
        grounding(agent, games=1, max_steps=2)
    monkeypatch.setattr(EditableMiniPacman, "choices", lambda self, name: [])
    with pytest.raises(UserError, match="games, 0 have an object"):
        grounding(agent, states=2, games=1, max_steps=10)
