"""What the memorisation section says, and of which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.explain.memorization import COUNTS, NUMBERS, Memorization
from idqn.explain.results import About
from idqn.explain.verdict import FALLS, FEW_GAMES, IGNORES, MEMORISED, PLAYS, UNCLEAR
from idqn.report.figures.memorization import section
from idqn.report.page import render

SIGNS = {IGNORES: True, FEW_GAMES: False, FALLS: None}


def example(verdict: str = MEMORISED, **changes: Any) -> Memorization:
    numbers = {name: np.tile([0.25, 0.125, 0.5], (2, 1)) for name in NUMBERS}
    found = Memorization(
        About("run", None, "ALE/MsPacman-v5", "idqn", 100, 0, ("NOOP", "UP")),
        policies=("<run>", "random"),
        numbers=numbers,
        counts={name: np.array([17, 23]) for name in COUNTS},
        verdicts=(verdict, PLAYS),
        signs=(SIGNS, dict.fromkeys(SIGNS, False)),
        starts=12.0,
        beginning_steps=100,
        random_start_steps=30,
        sticky_probability=0.25,
        irrelevant="a pellet & co",
        same_steps=50,
        food_steps=50,
    )
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (MEMORISED, "looks memorised: it ignores food beside its way"),
        (PLAYS, "does not look memorised, though it ignores food beside its way"),
        (UNCLEAR, "cannot be told"),
    ],
)
def test_the_finding_follows_the_verdict(verdict: str, said: str) -> None:
    finding = section(example(verdict)).finding
    assert said in finding
    assert "17 different games of 17" in finding
    assert "25.0 percentage points more often (12.5 to 50.0)" in finding


def test_shares_are_in_percent_and_texts_escaped() -> None:
    html = section(example()).html
    assert "25.0 % (12.5 to 50.0)" in html
    assert "&lt;run&gt;" in html
    assert "<run>" not in html
    assert "a pellet &amp; co" in html
    assert "about 12" in html
    assert "sticky actions (0.25)" in html


def test_what_was_not_measured_is_a_dash_or_not_there() -> None:
    unknown = np.full((2, 3), np.nan)
    none = {name: np.array([0, 0]) for name in COUNTS} | {"games": np.array([5, 5])}
    known = dict.fromkeys(NUMBERS, unknown) | {"return": np.ones((2, 3))}
    shown = section(
        example(numbers=known, counts=none, irrelevant=None, food_steps=0, same_steps=0)
    )
    assert "No edit of this game is known" in shown.html
    assert "sticky" not in shown.html.split("What counts")[0]
    assert "pellet" not in shown.finding
    assert "nan" not in shown.html
    fed = section(example(numbers=known, counts=none))
    assert "At no moment could one be put there" in fed.html


def test_the_page_has_it() -> None:
    result = example()
    html = render(result.about, [section(result)], {})
    assert 'id="memorization"' in html
