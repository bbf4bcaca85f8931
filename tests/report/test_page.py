"""The page around the drawings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from idqn.config import Config
from idqn.errors import UserError
from idqn.explain.performance import Performance
from idqn.explain.results import About
from idqn.report.figures import performance
from idqn.report.page import render, stored, telling, write_page
from idqn.report.section import Section
from idqn.run_dir import RunDir

ABOUT = About("a <run>", "f00", "ALE/MsPacman-v5", "idqn", 2_000, 3, ("NOOP", "UP"))


def played(about: About = ABOUT, mean: float = 50.0, distinct: int = 8) -> Performance:
    return Performance(
        about=about,
        episodes=16,
        mean=mean,
        interval=(mean - 5, mean + 5),
        median=mean,
        distinct=distinct,
        returns=(mean,) * 16,
        lengths=(40,) * 16,
        sticky_probability=0.0,
        random_mean=20.0,
        random_interval=(18.0, 22.0),
    )


def part(kind: str, finding: str, weight: float) -> Section:
    return Section(kind, kind.title(), "Read it so.", "Not more.", "<p>x</p>", finding, weight)


def test_the_weightiest_findings_come_first_in_the_order_of_the_page() -> None:
    parts = [part("a", "A.", 0.2), part("b", "B.", 0.9), part("c", "", 1.0), part("d", "D.", 0.5)]
    told = telling([*parts, part("e", "E.", 0.8)])
    assert [section.finding for section in told] == ["B.", "D.", "E."]


def test_texts_are_escaped_and_nothing_is_loaded_from_elsewhere() -> None:
    sections = [
        dataclasses.replace(part("a", "5 < 6 & 7.", 0.5), data={"text": "</script><b>"}),
    ]
    page = render(ABOUT, sections, {"keys": "has <none>"})
    assert "5 &lt; 6 &amp; 7." in page
    assert "a &lt;run&gt;" in page
    assert "has &lt;none&gt;" in page
    assert '{"text": "\\u003c/script>\\u003cb>"}' in page
    assert "2,000 frames" in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(source.startswith(("#", "data:")) for source in sources)
    assert "http" not in page.replace("http-equiv", "")


def test_what_is_to_be_typed_is_told_apart_and_escaped() -> None:
    page = render(ABOUT, [part("a", "Try `idqn <x>` & see.", 0.5)], {"keys": "`idqn y` makes them"})
    assert "Try <code>idqn &lt;x&gt;</code> &amp; see." in page
    assert "<code>idqn y</code> makes them" in page


def test_findings_lead_to_their_sections() -> None:
    page = render(ABOUT, [part("a", "Is so.", 0.5), part("b", "", 0.5)], {})
    assert '<li><a href="#a">A</a> Is so.</li>' in page
    assert 'href="#b">B</a> ' not in page
    assert 'id="findings"' not in render(ABOUT, [part("a", "Is so.", 0.5)], {})


def test_one_reason_is_said_once() -> None:
    page = render(ABOUT, [part("a", "", 0)], {"keys": "has none", "x": "too few", "y": "has none"})
    assert "<dt>keys, y</dt><dd>has none</dd><dt>x</dt><dd>too few</dd>" in page


@pytest.mark.parametrize(
    ("mean", "distinct", "expected"),
    [
        (50.0, 12, "It scores 50.0 (45.0 to 55.0), clearly above a random policy's 20.0."),
        (50.0, 4, "a random policy's 20.0, with only 4 distinct returns in 16 games."),
        (20.0, 12, "not clearly apart from a random policy's 20.0."),
        (5.0, 12, "clearly below a random policy's 20.0."),
    ],
)
def test_the_finding_is_what_the_numbers_say(mean: float, distinct: int, expected: str) -> None:
    found = performance.section(played(mean=mean, distinct=distinct))
    assert found.finding.endswith(expected)


def test_only_results_about_this_agent_are_drawn(tmp_path: Path) -> None:
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    with pytest.raises(UserError, match="nothing was found out about"):
        write_page(run, ABOUT, {"keys": "there are none"})
    played().save(run)
    page = write_page(run, ABOUT, {"keys": "there are none"})
    assert page == run.path / "report" / "index.html"
    assert "there are none" in page.read_text()
    later = dataclasses.replace(ABOUT, frames=3_000)
    found = stored(run, later)
    assert found.results == {}
    assert "is about 2,000 frames" in found.missing["performance"]
    assert "--checkpoint 3000 --only" in found.missing["performance"]  # not the latest
    with pytest.raises(UserError) as failed:
        write_page(run, later, {"keys": "there are none"})
    assert "keys: there are none" in str(failed.value)
    assert "performance" not in str(failed.value)  # nobody asked for it
    run.explanation_arrays("performance").unlink()
    assert "cannot be read" in stored(run, ABOUT).missing["performance"]
