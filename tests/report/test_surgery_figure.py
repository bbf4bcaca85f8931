"""What the surgery section says, and of which numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from idqn.explain.operations import (
    CONTROL,
    REMOVE_ACTION,
    REMOVE_KEY,
    REMOVE_VALUE,
    SWAP_ACTIONS,
    SWAP_KEYS,
)
from idqn.explain.results import About
from idqn.explain.surgery import Surgery
from idqn.report.figures.surgery import section
from idqn.report.forest import Effect, forest, scale
from idqn.report.page import render


def example(**changes: Any) -> Surgery:
    effect = np.array(
        [[-5, -6, -4], [-3, -4, -2], [-1, -2, 1], [0, 0, 0], [0.5, -1, 2], [3, 1, 4]], float
    )
    found = Surgery(
        About("run", None, "ALE/Pong-v5", "idqn", 100, 0, ("NOOP", "<UP>")),
        episodes=2,
        max_steps=50,
        states=10,
        values=np.array([-25.0, 25.0], np.float32),
        what=(SWAP_ACTIONS, REMOVE_KEY, REMOVE_ACTION, CONTROL, SWAP_KEYS, REMOVE_VALUE),
        action=np.array([0, 1, 1, 0, 0, -1]),
        value=np.array([-1, 1, -1, 0, 1, 0]),
        partner=np.array([1, -1, -1, -1, 1, -1]),
        used=np.array([1, 0.5, 0.6, 0, 0.7, 0.1]),
        attention=np.full(6, 0.5),
        changed=np.array([1, 0.25, 0.2, 0, 0.1, 0.2]),
        effect=effect,
        returns=np.zeros((6, 2)),
        unchanged=np.array([8.0, 10.0]),
        use=np.array([[0, 3], [1, 6]]),
    )
    return replace(found, **changes)


def test_the_finding_names_the_worst_change_and_the_worst_key() -> None:
    finding = section(example()).finding
    assert "2 lower the return of 9.00 for certain" in finding
    assert "most of all 'NOOP with <UP>' (−5.00, −6.00 to −4.00)" in finding
    assert "misses most is 'without <UP> 25'" in finding
    assert "1 raise it, most of all 'without all keys of value −25' (3.00, 1.00 to 4.00)" in finding
    assert "removing the keys of the least attention makes no certain difference" in finding


def test_the_finding_says_when_nothing_is_lost_and_when_controls_matter() -> None:
    none = np.tile([0.0, -1.0, 1.0], (6, 1))
    assert "None of 6 changes" in section(example(effect=none)).finding
    assert "raise it" not in section(example(effect=none)).finding
    felt = example().effect.copy()
    felt[3] = (-2, -3, -1)
    finding = section(example(effect=felt)).finding
    assert (
        "keys of the least attention matter too ('without NOOP −25 (least attention)')" in finding
    )


def test_all_changes_are_in_charts_and_table() -> None:
    html = section(example()).html
    for name in (
        "NOOP with &lt;UP&gt;",
        "without &lt;UP&gt; 25",
        "without &lt;UP&gt;",
        "NOOP 25 with &lt;UP&gt;&#x27;s",
        "without all keys of value −25",
    ):
        assert html.count(f">{name}<") == 2
    assert "<UP>" not in html
    assert 'id="surgery"' in render(example().about, [section(example())], {})


def test_forest_puts_zero_and_intervals_to_scale() -> None:
    effects = [Effect("a", -1.0, -2.0, 0.5), Effect("b", 2.0, 1.0, 2.0)]
    assert scale(effects) == (-2.0, 2.0)
    svg = forest(effects, "across", "label")
    zero = float(re.search(r'class="grid" x1="([\d.]+)"', svg)[1])  # type: ignore[index]
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)]
    assert dots[1] - zero == 2 * (zero - dots[0])
    assert svg.count("var(--series-2)") == 2  # line and dot of b alone
    assert "+2.00 (1.00 to 2.00)" in svg


def test_forest_of_no_effect_at_all() -> None:
    assert "0.00" in forest([Effect("a", 0.0, 0.0, 0.0)], "across", "label")
