"""What the section on ground truth says, and of which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.explain.ground_truth import MAPS, OBJECTS, PICTURES, GroundTruth
from idqn.explain.results import About
from idqn.report.drawing import number
from idqn.report.figures.ground_truth import section
from idqn.report.page import render

ABOUT = About("run", None, "idqn/MiniPacman-v0", "idqn", 100, 0, ("NOOP", "UP"))


def around(values: Any, width: float = 0.02) -> np.ndarray:
    values = np.asarray(values, float)
    return np.stack([values, values - width, values + width], -1)


def example(**changes: Any) -> GroundTruth:
    density = np.tile([9.0, 2.0, 4.0, 0.5, 1.5], (len(MAPS), 1))
    density[1] = [9.0, 3.0, 1.5, 0.5, 1.5]
    places = [
        [[0.9, 0.2, 0.7], [0.16, 0.15, 0.01], [0.4, 0.2, 0.2]],
        [[3.0, 0.0, 3.0], [0.5, 0.2, 0.3], [0.6, 0.2, 0.4]],
    ]
    found = GroundTruth(
        ABOUT,
        states=700,
        games=30,
        mapped_states=48,
        maps=MAPS,
        objects=OBJECTS,
        covers=np.array([0.007, 0.007, 0.04, 0.52, 0.426]),
        density=around(density),
        pictures=PICTURES,
        places=around(places),
    )
    return replace(found, **changes)


def test_it_tells_the_least_of_objects_over_walls() -> None:
    drawn = section(example())
    assert "more than on walls, per pixel at least 3.00 times as much" in drawn.finding
    assert "<td>9.00 (8.98 to 9.02)</td>" in drawn.html
    assert "<td>52 %</td>" in drawn.html


def test_maps_on_walls_are_named() -> None:
    density = example().density.copy()
    density[2, 1] = 0.4
    finding = section(example(density=density)).finding
    assert (
        f"Not all saliency falls on pacman, ghost and pellets more than on walls ({MAPS[2]})"
        in (finding)
    )


@pytest.mark.parametrize(
    ("difference", "expected"),
    [(0.01, "no more often than"), (0.1, "more often than"), (-0.1, "less often than")],
)
def test_keys_are_held_against_chance(difference: float, expected: str) -> None:
    assert example().places is not None
    places = np.array(example().places)
    told = f"{expected} chance ({number(15 + 100 * difference)} % against {number(15.0)} %)"
    places[0, 1] = around([0.15 + difference, 0.15, difference])
    assert f"near pacman {told}, and" in section(example(places=places)).finding
    places[0, 2] = places[0, 1]
    finding = section(example(places=places)).finding
    assert finding.endswith(f"and {told} as attention sees them.")


def test_without_keys_there_are_maps() -> None:
    drawn = section(example(places=None))
    assert "no keys with pictures" in drawn.html
    assert drawn.finding.endswith("times as much.")


def test_it_stands_on_the_page() -> None:
    assert 'id="ground-truth"' in render(ABOUT, [section(example())], {})
