"""What the section on saliency against the game says, and of which numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from idqn.explain.grounding import METHODS, RIVALS, Grounding
from idqn.explain.results import About
from idqn.report.figures.grounding import section
from idqn.report.page import render

ABOUT = About("run", None, "ALE/MsPacman-v5", "idqn", 100, 0, ("NOOP", "UP"))


def numbers(shape: tuple[int, ...], good: dict[int, float]) -> NDArray[np.float64]:
    """0 ± 0.1, but for some of the methods."""
    found = np.zeros((*shape, 3)) + np.array([0, -0.1, 0.1])
    for method, value in good.items():
        found[:, :, method] += value
    return found


def example(good: dict[int, float]) -> Grounding:
    count = len(METHODS) + len(RIVALS)
    rng = np.random.default_rng(0)
    return Grounding(
        ABOUT,
        games=2,
        states=4,
        settle=4,
        methods=METHODS,
        rivals=RIVALS,
        objects=("power_pill", "ghost", "egg"),
        state=np.repeat(np.arange(4), 3),
        object=np.tile([0, 1, 1], 4),
        change=rng.random(12),
        mass=rng.random((count, 12)),
        area=rng.random(12),
        correlation=numbers((2, 2, count), good),
        gain=numbers((2, 2, len(METHODS), len(RIVALS)), good),
    )


def test_the_best_method_is_named_and_drawn() -> None:
    found = section(example({0: 0.6, 2: 0.7}))
    assert found.finding == (
        "Saliency by gradient tells which objects matter in the game itself (rank correlation "
        "0.70, 0.60 to 0.80), better than their area and picture detail do; this holds within "
        "states too; so does perturbation; sarfa and integrated-gradients are not shown to."
    )
    assert "(4 power pill, 8 ghost)" in found.reading
    assert found.html.count('r="3"') == 12
    assert found.html.count("pooled and within") == 2
    assert "power pill</text>" in found.html
    assert "egg" not in found.html
    assert 'id="grounding"' in render(ABOUT, [found], {})


def test_negative_results_are_said() -> None:
    found = section(example({1: 0.05}))
    assert found.finding.startswith("No saliency map is shown to tell which objects matter")
    assert "the nearest is sarfa, with a rank correlation of 0.05, −0.05 to 0.15 with" in (
        found.finding
    )
    assert found.html.count("not shown") == len(METHODS)
    still = replace(example({0: 0.6}), change=np.zeros(12))
    assert section(still).finding.startswith("No object changes the value")


def test_between_states_alone_is_not_hidden() -> None:
    result = example({0: 0.6})
    gain = result.gain.copy()
    gain[1] = [0, -0.1, 0.1]
    found = section(replace(result, gain=gain))
    assert "this is not shown within states too" in found.finding
    assert "pooled only" in found.html


def test_a_game_of_few_objects_is_drawn_without_a_chart_within_states() -> None:
    result = example({0: 0.6})
    correlation, gain = result.correlation.copy(), result.gain.copy()
    correlation[1] = gain[1] = np.nan
    found = section(replace(result, correlation=correlation, gain=gain))
    assert "nan" not in found.html
    assert "Within states: mean" not in found.html
