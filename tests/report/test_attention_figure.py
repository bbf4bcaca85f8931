"""What the attention section says and hands to its script."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np

from idqn.explain.attention import Attention
from idqn.explain.results import About
from idqn.report.figures.attention import section
from idqn.report.page import render


def example(steps: int = 7, **changes: Any) -> Attention:
    rng = np.random.default_rng(0)
    use = np.zeros((3, 4), np.int64)
    use[1, 2], use[0, 3] = 90, 10
    found = Attention(
        About("run", None, "ALE/Pong-v5", "idqn", 100, 0, ("NOOP", "UP", "<b>")),
        values=np.linspace(-25, 25, 4, dtype=np.float32),
        states=100,
        entropy=1.1,
        relative_entropy=0.8,
        certain_share=0.05,
        use=use,
        keys_for_95=2,
        episode=1,
        finished=True,
        attention=rng.dirichlet(np.ones(4), (steps, 3)).astype(np.float16),
        q=rng.normal(0, 5, (steps, 3)).astype(np.float32),
        uncertainty=rng.random((steps, 3)).astype(np.float32),
        action=rng.integers(0, 3, steps),
        reward=rng.choice([0.0, 1.0, -2.5], steps),
        moments=np.array([0, 2, steps - 1]),
        most_uncertain=2,
        least_uncertain=0,
        screens=rng.integers(0, 255, (3, 20, 16, 3), dtype=np.uint8),
    )
    return replace(found, **changes)


def test_findings_follow_the_numbers() -> None:
    wavering = section(example()).finding
    assert wavering.startswith("The agent is seldom certain: ")
    assert "attention to the action it takes is 80.0 % of the largest there is" in wavering
    assert "more than 0.9 of it is on one value in 5.00 % of states" in wavering
    assert "2 of its 12 keys are the top one in 95 % of states" in wavering
    sure = section(example(certain_share=0.75, relative_entropy=0.1)).finding
    assert sure.startswith("The agent is mostly certain: it puts more than 0.9 of its attention on")
    assert "in 75.0 % of states" in sure
    few = section(example(relative_entropy=0.3, certain_share=0.0)).finding
    assert few.startswith("The agent weighs few values")
    assert "is on one value in no state" in few


def test_the_script_gets_the_maps_back() -> None:
    result = example()
    data = section(result).data
    shape = result.attention.shape
    raw = np.frombuffer(base64.b64decode(data["attention"]), np.uint8).reshape(shape)
    back = raw / 255 * data["largest"]
    np.testing.assert_allclose(back, result.attention, atol=0.003)
    np.testing.assert_allclose(data["q"], result.q, atol=0.001)
    assert data["moments"] == [0, 2, 6]
    assert data["notes"] == {"2": "least certain", "0": "most certain"}
    assert data["screens"]["width"] == 16
    json.dumps(data, allow_nan=False)


def test_the_page_is_whole() -> None:
    result = example()
    found = section(result)
    html = render(result.about, [found], {})
    assert "attention-view" in html
    assert "drawWeights" in html  # the script came along
    assert "<b>" not in found.html
    assert "Game 2, its longest: 7 steps, to its end" in found.html
    assert "2 of 12" in found.html
    assert "cut off" in section(example(finished=False)).html


def test_one_step_without_attention_to_speak_of() -> None:
    result = example(
        steps=1,
        attention=np.zeros((1, 3, 4), np.float16),
        moments=np.array([0]),
        most_uncertain=0,
        least_uncertain=0,
        screens=np.zeros((1, 20, 16, 3), np.uint8),
    )
    data = section(result).data
    assert data["largest"] > 0
    assert len(data["action"]) == 1
