"""Two games from one moment, side by side: a player, the numbers, a video."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.extra_pellet import ExtraPellet
from idqn.explain.inverted_triangle import InvertedTriangle, cleared
from idqn.explain.twins import COUNTERFACTUAL, FACTUAL, SIDES, Twins
from idqn.report import video
from idqn.report.drawing import Atlas, Image, Line, atlas, lines, number, table
from idqn.report.section import Section

_LARGEST = 210  # pixels of a screen's longer side in the page
_LOSSLESS, _LOSSLESS_BYTES = 101, 1_000_000


def pellet_section(result: ExtraPellet) -> Section:
    eaten = f"after {result.eaten} steps" if result.eaten is not None else "never in this game"
    facts = [
        (
            f"nearest to the cell, steps {result.settle} to {result.filmed}",
            _cells(result.distance),
            _cells(result.nearest),
        ),
        ("pellet eaten", "–", eaten),
    ]
    return _section(
        result,
        "One more pellet",
        "The same moment of one of its own games twice, with the same luck: on the right, a pellet "
        f"was put back {_cells(result.distance)} beside the way it takes (framed). An agent that "
        "has learnt to eat pellets would take it along.",
        "One pellet in one game is an anecdote, and there can be good reasons not to fetch it; "
        "how often it fetches one, of many, is what `idqn explain --only memorization` counts.",
        facts,
        _pellet_finding(result),
        0.6,
    )


def triangle_section(result: InvertedTriangle) -> Section:
    names = {FACTUAL: "from training", COUNTERFACTUAL: "inverted"}
    went = {side: cleared(result.ships[side]) for side in SIDES}
    where = {side: result.cannon[side][:-1][result.fires[side]] for side in SIDES}
    facts = [
        ("ships at first", *(str(result.ships[side][0]) for side in SIDES)),
        ("ships cleared in the film", *(str(cleared(_filmed(result, side))) for side in SIDES)),
        ("ships cleared in all", *(str(went[side]) for side in SIDES)),
        ("steps that fire", *(f"{len(where[side]):,}" for side in SIDES)),
        ("cannon when firing, median", *(_median(where[side]) for side in SIDES)),
        ("…and its middle half", *(_middle_half(where[side]) for side in SIDES)),
    ]
    curves = [
        Line(names[side], np.arange(len(ships)).astype(float), ships.astype(float))
        for side in SIDES
        for ships in [_filmed(result, side)]
    ]
    left = lines(curves, "steps after the change", "ships left", "ships left by formation")
    places = _places(where, names)
    more = (
        f"<div class='row'><figure><h3>Ships left</h3><div class='wide'>{left}</div></figure>"
        f"<figure><h3>Where it stands when it fires</h3><div class='wide'>{places}</div></figure>"
        "</div>"
    )
    return _section(
        result,
        "The triangle, inverted",
        "Two formations at the same moment of one of its own games, with the same luck: on the "
        "left the one that the paper's agent met in training, on the right the inverted one. An "
        "agent that aims would clear either.",
        "The two formations are as the paper's text and picture have them, with "
        f"{result.ships[FACTUAL][0]} and {result.ships[COUNTERFACTUAL][0]} ships; this agent's "
        f"training may have known neither: {result.replaced} ships had to come or go for the "
        "first. One game of each is an anecdote, and the two may last for different times.",
        facts,
        _triangle_finding(result, went, where),
        0.6,
        more,
    )


def _section(
    result: Twins,
    title: str,
    reading: str,
    caveat: str,
    facts: Sequence[tuple[str, ...]],
    finding: str,
    weight: float,
    more: str = "",
) -> Section:
    name = f"{result.kind}.mp4"
    both = video.encode(result.film(FACTUAL), beside=result.film(COUNTERFACTUAL))
    rows = [
        *facts,
        ("return of the film", *(_total(result.film(side).reward) for side in SIDES)),
        ("return to the end", *(_total(result.reward[side]) for side in SIDES)),
        ("steps to the end", *(_length(result, side) for side in SIDES)),
    ]
    parting = (
        f"What the agent sees differs {_at(result.first_frame)}; it acts differently "
        f"{_at(result.first_action)}. The change was made at step {result.step} of "
        f"{result.game_steps} of the game with seed {result.seed}: {result.because}. For the first "
        f"{result.settle} steps, until its whole stack of frames shows the change, both sides play "
        f"that game's actions; then the agent decides."
    )
    return Section(
        kind=result.kind,
        title=title,
        reading=reading,
        caveat=caveat,
        html=f"<div id='{result.kind}-player'></div>"
        f"<p class='twins-note'>{escape(parting)}</p>"
        + table(["", *_names(result)], rows)
        + more
        + video.offer(both, name, "Both", "both games as a video"),
        finding=finding,
        weight=weight,
        data=_data(result),
        script="twins.js",
        files=video.files(both, name),
    )


def _pellet_finding(result: ExtraPellet) -> str:
    passed = (
        f"With a pellet put back {_cells(result.distance)} beside its way, it "
        f"{_parting_words(result.first_action)}"
    )
    if result.eaten is None:
        length = len(result.action[COUNTERFACTUAL])
        soon = result.finished[COUNTERFACTUAL] and length < result.filmed
        short = f" (its game is over after {length} steps)" if soon else ""
        return f"{passed}, and never eats the pellet{short}."
    late = result.eaten > result.filmed
    so = "only long after it has passed" if late else "within the film"
    if result.first_action is None:
        so += ", where its game leads anyway"
    return f"{passed}; it eats the pellet after {result.eaten} steps, {so}."


def _parting_words(first_action: int | None) -> str:
    if first_action is None:
        return "acts to the end exactly as it does without it"
    return f"acts otherwise from step {first_action} on"


def _triangle_finding(
    result: InvertedTriangle, went: dict[str, int], where: dict[str, NDArray[np.int64]]
) -> str:
    own, other = (went[side] / max(int(result.ships[side][0]), 1) for side in SIDES)
    size = "the same share as" if own == other else "a larger share than"
    size = "a smaller share than" if other < own else size
    stands = ""
    if all(len(each) for each in where.values()):
        apart = float(np.median(where[COUNTERFACTUAL]) - np.median(where[FACTUAL]))
        side = (
            "the same place"
            if abs(apart) < 8
            else f"{abs(apart):.0f} pixels further " + ("right" if apart > 0 else "left")
        )
        stands = f", firing from {side} in the median"
    told = (
        f"Of the inverted triangle it clears {_ships(went[COUNTERFACTUAL])}, {size} of the "
        f"formation from training ({went[FACTUAL]}){stands}."
    )
    over = [len(result.action[side]) for side in SIDES if result.finished[side]]
    if over and min(over) < result.filmed:
        told += f" A game was over after {min(over)} steps, before the film."
    return told


def _filmed(result: InvertedTriangle, side: str) -> NDArray[np.int64]:
    return result.ships[side][: len(result.ends[side]) + 1]


def _places(where: dict[str, NDArray[np.int64]], names: dict[str, str]) -> str:
    """Shares of the shots over the width of the field."""
    edges = np.arange(32, 129, 12)
    curves = []
    for side, places in where.items():
        counts = np.histogram(np.clip(places, edges[0], edges[-1]), edges)[0]
        shares = 100 * counts / max(len(places), 1)
        curves.append(Line(names[side], (edges[:-1] + edges[1:]) / 2, shares))
    return lines(curves, "left edge of the cannon, pixels", "% of its shots", "where it fires")


def _median(places: NDArray[np.int64]) -> str:
    return f"pixel {np.median(places):.0f}" if len(places) else "–"


def _middle_half(places: NDArray[np.int64]) -> str:
    if not len(places):
        return "–"
    return "{:.0f} to {:.0f}".format(*np.quantile(places, [0.25, 0.75]))


def _names(result: Twins) -> list[str]:
    nothing = result.changes[FACTUAL] == "nothing"
    return ["as it was" if nothing else result.changes[FACTUAL], result.changes[COUNTERFACTUAL]]


def _ships(count: int) -> str:
    return f"{count} ship" + ("" if count == 1 else "s")


def _cells(count: int) -> str:
    return "on it" if count == 0 else f"{count} cell" + ("s" if count > 1 else "")


def _at(step: int | None) -> str:
    return "at no step" if step is None else f"first at step {step}"


def _total(rewards: NDArray[np.float64]) -> str:
    return number(float(rewards.sum()))


def _length(result: Twins, side: str) -> str:
    return f"{len(result.action[side]):,}" + ("" if result.finished[side] else " (cut off)")


def _data(result: Twins) -> dict[str, Any]:
    films = {side: result.film(side) for side in SIDES}
    screens = [film.screen(i) for film in films.values() for i in range(len(film))]
    height, width = screens[0].shape[:2]
    shrink = -(-max(height, width) // _LARGEST)
    gaps = [film.q.max() - film.q.min() for film in films.values()]
    attention = [film.attention.max() for film in films.values() if film.attention is not None]
    largest = float(max(attention)) if attention else None
    return {
        "atlas": _atlas(screens, shrink)._asdict(),
        "actions": list(result.about.action_names),
        "names": _names(result),
        "settle": result.settle,
        "boxes": (result.boxes / shrink).round(1).tolist() if len(result.boxes) < 9 else [],
        "values": None if result.values is None else result.values.round(3).tolist(),
        "largest_attention": largest,
        "q_range": max(float(max(gaps)), 1e-6),
        "first_action": result.first_action,
        "steps_per_second": result.steps_per_second,
        "sides": [
            {
                "action": film.action.tolist(),
                "reward": film.reward.tolist(),
                "whole": film.whole,
                "q": film.q.astype(np.float64).round(3).tolist(),
                "attention": None
                if film.attention is None
                else _shares(film.attention, largest or 1),
                "saliency": _shares(film.saliency, film.saliency.max((1, 2))[:, None, None]),
                "grid": list(film.saliency.shape[1:]),
            }
            for film in films.values()
        ],
    }


def _atlas(screens: list[Image], shrink: int) -> Atlas:
    height, width = screens[0].shape[:2]
    if shrink > 1:
        size = (width // shrink, height // shrink)
        screens = [
            np.asarray(cv2.resize(one, size, interpolation=cv2.INTER_AREA), np.uint8)
            for one in screens
        ]
    exact = atlas(screens, min(len(screens), 16), _LOSSLESS)
    return exact if len(exact.url) <= _LOSSLESS_BYTES else atlas(screens, min(len(screens), 16))


def _shares(values: NDArray[np.float32], of: NDArray[np.float32] | float) -> str:
    """As bytes, in base64: 255 is all."""
    shares = (255 * values / np.maximum(of, 1e-12)).round().astype(np.uint8)
    return base64.b64encode(shares.tobytes()).decode()
