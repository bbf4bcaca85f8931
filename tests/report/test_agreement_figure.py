"""What the agreement section says, and of which numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.explain.agreement import Agreement
from idqn.explain.results import About
from idqn.report.figures.agreement import section
from idqn.report.page import render


def example(env: str = "ALE/Pong-v5", **changes: Any) -> Agreement:
    found = Agreement(
        About("run", None, env, "idqn", 100, 0, ("NOOP", "UP", "<b>", "DOWN")),
        temperature=1.0,
        exploration_factor=0.01,
        states=100,
        rollouts=np.array([30.0, 40.0]),
        lengths=np.array([60, 40]),
        mean=35.0,
        interval=(30.0, 40.0),
        random=25.0,
        most_frequent=np.array([50.0, 54.0]),
        most_frequent_mean=52.0,
        most_frequent_interval=(50.0, 54.0),
        advantage=-17.0,
        advantage_interval=(-20.0, -14.0),
        confusion=np.array([[20, 5, 10, 0], [0, 16, 34, 0], [0, 0, 0, 0], [3, 12, 0, 0]]),
        cosine_range=0.002,
        cosine_median=0.9876,
        flatness=0.9999,
        temperatures=(1.0, 0.1),
        temperature_means=(35.0, 33.0),
        temperature_flatness=(0.9999, 0.98),
    )
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("advantage", "around", "said", "verdict"),
    [
        (-17.0, (-20.0, -14.0), "clearly below the 52.0 %", "do not explain"),
        (-3.0, (-20.0, 14.0), "below, though not clearly, the 52.0 %", "do not explain"),
        (3.0, (-20.0, 24.0), "not clearly apart from the 52.0 %", "do not explain"),
        (9.0, (4.0, 14.0), "clearly above the 52.0 %", "explain some"),
        (9.0, None, "above (one game only, so no interval) the 52.0 %", "do not explain"),
        (-9.0, None, "not above (one game only, so no interval) the 52.0 %", "do not explain"),
    ],
)
def test_the_finding_beside_the_most_frequent_action(
    advantage: float, around: Any, said: str, verdict: str
) -> None:
    finding = section(example(advantage=advantage, advantage_interval=around)).finding
    assert said in finding
    assert f"decoded keys {verdict}" in finding
    assert "in 35.0 % (30.0 to 40.0) of states" in finding


@pytest.mark.parametrize(
    ("interval", "mean", "said"),
    [
        ((30.0, 40.0), 35.0, "and above chance (25.0 %)"),
        ((20.0, 40.0), 35.0, "and not clearly apart from chance"),
        ((10.0, 20.0), 15.0, "and not even above chance"),
    ],
)
def test_the_finding_beside_chance(interval: tuple[float, float], mean: float, said: str) -> None:
    assert said in section(example(interval=interval, mean=mean)).finding


def test_recall_and_confusion_are_by_action() -> None:
    html = " ".join(section(example()).html.split())
    for told in ("57.1 % of 35", "32.0 % of 50", "0.00 % of 15"):
        assert told in html
    assert "The agent itself never takes 3 &lt;b&gt;." in html
    assert "<b>" not in html
    shares = re.findall(r'fill-opacity="([\d.]+)"', html)
    expected = np.array([[20, 5, 10, 0], [0, 16, 34, 0], [3, 12, 0, 0]]) / [[35], [50], [15]]
    np.testing.assert_allclose([float(s) for s in shares], expected.ravel(), atol=0.001)


def test_how_even_the_weights_are() -> None:
    found = section(example())
    assert "about 1.0020 times the weight" in found.caveat
    assert "1.0202" in found.html  # at a tenth of the temperature
    assert "median 0.9876 and differ by 0.0020" in found.html


def test_the_papers_numbers_stand_beside_its_own_game_alone() -> None:
    assert "In the paper" not in section(example()).html
    assert "In the paper" not in section(example("idqn/MiniPacman-v0")).html
    html = section(example("ALE/MsPacman-v5")).html
    for told in ("30.8", "29.8", "16.8", "23.7", "19.9", "18.1", "11.0", "14.6"):
        assert f"<td>{told}</td>" in html


def test_one_game_has_no_intervals() -> None:
    alone = example(
        rollouts=np.array([35.0]),
        lengths=np.array([100]),
        most_frequent=np.array([52.0]),
        interval=None,
        most_frequent_interval=None,
        advantage_interval=None,
    )
    found = section(alone)
    assert "nan" not in found.html
    assert "in 35.0 % of states" in found.finding
    assert "% of the states of one game" in found.html
    assert render(alone.about, [found], {}).count("Agreement")
