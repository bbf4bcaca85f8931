"""The film of a game as a video: the screen, what the agent looks at, and what it thinks of each
action."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from idqn.explain.film import Film
from idqn.report.drawing import overlay

_SCREEN = 420  # pixels, its height
_PANEL = 500  # pixels, the width of the right side
_MARGIN, _TOP, _BOTTOM = 16, 44, 96
_PAGE, _CARD, _INK, _SOFT = (19, 21, 25), (40, 44, 53), (232, 230, 225), (163, 167, 176)
_CELL, _CHOSEN = (106, 168, 247), (255, 148, 96)


def write_film(film: Film, path: Path, beside: Film | None = None) -> None:
    """An mp4 at the speed of the game; of two games side by side, the shorter waits at its end."""
    import imageio.v2 as imageio

    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"macro_block_size": 1, "output_params": ["-movflags", "+faststart"]}
    drawn = frames(film) if beside is None else _side_by_side(film, beside)
    writer: Any
    # named, because without imageio-ffmpeg others claim that they can write it
    with imageio.get_writer(path, "FFMPEG", fps=film.steps_per_second, **options) as writer:
        for frame in drawn:
            writer.append_data(frame)


def _side_by_side(film: Film, other: Film) -> Iterator[NDArray[np.uint8]]:
    one = two = None
    for first, second in zip_longest(frames(film), frames(other)):
        one, two = one if first is None else first, two if second is None else second
        assert one is not None
        assert two is not None
        yield np.concatenate([one, two], 1)


def frames(film: Film) -> Iterator[NDArray[np.uint8]]:
    """One picture [h, w, 3] for each step, with sides of even length as video codecs want them."""
    stage = _Stage(film)
    for step in range(len(film)):
        yield stage.frame(step)


class _Stage:
    """Where everything stands in a frame."""

    def __init__(self, film: Film) -> None:
        self.film = film
        height, width = film.screen(0).shape[:2]
        self.screen_size: tuple[int, int] = (max(1, round(width * _SCREEN / height)), _SCREEN)
        self.left = 2 * _MARGIN + self.screen_size[0]  # of the right side
        self.size = ((self.left + _PANEL + _MARGIN) // 2 * 2, _TOP + _SCREEN + _MARGIN)
        names = film.about.action_names
        self.row = min(40.0, (_SCREEN - _BOTTOM - 24) / len(names))
        self.font = ImageFont.load_default(15)
        self.small = ImageFont.load_default(min(14, self.row - 2))
        self.labels = max(self.small.getlength(name) for name in names) + 10
        begin = self.left + self.labels
        keys = 0.0 if film.attention is None else (_PANEL - self.labels) * 0.5
        self.cells = (begin, begin + keys)  # from left to right
        self.bars = (begin + keys + (14 if keys else 0), self.left + _PANEL - 58)
        spread = 0 if film.uncertainty is None else film.uncertainty
        self.low = min(0.0, float((film.q - spread).min()))
        self.high = max(0.0, float((film.q + spread).max()), self.low + 1e-6)

    def frame(self, step: int) -> NDArray[np.uint8]:
        film = self.film
        image = self.backdrop.copy()
        draw = ImageDraw.Draw(image)
        drawn = _fitted(
            overlay(film.screen(step), film.saliency[step], colour=0.35), self.screen_size
        )
        image.paste(Image.fromarray(drawn), (_MARGIN, _TOP))
        if film.attention is not None:
            image.paste(self._attention(film.attention[step]), (int(self.cells[0]), _TOP + 24))
        for action in range(film.q.shape[1]):
            self._bar(draw, step, action)
        self._words(draw, step)
        return np.asarray(image)

    @cached_property
    def backdrop(self) -> Image.Image:
        """What stays the same in all frames."""
        film = self.film
        image = Image.new("RGB", self.size, _PAGE)
        draw = ImageDraw.Draw(image)
        draw.text((_MARGIN, 14), f"{film.about.env}, {film.about.agent}", _INK, self.font)
        names = film.about.action_names
        for action, name in enumerate(names):
            draw.text((self.left, self._middle(action)), name, _INK, self.small, "lm")
        spread = "" if film.uncertainty is None else " ± U"
        across = f"Q{spread}, {self.low:.3g} to {self.high:.3g}"
        draw.text((self.bars[0], _TOP), across, _SOFT, self.small)
        if film.attention is not None and film.values is not None:
            across = f"attention, keys {film.values[0]:.3g} to {film.values[-1]:.3g}"
            draw.text((self.cells[0], _TOP), across, _SOFT, self.small)
        zero = self._across(0.0)
        ends = (_TOP + 24, _TOP + 24 + self.row * len(names))
        draw.line([(zero, ends[0]), (zero, ends[1])], _SOFT)
        return image

    def _attention(self, weights: NDArray[np.float32]) -> Image.Image:
        """[A, N], on the scale of the whole film."""
        assert self.film.attention is not None
        share = weights / max(float(self.film.attention.max()), 1e-12)
        colours = np.array(_CARD) + share[..., None] * (np.array(_CELL) - _CARD)
        size = (int(self.cells[1]) - int(self.cells[0]), int(self.row * len(weights)))
        whole = colours.round().astype(np.uint8)
        return Image.fromarray(whole).resize(size, Image.Resampling.NEAREST)

    def _bar(self, draw: ImageDraw.ImageDraw, step: int, action: int) -> None:
        film, middle = self.film, self._middle(action)
        q = float(film.q[step, action])
        colour = _CHOSEN if action == film.action[step] else _CELL
        ends = sorted((self._across(0.0), self._across(q)))
        half = self.row * 0.32
        draw.rectangle([ends[0], middle - half, ends[1], middle + half], colour)
        if film.uncertainty is not None:
            spread = float(film.uncertainty[step, action])
            whisker = [self._across(q - spread), middle, self._across(q + spread), middle]
            draw.line(whisker, _INK, 2)
        draw.text((self.left + _PANEL, middle), f"{q:.2f}", _INK, self.small, "rm")

    def _words(self, draw: ImageDraw.ImageDraw, step: int) -> None:
        film = self.film
        total = f"step {step + 1} of {len(film)}"
        draw.text((self.left + _PANEL, 14), total, _INK, self.font, "ra")
        chosen = film.about.action_names[film.action[step]]
        lines = [
            (f"chosen: {chosen}", _CHOSEN),
            (f"reward {film.reward[step]:g} · so far {film.reward[: step + 1].sum():g}", _INK),
            (f"warm places: what its Q depends on, full at {film.saliency[step].max():.2g}", _SOFT),
        ]
        if film.attention is not None:
            lines.append((f"attention: full colour at {film.attention.max():.2g}", _SOFT))
        for i, (line, colour) in enumerate(lines):
            y = _TOP + _SCREEN - _BOTTOM + 14 + 22 * i
            draw.text((self.left, y), line, colour, self.font)

    def _middle(self, action: int) -> float:
        return _TOP + 24 + self.row * (action + 0.5)

    def _across(self, q: float) -> float:
        share = (q - self.low) / (self.high - self.low)
        return self.bars[0] + share * (self.bars[1] - self.bars[0])


def _fitted(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Enlarged by whole pixels where it goes, and smoothly else."""
    whole = size[1] % image.shape[0] == 0
    smooth = cv2.INTER_AREA if size[1] < image.shape[0] else cv2.INTER_LINEAR
    found = cv2.resize(image, size, interpolation=cv2.INTER_NEAREST if whole else smooth)
    return np.asarray(found, np.uint8)
