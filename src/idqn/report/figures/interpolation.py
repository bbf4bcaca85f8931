"""From keys to states, step by step."""

from __future__ import annotations

from html import escape

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.interpolation import Interpolation
from idqn.report.drawing import Image, Line, frame_picture, lines, number, picture
from idqn.report.figures.keys import value_name
from idqn.report.section import Section

_HIGHEST = 105
"""Pixels of a picture; larger frames are reduced."""


def section(result: Interpolation) -> Section:
    rows = "".join(_row(result, i) for i in range(len(result.action)))
    lead = _lead(result)
    names = [_name(result, i) for i in range(len(result.action))]
    attention = lines(
        [Line(n, result.mix, a) for n, a in zip(names, result.attention, strict=True)],
        "λ, from key to state",
        "attention to the key",
        "attention to each key on the way from the key to a state",
        width=400,
        y_range=(0, 1),
    )
    ahead = lines(
        [Line(n, result.mix, y) for n, y in zip(names, lead, strict=True)],
        "λ, from key to state",
        "Q minus the best other Q",
        "how far the key's action is ahead on the way from the key to a state",
        width=400,
    )
    return Section(
        kind=result.kind,
        title="From key to state",
        reading="Each row walks from a key (λ = 0) to a state of the agent's games that attends "
        "to it (λ = 1): embeddings in between are decoded, newest frame, and valued like a "
        "state's; the real frame stands at the end.",
        caveat="Nothing in between is an embedding that the agent met, so neither picture nor Q "
        "was trained there.",
        html=f"{rows}<h3>Along the way</h3><div class='row'>{attention}{ahead}</div>",
        finding=_finding(result),
        weight=0.3,
    )


def _row(result: Interpolation, i: int) -> str:
    name = _name(result, i)
    newest = slice(-result.frame_channels, None)
    figures = []
    for step, mix in enumerate(result.mix):
        shown = _small(frame_picture(result.images[i, step, newest]))
        facts = (
            f"λ = {number(mix, 3).rstrip('0').rstrip('.')}",
            f"attention {number(100 * result.attention[i, step], 2)}\u00a0%",
            f"Q {number(result.q[i, step, result.action[i]])}",
        )
        figures.append(_captioned(picture(shown, f"{name}, {facts[0]}", 80), facts))
    real = _small(frame_picture(result.observations[i, newest]))
    where = f"game {result.episode[i] + 1},", f"step {result.step[i] + 1:,}"
    figures.append(
        _captioned(picture(real, f"the state, {' '.join(where)}", 80), ("real frame", *where))
    )
    return (
        f"<h3>{escape(name)}</h3><div class='wide interpolation' tabindex='0' role='group' "
        f"aria-label='{escape(name, quote=True)}'>{''.join(figures)}</div>"
    )


def _captioned(shown: str, facts: tuple[str, ...]) -> str:
    text = "<br>".join(escape(fact) for fact in facts)
    return f"<figure>{shown}<figcaption>{text}</figcaption></figure>"


def _small(image: Image) -> Image:
    height, width = image.shape[:2]
    if height <= _HIGHEST:
        return image
    size = (max(1, round(width * _HIGHEST / height)), _HIGHEST)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def _name(result: Interpolation, i: int) -> str:
    return f"{result.about.action_names[result.action[i]]}, value {value_name(result.value[i])}"


def _lead(result: Interpolation) -> NDArray[np.float32]:
    """[P, L]: Q of the key's action minus the best other's."""
    rows = np.arange(len(result.action))
    own = result.q[rows, :, result.action]  # [P, L]
    others = result.q.copy()
    others[rows, :, result.action] = -np.inf
    lead: NDArray[np.float32] = own - others.max(-1)
    return lead


def _finding(result: Interpolation) -> str:
    lead, count = _lead(result), len(result.action)
    same = int((lead[:, 0] > 0).sum())
    start, end = (float(result.attention[:, at].mean()) for at in (0, -1))
    far, near = (float(result.error[:, at].mean()) for at in (0, -1))
    at_key, at_state = (float(lead[:, at].mean()) for at in (0, -1))
    change = "rises" if end > 1.1 * start else "falls" if end < 0.9 * start else "hardly changes"
    if near < 0.9 * far:
        seen = f"is {number(far, 2)} grey levels off the real one at the key, {number(near, 2)} at"
    else:
        seen = f"comes no nearer to the real one ({number(far, 2)} grey levels off, then"
        seen += f" {number(near, 2)}) towards"
    return (
        f"At the key itself its action is the best in {same} of {count} walks, ahead by "
        f"{number(at_key, 2)} on average, at the state by {number(at_state, 2)}; attention to the "
        f"key {change} from {number(100 * start, 2)} to {number(100 * end, 2)} %, and the decoded "
        f"picture {seen} the state."
    )
