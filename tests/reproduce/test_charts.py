"""Curves and their charts."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from idqn.presets import preset
from idqn.reproduce.charts import HEIGHT, WIDTH, chart_sheet
from idqn.reproduce.curves import Panel, panels, together
from idqn.reproduce.results import gather
from idqn.reproduce.studies import Choices, curves
from tests.reproduce.made import make_run, metrics_row

FRAMES = 1_000_000
ALL = ("idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble")


def drawn(found: list[Panel]) -> ElementTree.Element:
    return ElementTree.fromstring(chart_sheet(found, "T & <T>", FRAMES))


def texts(sheet: ElementTree.Element) -> list[ElementTree.Element]:
    return [node for node in sheet.iter() if node.tag.endswith("}text")]


def elements(sheet: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [node for node in sheet.iter() if node.tag.endswith(f"}}{name}")]


def of(folder: Path, *games: str, agents: tuple[str, ...] = ("idqn",)) -> list[Panel]:
    choices = Choices(games=games, agents=agents)
    return panels(gather(curves(choices), (0, 1), folder, FRAMES))


@pytest.fixture
def pong(tmp_path: Path) -> Path:
    """Two seeds, from -20 up; the second stopped half way, and the first went on for longer."""
    for seed, end in ((0, 1_200_000), (1, 500_000)):
        config = preset("paper", "ALE/Pong-v5").replace(**{"train.seed": seed})
        rows = [metrics_row(at, -20 + at / 50_000 + seed) for at in range(100_000, end + 1, 50_000)]
        make_run(tmp_path / str(seed), config, rows)
    return tmp_path


def test_curves_end_where_frames_do(pong: Path) -> None:
    ((panel,),) = [of(pong, "Pong")]
    (curve,) = panel.curves
    assert curve.seeds[0][0][-1] == FRAMES
    assert curve.seeds[1][0][-1] == 500_000  # unfinished ones are drawn, too
    assert curve.together is not None
    assert (curve.together.frames[0], curve.together.frames[-1]) == (100_000, 500_000)
    assert curve.together.mean[0] == -17.5  # of -18 and -17
    assert (curve.together.low[0], curve.together.high[0]) == (-18, -17)
    assert [mark.name for mark in panel.marks][-1] == "random play"


def test_seeds_are_joined_where_both_have_values() -> None:
    """0, 2, 4 at 0, 20, 40 and 1, 3 at 10, 30: at 10, 20 and 30 they are 1 and 1, 2 and 2, ..."""
    found = together(
        [
            (np.array([0.0, 20.0, 40.0]), np.array([0.0, 2.0, 4.0])),
            (np.array([10.0, 30.0]), np.array([3.0, 5.0])),
        ]
    )
    assert found is not None
    assert found.frames.tolist() == [10, 20, 30]
    assert found.mean.tolist() == [2, 3, 4]
    assert found.low.tolist() == [1, 2, 3]
    apart = [(np.array([0.0, 1.0]), np.zeros(2)), (np.array([2.0, 3.0]), np.zeros(2))]
    assert together(apart) is None
    assert together(apart[:1]) is None


def test_a_chart_stays_within_its_place(pong: Path) -> None:
    sheet = drawn(of(pong, "Pong"))
    points = " ".join(
        node.attrib["points"] for node in sheet.iter() if "points" in node.attrib
    ).split()
    for point in points:
        x, y = map(float, point.split(","))
        assert 0 < x < WIDTH
        assert 0 < y < HEIGHT
    said = [node.text for node in texts(sheet)]
    assert "T & <T>" in said
    assert "our idqn (2 seeds)" in said
    assert "−20" in said
    assert len(elements(sheet, "polyline")) == 3  # two seeds and their mean
    assert len(elements(sheet, "polygon")) == 1


def test_a_single_seed_has_no_range(pong: Path) -> None:
    sheet = drawn(panels(gather(curves(Choices(games=("Pong",))), (0,), pong, FRAMES)))
    assert len(elements(sheet, "polyline")) == 1
    assert elements(sheet, "polygon") == []
    assert "our ddqn (missing)" in [node.text for node in texts(sheet)]


def test_without_runs_there_are_published_numbers_alone(tmp_path: Path) -> None:
    found = of(tmp_path, "Qbert", agents=ALL)
    said = [node.text for node in texts(drawn(found))]
    assert "no run" in said
    names = {mark.name for mark in found[0].marks}
    assert {"paper's i-DQN (40M)", "paper's DDQN (40M)", "Q-ensemble, final (40M)"} <= names
    assert "Noisy DQN, final (200M)" in names


def test_names_of_many_agents_take_several_lines(tmp_path: Path) -> None:
    sheet = drawn(of(tmp_path, "Freeway", agents=ALL))
    legend = [node for node in texts(sheet) if (node.text or "").startswith("our ")]
    assert len(legend) == len(ALL)
    assert len({node.attrib["y"] for node in legend}) > 1
    for node in texts(sheet):
        if node.attrib.get("text-anchor") == "start":
            letter = 0.55 * float(node.attrib["font-size"])
            assert float(node.attrib["x"]) + letter * len(node.text or "") < WIDTH
    at = sorted(float(n.attrib["y"]) for n in texts(sheet) if re.search(r"M\)", n.text or ""))
    assert min(below - above for above, below in pairwise(at)) >= 13.9
