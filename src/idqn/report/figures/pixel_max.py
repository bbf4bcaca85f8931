"""The pixel-wise maximum of several states, beside the states."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from idqn.explain.intervals import mean_of, share_of
from idqn.explain.pixel_max import PixelMax
from idqn.report.drawing import (
    caption,
    enlarged,
    frame_picture,
    heatmap,
    interval,
    number,
    overlay,
    picture,
    table,
)
from idqn.report.section import Section

_HEIGHT = 160  # pixels, at least
_MATTERS = 0.01  # of rank correlations, certain or not


def section(result: PixelMax) -> Section:
    count = len(result.step)
    return Section(
        kind=result.kind,
        title="The maximum of states",
        reading=f"{count} states of its own games in which it chooses different actions, and an "
        "image that is no state at all: of each pixel, the brightest of the states. If the agent "
        "knows parts of the screen apart from one another, each part still suggests its action.",
        caveat="No game looks like that image, so nothing can be played on from it; and a maximum "
        "keeps what is bright alone.",
        html=_pictures(result) + _numbers(result) + _attention(result),
        finding=_finding(result),
        weight=0.3,
    )


def _pictures(result: PixelMax) -> str:
    names = result.about.action_names
    shown = []
    for i in range(len(result.step)):
        action = names[result.action[i]]
        shown.append(
            caption(
                picture(_seen(result.frames[i], result.maps[0, i]), f"state {i + 1}"),
                f"state {i + 1}: game {result.episode[i] + 1}, step {result.step[i]}; it chooses "
                f"{action}, and looks here",
            )
        )
        shown.append(
            caption(
                picture(_seen(result.frames[-1], result.maps[1, i]), f"maximum, {action}"),
                f"the maximum, and where it looks for {action}; rank correlation with the map of "
                f"state {i + 1}: {result.correlation[0, i, i]:.2f}",
            )
        )
    plain = enlarged(frame_picture(result.frames[-1]), _HEIGHT)
    chosen = names[result.action[-1]]
    shown.append(caption(picture(plain, "the maximum"), f"the maximum; it chooses {chosen}"))
    return (
        f"<div class='maximum-pictures'>{''.join(shown)}</div>"
        "<p class='twins-note'>Warm places: where perturbation changes the Q of the action named; "
        "each map has its own scale, full at its most.</p>"
    )


def _seen(frame: NDArray[np.uint8], weight: NDArray[np.float32]) -> NDArray[np.uint8]:
    return overlay(enlarged(frame_picture(frame), _HEIGHT), weight)


def _numbers(result: PixelMax) -> str:
    count = len(result.step)
    groups, mapped = result.groups, len(result.correlation)
    best, control = _lit_up(result)
    first = (result.ranks == 0).any(1)
    by_chance = f"{100 * count / len(result.about.action_names):.0f} %"
    rows = [
        (
            f"all {count} actions among the {count} best",
            f"{100 * best.mean():.0f} % of {groups}",
            _percent(share_of(int(best.sum()), groups)),
            f"{100 * control.mean():.0f} %",
            f"{100 * _by_chance(result):.1f} %",
        ),
        (
            "one of them is the best",
            f"{100 * first.mean():.0f} % of {groups}",
            _percent(share_of(int(first.sum()), groups)),
            "100 %",
            by_chance,
        ),
    ]
    if result.kept is not None:
        own, other = _matched(result.kept)
        rows.append(("attention to an action, overlap with its state's", *_beside(own, other)))
    own, other = _matched(result.correlation)
    rows.append((f"saliency maps, rank correlation ({mapped} groups)", *_beside(own, other)))
    return "<h3>Of many such groups</h3>" + table(
        ["", "the maximum", "95 % interval", "its states", "by chance"],
        rows,
        "Its states: the same of single states of the group, which show one of its actions; of "
        "attention and maps, the maximum beside the group's other states.",
    )


def _lit_up(result: PixelMax) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Of each group, whether all its actions are the best in the maximum; and in what share of its
    single states they are."""
    count = len(result.step)
    best = np.asarray((result.ranks < count).all(1), np.bool_)
    control: NDArray[np.float64] = (result.source_ranks < count).all(2).mean(1)
    return best, control


def _beside(own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[str, str, str, str]:
    mean, low, high = mean_of(own)
    beside = number(float(other.mean()) if len(other) else np.nan)
    return number(mean), interval(low, high), beside, "–"


def _matched(of: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each group, the mean over [i, i] and the mean over [i, j]; without what is unknown."""
    same = np.eye(of.shape[1], dtype=bool)
    pairs = [(group[same], group[~same]) for group in of]
    known = [
        (a[~np.isnan(a)].mean(), b[~np.isnan(b)].mean())
        for a, b in pairs
        if (~np.isnan(a)).any() and (~np.isnan(b)).any()
    ]
    found = np.array(known).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _by_chance(result: PixelMax) -> float:
    """That as many actions drawn at random are just these."""
    actions, count = len(result.about.action_names), len(result.step)
    return float(np.prod([(count - i) / (actions - i) for i in range(count)]))


def _percent(share: NDArray[np.float64]) -> str:
    return f"{100 * share[1]:.0f} to {100 * share[2]:.0f} %"


def _attention(result: PixelMax) -> str:
    if result.attention is None or result.values is None:
        return ""
    names = result.about.action_names
    actions = result.action[:-1]
    each = np.arange(len(actions))
    marked = [f"→ {name}" if a in actions else name for a, name in enumerate(names)]
    sources = [f"{i + 1} {names[a]}" for i, a in enumerate(actions)]
    top = float(result.attention.max())
    columns = [number(float(value), 2) for value in result.values]
    shown = [
        ("each state, its own action", result.attention[each, actions], sources),
        ("the maximum, the same actions", result.attention[-1][actions], sources),
        ("the maximum, all actions", result.attention[-1], marked),
    ]
    maps = "".join(
        f"<figure><h3>Attention: {escape(title)}</h3><div class='wide'>"
        f"{heatmap(weights, rows, columns, title, top, 'return of the key')}</div></figure>"
        for title, weights, rows in shown
    )
    return f"<div class='row'>{maps}</div>"


def _finding(result: PixelMax) -> str:
    count = len(result.step)
    best, control = _lit_up(result)
    apart = mean_of(best - control)
    verdict = "no more often than" if apart[0] <= 0 else "not clearly more often than"
    verdict = "more often than" if apart[1] > 0 else verdict
    own, other = _matched(result.correlation)
    maps = ""
    if len(own):
        nearer = mean_of(own - other)
        alike = "not clearly more alike"
        if nearer[1] > 0:
            alike = "more alike" if nearer[0] >= _MATTERS else "hardly more alike"
        maps = (
            f"; its saliency maps there are {alike} to those of the states they come from than to "
            f"those of the others (rank correlation {number(own.mean())} against "
            f"{number(other.mean())})"
        )
    return (
        f"In the maximum of {count} states, the {count} actions chosen in them are its {count} "
        f"best in {100 * best.mean():.0f} % of {result.groups} groups, {verdict} in single states "
        f"of theirs ({100 * control.mean():.0f} %; by chance {100 * _by_chance(result):.1f} %)"
        f"{maps}."
    )
