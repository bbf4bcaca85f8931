"""Many masks at once, beside one mask at a time; and numbers computed by hand."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.explain import perturbation
from idqn.explain.perturbation import (
    Perturbed,
    Scale,
    blurred,
    make_masks,
    perturb,
    sarfa,
    squared_changes,
)
from tests.explain.plain_saliency import blur, perturbed_outputs, sizes
from tests.explain.single_pixel import PLACE, single_pixel_agent
from tests.explain.untrained import untrained


def random_states(agent: Agent, count: int = 2) -> NDArray[np.uint8]:
    """Patches of grey, so that blurring changes a lot."""
    rng = np.random.default_rng(5)
    channels, height, width = agent.observation_shape
    rough = rng.integers(0, 256, (count, channels, -(-height // 4), -(-width // 4)), np.uint8)
    return rough.repeat(4, 2).repeat(4, 3)[:, :, :height, :width]


AGENTS: dict[str, dict[str, Any]] = {
    "idqn": {"agent__key_init_std": 0.5},
    "ddqn": {},
    "c51": {},
    "noisy": {},
    "bootstrap": {"agent__heads": 3, "agent__linear_init_std": 0.5},
    "ensemble": {"agent__heads": 3, "agent__linear_init_std": 0.5},
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("size", [(33, 33), (21, 14)])
def test_all_agents_as_one_mask_at_a_time(name: str, size: tuple[int, int]) -> None:
    height, width = size
    agent = untrained(name, env__frame_height=height, env__frame_width=width, **AGENTS[name])
    check(agent, Scale.of(height, width)._replace(rows=9, columns=7))


@pytest.mark.parametrize(
    "changes",
    [
        {"agent__decoder": "vae"},
        {"agent__decoder": "dense-vae"},
        {"agent__encoder": "tiny", "env__frame_height": 40, "env__frame_width": 30},
        {"env__color": True, "env__frame_height": 30, "env__frame_width": 22},
        {"env__frame_height": 84, "env__frame_width": 84},
        {"env__frame_height": 91, "env__frame_width": 61, "env__color": True},
    ],
    ids=["variational", "dense", "tiny", "colour", "84x84", "uneven"],
)
def test_all_encoders_as_one_mask_at_a_time(changes: dict[str, Any]) -> None:
    agent = untrained("idqn", "ALE/Pong-v5", agent__key_init_std=0.5, env__noop_max=0, **changes)
    scale = Scale.of(*agent.observation_shape[1:])
    check(agent, scale._replace(rows=min(scale.rows, 8), columns=min(scale.columns, 5)))


def check(agent: Agent, scale: Scale) -> None:
    states = random_states(agent)
    for number, network in enumerate(agent.network.modules()):
        if hasattr(network, "mean_image"):
            network.mean_image.uniform_(0, 99, generator=torch.Generator().manual_seed(number))
    found = perturb(agent, states, scale)
    for i, state in enumerate(states):
        q, choice = perturbed_outputs(agent, state, scale.rows, scale.columns)
        before = agent.look(state).q.numpy()
        assert np.abs(q - before).max() > 1e-3  # there is something to find
        np.testing.assert_allclose(found.q[i], before, atol=1e-5)
        np.testing.assert_allclose(found.perturbed_q[i], q, atol=1e-4, rtol=1e-4)
        changes = 0.5 * (q - before) ** 2
        np.testing.assert_allclose(squared_changes(found)[i], changes, atol=1e-4, rtol=1e-4)
        best = np.sort(q, -1)
        clear = best[..., -1] - best[..., -2] > 1e-5
        assert clear.mean() > 0.5
        np.testing.assert_array_equal(found.perturbed_choice[i][clear], choice[clear])
    assert found.choice.tolist() == agent.act(states).tolist()


def test_masks_and_blur_grow_and_shrink_with_the_frame() -> None:
    assert Scale.of(84, 84) == (3.0, 5.0, 28, 28)
    for height, width in ((84, 84), (33, 33), (210, 160), (11, 11), (50, 84)):
        assert Scale.of(height, width) == pytest.approx(sizes(height, width))
    assert Scale.of(33, 33) == pytest.approx((33 / 28, 55 / 28, 33, 33))
    masks = make_masks(84, 84, Scale.of(84, 84), torch.device("cpu")).images()
    assert masks.shape == (28, 28, 84, 84)
    assert float(masks[2, 5, 7, 16]) == 1  # their middles: 1, 4, 7, ... and 1, 4, ..., 16
    assert float(masks[2, 5, 7, 19]) == pytest.approx(math.exp(-0.5))
    assert float(masks[2, 5, 10, 19]) == pytest.approx(math.exp(-1))
    assert float(masks[2, 5, 7, 29]) == 0  # beyond 4 sigma


@pytest.mark.parametrize(("height", "width", "sigma"), [(84, 84, 5.0), (33, 20, 2.0), (5, 6, 3.0)])
def test_planes_are_blurred_each_by_itself(height: int, width: int, sigma: float) -> None:
    planes = np.random.default_rng(0).uniform(0, 255, (3, height, width))
    found = blurred(torch.from_numpy(planes).float(), sigma).numpy()
    np.testing.assert_allclose(found, [blur(plane, sigma) for plane in planes], atol=1e-3)
    if height > 20:
        size = 2 * int(4 * sigma + 0.5) + 1
        border = cv2.BORDER_REFLECT
        other = [cv2.GaussianBlur(p, (size, size), sigma, borderType=border) for p in planes]
        np.testing.assert_allclose(found, other, atol=1e-3)


def test_a_value_of_one_pixel_changes_by_what_the_blur_takes_from_it() -> None:
    agent = single_pixel_agent(weights=(2.0, -1.0))
    state = np.zeros(agent.observation_shape, np.uint8)
    state[-1, *PLACE] = 204
    found = perturb(agent, state[None])
    # Q = weight * pixel / 255; of a single bright pixel, the blur leaves the middle of its Gaussian
    sigma, reach = 5 / 3, 7
    middle = 1 / sum(math.exp(-(d**2) / (2 * sigma**2)) for d in range(-reach, reach + 1)) ** 2
    lost = 204 * (1 - middle) / 255
    assert found.q[0, :2] == pytest.approx([2 * 0.8, -0.8])
    y, x = PLACE
    for i, j, masked in ((y, x, 1.0), (y, x + 1, math.exp(-0.5)), (y - 1, x - 2, math.exp(-2.5))):
        after = 0.8 - lost * masked
        assert found.perturbed_q[0, i, j, :2] == pytest.approx([2 * after, -after], abs=1e-5)
        expected = [0.5 * (2 * lost * masked) ** 2, 0.5 * (lost * masked) ** 2]
        assert squared_changes(found)[0, i, j, :2] == pytest.approx(expected, abs=1e-5)
    assert found.perturbed_q[0, 0, 0, 0] == pytest.approx(1.6, abs=1e-5)


def test_where_the_decision_turns() -> None:
    agent = single_pixel_agent(weights=(2.0, -1.0), bias=(0.0, 1.0))
    state = np.zeros(agent.observation_shape, np.uint8)
    state[-1, *PLACE] = 102  # Q is 0.8 and 0.6; the second wins as soon as the pixel loses a sixth
    found = perturb(agent, state[None])
    assert found.choice.tolist() == [0]
    assert found.perturbed_choice[0][PLACE] == 1
    assert found.perturbed_choice[0, 0, 0] == 0
    turned = np.argwhere(found.perturbed_choice[0] == 1)
    assert (np.abs(turned - PLACE).max(1) <= 2).all()
    assert len(turned) > 1


def answers(q: list[float], *after: list[float]) -> Perturbed:
    """Of one state, under a row of masks."""
    perturbed = np.array([[after]], np.float32)
    return Perturbed(
        np.array([q], np.float32), np.array([0]), perturbed, perturbed.argmax(-1).astype(np.int64)
    )


def test_sarfa_by_hand() -> None:
    found = answers([1, 0, 0], [0, 0, 0], [2, 0, 0], [0, 1, 0])
    (specific, risen, other), *_ = sarfa(found, np.array([0]))[0]
    # the share falls from e / (e + 2) to 1 / 3; the others are equal before and after
    fall = math.e / (math.e + 2) - 1 / 3
    assert specific == pytest.approx(2 * fall / (1 + fall))
    assert risen == 0
    # the share falls to 1 / (e + 2), and the others change from (1/2, 1/2) to (p, 1 - p)
    fall, p = (math.e - 1) / (math.e + 2), math.e / (math.e + 1)
    divergence = p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p))
    relevance = 1 / (1 + divergence)
    assert other == pytest.approx(2 * relevance * fall / (relevance + fall))


def test_sarfa_of_another_action_and_of_large_values() -> None:
    shifted = sarfa(answers([1000, 1001, 1000], [1000, 1000, 1000]), np.array([1]))
    plain = sarfa(answers([1, 0, 0], [0, 0, 0]), np.array([0]))
    np.testing.assert_allclose(shifted, plain, rtol=1e-4)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = untrained("ddqn")
    told: list[tuple[str, int, int]] = []
    scale = Scale.of(33, 33)._replace(rows=2, columns=2)
    perturb(agent, random_states(agent, 3), scale, lambda *news: told.append(news))
    assert told == [("perturbing states", 3, 3)]
    monkeypatch.setattr(perturbation, "_PIXELS_IN_CACHE", 2 * 2 * 33 * 33)
    told.clear()
    perturb(agent, random_states(agent, 3), scale, lambda *news: told.append(news))
    assert told == [("perturbing states", done, 3) for done in (2, 3)]


def test_a_gpu_does_not_round_small_differences_away() -> None:
    agent = untrained("ddqn")
    rounding: list[bool] = []

    def look(*_: object) -> None:
        rounding.append(torch.backends.cudnn.allow_tf32)

    before = torch.backends.cudnn.allow_tf32
    perturb(agent, random_states(agent), Scale.of(33, 33)._replace(rows=2, columns=2), look)
    assert rounding == [False]
    assert torch.backends.cudnn.allow_tf32 == before
