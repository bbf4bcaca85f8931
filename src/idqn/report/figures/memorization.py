"""One page of numbers on whether an agent plays, or repeats."""

from __future__ import annotations

from html import escape

import numpy as np

from idqn.explain.memorization import Memorization
from idqn.explain.verdict import MEMORISED, PLAYS, RULES
from idqn.report.drawing import Bar, bars, interval, number, table
from idqn.report.section import Section

_SIGN = {True: "yes", False: "no", None: "cannot be told"}


def section(result: Memorization) -> Section:
    return Section(
        kind=result.kind,
        title="Memorisation",
        reading="An agent that repeats what it did in training plays few different games, is lost "
        "once it is pushed off its path, and passes by what is put beside its way; each number is "
        "beside that of a random policy.",
        caveat="The rules are ours, and no proof: an agent that hardly looks at the screen, and "
        "one that has good reasons to go on, pass by a pellet as well; whole games are "
        "drawn for the intervals of what edits change, but those of shares, and of returns, take "
        "moments and games for independent.",
        html=_verdicts(result) + _games(result) + _pushed(result) + _edited(result) + _rules(),
        finding=_finding(result),
        weight=0.85,  # somebody asked for it
    )


def _finding(result: Memorization) -> str:
    verdict = result.verdicts[0]
    reasons = [sign for sign, found in result.signs[0].items() if found]
    games = (
        f"{result.counts['distinct games'][0]} different games of {result.counts['games'][0]}, "
        f"{result.counts['distinct returns'][0]} different returns"
    )
    gain, low, high = result.numbers["gain"][0]
    food = ""
    if not np.isnan(gain):
        food = (
            f", and comes to a cell for a pellet {number(100 * gain)} percentage points more "
            f"often ({interval(100 * low, 100 * high)})"
        )
    if verdict == MEMORISED:
        told = f"Its play looks memorised: it {' and '.join(reasons)}"
    elif verdict == PLAYS:
        told = "Its play does not look memorised"
        told += f", though it {' and '.join(reasons)}" if reasons else ""
    else:
        told = "Whether its play is memorised cannot be told from these numbers"
    return f"{told} ({games}{food})."


def _verdicts(result: Memorization) -> str:
    names = list(result.signs[0])
    rows = [[name, *(_SIGN[signs[name]] for signs in result.signs)] for name in names]
    return "<h3>The verdict</h3>" + table(
        ["", *result.policies], [*rows, ["its play", *result.verdicts]]
    )


def _games(result: Memorization) -> str:
    steps = result.beginning_steps
    counts = [
        (f"different {label}", _counts(result, f"distinct {what}"))
        for label, what in (
            ("returns", "returns"),
            ("games", "games"),
            (f"beginnings of {steps} steps", "beginnings"),
        )
    ]
    shares = [
        (f"{label} that another game has too", _row(result, f"repeated {what}", percent=True))
        for label, what in (
            ("returns", "returns"),
            ("games", "games"),
            (f"beginnings of {steps} steps", "beginnings"),
        )
    ]
    started = ""
    if result.starts < result.counts["games"][0]:
        started = (
            f" They begin after a random number of no-ops, which is all the luck there is: about "
            f"{number(result.starts, 2)} different ones are to be expected."
        )
    return "<h3>How many different games?</h3>" + table(
        ["", *result.policies],
        [
            ["games played", *_counts(result, "games")],
            ["mean return", *_row(result, "return")],
            *([name, *cells] for name, cells in [*counts, *shares]),
        ],
        f"A game is its sequence of actions.{started}",
    )


def _pushed(result: Memorization) -> str:
    sticky = f"return lost to sticky actions ({result.sticky_probability:g})"
    start = f"return lost after random starts (up to {result.random_start_steps} steps)"
    rows = [
        [sticky, *_row(result, "lost: sticky")],
        ["… of the return", *_lost_share(result, "lost: sticky")],
        [start, *_row(result, "lost: random start")],
        ["… of the return", *_lost_share(result, "lost: random start")],
        ["games from random starts", *_counts(result, "random starts")],
    ]
    if not result.counts["sticky games"].any():
        rows = rows[2:]
    return "<h3>Off its path</h3>" + table(
        ["", *result.policies],
        rows,
        "Negative: it got more. Games that were over before the policy took over are left out.",
    )


def _edited(result: Memorization) -> str:
    parts = ["<h3>After an edit of the game</h3>"]
    if result.irrelevant is None and not result.food_steps:
        return parts[0] + "<p>No edit of this game is known that does not matter to it.</p>"
    rows = []
    if result.irrelevant is not None:
        rows += [
            ["moments edited", *_counts(result, "irrelevant edits")],
            ["… of different games, at most", *_counts(result, "edited games")],
            ["same actions", *_row(result, "same actions", percent=True)],
            ["same actions, nothing edited", *_row(result, "same actions, unedited", True)],
            ["steps until another action", *_row(result, "divergence")],
            ["return lost", *_row(result, "lost: irrelevant edit")],
        ]
        text = (
            f"Irrelevant: {result.irrelevant}. The next {result.same_steps} actions are compared "
            "with those of the unedited game."
        )
        parts.append(table(["", *result.policies], rows, text))
    if result.food_steps:
        parts.append(_food(result))
    return "".join(parts)


def _food(result: Memorization) -> str:
    items = []
    for i, policy in enumerate(result.policies):
        count = result.counts["added food"][i]
        for name, text in (("reached", "with a pellet"), ("reached, unedited", "without")):
            value, low, high = 100 * result.numbers[name][i]
            if not np.isnan(value):
                items.append(Bar(f"{policy}, {text}", value, low, high, f"% of {count}"))
    rows = [
        ["moments", *_counts(result, "added food")],
        ["more often with it", *_row(result, "gain", percent=True)],
    ]
    told = (
        f"A pellet is put one to three cells beside the way of the next {result.food_steps // 2} "
        f"steps. Does the player come to that cell within {result.food_steps} steps, with the "
        "pellet and without?"
    )
    if not items:
        return f"<p class='reading'>{told} At no moment could one be put there.</p>"
    chart = bars(items, "% of cells that are visited, 95 % interval", "cells visited", 100)
    return f"<p class='reading'>{told}</p><div class='wide'>{chart}</div>" + table(
        ["", *result.policies], rows
    )


def _rules() -> str:
    items = "".join(f"<li>{escape(rule)}</li>" for rule in RULES)
    return f"<h3>What counts as memorised</h3><ul>{items}</ul>"


def _counts(result: Memorization, name: str) -> list[str]:
    return [f"{count:,}" for count in result.counts[name].tolist()]


def _row(result: Memorization, name: str, percent: bool = False) -> list[str]:
    factor, unit = (100.0, " %") if percent else (1.0, "")
    return [_told(found * factor, unit) for found in result.numbers[name]]


def _lost_share(result: Memorization, name: str) -> list[str]:
    lost, usual = result.numbers[name][:, 0], result.numbers["return"][:, 0]
    return [
        f"{number(100 * a / b)} %" if b > 0 and not np.isnan(a) else "–"
        for a, b in zip(lost.tolist(), usual.tolist(), strict=True)
    ]


def _told(found: np.ndarray[tuple[int, ...], np.dtype[np.float64]], unit: str) -> str:
    if np.isnan(found[0]):
        return "–"
    return f"{number(found[0])}{unit} ({interval(found[1], found[2])})"
