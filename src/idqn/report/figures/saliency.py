"""Where an agent looks: maps over frames, and the places that change its decision."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.explain.saliency import METHODS, Saliency
from idqn.report.drawing import (
    enlarged,
    frame_picture,
    number,
    overlay,
    picture_url,
    table,
)
from idqn.report.section import Section

_NAMES = {
    "perturbation": "Perturbation",
    "sarfa": "SARFA",
    "gradient": "Gradient",
    "integrated-gradients": "Integrated gradients",
}
_MEANINGS = {
    "perturbation": "½ (change of Q)² when the place is blurred",
    "sarfa": "how far blurring takes from this action's lead and leaves the others as they "
    "compare; from 0 to 1",
    "gradient": "|dQ/ds|, in Q per pixel level, summed over the stacked frames",
    "integrated-gradients": "each pixel's part in how Q differs from that of the mean image, "
    "regardless of its sign, in Q, summed over the stacked frames",
}


def section(result: Saliency) -> Section:
    thumbnails = "".join(_thumbnail(result, i) for i in range(len(result.action)))
    return Section(
        kind=result.kind,
        title="Saliency",
        reading="Where it is warm, the value of the action depends on what is there; choose a "
        "state, then a method or an action. Beside it, in colour, the places that lead to another "
        "action when they alone are blurred.",
        caveat="A blur also makes frames that the agent never met, and a map says where a value "
        "depends on the frame, not why; the faithfulness of these maps is a question of its own.",
        html=f"<div class='saliency-states' role='group' aria-label='states'>{thumbnails}</div>"
        "<div id='saliency-view'></div>"
        f"<h3>Do the methods agree?</h3>{_agreement(result)}",
        finding=_finding(result),
        weight=0.55,
        data={
            "actions": list(result.about.action_names),
            "methods": [{"name": _NAMES[m], "meaning": _MEANINGS[m]} for m in METHODS],
            "states": [_state(result, i) for i in range(len(result.action))],
            "places": result.choices[0].size,
            "first": _first(result),
        },
        script="saliency.js",
    )


def _first(result: Saliency) -> int:
    """The state to begin with: one with something in every drawing."""
    turns = (result.choices != result.action[:, None, None]).any((1, 2))
    return int(turns.argmax())


def _thumbnail(result: Saliency, i: int) -> str:
    frame = enlarged(frame_picture(result.frames[i]), 96)
    url = picture_url(overlay(frame, result.maps["perturbation"][i]), 85)
    name = result.about.action_names[result.action[i]]
    when = f"Game {result.episode[i] + 1}, step {result.step[i] + 1}"
    label = f"{when}: the agent chose {name}; where its value depends on the frame is warm"
    return (
        f"<button type='button'><img class='pixels' src='{url}' width='88' alt='{escape(label)}'>"
        f"<span>{when}<br><b>{escape(name)}</b></span></button>"
    )


def _state(result: Saliency, i: int) -> dict[str, Any]:
    choices, chosen = result.choices[i], int(result.action[i])
    return {
        "frame": picture_url(frame_picture(result.frames[i])),
        "screen": picture_url(result.screens[i], 90),
        "chosen": chosen,
        "q": [number(float(q)) for q in result.q[i]],
        "maps": [_map(result.maps[method][i]) for method in METHODS],
        "actionMaps": [_map(each) for each in result.action_maps[i]],
        "change": [_short(np.sqrt(2 * each.max())) for each in result.action_maps[i]],
        "choices": {
            "rows": choices.shape[0],
            "columns": choices.shape[1],
            "actions": _text(choices.astype(np.uint8)),
        },
    }


def _map(values: NDArray[np.float32]) -> dict[str, Any]:
    """In 255 levels up to its own maximum."""
    top = float(values.max())
    levels = np.round(values / top * 255) if top > 0 else np.zeros_like(values)
    rows, columns = values.shape
    return {
        "rows": rows,
        "columns": columns,
        "levels": _text(levels.astype(np.uint8)),
        "top": _short(top) if top > 0 else None,
    }


def _text(values: NDArray[np.uint8]) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _short(value: float) -> str:
    """Two digits, of small numbers too."""
    return f"{value:.2g}" if value < 100 else number(value)


def _agreement(result: Saliency) -> str:
    names = [_NAMES[method] for method in METHODS]
    rows = [
        [name, *(f"{v:.2f}".replace("-", "−") if np.isfinite(v) else "–" for v in values)]
        for name, values in zip(names, result.agreement, strict=True)
    ]
    return (
        "<p class='saliency-note'>Rank correlation of the places of two maps, mean over "
        f"{result.counted} states: 1 is the same order, 0 is none in common.</p>"
        + table(["", *names], rows)
    )


def _finding(result: Saliency) -> str:
    turned = result.flipped[result.flipped > 0]
    if len(turned) == 0:
        first = f"In none of {result.counted} states does blurring one place change the decision"
    else:
        first = (
            f"In {len(turned)} of {result.counted} states, blurring one place is enough to change "
            f"the decision (there, {100 * turned.mean():.0f} % of places do so)"
        )
    where = "no value of a chosen action depends on the frame"
    if result.half_within is not None:
        share = result.half_within
        size = f"{100 * share:.{1 if share < 0.01 else 0}f} %"
        where = f"half of the effect on the chosen action's value lies in {size} of the frame"
    between = result.agreement[np.triu_indices(len(METHODS), 1)]
    known = between[np.isfinite(between)]
    if len(known) == 0:
        return f"{first}; {where}."
    mean = float(known.mean())
    word = "largely agree" if mean >= 0.6 else "agree in part" if mean >= 0.3 else "hardly agree"
    many = f"mean rank correlation {mean:.2f}".replace("-", "−")
    return f"{first}; {where}. The {len(METHODS)} methods {word} on where that is ({many})."
