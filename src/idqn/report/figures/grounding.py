"""Whether saliency lies on what the agent's values hang on, by the game itself."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from idqn.explain.correlation import ranks
from idqn.explain.grounding import ACROSS, FEWEST, MEASURES, Grounding
from idqn.report.drawing import caption, table
from idqn.report.forest import Effect, forest
from idqn.report.section import Section

_SIDE = 340  # of the scatter, in pixels
_LEFT, _BOTTOM = 50, 44


def section(result: Grounding) -> Section:
    return Section(
        kind=result.kind,
        title="Saliency against the game",
        reading=f"{len(result.change)} times, an object ({', '.join(_told(result))}) was taken "
        "away in the game itself, or moved where that is all that can be done; if a map is right, "
        "the objects with the most saliency on them are those whose loss changes the value of the "
        f"chosen action most. {result.states} states of {result.games} games.",
        caveat="An object stands where it stands: a moved one changes the value by where it goes "
        f"too, games go on for {result.settle} steps before the agent is asked, and objects that "
        "matter together look as if neither did.",
        html=f"<div class='row'><div>{_bars(result)}</div>{_scatter(result)}</div>"
        f"<p class='reading'>{_NOTE}</p>" + _tables(result),
        finding=_finding(result),
        weight=0.8,
    )


def _told(result: Grounding) -> list[str]:
    """Which objects, and how many."""
    counts = np.bincount(result.object, minlength=len(result.objects))
    named = zip(result.objects, counts, strict=True)
    return [f"{count} {name.replace('_', ' ')}" for name, count in named if count]


def _bars(result: Grounding) -> str:
    charts = []
    for a, across in enumerate(ACROSS):
        found = result.correlation[a, 0]
        if np.isnan(found).any():
            continue
        effects = [Effect(name, *found[i]) for i, name in enumerate(_names(result))]
        label = f"rank correlation of saliency and effect, {across}"
        chart = forest(effects, "rank correlation", label, _ends(result))
        charts.append(caption(chart, f"{across.capitalize()}: {_ACROSS[across]}"))
    return "".join(charts)


_NOTE = (
    "Saliency is the sum over the object's pixels in all frames of the observation. Picture "
    "detail (how much blurring changes the pixels), area and random spots know no agent."
)
_ACROSS = {
    "pooled": "all objects of all states together.",
    "within states": f"mean over states with {FEWEST} objects or more; what tells states apart "
    "does not count.",
}


def _ends(result: Grounding) -> tuple[float, float]:
    """One scale for both."""
    return min(-0.25, float(np.nanmin(result.correlation[:, 0]))), 1.0


def _scatter(result: Grounding) -> str:
    """Ranks, because that is what is correlated; of the method that does best."""
    best = _best(result)
    across, up = _shares(result.mass[result.methods.index(best)]), _shares(result.change)
    inner = _SIDE - _LEFT - 10
    base = _SIDE - _BOTTOM
    label = f"rank of the change of Q against rank of the saliency by {best}"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_SIDE} {_SIDE}" width="{_SIDE}" height="{_SIDE}" '
        f'role="img" aria-label="{escape(label)}">'
    ]
    for tick in (0.0, 0.5, 1.0):
        x, y = _LEFT + tick * inner, base - tick * (base - 26)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_SIDE - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
            + _text(_LEFT - 5, y + 4, f"{100 * tick:.0f}", "end")
            + _text(x, base + 16, f"{100 * tick:.0f}", "end" if tick == 1 else "middle")
        )
    for kind, x, y in zip(result.object, across, up, strict=True):
        parts.append(
            f'<circle cx="{_LEFT + x * inner:.1f}" cy="{base - y * (base - 26):.1f}" r="3" '
            f'fill="var(--series-{kind % 8 + 1})" opacity="0.65"/>'
        )
    x = float(_LEFT)
    for kind in np.unique(result.object):
        name = result.objects[kind].replace("_", " ")
        parts.append(
            f'<circle cx="{x + 4:.0f}" cy="8" r="4" fill="var(--series-{kind % 8 + 1})"/>'
            + _text(x + 12, 12, name, "start")
        )
        x += 26 + 7.5 * len(name)
    parts.append(_text((_LEFT + _SIDE) / 2, _SIDE - 8, "saliency, percentile of pairs", "middle"))
    parts.append(
        f'<text class="label" text-anchor="middle" transform="translate(11 {(26 + base) / 2:.0f}) '
        f'rotate(-90)">|change of Q|, percentile of pairs</text>'
    )
    told = (
        f"{best}: each point is an object of a state; up is the percentile of |change of Q| when "
        f"it is gone or elsewhere. A perfect map puts all of them on the diagonal."
    )
    return caption("".join([*parts, "</svg>"]), told)


def _shares(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Of the way from the lowest rank to the highest."""
    return (ranks(values) - 1) / max(len(values) - 1, 1)


def _tables(result: Grounding) -> str:
    rows = [
        [
            name,
            *[_value(result.correlation[a, m, i]) for m in range(len(MEASURES)) for a in (0, 1)],
            _verdict(result, name) if name in result.methods else "",
        ]
        for i, name in enumerate(_names(result))
    ]
    headings = [f"{measure}, {across}" for measure in MEASURES for across in ACROSS]
    columns = [
        f"{across}, over {rival}" for across in ACROSS for rival in result.rivals if rival != _LAST
    ]
    shown = [r for r, rival in enumerate(result.rivals) if rival != _LAST]
    gains = [
        [name, *[_value(result.gain[a, 0, i, r], True) for a in (0, 1) for r in shown]]
        for i, name in enumerate(result.methods)
    ]
    return table(
        ["map", *headings, "better"],
        rows,
        "rank correlation with |change of Q|; density: total over area; better: than area and "
        "picture detail",
    ) + table(
        ["gain of totals", *columns],
        gains,
        "by how much the correlation is higher; the verdict asks that none of these reaches 0",
    )


_LAST = "random"


def _verdict(result: Grounding, name: str) -> str:
    pooled, within = (result.beats(name, across) for across in ACROSS)
    if pooled and within:
        return "pooled and within"
    if pooled:
        return "pooled only"
    if within:
        return "within only"
    return "not shown"


def _finding(result: Grounding) -> str:
    best = _best(result)
    i = result.methods.index(best)
    value = _value(result.correlation[0, 0, i]).replace(" (", ", ").rstrip(")")
    if float(np.ptp(result.change)) == 0:
        return "No object changes the value of the chosen action: no map can be right or wrong."
    good = [name for name in result.methods if result.beats(name)]
    if not good:
        return (
            f"No saliency map is shown to tell which objects matter better than their area and "
            f"picture detail do; the nearest is {best}, with a rank correlation of {value} with "
            f"what happens when the object is gone from the game."
        )
    rest = [name for name in result.methods if name not in good]
    less = f"; {_and(rest)} {'is' if len(rest) == 1 else 'are'} not shown to" if rest else ""
    within = "this holds" if result.beats(best, ACROSS[1]) else "this is not shown"
    return (
        f"Saliency by {best} tells which objects matter in the game itself (rank correlation "
        f"{value}), better than their area and picture detail do; {within} "
        f"within states too{_others(good, best)}{less}."
    )


def _others(good: list[str], best: str) -> str:
    rest = [name for name in good if name != best]
    return f"; so {'does' if len(rest) == 1 else 'do'} {_and(rest)}" if rest else ""


def _best(result: Grounding) -> str:
    """Of those that beat their rivals, if any do; by the pooled totals."""
    good = [name for name in result.methods if result.beats(name)] or list(result.methods)
    return max(good, key=lambda name: result.correlation[0, 0, result.methods.index(name), 0])


def _names(result: Grounding) -> tuple[str, ...]:
    return (*result.methods, *result.rivals)


def _value(found: NDArray[np.floating], signed: bool = False) -> str:
    if np.isnan(found[0]):
        return "–"
    plus = "+" if signed and found[0] > 0 else ""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}".replace("-", "−") for each in found)
    return f"{plus}{value} ({low} to {high})"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
