"""What the comparison section draws and says."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from idqn.explain.comparison import Comparison
from idqn.explain.results import About
from idqn.report.figures.comparison import section

NUMBERS = {
    "states": 1234,
    "overlap": 0.125,
    "norm": 0.25,
    "entropy": 1.5,
    "relative_entropy": 0.5,
    "certain_share": 0.1,
    "keys_used": 7,
    "keys_for_95": 5,
    "use_entropy": 1.25,
}


def example(**changes: Any) -> Comparison:
    rng = np.random.default_rng(0)
    use = np.ones((2, 4), np.int64)
    found = Comparison(
        About("with", None, "ALE/Pong-v5", "idqn", 100, 0, ("NOOP", "<b>")),
        other={"run": "without", "frames": 2_000},
        differences=(("loss.diversity", "0.01", "0.0"), ("train.seed", "0", "1")),
        values=np.linspace(-25, 25, 4, dtype=np.float32),
        rows_action=np.array([0, 0, 1]),
        rows={name: rng.dirichlet(np.ones(4), 3).astype(np.float32) for name in "ab"},
        mean={name: rng.dirichlet(np.ones(4), 2).astype(np.float32) for name in "ab"},
        use={"a": use, "b": 3 * use},
        numbers={"a": NUMBERS, "b": {**NUMBERS, "overlap": 0.5, "entropy": 0.7}},
    )
    return replace(found, **changes)


def pictures(html: str) -> list[Any]:
    urls = re.findall(r'href="data:image/png;base64,([^"]+)"', html)
    files = [np.frombuffer(base64.b64decode(url), np.uint8) for url in urls]
    return [cv2.imdecode(file, cv2.IMREAD_GRAYSCALE) for file in files]


def test_maps_share_one_scale() -> None:
    result = example()
    found = pictures(section(result).html)
    assert len(found) == 6
    largest = max(rows.max() for rows in result.rows.values())
    for picture, name in zip(found, "ab", strict=False):
        np.testing.assert_allclose((picture / 255) ** 2 * largest, result.rows[name], atol=0.01)
    largest = max(mean.max() for mean in result.mean.values())
    for picture, name in zip(found[2:], "ab", strict=False):
        np.testing.assert_allclose((picture / 255) ** 2 * largest, result.mean[name], atol=0.01)
    assert (found[4] == 255).all()  # both use all keys alike, however many states they have
    assert (found[5] == 255).all()


def test_masks_have_names_of_their_own() -> None:
    html = section(example()).html
    names = re.findall(r'mask id="([^"]+)"', html)
    assert len(names) == len(set(names)) == 6
    assert all(f"url(#{name})" in html for name in names)
    assert "<b>" not in html


def test_the_finding_follows_the_numbers() -> None:
    finding = section(example()).finding
    assert (
        "more between the states of B with diversity 0 (0.50) than of A with diversity 0.01 "
        in (finding)
    )
    assert "B attends more sharply (entropy 1.50 nats in A, 0.70 in B)" in finding
    assert "5 keys in A, 5 in B" in finding
    turned = example(numbers={"a": {**NUMBERS, "overlap": 0.9}, "b": NUMBERS}, differences=())
    finding = section(turned).finding
    assert "more between the states of A (0.90) than of B (0.12)" in finding
    assert "neither attends more sharply" in finding
    finding = section(example(numbers={"a": NUMBERS, "b": NUMBERS})).finding
    assert finding.startswith("Attention overlaps alike between the states of A with diversity")


def test_tables() -> None:
    html = section(example()).html
    for row in (
        "<th scope='row'>states</th><td>1,234</td><td>1,234</td>",
        "<th scope='row'>mean overlap between two states</th><td>0.125</td><td>0.500</td>",
        "<th scope='row'>keys that are ever the top one, of 8</th><td>7</td><td>7</td>",
        "<th scope='row'>loss.diversity</th><td>0.01</td><td>0.0</td>",
        "<th scope='row'>train.seed</th><td>0</td><td>1</td>",
    ):
        assert row in html
    assert "A: with, 100 frames, diversity 0.01" in html
    assert "B: without, 2,000 frames, diversity 0" in html
    assert "<p>Nothing.</p>" in section(example(differences=())).html


def test_agents_that_never_do_the_same() -> None:
    nothing = {name: np.zeros((0, 4), np.float32) for name in "ab"}
    found = section(example(rows_action=np.zeros(0, np.int64), rows=nothing))
    assert "They never take the same action" in found.html
    assert len(pictures(found.html)) == 4
