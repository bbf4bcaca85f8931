"""Attention maps: which values the agent expects of each action, moment by moment."""

from __future__ import annotations

import base64
from html import escape

import numpy as np
from numpy.typing import NDArray

from idqn.explain.attention import CERTAIN, Attention
from idqn.report.drawing import atlas, number
from idqn.report.section import Section


def section(result: Attention) -> Section:
    keys = result.use.size
    facts = {
        "states": f"{result.states:,}",
        "mean entropy": f"{number(result.entropy)} of {number(np.log(len(result.values)))} nats",
        f"top weight above {CERTAIN:g}": f"{number(100 * result.certain_share)} % of states",
        "keys in use": f"{np.count_nonzero(result.use)} of {keys}",
        "carry 95 % of use": f"{result.keys_for_95} of {keys} keys",
    }
    shown = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items()
    )
    steps = len(result.action)
    ended = "to its end" if result.finished else "cut off before its end"
    return Section(
        kind=result.kind,
        title="Attention",
        reading="Each row is an action, and the fuller a cell's colour, the more the agent expects "
        "it to return that value (Q is the row's mean, U its standard deviation); in the strip "
        "along a game, one clear line means that the agent is certain.",
        caveat="A narrow row says that the agent is certain, not that it is right: compare where "
        "the line lies with the rewards that follow.",
        html="<div id='attention-view'></div>"
        f"<h3>Game {result.episode + 1}, its longest: {steps:,} steps, {ended}</h3>"
        f"<div id='attention-strip'></div>"
        f"<h3>All its games</h3><dl class='facts'>{shown}</dl>",
        finding=_finding(result),
        weight=0.5 + 0.2 * abs(2 * result.certain_share - 1),
        data=_data(result),
        script="attention.js",
    )


def _finding(result: Attention) -> str:
    certain = f"in {number(100 * result.certain_share)} % of states"
    if result.certain_share == 0:
        certain = "in no state"
    spread = 100 * result.relative_entropy
    if result.certain_share > 0.5:
        how = f"The agent is mostly certain: it puts more than {CERTAIN:g} of its attention on "
        how += f"one value {certain}"
    else:
        how = "The agent is seldom certain" if spread > 50 else "The agent weighs few values"
        how += f": the entropy of attention to the action it takes is {number(spread)} % of the "
        how += f"largest there is, and more than {CERTAIN:g} of it is on one value {certain}"
    return (
        f"{how}; {result.keys_for_95} of its {result.use.size} keys are the top one in 95 % "
        f"of states."
    )


def _data(result: Attention) -> dict[str, object]:
    largest = max(float(result.attention.max()), 1e-6)
    weights = (result.attention.astype(np.float32) / largest * 255).round().astype(np.uint8)
    sheet = atlas(result.screens, columns=min(8, len(result.screens)))
    notes = {result.most_uncertain: "least certain", result.least_uncertain: "most certain"}
    return {
        "names": list(result.about.action_names),
        "values": _rounded(result.values),
        "largest": largest,
        "attention": base64.b64encode(weights.tobytes()).decode(),  # [T, A, N], of `largest`
        "q": _rounded(result.q),
        "u": _rounded(result.uncertainty),
        "action": result.action.tolist(),
        "reward": _rounded(result.reward),
        "moments": result.moments.tolist(),
        "notes": {str(place): note for place, note in notes.items()},
        "screens": sheet._asdict(),
    }


def _rounded(numbers: NDArray[np.floating]) -> list[object]:
    found: list[object] = numbers.astype(np.float64).round(3).tolist()
    return found
