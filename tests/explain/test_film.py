"""A game, step by step."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from idqn.agent import Agent
from idqn.config import Config, EnvConfig
from idqn.errors import UserError
from idqn.explain import collect
from idqn.explain.film import Film, film
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained


def test_a_film_is_the_beginning_of_the_first_game() -> None:
    agent = untrained()
    states = collect(agent, episodes=2, max_steps=9, seed=3)
    first = int((states.episode == 0).sum())
    found = film(agent, states, steps=4)
    assert len(found) == 4 < first
    assert not found.whole
    for i in range(4):
        np.testing.assert_array_equal(found.screen(i), states.screen(i))
    np.testing.assert_array_equal(found.action, states.action[:4])
    np.testing.assert_array_equal(found.reward, states.reward[:4])
    np.testing.assert_array_equal(found.q, states.q[:4])
    assert states.uncertainty is not None
    assert states.attention is not None
    np.testing.assert_array_equal(found.uncertainty, states.uncertainty[:4])
    np.testing.assert_array_equal(found.attention, states.attention[:4])
    np.testing.assert_array_equal(found.values, agent.values)
    assert found.steps_per_second == 8
    assert len(film(agent, states)) == first  # not the second game


def test_whether_the_game_ends_is_known() -> None:
    agent = untrained()
    states = collect(agent, episodes=1, max_steps=1_000)
    assert states.finished == (True,)
    assert film(agent, states, steps=len(states)).whole
    assert not film(agent, states, steps=len(states) - 1).whole
    cut = dataclasses.replace(states, finished=(False,))
    assert not film(agent, cut, steps=len(states)).whole


def slow_saliency(agent: Agent, observation: np.ndarray, action: int) -> np.ndarray:
    """½ΔQ² at each place of the film's grid, one forward pass after another."""
    size, rows = observation.shape[-1], 17  # places of 33 pixels, half of 33
    sigma = 3 * size / 84
    reach = int(4 * 5 * size / 84 + 0.5)
    blur = [
        cv2.GaussianBlur(
            plane.astype(np.float32),
            (2 * reach + 1,) * 2,
            5 * size / 84,
            borderType=cv2.BORDER_REFLECT,
        )
        for plane in observation
    ]

    def q_of(pixels: np.ndarray) -> float:
        with torch.no_grad():
            out = agent.network(torch.from_numpy(pixels.astype(np.float32))[None], False)
        return float(out.q[0, action])

    found = np.zeros((rows, rows))
    for r in range(rows):
        for k in range(rows):
            y, x = ((i + 0.5) * size / rows - 0.5 for i in (r, k))
            down, across = (np.exp(-((np.arange(size) - c) ** 2) / 2 / sigma**2) for c in (y, x))
            mask = down[:, None] * across
            change = q_of(observation * (1 - mask) + np.stack(blur) * mask) - q_of(observation)
            found[r, k] = 0.5 * change**2
    return found


def test_saliency_is_of_the_chosen_action_on_a_coarser_grid() -> None:
    agent = untrained()
    states = collect(agent, episodes=1, max_steps=20)
    found = film(agent, states)
    assert found.saliency.shape == (len(states), 17, 17)
    for i in (0, len(states) - 1):
        slow = slow_saliency(agent, states.observations([i])[0], int(states.action[i]))
        np.testing.assert_allclose(found.saliency[i], slow, rtol=2e-2, atol=1e-4 * slow.max())
    assert found.saliency.max() > 0


def test_agents_without_keys_are_filmed_too() -> None:
    found = film(untrained("ddqn"), steps=3)
    assert len(found) == 3
    assert found.attention is None
    assert found.values is None
    assert found.uncertainty is None


def test_atari_is_shown_at_its_own_speed() -> None:
    assert EnvConfig(id="ALE/Pong-v5", frame_skip=4).steps_per_second == 15


def test_a_film_comes_back_from_the_disk(tmp_path: Path) -> None:
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    made = film(untrained(), steps=3)
    made.save(run)
    found = Film.load(run)
    np.testing.assert_array_equal(found.screen(2), made.screen(2))
    np.testing.assert_array_equal(found.saliency, made.saliency)
    assert (found.whole, found.about) == (made.whole, made.about)


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    agent = untrained()
    film(agent, collect(agent, 1, 5), progress=lambda *news: told.append(news))
    assert told[-1][1:] == (5, 5)


def test_nothing_to_film_is_refused() -> None:
    agent = untrained()
    with pytest.raises(UserError, match="a film needs at least 1 step, got 0"):
        film(agent, steps=0)
    states = collect(agent, 1, 2)
    nothing = dataclasses.replace(states, episode=np.zeros(0, np.int64))
    with pytest.raises(UserError, match="nothing to film"):
        film(agent, nothing)
