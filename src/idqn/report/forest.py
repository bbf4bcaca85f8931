"""Effects with their intervals around zero, one below another."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from idqn.report.drawing import number, room_for


class Effect(NamedTuple):
    name: str
    value: float
    low: float
    high: float


def forest(
    effects: Sequence[Effect], across: str, label: str, ends: tuple[float, float] | None = None
) -> str:
    """Dots for values, lines for intervals; in colour where 0 is outside. The scale is that of what
    is drawn, or has these ends, which are written below."""
    low, high = scale(effects) if ends is None else ends
    span = high - low or 1.0
    left, room, row = 12 + room_for([e.name for e in effects]), 190, 22
    right = 14 + room_for([_told(e) for e in effects])
    width = left + max(room + right, room_for([across]))
    height = row * len(effects) + 40

    def x(value: float) -> float:
        return left + (value - low) / span * room

    bottom = row * len(effects)
    parts = [
        f'<svg class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}">'
        f'<line class="grid" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{bottom}"/>'
    ]
    for i, effect in enumerate(effects):
        y = i * row + row / 2
        sure = effect.low > 0 or effect.high < 0
        colour = "var(--series-2)" if sure else "var(--series-8)"
        parts.append(
            _text(left - 6, y + 4, effect.name, "end")
            + f'<line x1="{x(effect.low):.1f}" x2="{x(effect.high):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x(effect.value):.1f}" cy="{y}" r="4" fill="{colour}"/>'
            + _text(left + room + 10, y + 4, _told(effect), "start")
        )
    places = [v for v in (low, 0.0, high) if v == 0 or abs(v) > 0.15 * span]
    parts += [_text(x(v), bottom + 14, number(v), "middle") for v in places]
    parts.append(_text(left, bottom + 34, across, "start"))
    return "".join([*parts, "</svg>"])


def scale(effects: Sequence[Effect]) -> tuple[float, float]:
    """From the lowest to the highest end, 0 included."""
    return min(0.0, *(e.low for e in effects)), max(0.0, *(e.high for e in effects))


def _told(effect: Effect) -> str:
    sign = "+" if effect.value > 0 else ""
    return f"{sign}{number(effect.value)} ({number(effect.low)} to {number(effect.high)})"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
