"""Adversarial states on the page."""

from __future__ import annotations

import base64
import dataclasses
import json
from functools import cache

import numpy as np
import pytest

from idqn.explain import search
from idqn.explain.extra_pellet import ExtraPellet, extra_pellet
from idqn.explain.inverted_triangle import InvertedTriangle, inverted_triangle
from idqn.explain.pixel_max import PixelMax, pixel_max
from idqn.explain.search import TWIN, Search
from idqn.explain.states import collect
from idqn.explain.twins import COUNTERFACTUAL, FACTUAL
from idqn.report.figures import pixel_max as maximum_figure
from idqn.report.figures import search as search_figure
from idqn.report.figures.twins import pellet_section, triangle_section
from idqn.report.page import render
from tests.explain.scripted import round_and_round, scripted
from tests.explain.untrained import untrained


@cache
def pellet() -> ExtraPellet:
    return extra_pellet(scripted(round_and_round), seed=1, horizon=4, max_steps=80)


@cache
def triangle() -> InvertedTriangle:
    return inverted_triangle(
        untrained("ddqn", env="ALE/SpaceInvaders-v5"), 30, horizon=3, max_steps=40
    )


@cache
def maximum() -> PixelMax:
    agent = untrained()
    states = collect(agent, 2, 12)
    mixed = dataclasses.replace(states, action=np.arange(len(states)) % 4)
    return pixel_max(agent, mixed, groups=6, mapped=2)


@cache
def found() -> Search:
    return search(untrained(), 80, horizon=4, games=4, max_steps=30, confirmed=5)


def test_the_player_gets_both_games() -> None:
    result = pellet()
    drawn = pellet_section(result)
    json.dumps(drawn.data, allow_nan=False)
    assert drawn.data["names"][0] == "as it was"
    for side, data in zip((FACTUAL, COUNTERFACTUAL), drawn.data["sides"], strict=True):
        film = result.film(side)
        assert data["action"] == film.action.tolist()
        assert len(base64.b64decode(data["saliency"])) == film.saliency.size
        assert film.attention is not None
        assert len(base64.b64decode(data["attention"])) == film.attention.size
    assert drawn.data["boxes"] == (result.boxes / 2).tolist()  # 264 pixels are shown as 132
    assert drawn.files["extra-pellet.mp4"][4:8] == b"ftyp"
    page = render(result.about, [drawn], {})
    assert 'id="data-extra-pellet"' in page
    assert "Two games from one moment" in page


def test_what_became_of_the_pellet_is_told() -> None:
    never = dataclasses.replace(pellet(), distance=2, eaten=None, first_action=None)
    assert pellet_section(never).finding == (
        "With a pellet put back 2 cells beside its way, it acts to the end exactly as it does "
        "without it, and never eats the pellet."
    )
    soon = dataclasses.replace(pellet(), distance=1, eaten=5, first_action=3)
    assert pellet_section(soon).finding == (
        "With a pellet put back 1 cell beside its way, it acts otherwise from step 3 on; it eats "
        "the pellet after 5 steps, within the film."
    )
    late = dataclasses.replace(soon, eaten=50, first_action=None)
    assert "only long after it has passed, where its game leads anyway" in (
        pellet_section(late).finding
    )


def test_the_triangles_are_counted() -> None:
    ships = {FACTUAL: np.array([20, 19, 18]), COUNTERFACTUAL: np.array([19, 19, 18])}
    fires = {side: np.array([True, True]) for side in ships}
    cannon = {FACTUAL: np.array([40, 40, 40]), COUNTERFACTUAL: np.array([70, 70, 40])}
    result = dataclasses.replace(triangle(), ships=ships, fires=fires, cannon=cannon)
    drawn = triangle_section(result)
    json.dumps(drawn.data, allow_nan=False)
    assert drawn.data["values"] is None
    assert drawn.finding == (
        "Of the inverted triangle it clears 1 ship, a smaller share than of the formation from "
        "training (2), firing from 30 pixels further right in the median."
    )
    silent = {side: np.zeros(2, np.bool_) for side in ships}
    assert "firing" not in triangle_section(dataclasses.replace(result, fires=silent)).finding


def test_the_maximum_is_beside_its_states_and_chance() -> None:
    result = maximum()
    drawn = maximum_figure.section(result)
    assert drawn.html.count("<img") == 2 * len(result.step) + 1
    assert "all 4 actions among the 4 best" in drawn.html
    assert "20.0 %" in drawn.html  # 4 of 5 actions: 4! / (5 · 4 · 3 · 2)
    every, none = np.tile(np.arange(4), (60, 1)), np.tile(np.arange(1, 5), (60, 1))
    singly = np.stack([every, none, none, none], 1)
    best = dataclasses.replace(result, ranks=every, source_ranks=singly, groups=60)
    finding = maximum_figure.section(best).finding
    assert "its 4 best in 100 % of 60 groups, more often than in single states of theirs" in finding
    assert "(25 %; by chance 20.0 %)" in finding
    never = dataclasses.replace(best, ranks=none)
    assert "in 0 % of 60 groups, no more often than in" in maximum_figure.section(never).finding
    # who takes the same four actions everywhere sees nothing of its own in the maximum
    same = dataclasses.replace(best, source_ranks=np.stack([every] * 4, 1))
    assert "100 % of 60 groups, no more often than in" in maximum_figure.section(same).finding
    alike = 0.5 + 1e-4 * np.array([1, -1] * 3)[:, None, None] * np.eye(4)
    for apart, said in ((0.0, "not clearly more"), (0.002, "hardly more"), (0.2, "are more")):
        near = dataclasses.replace(result, correlation=alike + apart * np.eye(4))
        assert f"{said} alike to those of the states" in maximum_figure.section(near).finding
    flat = dataclasses.replace(result, correlation=np.full((2, 4, 4), np.nan))
    assert "saliency maps there" not in maximum_figure.section(flat).finding


def with_outcomes(mode: str, candidates: list[bool], control: list[bool], which: int) -> Search:
    result = found()
    outcomes, gains, kept = dict(result.outcomes), dict(result.gains), dict(result.kept)
    sizes = dict(result.sizes)
    for group, hits in (("candidates", candidates), ("control", control)):
        name = f"idqn, {mode} {group}"
        outcomes[name] = np.zeros((len(hits), 3), np.bool_)
        outcomes[name][:, which] = hits
        gains[name] = kept[name] = np.zeros(len(hits))
        sizes[name] = np.full(len(hits), 7)
    return dataclasses.replace(result, outcomes=outcomes, gains=gains, kept=kept, sizes=sizes)


def test_candidates_are_compared_with_the_control() -> None:
    better = with_outcomes("blind", [True] * 20, [True] * 5 + [False] * 15, 0)
    drawn = search_figure.section(better)
    assert "Of 20 edits that should leave it blind, 100 % do, more than random edits (25 %)" in (
        drawn.finding
    )
    assert "95 % interval" in drawn.html
    same = with_outcomes("blind", [True, False], [True, False], 0)
    assert "50 % do, no more often than random edits (50 %)" in search_figure.section(same).finding
    worse = with_outcomes("broken", [True, False, False, False], [False] * 4, 2)
    worse.outcomes["idqn, broken candidates"][1:3, 1] = True
    drawn = search_figure.section(worse)
    assert (
        "Of 4 edits that should break its play, 25 % do, though not clearly more than random "
        "edits (0 %); after 50 % it earns more."
    ) in drawn.finding
    assert "<td>4</td><td>7</td>" in drawn.html  # candidates and control are equally large
    none = with_outcomes("broken", [], [], 2)
    drawn = search_figure.section(none)
    assert "The search found no edit that should break its play." in drawn.finding


@pytest.mark.parametrize(
    ("mode", "changes", "said"),
    [
        ("blind", {"kept": 4}, "Blind, confirmed: "),
        ("blind", {"kept": 3}, "Blind, not confirmed: "),
        ("broken", {"reacting": 1.0}, "Broken, confirmed: "),
        ("broken", {"reacting": 3.0}, "Broken, not confirmed: "),
    ],
)
def test_an_example_says_whether_it_was_confirmed(
    mode: str, changes: dict[str, float], said: str
) -> None:
    played = {"mode": mode, "steps": 4, "kept": 4, "reacting": 2.0, "as_before": 2.0, **changes}
    example = {**found().examples[0], **played}
    assert search_figure._told(found(), example).startswith(said)


@pytest.mark.parametrize(("height", "width"), [(210, 160), (264, 264)])
def test_what_was_edited_is_framed_in_pictures_shown_at_half_their_size(
    height: int, width: int
) -> None:
    screen = np.zeros((height, width, 3), np.uint8)
    drawn = search_figure._framed(screen, np.array([[60, 40, 62, 44], [0, 0, 4, 4]]))
    assert not drawn[60:62, 40:44].any()
    shown = drawn[:: -(-max(height, width) // 125)][:, :: -(-max(height, width) // 125)]
    pink = (shown == (255, 64, 255)).all(-1)
    assert pink.sum(1).max() >= 4
    assert pink.any(0).sum() >= 5
    assert (drawn[4:7, :7] == (255, 64, 255)).all(-1).any()


def test_a_search_is_drawn_with_and_without_a_twin() -> None:
    result = found()
    gains = {
        name: np.array([4.0, 8.0]) if TWIN in name else np.array([-1.0, -1.0])
        for name in result.gains
    }
    told = search_figure.section(dataclasses.replace(result, gains=gains)).finding
    assert "Its reaction to random edits costs it (−1.00 on average, −1.00 to −1.00; " in told
    assert "with random weights 6.00, " in told
    drawn = search_figure.section(result)
    assert "random weights" in drawn.html
    assert drawn.html.count("<img") == 2 * len(result.examples)
    assert "nan" not in drawn.html.lower()
    alone = search(untrained("ddqn"), 20, horizon=3, games=2, max_steps=20, baseline=False)
    drawn = search_figure.section(alone)
    assert "random weights" not in drawn.html + drawn.finding
    refused = dataclasses.replace(alone, baseline_refusal="<too short>")
    assert "&lt;too short&gt;" in search_figure.section(refused).html


@pytest.mark.parametrize("kind", ["pellet", "triangle", "maximum", "search"])
def test_sections_have_all_that_readers_need(kind: str) -> None:
    drawn = {
        "pellet": lambda: pellet_section(pellet()),
        "triangle": lambda: triangle_section(triangle()),
        "maximum": lambda: maximum_figure.section(maximum()),
        "search": lambda: search_figure.section(found()),
    }[kind]()
    assert drawn.title
    assert drawn.reading.endswith(".")
    assert drawn.caveat.endswith(".")
    assert drawn.finding.endswith(".")
