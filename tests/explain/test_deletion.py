from __future__ import annotations

import numpy as np
import pytest
import torch

from idqn.agent import Agent
from idqn.explain import collect
from idqn.explain.deletion import (
    FRACTIONS,
    area,
    delete_and_insert,
    detail,
    random_pixels,
    random_places,
    ranks,
)
from idqn.explain.perturbation import Scale, blurred
from tests.explain.untrained import untrained

SMALL = {"env__frame_height": 12, "env__frame_width": 14}


@pytest.fixture(scope="module")
def agent() -> Agent:
    return untrained(**SMALL)


@pytest.fixture(scope="module")
def seen(agent: Agent) -> tuple[np.ndarray, np.ndarray]:
    states = collect(agent, episodes=1, max_steps=3)
    return states.observations(slice(None)), states.action


def test_ranks_begin_with_the_largest() -> None:
    rng = np.random.default_rng(0)
    found = ranks(np.array([[0.5, 3.0, -1.0], [1.0, 2.0, 3.0]]), rng)
    assert found.tolist() == [[1, 0, 2], [2, 1, 0]]


def test_equal_pixels_have_no_order_of_their_own() -> None:
    rng = np.random.default_rng(0)
    firsts = [int(ranks(np.array([[1.0, 1.0, 0.0, 1.0]]), rng).argmin()) for _ in range(60)]
    assert set(firsts) == {0, 1, 3}
    assert all(ranks(np.array([[1.0, 1.0, 0.0, 1.0]]), rng)[0, 2] == 3 for _ in range(10))


def test_area_under_a_curve() -> None:
    assert area(np.ones(21)) == pytest.approx(1)
    assert area(FRACTIONS) == pytest.approx(0.5)
    falling = np.zeros(21)
    falling[0] = 1
    assert area(np.stack([falling, falling[::-1]])).tolist() == pytest.approx([0.025, 0.025])


def test_curves_are_those_of_a_loop(agent: Agent, seen: tuple[np.ndarray, np.ndarray]) -> None:
    observations, actions = seen
    n, _, height, width = observations.shape
    map_ = np.random.default_rng(1).normal(size=(n, height, width))
    kept = delete_and_insert(agent, observations, actions, {"map": map_})["map"]
    assert kept.change.shape == kept.same.shape == (2, n, 21)
    for i in range(n):
        state = torch.from_numpy(observations[i]).float()
        blur = blurred(state, Scale.of(height, width).blur_sigma)
        q = agent.network(state[None], False).q[0]
        order = np.argsort(-map_[i].ravel())
        for f in (0, 1, 7, 20):
            some = order[: round(FRACTIONS[f] * height * width)]
            pairs = ((state, blur), (blur, state))  # delete from one, put the other in place
            for c, (image, other) in enumerate(pairs):
                changed = image.clone().flatten(1)
                changed[:, some] = other.flatten(1)[:, some]
                now = agent.network(changed.view(1, -1, height, width), False).q[0]
                expected = float((now - q)[actions[i]].abs())
                assert kept.change[c, i, f] == pytest.approx(expected, abs=1e-4)
                assert kept.same[c, i, f] == (int(now.argmax()) == actions[i])


def test_ends_are_the_state_and_the_blurred_one(
    agent: Agent, seen: tuple[np.ndarray, np.ndarray]
) -> None:
    observations, actions = seen
    n, _, height, width = observations.shape
    maps = {
        "pixels": random_pixels(n, height, width, 0),
        "places": random_places(n, height, width, 0),
    }
    found = delete_and_insert(agent, observations, actions, maps)
    for kept in found.values():
        np.testing.assert_allclose(kept.change[0, :, 0], 0, atol=1e-5)
        np.testing.assert_allclose(kept.change[1, :, -1], 0, atol=1e-5)
        np.testing.assert_allclose(kept.change[0, :, -1], kept.change[1, :, 0], atol=1e-5)
        assert kept.same[0, :, 0].all()
        assert kept.same[1, :, -1].all()
    ends = [kept.change[0, :, -1] for kept in found.values()]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)


def test_a_map_of_what_matters_deletes_soonest() -> None:
    """Of a value that is one pixel's brightness, the map that knows the pixel has it at once."""
    agent = untrained("ddqn", **SMALL)
    observations = np.zeros((2, 2, 12, 14), np.uint8)
    observations[:, 1, 5, 6] = 255

    class OnePixel(torch.nn.Module):
        def forward(self, images: torch.Tensor, decode: bool = True) -> object:
            q = torch.zeros(len(images), 5)
            q[:, 3] = images[:, 1, 5, 6]
            return type(out)(embedding=q, q=q)

    out = agent.network(torch.zeros(1, 2, 12, 14), False)
    agent.network = OnePixel()  # type: ignore[assignment]
    knows = np.zeros((2, 12, 14))
    knows[:, 5, 6] = 1
    maps = {"knows": knows, "against": -knows, "detail": detail(observations)}
    found = delete_and_insert(agent, observations, np.array([3, 3]), maps)
    lost = found["knows"].change[0, :, -1]
    assert (lost > 200).all()
    np.testing.assert_allclose(found["knows"].change[0, :, 1:], np.tile(lost[:, None], 20))
    np.testing.assert_allclose(found["knows"].change[1, :, 1:], 0)
    np.testing.assert_allclose(found["against"].change[0, :, :-1], 0)
    np.testing.assert_allclose(found["detail"].change[0, :, 1:], np.tile(lost[:, None], 20))


def test_random_places_are_as_wide_as_masks_and_differ() -> None:
    maps = random_places(40, 84, 84, 0)
    assert maps.min() == 0
    assert not np.array_equal(maps[0], maps[1])
    assert not np.array_equal(maps, random_places(40, 84, 84, 1))
    centred = maps - maps.mean((1, 2), keepdims=True)
    along = (centred[:, :, :-6] * centred[:, :, 6:]).mean() / centred.var()
    # noise blurred with sigma s correlates with itself d pixels on by exp(-d²/4s²); s is 3
    assert along == pytest.approx(np.exp(-1), abs=0.05)


def test_detail_is_what_blurring_changes() -> None:
    flat = np.full((1, 2, 12, 14), 90, np.uint8)
    np.testing.assert_allclose(detail(flat), 0, atol=1e-3)
    flat[0, 0, 3, 4] = 255
    assert np.unravel_index(detail(flat)[0].argmax(), (12, 14)) == (3, 4)
