"""States and keys as points on a map, and how well the actions keep apart."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.embedding import Embedding
from idqn.report.drawing import atlas, number, table
from idqn.report.section import Section

_SHEET_PIXELS = 6_500_000
"""Of all frames together: 1,500 of 65 x 65 are one and a half megabytes."""


def section(result: Embedding) -> Section:
    squares = "" if result.key_tsne is None else "; squares are the agent's keys"
    return Section(
        kind=result.kind,
        title="Embeddings",
        reading="Each point is a state, coloured by the action that was chosen in it"
        f"{squares}. Close together lies what is alike to the agent: point at it, tap it or use "
        "the arrow keys to see the frame, and choose an action to see it alone.",
        caveat="t-SNE keeps neighbours together and little else: the sizes of clusters and the "
        "distances between them mean nothing. Moments that follow each other in a game are alike "
        "whatever was chosen in them.",
        html="<div id='embedding-map'></div>"
        f"<p class='embedding-note'>{escape(_made(result))}</p>"
        "<h3>How well the actions keep apart</h3>"
        f"<div class='row'>{_clusters(result)}{_guesses(result)}</div>"
        f"<p class='embedding-note'>{escape(_apart(result))}</p>",
        finding=_finding(result),
        weight=0.5,
        data=_data(result),
        script="embedding.js",
    )


def _made(result: Embedding) -> str:
    """How the map was made, and which states are marked."""
    shown, few = f"{len(result.action):,} states", ""
    if len(result.action) < result.states:
        shown = f"{len(result.action):,} of {result.states:,} states"
    if result.perplexity < result.perplexity_asked:
        few = f" (instead of {_plain(result.perplexity_asked)}: there are too few points)"
    text = (
        f"{shown}. t-SNE's perplexity is {_plain(result.perplexity)}{few}; its divergence from the "
        f"embeddings is {number(result.divergence)} nats."
    )
    above = result.above
    if above is None or result.attention is None:
        return text
    high = (
        f"more than {_plain(result.threshold)} of an action's attention to its key of value "
        f"{_plain(result.value)}"
    )
    if not above.any():
        most = number(float(result.attention.max()))
        return f"{text} No state gives {high}: the most is {most}."
    agreeing = int((above & (result.attending == result.action)).sum())
    chosen = f"in {'all' if agreeing == above.sum() else f'{agreeing:,}'} of them that action"
    shown = "Only states are shown that" if result.above_only else f"{int(above.sum()):,} states"
    return f"{text} {shown} give {high}; {chosen} was chosen."


def _clusters(result: Embedding) -> str:
    rows = []
    for action, name in enumerate(result.about.action_names):
        mine = result.silhouettes[result.action == action]
        known = len(mine) > 1 and result.silhouette is not None
        score = float(mine.mean()) if known else None
        rows.append((name, f"{len(mine):,}", number(score)))
    rows.append(("all", f"{len(result.action):,}", number(result.silhouette)))
    return table(
        ("chosen action", "states", "silhouette"),
        rows,
        "Silhouette of embeddings: 1 is perfect clusters, 0 none; below, others are nearer",
    )


def _guesses(result: Embedding) -> str:
    rows = []
    if result.centroid is not None:
        frequent = _percent(result.centroid_most_frequent)
        rows.append(("nearest mean embedding", _percent(result.centroid), frequent))
    if result.key_value is not None:
        largest, frequent = _plain(float(result.key_value.max())), _percent(result.most_frequent)
        for name, right in (
            ("nearest key", result.nearest_key),
            ("strongest key", result.strongest_key),
            (f"nearest key of value {largest}", result.nearest_key_of_value),
            (f"strongest key of value {largest}", result.strongest_key_of_value),
        ):
            rows.append((name, _percent(right), frequent))
    if not rows:
        return ""
    return table(
        ("guess by", "right", "baseline"),
        rows,
        "How often the chosen action is guessed from the embedding; the baseline always says the "
        "most frequent one",
    )


def _apart(result: Embedding) -> str:
    """What the guesses are, and whether keys lie where states do."""
    text = (
        "Mean embeddings are of one half of the states, and guess the other half, in order; this "
        "can be asked of agents with and without keys."
    )
    if result.keys_beside_states is None or result.mixed is None:
        return text
    beside, mixed = result.keys_beside_states, result.mixed
    where = "apart from" if beside < 0.25 * mixed else "partly among"
    where = where if beside < 0.75 * mixed else "among"
    return (
        f"{text} The strongest key has the largest product with the state, as in attention. The "
        f"nearest neighbour of a key is a state for {_percent(beside)} of the keys, and would be "
        f"for {_percent(mixed)} if keys and states were mixed: keys lie {where} the states."
    )


def _finding(result: Embedding) -> str:
    score = result.silhouette
    if score is None:
        (only,) = {result.about.action_names[action] for action in result.action}
        return f"The agent always chose {only}, so there are no actions to keep apart."
    form = (
        "form clear clusters"
        if score >= 0.5
        else "tend to cluster"
        if score >= 0.25
        else "hardly cluster"
        if score >= 0.05
        else "do not form clusters"
    )
    text = (
        f"By chosen action, embeddings of states {form} (silhouette {number(score)}; 1 is perfect)"
    )
    if result.strongest_key is not None:
        who, right, usual = "strongest key", result.strongest_key, result.most_frequent
    elif result.centroid is not None and result.centroid_most_frequent is not None:
        who, right, usual = "nearest mean state", result.centroid, result.centroid_most_frequent
    else:
        return f"{text}."
    gain = right - usual
    than = "far more often than" if gain >= 0.2 else "more often than" if gain >= 0.05 else None
    than = than or ("hardly more often than" if gain > 0.01 else None)
    than = than or ("no more often than" if gain > -0.05 else "less often than")
    return (
        f"{text}; the {who} names the chosen action in {_percent(right)} of them, {than} the most "
        f"frequent action is right ({_percent(usual)})."
    )


def _data(result: Embedding) -> dict[str, Any]:
    above = result.above
    keys = None
    if result.key_action is not None and result.key_used is not None:
        assert result.key_value is not None
        keys = {
            "action": result.key_action.tolist(),
            "value": [_plain(float(value)) for value in result.key_value],
            "used": result.key_used.astype(int).tolist(),
            "marked": (np.abs(result.key_value - (result.value or 0)) < 1e-4).astype(int).tolist(),
        }
    return {
        "actions": list(result.about.action_names),
        "maps": [
            [_rounded(positions[:, axis]) for axis in (0, 1)]
            for positions in (
                _joined(result.tsne, result.key_tsne),
                _joined(result.pca, result.key_pca),
            )
        ],
        "share": [_percent(share) for share in result.pca_share],
        "action": result.action.tolist(),
        "q": _rounded(result.q),
        "episode": (result.episode + 1).tolist(),
        "step": (result.step + 1).tolist(),
        "value": _plain(result.value),
        "threshold": _plain(result.threshold),
        "above": None if above is None or result.above_only else above.astype(int).tolist(),
        "attention": None if result.attention is None else _rounded(result.attention, 2),
        "attending": None if result.attending is None else result.attending.tolist(),
        "keys": keys,
        "frames": _frames(result.frames)._asdict(),
    }


def _frames(frames: NDArray[np.uint8]) -> Any:
    count, height, width = frames.shape[:3]
    scale = min(1.0, math.sqrt(_SHEET_PIXELS / (count * height * width)))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    if scale < 1:
        frames = np.stack([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames])
    columns = max(1, round(math.sqrt(count * size[1] / size[0])))
    return atlas(frames, columns, quality=50)


def _joined(states: NDArray[np.float32], keys: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return states if keys is None else np.concatenate([states, keys])


def _rounded(values: NDArray[np.floating], digits: int = 4) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def _plain(value: float | None) -> str:
    """As somebody says it who chose it: 25, not 25.0."""
    return "" if value is None else f"{value:.3g}".replace("-", "−")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
