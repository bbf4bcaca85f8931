"""What a search through edited states found, beside what chance would find."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.explain.intervals import difference_of_shares, mean_of, share_of
from idqn.explain.search import BLIND, BROKEN, MODES, OUTCOMES, TWIN, UNMOVED, Search
from idqn.report.drawing import Bar, bars, interval, number, picture, table
from idqn.report.section import Section

_LARGEST = 100  # percent
_SHOWN = 125  # pixels of a picture's longer side on the page, at least
_MODES = {
    BLIND: "Blind: visible edits of the agent's figure, or beside its way, at which it chooses the "
    f"same action and what it says moves by at most {UNMOVED:g}; confirmed if it goes on acting "
    "as in the unedited game to the end of the horizon.",
    BROKEN: "Broken: visible edits of other things than its own figure that flip an action which "
    "led clearly (by more than usual); confirmed if it then earns less than by going on as before.",
}
_CONFIRMED = {BLIND: "unchanged", BROKEN: "worse"}


def section(result: Search) -> Section:
    own = result.whose[0]
    return Section(
        kind=result.kind,
        title="Found by search",
        reading=f"{len(result.edit[own]):,} valid edits of states of its own games, each made in "
        "the game itself and shown to the agent; the smallest that it seems blind to, or that flip "
        f"a clear decision, were played on for up to {result.horizon} steps, beside random edits "
        "of about the same size.",
        caveat=_caveat(result),
        html=_scores(result) + _confirmations(result) + _kinds(result) + _examples(result),
        finding=_finding(result),
        weight=0.65,
    )


def _caveat(result: Search) -> str:
    unknown = (
        ""
        if result.knows_path
        else " This game does not say where the agent's figure is, so all "
        "edits count as near its way."
    )
    return (
        "To ignore an edit can be right, and a reaction can pay only after the horizon; whoever "
        "reacts well earns more than by going on as before, and that is what a stronger agent is "
        "better at. Intervals of shares take moments for independent, also those of one game."
        f"{unknown}"
    )


def _scores(result: Search) -> str:
    """How vulnerable, before anything is played."""
    rows = []
    for who, moments in zip(result.whose, result.moments, strict=True):
        near = result.near[who] & (result.pixels[who] > 0)
        flips = result.flipped[who]
        rows.append(
            (
                who,
                f"{len(flips):,}",
                _share(int(flips.sum()), len(flips)),
                _share(int(flips[near].sum()), int(near.sum())),
                _share(result.vulnerable[f"{who}, {BLIND}"], moments),
                _share(result.vulnerable[f"{who}, {BROKEN}"], moments),
            )
        )
    headings = [
        "",
        "edits",
        "flip the action, %",
        "…of those near its way",
        "moments with a blind spot, %",
        "…that can be broken",
    ]
    missing = (
        f"<p class='twins-note'>No twin with random weights: {escape(result.baseline_refusal)}.</p>"
        if result.baseline_refusal
        else ""
    )
    return "<h3>Looked at</h3>" + table(headings, rows, "With 95 % intervals (Wilson).") + missing


def _confirmations(result: Search) -> str:
    parts = []
    for mode in MODES:
        items, rows = [], []
        for who in result.whose:
            for group in ("candidates", "control"):
                name = f"{who}, {mode} {group}"
                outcomes, gains = result.outcomes[name], result.gains[name]
                hits = outcomes[:, OUTCOMES.index(_CONFIRMED[mode])]
                if not len(hits):
                    rows.append((f"{who}, {group}", "0", *["–"] * 6))
                    continue
                value, low, high = 100 * share_of(int(hits.sum()), len(hits))
                items.append(Bar(f"{who}, {group}", value, low, high, f"% of {len(hits)}"))
                mean, below, above = mean_of(gains)
                rows.append(
                    (
                        f"{who}, {group}",
                        str(len(hits)),
                        f"{np.median(result.sizes[name]):g}",
                        *(f"{100 * outcomes[:, k].mean():.0f}" for k in range(len(OUTCOMES))),
                        f"{100 * result.kept[name].mean():.0f}",
                        f"{number(mean)} ({interval(below, above)})",
                    )
                )
        chart = (
            f"<div class='wide'>{bars(items, '% confirmed, 95 % interval', mode, _LARGEST)}</div>"
            if items
            else "<p>No edit qualified.</p>"
        )
        headings = [
            "",
            "played",
            "pixels, median",
            "as unedited, %",
            "better, %",
            "worse, %",
            "steps kept, %",
            "gain by reacting",
        ]
        parts.append(
            f"<h3>{mode.capitalize()}, played on</h3><p class='twins-note'>{_MODES[mode]}</p>"
            + chart
            + table(headings, rows)
        )
    note = (
        "<p class='twins-note'>Better, worse and gain: its return in the edited game, less what "
        "the actions of the unedited game earn there. Steps kept: the share of steps for which it "
        "acts as in the unedited game. At most one edit of each moment.</p>"
    )
    return "".join(parts) + note


def _kinds(result: Search) -> str:
    """Share of flips by kind of edit."""
    own = result.whose[0]
    rows = []
    for kind, name in enumerate(result.edit_names):
        these = result.edit[own] == kind
        if not these.any():
            continue
        rows.append(
            (
                name,
                f"{these.sum():,}",
                f"{np.median(result.pixels[own][these]):g}",
                _share(int(result.flipped[own][these].sum()), int(these.sum())),
                f"{np.median(result.distance[own][these]):.3f}",
            )
        )
    return "<h3>By kind of edit</h3>" + table(
        ["", "edits", "pixels, median", "flip the action, %", f"{result.measure}, moved by"], rows
    )


def _examples(result: Search) -> str:
    if not result.examples:
        return ""
    shown = []
    for i, example in enumerate(result.examples):
        boxes = result.boxes[result.boxes[:, 0] == i, 1:]
        views = [_framed(screen, boxes) for screen in result.pictures[i]]
        pictures = "".join(
            picture(view, f"{example['edit']}, {side}")
            for view, side in zip(views, ("unedited", "edited"), strict=True)
        )
        shown.append(
            f"<figure class='search-example'><div>{pictures}</div><figcaption>"
            f"{escape(_told(result, example))}</figcaption></figure>"
        )
    return (
        "<h3>The smallest of either kind</h3><div class='search-examples'>"
        + "".join(shown)
        + "</div><p class='twins-note'>Unedited and edited, when the agent's whole stack shows it; "
        "framed: what was edited. The first of the ranking, whatever came of them.</p>"
    )


def _told(result: Search, example: dict[str, Any]) -> str:
    flip = (
        f"flips {example['plain_action']} to {example['action']}"
        if example["action"] != example["plain_action"]
        else f"still {example['action']}"
    )
    kept = (
        f"all {example['steps']} steps"
        if example["kept"] == example["steps"]
        else f"{example['kept']} of {example['steps']} steps"
    )
    if example["mode"] == BLIND:
        confirmed = example["kept"] == example["steps"]
    else:
        confirmed = example["reacting"] < example["as_before"]
    return (
        f"{example['mode'].capitalize()}, {'' if confirmed else 'not '}confirmed: "
        f"{example['edit']} (game {example['game'] + 1}, step "
        f"{example['step']}, {_many(example['pixels'], 'pixel')}); {flip}, {result.measure} moved "
        f"by {example['distance']:.3f}. Acts as unedited for {kept}; earns "
        f"{example['reacting']:g}, as before it would earn {example['as_before']:g}, unedited "
        f"{example['unedited']:g}."
    )


def _framed(screen: NDArray[np.uint8], boxes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The frame is as thick as it must be to survive when the picture is shown smaller."""
    drawn = screen.copy()
    height, width = screen.shape[:2]
    thick = -(-max(height, width) // _SHOWN)
    for top, left, bottom, right in boxes:
        y0, x0 = max(top - 2 - thick, 0), max(left - 2 - thick, 0)
        y1, x1 = min(bottom + 2 + thick, height), min(right + 2 + thick, width)
        if y0 < y1 and x0 < x1:
            within = drawn[y0 + thick : y1 - thick, x0 + thick : x1 - thick].copy()
            drawn[y0:y1, x0:x1] = (255, 64, 255)
            drawn[y0 + thick : y1 - thick, x0 + thick : x1 - thick] = within
    return drawn


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _share(hits: int, count: int) -> str:
    value, low, high = 100 * share_of(hits, count)
    return f"{value:.0f} ({low:.0f} to {high:.0f})" if count else "–"


def _finding(result: Search) -> str:
    own = result.whose[0]
    said = [_compared(result, own, mode) for mode in MODES]
    mean, low, high = _reacting(result, own)
    reacting = ""
    if np.isfinite(mean):
        verdict = (
            "pays" if low > 0 else "costs it" if high < 0 else "neither clearly pays nor costs it"
        )
        reacting = (
            f" Its reaction to random edits {verdict} ({number(mean)} on average, "
            f"{interval(low, high)}{_twin_reacting(result)})."
        )
    return " ".join(said) + reacting + _beside_twin(result)


def _reacting(result: Search, who: str) -> NDArray[np.float64]:
    """What it earns more by reacting to random edits, on average."""
    return mean_of(np.concatenate([result.gains[f"{who}, {mode} control"] for mode in MODES]))


def _twin_reacting(result: Search) -> str:
    if TWIN not in result.whose:
        return ""
    mean, low, high = _reacting(result, TWIN)
    return (
        f"; with random weights {number(mean)}, {interval(low, high)}" if np.isfinite(mean) else ""
    )


def _compared(result: Search, own: str, mode: str) -> str:
    candidates, control = (
        result.outcomes[f"{own}, {mode} {group}"][:, OUTCOMES.index(_CONFIRMED[mode])]
        for group in ("candidates", "control")
    )
    what = "leave it blind" if mode == BLIND else "break its play"
    if not len(candidates):
        return f"The search found no edit that should {what}."
    one, other = (share_of(int(hits.sum()), len(hits)) for hits in (candidates, control))
    against = "with no control to compare"
    if len(control):
        apart = difference_of_shares(one, other)
        against = "no more often than random edits"
        if apart[0] > 0:
            clearly = "" if apart[1] > 0 else "though not clearly "
            against = f"{clearly}more than random edits"
        against += f" ({100 * other[0]:.0f} %)"
    otherwise = ""
    if mode == BROKEN:
        # a decision that is flipped for the better is not broken
        gained = result.outcomes[f"{own}, {mode} candidates"][:, OUTCOMES.index("better")]
        otherwise = f"; after {100 * gained.mean():.0f} % it earns more"
    return (
        f"Of {_many(len(candidates), 'edit')} that should {what}, {100 * one[0]:.0f} % do, "
        f"{against}{otherwise}."
    )


def _beside_twin(result: Search) -> str:
    if TWIN not in result.whose:
        return ""
    own = result.whose[0]
    shares = [
        share_of(result.vulnerable[f"{who}, {BROKEN}"], moments)
        for who, moments in zip(result.whose, result.moments, strict=True)
    ]
    apart = difference_of_shares(shares[0], shares[1])
    verdict = "more" if apart[1] > 0 else "fewer" if apart[2] < 0 else "not clearly more or fewer"
    return (
        f" A small edit flips a clear decision in {100 * shares[0][0]:.0f} % of moments, {verdict} "
        f"than for the same {own} network with random weights ({100 * shares[1][0]:.0f} %)."
    )
