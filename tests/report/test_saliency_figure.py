"""Saliency on the page: what is sent to it, and what is said about it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.explain.results import About
from idqn.explain.saliency import METHODS, Saliency
from idqn.report.figures.saliency import section
from idqn.report.page import render


def example(channels: int = 1, **changes: Any) -> Saliency:
    rng = np.random.default_rng(0)
    count, actions, rows, columns, height, width = 3, 4, 5, 6, 10, 12
    action_maps = rng.uniform(0, 0.5, (count, actions, rows, columns)).astype(np.float32)
    action = np.array([1, 3, 0])
    choices = np.tile(action[:, None, None], (1, rows, columns))
    choices[1, 2, :3] = 2
    agreement = np.eye(4) + 0.4 * (1 - np.eye(4))
    found = Saliency(
        About("run", None, "ALE/Pong-v5", "idqn", 100, 0, ("A<0>", "A1", "A2", "A3")),
        frames=rng.integers(0, 256, (count, channels, height, width), np.uint8),
        screens=rng.integers(0, 256, (count, 20, 16, 3), np.uint8),
        episode=np.array([0, 0, 2]),
        step=np.array([4, 40, 7]),
        action=action,
        q=rng.normal(0, 1, (count, actions)).astype(np.float32),
        maps={
            "perturbation": action_maps[np.arange(count), action],
            "sarfa": np.zeros((count, rows, columns), np.float32),
            "gradient": rng.uniform(0, 1e-5, (count, height, width)).astype(np.float32),
            "integrated-gradients": rng.uniform(0, 1, (count, height, width)).astype(np.float32),
        },
        action_maps=action_maps,
        choices=choices,
        mask_sigma=3.0,
        blur_sigma=5.0,
        counted=8,
        flipped=np.array([0, 0, 0, 0.1, 0.3, 0, 0, 0.2]),
        half_within=0.04,
        agreement=agreement,
    )
    return replace(found, **changes)


@pytest.mark.parametrize("channels", [1, 3])
def test_maps_are_sent_in_levels_of_their_own_maximum(channels: int) -> None:
    result = example(channels)
    found = section(result)
    data = found.data
    assert [method["name"] for method in data["methods"]][1:3] == ["SARFA", "Gradient"]
    state = data["states"][1]
    assert state["chosen"] == 3
    sent = [*state["actionMaps"], *state["maps"]]
    maps = [*result.action_maps[1], *(result.maps[method][1] for method in METHODS)]
    for got, expected in zip(sent, maps, strict=True):
        levels = np.frombuffer(base64.b64decode(got["levels"]), np.uint8)
        drawn = levels.reshape(got["rows"], got["columns"]) / 255 * expected.max()
        np.testing.assert_allclose(drawn, expected, atol=expected.max() / 500 + 1e-12)
        if expected.any():
            assert float(got["top"]) == pytest.approx(expected.max(), rel=0.06)
        else:
            assert got["top"] is None
    largest = np.sqrt(2 * result.action_maps[1, 2].max())
    assert float(state["change"][2]) == pytest.approx(largest, rel=0.06)
    choices = np.frombuffer(base64.b64decode(state["choices"]["actions"]), np.uint8)
    assert choices.tolist() == result.choices[1].ravel().tolist()
    assert data["places"] == 30
    assert data["first"] == 1  # where something turns the decision
    json.dumps(data, allow_nan=False)
    assert found.html.count("<button") == 3
    assert "Game 3, step 8" in found.html
    assert "A&lt;0&gt;" in found.html
    assert "A<0>" not in found.html


def test_the_first_state_if_nothing_turns_any_decision() -> None:
    choices = np.tile(example().action[:, None, None], (1, 5, 6))
    assert section(example(choices=choices)).data["first"] == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "In 3 of 8 states, blurring one place is enough to change the decision (there, 20 % of "
            "places do so); half of the effect on the chosen action's value lies in 4 % of the "
            "frame. The 4 methods agree in part on where that is (mean rank correlation 0.40).",
        ),
        (
            {"flipped": np.zeros(8), "half_within": 0.004},
            "In none of 8 states does blurring one place change the decision; half of the effect "
            "on the chosen action's value lies in 0.4 % of the frame.",
        ),
        ({"agreement": np.eye(4) * 1.1 - 0.1}, "hardly agree on where that is (mean rank corr"),
        ({"agreement": np.eye(4) * 1.1 - 0.1}, "correlation −0.10)."),
        ({"agreement": np.full((4, 4), 0.9)}, "The 4 methods largely agree on where that is"),
        (
            {"agreement": np.full((4, 4), np.nan), "half_within": None},
            "do so); no value of a chosen action depends on the frame.",
        ),
    ],
)
def test_the_finding_follows_the_numbers(changes: dict[str, Any], said: str) -> None:
    assert said in section(example(**changes)).finding


def test_agreement_that_is_not_known_is_a_dash() -> None:
    agreement = np.full((4, 4), np.nan)
    agreement[0, 1] = -0.25
    html = section(example(agreement=agreement)).html
    assert "<td>−0.25</td>" in html
    assert "<td>–</td>" in html
    assert "nan" not in html


def test_a_page_can_be_made_of_it() -> None:
    result = example()
    html = render(result.about, [section(result)], {})
    assert 'id="data-saliency"' in html
    assert "saliency-view" in html
