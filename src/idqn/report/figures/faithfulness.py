"""What to believe of the other sections."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idqn.explain.faithfulness import MEASURES, RANDOM, SAME_BELOW, Faithfulness
from idqn.report.drawing import Bar, Line, bars, caption, interval, lines, number, table
from idqn.report.section import Section

_UP = {
    "Q": "value kept",
    "action": "action kept",
}


def section(result: Faithfulness) -> Section:
    return Section(
        kind=result.kind,
        title="What to believe",
        reading="If a map knows what matters, blurring its first pixels changes the values at once "
        f"(deletion falls early) and putting them back into a blurred frame restores them "
        f"(insertion rises early); and what stays the same when weights are drawn anew was never "
        f"about this agent. {result.states} states.",
        caveat="Half-blurred frames are like nothing the agent was trained on, neighbouring states "
        "of a game are much alike, and no interval here is widened for how many are compared.",
        html=_curves(result)
        + _areas(result)
        + _sanity(result)
        + _pictures(result)
        + _decoding(result),
        finding=_finding(result),
        weight=0.85,
    )


def _curves(result: Faithfulness) -> str:
    maps = (*result.methods, *result.rivals)
    charts = []
    for m, measure in enumerate(MEASURES):
        for c, (curve, what) in enumerate(
            (("deletion", "blurred, most salient first"), ("insertion", "put back, likewise"))
        ):
            found = result.kept[m, c, :, :, 0]
            chart = lines(
                [
                    Line(name, result.fractions, found[i], dashed=name in result.rivals)
                    for i, name in enumerate(maps)
                ],
                f"share of pixels {what}",
                _UP[measure],
                f"{curve}, {_UP[measure]}, of {', '.join(maps)}",
                width=400,
                height=280,
                y_range=(min(0.0, float(found.min())), 1.0),
            )
            better = "lower is better" if curve == "deletion" else "higher is better"
            charts.append(caption(chart, f"{curve.capitalize()}: {better}."))
    note = (
        f"Blurred: by a Gaussian of {number(result.blur_sigma, 2)} pixels, as for the perturbation "
        f"maps. Value kept: 1 − |change of Q of the action taken| / {number(result.largest_change)}"
        f", the largest such change of a state under any map, on average; action kept: share of "
        f"states in which it is still the greedy one. Dashed: maps that know "
        f"nothing of the agent; picture detail is how much blurring changes a pixel."
    )
    return (
        f"<h3>Deletion and insertion</h3><div class='row'>{''.join(charts)}</div>"
        f"<p class='reading'>{note}</p>"
    )


def _areas(result: Faithfulness) -> str:
    maps = (*result.methods, *result.rivals)
    tables = []
    for m, measure in enumerate(MEASURES):
        rows = [
            [
                name,
                *[_mean(result.areas[m, c, i]) for c in range(2)],
                _verdict(result, name, measure) if name in result.methods else "",
            ]
            for i, name in enumerate(maps)
        ]
        about = f"area under the curves of the {_UP[measure]}, with its 95 % interval"
        tables.append(table(["map", "deletion", "insertion", "verdict"], rows, about))
    return "".join(tables) + _gains(result)


def _gains(result: Faithfulness) -> str:
    rivals = (RANDOM[1], "picture detail")
    rows = [
        [
            name,
            *[
                _mean(result.gains[0, c, i, result.rivals.index(rival)], signed=True)
                for rival in rivals
                for c in range(2)
            ],
        ]
        for i, name in enumerate(result.methods)
    ]
    headings = [f"{rival}, {curve}" for rival in rivals for curve in ("deletion", "insertion")]
    return table(
        ["better than", *headings],
        rows,
        f"by how much the area of the {_UP['Q']} is better, state by state; below 0 it is worse",
    )


def _verdict(result: Faithfulness, name: str, measure: str) -> str:
    """In words; against random maps of both kinds and in both curves."""
    if not result.beats(name, RANDOM, measure):
        return "not better than random"
    if result.beats(name, ("picture detail",), measure):
        return "better than random and detail"
    return "better than random"


def _sanity(result: Faithfulness) -> str:
    rows = [
        [
            method,
            *[_mean(result.map_correlation[d, i]) for d in range(len(result.depths))],
            result.verdict(method),
        ]
        for i, method in enumerate(result.methods)
    ]
    return "<h3>Do maps change when weights are drawn anew?</h3>" + table(
        ["rank correlation", *result.depths, "verdict"],
        rows,
        f"maps before and after, {result.sanity_states} states; 1 is the same order of all pixels, "
        f"and a map passes if all layers drawn anew leave less than {SAME_BELOW}, interval and all",
    )


_COMPARED = {
    "as it began": "the same key before training",
    "random keys": "keys drawn anew, as widely spread",
    "other keys": "the agent's other keys",
    "random decoder": "the same key, decoder drawn anew",
}


def _pictures(result: Faithfulness) -> str:
    if result.keys is None or result.key_moves is None:
        return _without("This agent has no keys: nothing to check there.")
    names = [f"all {result.keys} keys", f"{result.attended_keys} attended keys"]
    rows = []
    if result.picture_correlation is not None:
        rows = [
            [f"picture like that of {text}", *[_mean(found) for found in compared]]
            for name, text in _COMPARED.items()
            for compared in [result.picture_correlation[name]]
        ]
    rows.append(["way moved in training, in own lengths", *[_mean(m) for m in result.key_moves]])
    return "<h3>Do keys' pictures change when keys or decoder are drawn anew?</h3>" + table(
        ["", *names],
        rows,
        "correlation of pixels, minus the mean image; attended: the most attended of the action "
        "taken, in some state",
    )


def _decoding(result: Faithfulness) -> str:
    if result.decoding_error is None:
        return _without("This agent has no decoder: there are no pictures to check.")
    errors = bars(
        [Bar(name, *found) for name, found in result.decoding_error.items()],
        "mean error of a pixel, in grey levels, with its 95 % interval",
        "reconstruction error beside pictures that know no state",
    )
    skill = _skill(result)
    told = f"Skill, 1 − error / error of the better fixed picture: {number(skill)}."
    html = f"<h3>Decoded states</h3>{errors}<p class='reading'>{told}</p>"
    if result.cycle_error is None or result.cycle_returns is None:
        return html
    cycle = bars(
        [Bar(name, *found) for name, found in result.cycle_error.items()],
        "‖Enc(Dec(x)) − x‖, in mean distances of x to their mean; 1 is as far as the mean is",
        "what is lost from an embedding to its picture and back",
    )
    told = (
        f"Of the keys' pictures, {number(100 * result.cycle_returns, 2)} % are encoded nearer to "
        f"their own key than to any other."
    )
    return f"{html}<h3>From a key to its picture and back</h3>{cycle}<p class='reading'>{told}</p>"


def _skill(result: Faithfulness) -> float:
    """Of decoded states, 1 if they are exact and 0 if a picture that is always the same is as
    good."""
    assert result.decoding_error is not None
    own, *fixed = (float(found[0]) for found in result.decoding_error.values())
    return 1 - own / max(min(fixed), 1e-12)


def _finding(result: Faithfulness) -> str:
    found = "; ".join(filter(None, [_maps_finding(result), _keys_finding(result)]))
    return found[0].upper() + found[1:] + "."


def _maps_finding(result: Faithfulness) -> str:
    better = [m for m in result.methods if result.beats(m)]
    sound = [m for m in better if result.verdict(m) == "passes"]
    if not better:
        return "no saliency map finds what matters to the values better than random maps do"
    if not sound:
        least = min(better, key=lambda m: result.map_correlation[-1, result.methods.index(m), 0])
        left = result.map_correlation[-1, result.methods.index(least), 0]
        return (
            f"believe no saliency map unseen: the pixels that {_and(better)} put first "
            f"matter more than random ones, but they may be much the same of any network "
            f"(rank correlation with all weights drawn anew: at least {number(left)})"
        )
    best = max(sound, key=lambda m: _gain(result, m))
    i = result.methods.index(best)
    spots = len(result.methods) + result.rivals.index(RANDOM[1])
    area = result.areas[0, :, :, 0]
    if result.beats(best, ("picture detail",)):
        end = "and it beats a map of mere picture detail"
    else:
        end = "but it is no better than a map of mere picture detail"
    return (
        f"of the saliency maps believe {best} first: it finds what matters better than random maps "
        f"(deletion {number(area[0, i])} against {number(area[0, spots])}) and changes with the "
        f"weights, {end}"
    )


def _gain(result: Faithfulness, method: str) -> float:
    """Over random spots, in both curves."""
    i, rival = result.methods.index(method), result.rivals.index(RANDOM[1])
    return float(result.gains[0, :, i, rival, 0].sum())


def _keys_finding(result: Faithfulness) -> str:
    if result.picture_correlation is None or result.key_moves is None:
        return ""
    began = float(result.picture_correlation["as it began"][1, 0])
    anyhow = float(result.picture_correlation["random keys"][1, 0])
    if anyhow >= SAME_BELOW:
        return (
            f"pictures of random keys look like those of attended ones (correlation "
            f"{number(anyhow)}): they come from the decoder, not from the keys"
        )
    if began >= SAME_BELOW:
        return (
            f"attended keys have moved by {number(result.key_moves[1, 0])} of their length in "
            f"training, and their pictures are much as if they had not (correlation "
            f"{number(began)}): do not read those as what was learned"
        )
    return (
        f"pictures of attended keys are their own, unlike those of random keys (correlation "
        f"{number(anyhow)}) and those of the same keys before training ({number(began)})"
    )


def _without(text: str) -> str:
    return f"<p class='reading'>{text}</p>"


def _mean(found: NDArray[np.floating], signed: bool = False) -> str:
    plus = "+" if signed and found[0] > 0 else ""
    return f"{plus}{number(found[0])} ({interval(found[1], found[2])})"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
