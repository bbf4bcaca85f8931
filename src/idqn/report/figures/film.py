"""A player for a game, and the same as a video."""

from __future__ import annotations

import base64
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.film import Film
from idqn.report import video
from idqn.report.drawing import Atlas, Image, atlas
from idqn.report.section import Section

VIDEO = "film.mp4"
_LARGEST = 240  # pixels of a screen's longer side in the page
_LOSSLESS, _LOSSLESS_BYTES = 101, 1_500_000  # WebP; screens with more detail than this lose some


def section(result: Film) -> Section:
    film = video.encode(result)
    offer = video.offer(film, VIDEO, "The same", "the game as a video")
    return Section(
        kind=result.kind,
        title="A game, step by step",
        reading="The first game, as the agent meets it: play it, or drag through it; warm places "
        "are those that the chosen action's value depends on.",
        caveat="One game is an anecdote; and a place can matter to a value without mattering to "
        "the choice, when it moves the values of all actions alike.",
        html=f"<div id='film-player'></div>{offer}",
        finding=_finding(result),
        weight=0.25,
        data=_data(result),
        script="film.js",
        files=video.files(film, VIDEO),
    )


def _data(film: Film) -> dict[str, Any]:
    spread = 0 if film.uncertainty is None else film.uncertainty
    low = min(0.0, float((film.q - spread).min()))
    high = max(0.0, float((film.q + spread).max()))
    peak = film.saliency.max((1, 2))
    attention = film.attention
    return {
        "atlas": _screens(film)._asdict(),
        "actions": list(film.about.action_names),
        "action": film.action.tolist(),
        "reward": film.reward.tolist(),
        "q": _rounded(film.q),
        "q_range": [low, high if high > low else low + 1],
        "largest_gap": max(float(np.abs(film.q - film.q.mean(1, keepdims=True)).max()), 1e-6),
        "uncertainty": None if film.uncertainty is None else _rounded(film.uncertainty),
        "values": None if film.values is None else _rounded(film.values),
        "attention": None if attention is None else _shares(attention, attention.max()),
        "largest_attention": None if attention is None else float(attention.max()),
        "saliency": _shares(film.saliency, peak[:, None, None]),
        "grid": list(film.saliency.shape[1:]),
        "peak": [float(f"{value:.3g}") for value in peak],
        # one outlier would leave all other steps without colour
        "usual_peak": max(float(f"{np.quantile(peak, 0.95):.3g}"), 1e-12),
        "steps_per_second": film.steps_per_second,
    }


def _screens(film: Film) -> Atlas:
    screens = [film.screen(i) for i in range(len(film))]
    shrink = -(-max(screens[0].shape[:2]) // _LARGEST)
    if shrink > 1:
        screens = [_shrunk(screen, shrink) for screen in screens]
    columns = min(len(screens), 16)
    exact = atlas(screens, columns, _LOSSLESS)
    return exact if len(exact.url) <= _LOSSLESS_BYTES else atlas(screens, columns)


def _shrunk(screen: NDArray[np.uint8], times: int) -> Image:
    size = (screen.shape[1] // times, screen.shape[0] // times)
    return np.asarray(cv2.resize(screen, size, interpolation=cv2.INTER_AREA), np.uint8)


def _rounded(values: NDArray[np.float32]) -> list[Any]:
    found: list[Any] = values.astype(np.float64).round(4).tolist()
    return found


def _shares(values: NDArray[np.float32], of: NDArray[np.float32] | float) -> str:
    """As bytes, in base64: 255 is all."""
    shares = (255 * values / np.maximum(of, 1e-12)).round().astype(np.uint8)
    return base64.b64encode(shares.tobytes()).decode()


def _finding(film: Film) -> str:
    first = "the" if film.whole else "the first"
    scored = f"It scores {film.reward.sum():g} in {first} {len(film)} steps of its first game"
    if film.uncertainty is None or film.q.shape[1] < 2:
        return f"{scored}."
    order = np.argsort(-film.q, axis=1)
    best, second = (np.take_along_axis(film.q, order[:, i : i + 1], 1)[:, 0] for i in (0, 1))
    own = np.take_along_axis(film.uncertainty, order[:, :1], 1)[:, 0]
    clear = int((best - second > own).sum())
    so = "" if clear > len(film) / 2 else ", so most choices are not clear-cut"
    return (
        f"{scored}; in {clear or 'none'} of them its best action leads by more than its own "
        f"uncertainty U{so}."
    )
