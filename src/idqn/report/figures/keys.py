"""Decoded keys, and where each of them is from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.keys import Keys
from idqn.report.drawing import (
    Atlas,
    Image,
    atlas,
    frame_picture,
    number,
    picture_url,
    signed_picture,
)
from idqn.report.section import Section

_SHEET_PIXELS = 1_350_000
"""Of all the pictures of one view: 180 keys of 84 x 84 just as they are."""
_FRAME_PIXELS = 700_000
_SHEET_WIDTH = 16_000
"""WebP files are no wider or higher."""


def section(result: Keys) -> Section:
    order = np.argsort(-result.values, kind="stable")  # columns: from the highest value down
    sheets = _Sheets(result, order)
    return Section(
        kind=result.kind,
        title="Keys",
        reading="Each picture is a key, drawn by the agent's own decoder: what a state looks like "
        "that makes the agent expect the return above it from the action beside it; choose one to "
        f"see it large, and which of {result.states:,} real states attend to it.",
        caveat="The decoder learned to draw states, and keys are not states: believe a picture as "
        "far as the states that attend to its key look like it, and a hatched one not at all.",
        html=f"<div id='keys-gallery'></div><p class='keys-about'>{sheets.note}</p>",
        finding=_finding(result),
        weight=0.6,
        data={
            "actions": list(result.about.action_names),
            "values": [value_name(value) for value in result.values[order]],
            "states": result.states,
            "layers": [sheets.layer(result, frame) for frame in range(sheets.frames)],
            "views": _views(result, sheets),
            "keys": _provenance(result, order),
            **_sources(result),
            "scale": {
                "gap": _rounded(result.state_gap),
                "spread": _rounded(result.state_spread),
                "state": _rounded(result.state_norm),
                "key": _rounded(result.key_norm),
                "departure": _rounded(result.state_departure),
            },
        },
        script="keys.js",
    )


class _Sheets:
    """Pictures of all keys, made smaller if there are many: of one kind on one sheet, row by
    row."""

    def __init__(self, result: Keys, order: NDArray[np.int64]) -> None:
        actions, self.values, stacked, self.height, self.width = result.images.shape
        self.channels = result.shown_frames.shape[1]
        self.frames = stacked // self.channels
        self.places = [(a, int(n)) for a in range(actions) for n in order]
        self.size = _reduced(len(self.places), self.height, self.width, _SHEET_PIXELS)

    @property
    def note(self) -> str:
        text = f"Pictures are {self.width} × {self.height} pixels"
        reduced = self.size != (self.height, self.width)
        return text + (f", here reduced to {self.size[1]} × {self.size[0]}." if reduced else ".")

    def of(self, pictures: Iterator[Image], quality: int) -> dict[str, Any]:
        drawn = [_resized(picture, self.size) for picture in pictures]
        columns = min(self.values, _SHEET_WIDTH // self.size[1])
        return atlas(drawn, columns, quality)._asdict()

    def layer(self, result: Keys, frame: int) -> dict[str, Any]:
        """A frame of each key as its difference from the mean picture. Keys differ from it by
        less than a picture loses when it is made small for the page; so the page adds them."""
        part = slice(frame * self.channels, (frame + 1) * self.channels)
        largest = max(
            float(np.abs(result.contrast[a, n, part] + result.common[n, part]).max())
            for a, n in self.places
        )
        largest = max(largest, 1.0)

        def differences() -> Iterator[Image]:
            for a, n in self.places:
                change = result.contrast[a, n, part].astype(np.float32) + result.common[n, part]
                yield frame_picture((128 + 127 * change / largest).round().astype(np.uint8))

        mean = frame_picture(result.mean_picture[part].round().astype(np.uint8))
        return {
            "atlas": self.of(differences(), 88),
            "largest": round(largest, 3),
            "mean": picture_url(_resized(mean, self.size)),
        }


def _views(result: Keys, sheets: _Sheets) -> list[dict[str, Any]]:
    """Ways of drawing all keys: frames of layers, of which the brightest is shown, or a sheet."""
    frames = sheets.frames
    views: list[dict[str, Any]] = []
    if frames > 1:
        views.append(
            {
                "name": "all frames at once",
                "about": f"The brightest of each pixel in the {frames} stacked frames, so that "
                "what moves leaves a trace.",
                "frames": list(range(frames)),
            }
        )
    views.append({"name": "newest frame", "about": "As drawn.", "frames": [frames - 1]})
    newest = slice((frames - 1) * sheets.channels, None)
    contrast = result.contrast[:, :, newest].mean(2, dtype=np.float32)  # [A, N, h, w]
    common = result.common[:, newest].mean(1, dtype=np.float32)  # [N, h, w]
    seen = result.seen[:, :, newest].mean(2, dtype=np.float32)  # [A, N, h, w]
    for name, change, what in (
        ("minus the mean", contrast + common, "Newest frame minus the mean picture of the game"),
        (
            "contrast",
            contrast,
            "Newest frame minus the mean of the pictures of its value over all actions",
        ),
        (
            "as attention sees it",
            seen,
            "What sets the key apart from the mean key of its action, which is all that attention "
            "can see of it, at a state's length: newest frame minus the mean picture",
        ),
    ):
        largest = _largest(change, result.unused)
        pictures = (signed_picture(change[a, n], largest) for a, n in sheets.places)
        about = (
            f"{what}: red is brighter, blue darker, grey the same; full colour "
            f"is a difference of {number(largest, 2)} or more of 255 grey levels."
        )
        views.append({"name": name, "about": about, "atlas": sheets.of(pictures, 80)})
    for back in range(1, frames):
        about = f"The frame {back} before the newest of the stacked ones."
        views.append({"name": f"{back} before", "about": about, "frames": [frames - 1 - back]})
    return views


def _largest(change: NDArray[np.float32], unused: NDArray[np.bool_]) -> float:
    """For the colour scale: few pixels of used keys are beyond it."""
    return max(float(np.percentile(np.abs(change[~unused]), 99.5)), 0.5)


def _reduced(count: int, height: int, width: int, pixels: int) -> tuple[int, int]:
    """The size of a picture if so many have so many pixels together."""
    factor = min(1.0, float(np.sqrt(pixels / (count * height * width))))
    return max(1, int(height * factor)), max(1, int(width * factor))


def _resized(image: Image, size: tuple[int, int]) -> Image:
    if image.shape[:2] == size:
        return image
    small: Image = np.asarray(cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    return small


def _provenance(result: Keys, order: NDArray[np.int64]) -> dict[str, Any]:
    """What is known of each key, in the order of the sheets."""

    def flat(each: NDArray[Any], digits: int = 0) -> list[Any]:
        listed = each[:, order].reshape(-1, *each.shape[2:])
        if digits > 0:
            listed = listed.astype(np.float64).round(digits)
        return list(listed.tolist())

    return {
        "attended": flat(result.attended),
        "chosen": flat(result.chosen),
        "attention": flat(result.mean_attention, 4),
        "top": flat(result.top),
        "topAttention": flat(result.top_attention, 4),
        "nearest": flat(result.nearest),
        "distance": flat(result.distance, 3),
        "cosine": flat(result.cosine, 3),
        "departure": flat(result.departure, 2),
    }


def _sources(result: Keys) -> dict[str, Any]:
    """The states that keys in use stand for: one sheet of them, and where they are in it."""
    used = ~result.unused
    states = np.unique(np.append(result.top[used].ravel(), result.nearest[used]))
    states = states[states >= 0]
    place = result.place(states)
    height, width = result.shown_frames.shape[2:]
    size = _reduced(len(place), height, width, _FRAME_PIXELS)
    pictures = [_resized(frame_picture(result.shown_frames[p]), size) for p in place]
    columns = min(20, _SHEET_WIDTH // size[1])
    sheet: Atlas = atlas(pictures, columns, 70)
    return {
        "frames": sheet._asdict(),
        "sources": [
            [int(s), int(result.shown_episode[p]) + 1, int(result.shown_step[p]) + 1]
            for s, p in zip(states, place, strict=True)
        ],
    }


def value_name(value: float) -> str:
    """To one decimal, if it has one; never a negative zero."""
    return f"{round(float(value), 1) + 0.0:.1f}".removesuffix(".0").replace("-", "−")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _finding(result: Keys) -> str:
    used = ~result.unused
    own, states = float(result.departure[used].mean()), result.state_departure
    faint = "Decoded keys are faint: they differ" if own < 0.6 * states else "Decoded keys differ"
    return (
        f"{int(used.sum())} of {used.size} keys are ever the most attended of their action, "
        f"{int((result.chosen > 0).sum())} when it is chosen. {faint} from the mean picture by "
        f"{number(own, 2)} grey levels, decoded states by {number(states, 2)}{_alikeness(result)}."
    )


def _alikeness(result: Keys) -> str:
    """What pictures have to do with values and actions, as far as correlations tell."""
    alike, otherwise = result.alike, result.alike_otherwise
    if alike is None:
        return ""
    told = f"mean correlation {number(alike)}"
    if otherwise is not None:
        told += f", {number(otherwise)} if values differ too"
        if alike - otherwise < 0.1:
            return f", and those of one value are hardly more alike than any others ({told})"
    return f", and those of one value are {_how_alike(alike)} across actions ({told})"


def _how_alike(correlation: float) -> str:
    if correlation > 0.7:
        return "nearly the same"
    return "alike" if correlation > 0.4 else "somewhat alike" if correlation > 0.2 else "different"
