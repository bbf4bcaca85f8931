"""Which states are shown, by which maps, and the numbers told about all of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from idqn.errors import UserError
from idqn.explain import Saliency, States, collect, saliency_maps
from idqn.explain import saliency as explain_saliency
from idqn.explain.perturbation import Scale, perturb, squared_changes
from idqn.explain.saliency import (
    METHODS,
    _half_within,
    choose_states,
    rank_correlation,
)
from idqn.run_dir import RunDir
from tests.explain.single_pixel import PLACE, single_pixel_agent
from tests.explain.untrained import untrained

COLOUR = {
    "env": "ALE/Pong-v5",
    "env__frame_height": 24,
    "env__frame_width": 20,
    "env__color": True,
    "env__noop_max": 0,
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("idqn", {"env__frame_height": 21, "env__frame_width": 21, "agent__key_init_std": 0.5}),
        ("bootstrap", {"env__frame_height": 21, "env__frame_width": 21}),
        ("ddqn", COLOUR),
    ],
)
def test_what_is_shown_is_what_was_met(name: str, changes: dict[str, object]) -> None:
    agent = untrained(name, **changes)
    states = collect(agent, episodes=2, max_steps=10)
    found = explain_saliency(agent, states, shown=3, counted=7)
    assert found.counted == 7
    assert len(found.action) == 3
    places = [
        int(np.flatnonzero((states.episode == e) & (states.step == s))[0])
        for e, s in zip(found.episode, found.step, strict=True)
    ]
    assert places == sorted(places)
    assert set(places) <= set(np.linspace(0, len(states) - 1, 7).round().astype(int))
    observations, channels = states.observations(np.array(places)), agent.spec.frame_shape[0]
    np.testing.assert_array_equal(found.frames, observations[:, -channels:])
    np.testing.assert_array_equal(found.action, states.action[places])
    np.testing.assert_allclose(found.q, states.q[places], atol=1e-5)
    np.testing.assert_array_equal(found.screens[1], states.screen(places[1]))

    perturbed = perturb(agent, observations)
    changes_of_all = squared_changes(perturbed).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found.action_maps, changes_of_all, atol=1e-6)
    np.testing.assert_array_equal(found.choices, perturbed.perturbed_choice)
    for method in METHODS:
        large = saliency_maps(agent, observations, found.action, method)
        assert large.shape == (3, *observations.shape[2:])
        assert large.dtype == np.float32
        assert large.min() >= 0
        assert found.maps[method].max() >= large.max() * 0.999
    chosen = changes_of_all[np.arange(3), found.action]
    np.testing.assert_allclose(found.maps["perturbation"], chosen, atol=1e-6)


def test_twice_the_same_and_kept(tmp_path: Path) -> None:
    agent = untrained("idqn", env__frame_height=15, env__frame_width=15)
    states = collect(agent, episodes=1, max_steps=6)
    found, again = (explain_saliency(agent, states, shown=2, counted=4) for _ in range(2))
    run = RunDir(tmp_path)
    found.save(run)
    kept = Saliency.load(run)
    for field in dataclasses.fields(Saliency):
        first = getattr(found, field.name)
        for other in (getattr(again, field.name), getattr(kept, field.name)):
            if isinstance(first, dict):
                assert first.keys() == other.keys()
                assert all(np.array_equal(first[key], other[key]) for key in first)
            elif isinstance(first, np.ndarray):
                np.testing.assert_array_equal(first, other)
            else:
                assert first == other


def test_numbers_over_all_counted_states() -> None:
    """Q is 0.8 and 0.6 where the pixel is bright: a blur there turns the decision."""
    agent = single_pixel_agent(weights=(2.0, -1.0), bias=(0.0, 1.0))
    states = collect(agent, episodes=1, max_steps=4)
    frames = np.zeros((4, 1, 11, 11), np.uint8)
    frames[1, 0, *PLACE] = 102  # the only one with a close decision
    frames[2] = 200  # a blur changes nothing
    states = dataclasses.replace(
        states,
        frames=frames,
        stacks=np.stack([np.arange(4), np.arange(4)], 1),
        action=agent.act(np.concatenate([frames, frames], 1)),
    )
    found = explain_saliency(agent, states, shown=4, counted=4)
    turned = perturb(agent, states.observations(slice(None))).perturbed_choice[1] == 1
    assert found.flipped.tolist() == [0, turned.mean(), 0, 0]
    assert found.half_within is not None
    assert 1 / 121 <= found.half_within < 12 / 121  # a few of the places around the pixel
    assert np.argmax(found.maps["gradient"][1]) == PLACE[0] * 11 + PLACE[1]
    np.testing.assert_allclose(np.diag(found.agreement), 1)
    np.testing.assert_array_equal(found.agreement, found.agreement.T)


def test_no_map_varies() -> None:
    agent = single_pixel_agent(weights=(0.0, 0.0))
    found = explain_saliency(agent, collect(agent, episodes=1, max_steps=4), shown=1, counted=2)
    assert found.half_within is None
    assert np.isnan(found.agreement[0, 1])
    assert not found.flipped.any()


def test_fewer_states_than_asked_for() -> None:
    agent = untrained("ddqn", env__frame_height=12, env__frame_width=12)
    found = explain_saliency(agent, collect(agent, episodes=1, max_steps=3))
    assert found.counted == 3
    assert len(found.action) == 3


def test_clear_decisions_of_different_actions() -> None:
    margins = np.array([1, 5, 3, 2, 4, 6, 7, 1], np.float32)
    q = np.stack([margins, np.zeros(8), np.full(8, -9)], 1).astype(np.float32)
    actions = np.array([0, 1, 0, 1, 2, 1, 1, 2])
    # parts of four, clearest two first: states 1 and 2; then 6 and 5, both of what was shown
    assert choose_states(q, actions, 2).tolist() == [1, 6]
    # parts of two, the clearest of each; in the fourth part the closest
    assert choose_states(q, actions, 4).tolist() == [1, 2, 5, 7]
    # of the clear half, the action that was shown less: 5 rather than 6, and not 7
    assert choose_states(q, np.array([0, 1, 0, 1, 1, 0, 1, 2]), 2).tolist() == [1, 5]
    assert choose_states(q, actions, 99).tolist() == list(range(8))
    assert choose_states(np.array([[2.0], [3.0]], np.float32), np.zeros(2, int), 1).tolist() == [1]


def test_rank_correlations_by_hand() -> None:
    a = np.array([[1.0, 2], [3, 4]])
    assert rank_correlation(a, 10 * a**3) == pytest.approx(1)
    assert rank_correlation(a, -a) == pytest.approx(-1)
    assert rank_correlation(a, np.array([[1.0, 3], [2, 4]])) == pytest.approx(0.8)
    # ranks 0.5, 0.5, 2 beside 0, 1, 2
    tied = rank_correlation(np.array([7.0, 7, 9]), np.array([1.0, 2, 3]))
    assert tied == pytest.approx(1.5 / np.sqrt(1.5 * 2))
    assert np.isnan(rank_correlation(a, np.ones((2, 2))))


def test_half_of_the_effect() -> None:
    maps = np.zeros((3, 10, 10), np.float32)
    maps[0, 0, 0] = 5  # all in one place
    maps[1] = 1  # half of all in half of the places
    assert _half_within(maps) == pytest.approx((0.01 + 0.5) / 2)
    assert _half_within(maps[2:]) is None


def test_maps_are_as_large_as_the_frame() -> None:
    agent = untrained("ddqn", "ALE/Pong-v5", env__noop_max=0)
    state = np.random.default_rng(0).integers(0, 256, (1, 4, 84, 84), np.uint8)
    action = agent.act(state)
    scale = Scale.of(84, 84)
    coarse = squared_changes(perturb(agent, state))[0, :, :, action[0]]
    large = saliency_maps(agent, state, action, "perturbation")[0]
    assert coarse.shape == (scale.rows, scale.columns) == (28, 28)
    # the middle of each place is where its mask is
    np.testing.assert_allclose(large[1::3, 1::3], coarse, rtol=1e-5)
    np.testing.assert_allclose(large[1, 2], (2 * coarse[0, 0] + coarse[0, 1]) / 3, rtol=1e-4)


def test_what_cannot_be_done_is_explained() -> None:
    agent = untrained("ddqn", env__frame_height=12, env__frame_width=12)
    states = collect(agent, episodes=1, max_steps=3)
    with pytest.raises(UserError, match="no saliency method 'guess'; use perturbation, sarfa"):
        saliency_maps(agent, states.observations(slice(None)), states.action, "guess")
    with pytest.raises(UserError, match="shown=9 of counted=3"):
        explain_saliency(agent, states, shown=9, counted=3)
    nothing: dict[str, object] = {
        field.name: value[:0]
        for field in dataclasses.fields(States)
        if field.name != "frames" and (value := getattr(states, field.name)) is not None
    }
    with pytest.raises(UserError, match="no states to look at"):
        explain_saliency(agent, dataclasses.replace(states, **nothing))
