"""What two agents of one game attend to, side by side."""

from __future__ import annotations

from html import escape
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.attention import CERTAIN
from idqn.explain.comparison import Comparison
from idqn.report.drawing import number, png_url, room_for, table
from idqn.report.section import Section

_WIDTH = 320  # of a map
_ALIKE = 0.02  # as shares of each other


def section(result: Comparison) -> Section:
    names = _names(result)
    values = [number(float(v), 2) for v in result.values]
    actions = list(result.about.action_names)
    rows = result.rows_action
    blocks = [(actions[a], int((rows == a).sum())) for a in np.unique(rows)]
    each = [(action, 1) for action in actions]
    tall = min(8.0, max(2.0, 160 / max(1, len(rows))))  # of few states, each is drawn taller
    parts = ["<h3>Attention of the action taken, state by state</h3>"]
    if len(rows):
        parts.append(_side_by_side("states", result.rows, names, blocks, values, tall))
    else:
        parts.append(
            "<p>They never take the same action, so no states can be set side by side.</p>"
        )
    parts.append("<h3>Mean attention of every action</h3>")
    parts.append(_side_by_side("mean", result.mean, names, each, values, 18.0))
    used = {name: use / max(1, use.sum()) for name, use in result.use.items()}
    parts.append("<h3>Share of states in which a key is the top one</h3>")
    parts.append(_side_by_side("use", used, names, each, values, 18.0))
    parts.append("<h3>In numbers</h3>" + _numbers(result))
    parts.append("<h3>What differs in their configs</h3>" + _differences(result))
    return Section(
        kind=result.kind,
        title="Comparison",
        reading=f"Two agents of the same game, A ({result.about.run}) and B "
        f"({result.other['run']}), each in games of its own; state by state, row n of both shows "
        "states in which they take the same action.",
        caveat="Each is one run of one seed, and they meet different states: a difference need not "
        "come from what differs in their configs.",
        html="".join(parts),
        finding=_finding(result),
        weight=0.8,  # somebody asked for it
    )


def _names(result: Comparison) -> dict[str, str]:
    frames = {"a": result.about.frames, "b": result.other["frames"]}
    runs = {"a": result.about.run, "b": result.other["run"]}
    return {
        name: f"{name.upper()}: {runs[name]}, {frames[name]:,} frames" + _diversity(result, name)
        for name in ("a", "b")
    }


def _diversity(result: Comparison, name: str) -> str:
    """The weight of that loss, where it differs."""
    for field, a, b in result.differences:
        if field == "loss.diversity":
            return f", diversity {float(a if name == 'a' else b):g}"
    return ""


def _finding(result: Comparison) -> str:
    a, b = result.numbers["a"], result.numbers["b"]
    whose = {
        name: name.upper() + _diversity(result, name).replace(",", " with", 1) for name in "ab"
    }
    more, less = (("a", a), ("b", b)) if a["overlap"] >= b["overlap"] else (("b", b), ("a", a))
    told = (
        f"Attention overlaps more between the states of {whose[more[0]]} "
        f"({number(more[1]['overlap'])}) than of {whose[less[0]]} ({number(less[1]['overlap'])})"
    )
    if np.isclose(a["overlap"], b["overlap"], rtol=_ALIKE):
        told = (
            f"Attention overlaps alike between the states of {whose['a']} and of {whose['b']} "
            f"({number(a['overlap'])} and {number(b['overlap'])})"
        )
    sharper = "A attends" if a["entropy"] < b["entropy"] else "B attends"
    if np.isclose(a["entropy"], b["entropy"], rtol=_ALIKE):
        sharper = "neither attends"
    return (
        f"{told}; {sharper} more sharply (entropy {number(a['entropy'])} nats in A, "
        f"{number(b['entropy'])} in B), and 95 % of states have their top key among "
        f"{a['keys_for_95']:g} keys in A, {b['keys_for_95']:g} in B."
    )


def _numbers(result: Comparison) -> str:
    keys = result.use["a"].size
    rows: list[tuple[str, str, float]] = [
        ("states", "states", 1),
        ("mean overlap between two states", "overlap", 1),
        ("mean overlap of a state with itself", "norm", 1),
        ("mean entropy, nats", "entropy", 1),
        ("mean entropy, % of even attention", "relative_entropy", 100),
        (f"top weight above {CERTAIN:g}, % of states", "certain_share", 100),
        (f"keys that are ever the top one, of {keys}", "keys_used", 1),
        ("keys that are the top one in 95 % of states", "keys_for_95", 1),
        (f"entropy of their use, of {number(np.log(keys))} nats", "use_entropy", 1),
    ]
    exact = ("states", "keys_used", "keys_for_95")

    def shown(key: str, value: float, factor: float) -> str:
        return f"{value:,.0f}" if key in exact else number(factor * value, 4)

    return table(
        ["", "A", "B"],
        [
            (text, *(shown(key, result.numbers[name][key], factor) for name in "ab"))
            for text, key, factor in rows
        ],
        "Overlaps are entries of AAᵀ with one state's attention per row of A: the diversity loss "
        "wants 0 between two states and 1 of a state with itself.",
    )


def _differences(result: Comparison) -> str:
    if not result.differences:
        return "<p>Nothing.</p>"
    return table(["field", "A", "B"], result.differences)


def _side_by_side(
    what: str,
    weights: dict[str, NDArray[Any]],
    names: dict[str, str],
    blocks: list[tuple[str, int]],
    values: list[str],
    row_height: float,
) -> str:
    largest = max(1e-12, *(float(w.max()) for w in weights.values()))
    drawn = []
    for name in "ab":
        drawing = _map(
            weights[name] / largest,
            blocks,
            values,
            f"value; half colour: {number(largest / 4)}, full: {number(largest)}",
            row_height,
            f"comparison-{what}-{name}",
            f"{what}, {names[name]}",
        )
        drawn.append(f"<figure><figcaption>{escape(names[name])}</figcaption>{drawing}</figure>")
    return f"<div class='row'>{''.join(drawn)}</div>"


def _map(
    shares: NDArray[np.floating],
    blocks: list[tuple[str, int]],
    values: list[str],
    scale: str,
    row_height: float,
    mask: str,
    label: str,
) -> str:
    """[rows, N]: a picture of opacities, square roots of shares, in the page's colour through a
    mask of that id; blocks are names of so many rows."""
    grey = np.clip(np.sqrt(shares) * 255, 0, 255).round().astype(np.uint8)
    url = png_url(cv2.imencode(".png", grey)[1].tobytes())
    left = 12 + room_for([name for name, _ in blocks])
    height, width = len(shares) * row_height, left + _WIDTH + 16
    place = f'x="{left}" y="1" width="{_WIDTH}" height="{height:.1f}"'
    parts = [
        f'<svg class="chart" viewBox="0 0 {width} {height + 44:.0f}" width="{width}" '
        f'height="{height + 44:.0f}" role="img" aria-label="{escape(label)}">',
        f'<mask id="{mask}"><image href="{url}" {place} preserveAspectRatio="none" '
        f'style="image-rendering: pixelated"/></mask>',
        f'<rect {place} fill="var(--cell)" mask="url(#{mask})"/>',
        f'<rect {place} fill="none" class="grid"/>',
    ]
    y = 1.0
    for name, count in blocks:
        if y > 1:
            parts.append(
                f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
        if count * row_height >= 11:  # there is room for a name
            parts.append(_text(left - 6, y + count * row_height / 2 + 4, name, "end"))
        y += count * row_height
    cell = _WIDTH / len(values)
    every = int(np.ceil((9 + room_for(values)) / cell))
    for n in range((len(values) - 1) % every, len(values), every):
        parts.append(_text(left + (n + 0.5) * cell, height + 16, values[n], "middle"))
    return "".join([*parts, _text(left, height + 36, scale), "</svg>"])


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
