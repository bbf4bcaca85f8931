"""Pieces of a page: pictures as data, and charts as SVG in the page's own colours.

Charts take their colours from the page's style (`templates/style.css`), so that they follow light
and dark; texts in them are escaped here.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # [h, w] grey or [h, w, 3] RGB


def picture_url(image: Image, quality: int | None = None) -> str:
    """A picture as a data URL: PNG or, with a quality from 1 to 100, WebP, which loses detail."""
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if image.ndim == 3 else image
    if quality is None:
        return png_url(cv2.imencode(".png", bgr)[1].tobytes())
    file = cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, quality])[1].tobytes()
    return "data:image/webp;base64," + base64.b64encode(file).decode()


def png_url(file: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(file).decode()


def picture(image: Image, label: str, quality: int | None = None) -> str:
    """An <img>; `label` is what a person who cannot see it reads."""
    height, width = image.shape[:2]
    url = picture_url(image, quality)
    return (
        f'<img class="pixels" src="{url}" width="{width}" height="{height}" alt="{escape(label)}">'
    )


def caption(content: str, text: str) -> str:
    """A figure with a line below; `text` is escaped, `content` is HTML."""
    return f"<figure>{content}<figcaption>{escape(text)}</figcaption></figure>"


class Atlas(NamedTuple):
    """Many pictures of one size in one file."""

    url: str
    columns: int
    rows: int
    width: int  # of one picture
    height: int


def atlas(images: Sequence[Image] | NDArray[np.uint8], columns: int, quality: int = 80) -> Atlas:
    """Row by row; the page shows one of them as a background at a place."""
    count = len(images)
    height, width = images[0].shape[:2]
    rows = -(-count // columns)
    sheet = np.zeros((rows * height, columns * width, *images[0].shape[2:]), np.uint8)
    for i, image in enumerate(images):
        y, x = i // columns * height, i % columns * width
        sheet[y : y + height, x : x + width] = image
    return Atlas(picture_url(sheet, quality), columns, rows, width, height)


def frame_picture(frame: NDArray[np.uint8]) -> Image:
    """One frame [c, h, w] as a picture."""
    channels_last: Image = np.ascontiguousarray(frame.transpose(1, 2, 0))
    return channels_last[:, :, 0] if channels_last.shape[2] == 1 else channels_last


def signed_picture(change: NDArray[np.floating], largest: float) -> Image:
    """A change [h, w] from -largest (blue) over nothing (grey) to +largest (red)."""
    share = np.clip(change / max(largest, 1e-12), -1, 1)[..., None]
    grey, red, blue = np.array([128.0] * 3), np.array([240.0, 70, 40]), np.array([40.0, 110, 240])
    colour = grey + np.where(share > 0, share * (red - grey), -share * (blue - grey))
    found: Image = colour.round().astype(np.uint8)
    return found


def overlay(
    image: Image,
    weight: NDArray[np.floating],
    largest: float | None = None,
    colour: float = 0.0,
) -> Image:
    """A map [h', w'] of what is never negative, in warm colours on a darkened picture, which keeps
    a share of its own `colour`."""
    height, width = image.shape[:2]
    base = image.astype(np.float64)
    base = base if base.ndim == 3 else base[..., None]
    grey = base.mean(2, keepdims=True)
    top = float(weight.max()) if largest is None else largest
    share = cv2.resize(np.clip(weight / max(top, 1e-12), 0, 1).astype(np.float64), (width, height))[
        ..., None
    ]
    warm = np.concatenate(
        [np.full_like(share, 255), 230 - 150 * share, np.full_like(share, 40)], axis=2
    )
    dark = 0.75 * (grey + colour * (base - grey))
    found: Image = (dark * (1 - share) + warm * share).round().astype(np.uint8)
    return found


def enlarged(image: Image, at_least: int) -> Image:
    """By whole pixels, until it is so high."""
    factor = max(1, -(-at_least // image.shape[0]))
    return image.repeat(factor, 0).repeat(factor, 1)


def number(value: float | None, digits: int = 3) -> str:
    """As a person writes it: so many digits that mean something, thousands set apart."""
    if value is None or not np.isfinite(value):
        return "–"
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 10 ** -(digits + 1)):
        return f"{value:.{digits - 1}e}"
    # as rounded: 9.97 to two digits is 10, not 10.0; and nothing is never less than nothing
    whole = len(str(int(float(f"{abs(value):.{digits - 1}e}"))))
    places = max(0, digits - whole)
    return f"{round(float(value), places) + 0.0:,.{places}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 3) -> str:
    return f"{number(low, digits)} to {number(high, digits)}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption_text: str = "") -> str:
    """Texts are escaped; numbers stand to the right, so the first column is for names. The caption
    stands above what scrolls sideways, so that it is never cut off."""
    head = "".join(f"<th scope='col'>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>"
        + f"<th scope='row'>{escape(row[0])}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    above = f"<p class='caption'>{escape(caption_text)}</p>" if caption_text else ""
    name = f' aria-label="{escape(caption_text)}"' if caption_text else ""
    return (
        f"<div>{above}<div class='wide'><table{name}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></div>"
    )


def heatmap(
    weights: NDArray[np.floating],
    row_names: Sequence[str],
    column_names: Sequence[str],
    label: str,
    largest: float | None = None,
    across: str = "",
) -> str:
    """[rows, columns], nothing below 0; white (or black) is 0 and full colour is `largest`, which
    is written under it. `across` names the columns."""
    top = max(float(np.max(weights)) if largest is None else largest, 1e-12)
    rows, columns = weights.shape
    left, cell_w, cell_h = 12 + room_for(row_names), 22, 20
    scale = f"{across + '; ' if across else ''}full colour: {number(top)}"
    width = left + max(columns * cell_w + 8, room_for([scale]))
    height = rows * cell_h + 48
    parts = [_svg(width, height, label)]
    for r in range(rows):
        parts.append(_text(left - 6, r * cell_h + 14, row_names[r], "end"))
        for c in range(columns):
            weight = float(weights[r, c])
            parts.append(
                f'<rect class="cell" x="{left + c * cell_w}" y="{r * cell_h}" '
                f'width="{cell_w - 1}" height="{cell_h - 1}" '
                f'fill-opacity="{min(1.0, weight / top):.3f}"><title>'
                f"{escape(row_names[r])}, {escape(column_names[c])}: {number(weight)}"
                f"</title></rect>"
            )
    step = max(1, -(-columns // 10))
    for c in range(0, columns, step):
        parts.append(
            _text(left + (c + 0.5) * cell_w, rows * cell_h + 14, column_names[c], "middle")
        )
    parts.append(_text(left, rows * cell_h + 36, scale))
    return "".join([*parts, "</svg>"])


class Line(NamedTuple):
    name: str
    x: NDArray[np.floating]
    y: NDArray[np.floating]
    low: NDArray[np.floating] | None = None  # of a band around it
    high: NDArray[np.floating] | None = None
    dashed: bool = False


def lines(
    curves: Sequence[Line],
    across: str,
    up: str,
    label: str,
    width: int = 460,
    height: int = 260,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Curves with named axes and a legend; series take the page's colours `--series-1` and on."""
    ends = [v for c in curves for v in (c.y, c.low, c.high) if v is not None]
    x0, x1 = x_range or _range([c.x for c in curves])
    y0, y1 = y_range or _range(ends)
    left, bottom, top, right = 58, 44, 10 + 18 * -(-len(curves) // 2), 20

    def px(x: float) -> float:
        return left + (x - x0) / (x1 - x0) * (width - left - right)

    def py(y: float) -> float:
        return height - bottom - (y - y0) / (y1 - y0) * (height - bottom - top)

    parts = [_svg(width, height, label)]
    for tick in ticks(y0, y1):
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{py(tick):.1f}" '
            f'y2="{py(tick):.1f}"/>' + _text(left - 6, py(tick) + 4, number(tick), "end")
        )
    for tick in ticks(x0, x1):
        parts.append(_text(px(tick), height - bottom + 16, number(tick), "middle"))
    parts.append(_text((left + width - right) / 2, height - 8, across, "middle"))
    turned = f"translate(13 {(height - bottom + top) / 2:.0f}) rotate(-90)"
    parts.append(
        f'<text class="label" text-anchor="middle" transform="{turned}">{escape(up)}</text>'
    )
    for i, curve in enumerate(curves):
        colour = f"var(--series-{i % 8 + 1})"
        points = [f"{px(x):.1f},{py(y):.1f}" for x, y in zip(curve.x, curve.y, strict=True)]
        if curve.low is not None and curve.high is not None:
            above = [f"{px(x):.1f},{py(y):.1f}" for x, y in zip(curve.x, curve.high, strict=True)]
            under = [f"{px(x):.1f},{py(y):.1f}" for x, y in zip(curve.x, curve.low, strict=True)]
            band = " ".join([*above, *reversed(under)])
            parts.append(f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>')
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="2"{dash}/>'
        )
        x, y = left + (i % 2) * (width - left) / 2, 12 + 18 * (i // 2)
        parts.append(
            f'<line x1="{x:.0f}" x2="{x + 18:.0f}" y1="{y - 4}" y2="{y - 4}" '
            f'stroke="{colour}" stroke-width="3"{dash}/>' + _text(x + 24, y, curve.name)
        )
    return "".join([*parts, "</svg>"])


class Bar(NamedTuple):
    name: str
    value: float
    low: float | None = None  # of an interval
    high: float | None = None
    note: str = ""


def bars(items: Sequence[Bar], across: str, label: str, largest: float | None = None) -> str:
    """Horizontal bars from 0, with intervals and values written beside them."""
    tops = [max(abs(b.value), abs(b.high or 0.0), abs(b.low or 0.0)) for b in items]
    top = max(max(tops) if largest is None else largest, 1e-12)
    left, row, room = 16 + room_for([b.name for b in items]), 24, 240
    drawn, width = [], left + 190
    for i, bar in enumerate(items):
        y, length = i * row, abs(bar.value) / top * room
        drawn.append(_text(left - 6, y + 16, bar.name, "end"))
        drawn.append(
            f'<rect class="bar" x="{left}" y="{y + 4}" width="{length:.1f}" height="{row - 9}"/>'
        )
        end = length
        if bar.low is not None and bar.high is not None:
            low, high = (min(max(v, 0.0) / top, 1.0) * room for v in (bar.low, bar.high))
            drawn.append(
                f'<line class="whisker" x1="{left + low:.1f}" x2="{left + high:.1f}" '
                f'y1="{y + 11.5}" y2="{y + 11.5}"/>'
            )
            end = max(end, high)
        told = f"{number(bar.value)}  {bar.note}".strip()
        drawn.append(_text(left + end + 6, y + 16, told))
        width = max(width, round(left + end + 16 + room_for([told])))
    under = textwrap.wrap(across, max(20, (width - left) // 7))
    height = row * len(items) + 8 + 18 * len(under)
    for i, line in enumerate(under):
        drawn.append(_text(left, row * len(items) + 20 + 18 * i, line))
    return "".join([_svg(width, height, label), *drawn, "</svg>"])


def room_for(texts: Sequence[str]) -> int:
    """How wide the widest label is at most, in pixels."""
    return max(sum(9 if letter.isupper() else 7 for letter in text) for text in texts)


def _svg(width: float, height: float, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(label)}">'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _range(values: Sequence[NDArray[np.floating]]) -> tuple[float, float]:
    low = min(float(np.min(v)) for v in values)
    high = max(float(np.max(v)) for v in values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers between them."""
    rough = (high - low) / 5
    size = 10 ** np.floor(np.log10(rough))
    step = size * next(m for m in (1, 2, 5, 10) if m * size >= rough)
    first, last = np.ceil(low / step - 1e-6), np.floor(high / step + 1e-6)
    return [float(i * step) for i in np.arange(first, last + 1)]
