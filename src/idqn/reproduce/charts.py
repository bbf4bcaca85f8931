"""Small charts of curves, one for each game, as one SVG file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from idqn.report.drawing import ticks
from idqn.reproduce.curves import Curve, Floats, Panel

WIDTH, HEIGHT = 560, 330  # of a chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 178, 52, 50  # its edges, with room for texts
_COLOURS = ("#1a5fb4", "#c2410c", "#2b8a3e", "#7b3fb5", "#b58900", "#0b8793")
_INK, _SOFT, _RULE = "#1c1d20", "#5d6068", "#dedcd5"
_FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
_LINE = 14  # between two labels, at least
_LEGEND_LINE = 18


class Axis(NamedTuple):
    """From values to pixels, and back never."""

    low: float
    high: float
    first: float  # pixel of `low`
    last: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def chart_sheet(panels: Sequence[Panel], title: str, frames: int, columns: int = 2) -> str:
    """All games' charts on one sheet, with the same frames across."""
    columns = min(columns, len(panels))
    height = 46 + HEIGHT * -(-len(panels) // columns)
    width = WIDTH * columns
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="{_FONT}" font-size="12" role="img" '
        f'aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 28, title, size=17, weight="bold"),
    ]
    for number, panel in enumerate(panels):
        x, y = WIDTH * (number % columns), 46 + HEIGHT * (number // columns)
        parts.append(f'<g transform="translate({x} {y})">{_chart(panel, frames)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _chart(panel: Panel, frames: int) -> str:
    across = Axis(0, frames, _LEFT, WIDTH - _RIGHT)
    legend = _legend(panel.curves)
    top = _TOP + _LEGEND_LINE * (legend.lines - 1)
    up = Axis(*_span(panel), HEIGHT - _BOTTOM, top)
    parts = [_text(_LEFT, 18, panel.game, size=14, weight="bold"), _axes(across, up)]
    parts += [_marks(panel, across, up)]
    for number, curve in enumerate(panel.curves):
        parts.append(_curve(curve, _COLOURS[number % len(_COLOURS)], across, up))
    parts.append(legend.drawn)
    if not any(curve.seeds for curve in panel.curves):
        middle = (across.first + across.last) / 2
        parts.append(_text(middle, (up.first + up.last) / 2, "no run", "middle"))
    return "".join(parts)


def _span(panel: Panel) -> tuple[float, float]:
    """All that is drawn, with some room above and below."""
    values = [mark.value for mark in panel.marks]
    for curve in panel.curves:
        for _, scores in curve.seeds.values():
            values += [float(scores.min()), float(scores.max())]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = 0.04 * (high - low) or 0.5
    return low - room, high + room


def _axes(across: Axis, up: Axis) -> str:
    parts = []
    for tick in ticks(up.low, up.high):
        y = up(tick)
        parts.append(
            f'<line x1="{across.first}" x2="{across.last}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{_RULE}"/>' + _text(across.first - 7, y + 4, _number(tick), "end")
        )
    unit, name = _unit(across.high)
    for tick in ticks(0, across.high / unit):
        x = across(tick * unit)
        parts.append(_text(x, HEIGHT - _BOTTOM + 17, _number(tick), "middle"))
    middle = (across.first + across.last) / 2
    parts.append(_text(middle, HEIGHT - 14, f"{name}emulator frames", "middle", colour=_SOFT))
    centre = (up.first + up.last) / 2
    parts.append(
        f'<text text-anchor="middle" fill="{_SOFT}" transform="translate(14 {centre:.0f}) '
        f'rotate(-90)">mean return of 100 episodes</text>'
    )
    return "".join(parts)


def _number(tick: float) -> str:
    return f"{round(tick, 9) + 0.0:,.6g}".replace("-", "−")


def _unit(frames: float) -> tuple[int, str]:
    if frames >= 1_000_000:
        return 1_000_000, "million "
    return (1_000, "thousand ") if frames >= 10_000 else (1, "")


def _marks(panel: Panel, across: Axis, up: Axis) -> str:
    """Dashed lines, with their names to the right, apart enough to be read."""
    marks = sorted(panel.marks, key=lambda mark: up(mark.value))  # from above
    colours = {c.name: _COLOURS[i % len(_COLOURS)] for i, c in enumerate(panel.curves)}
    places = _apart([up(mark.value) + 4 for mark in marks], HEIGHT - _BOTTOM + 8)
    parts = []
    for mark, place in zip(marks, places, strict=True):
        y, colour = up(mark.value), colours.get(mark.agent or "", _SOFT)
        parts.append(
            f'<line x1="{across.first}" x2="{across.last}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-dasharray="5 4" stroke-width="1"/>'
            f'<path d="M{across.last} {y:.1f} L{across.last + 10} {place - 4:.1f}" '
            f'stroke="{colour}" stroke-width="0.6" fill="none"/>'
            + _text(across.last + 13, place, mark.name, size=11, colour=colour)
        )
    return "".join(parts)


def _apart(places: list[float], lowest: float) -> list[float]:
    """Moved down where they would touch, then up from the lower edge."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + _LINE) if found else place)
    edge = lowest
    for number in reversed(range(len(found))):
        found[number] = min(found[number], edge)
        edge = found[number] - _LINE
    return found


def _curve(curve: Curve, colour: str, across: Axis, up: Axis) -> str:
    """Each seed thinly; their mean, and the range that they span."""
    parts = []
    alone = curve.together is None
    if curve.together is not None:
        frames, low, high = curve.together.frames, curve.together.low, curve.together.high
        band = f"{_points(frames, high, across, up)} {_points(frames[::-1], low[::-1], across, up)}"
        parts.append(f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>')
    for frames, scores in curve.seeds.values():
        thin = 'stroke-width="2"' if alone else 'stroke-width="0.8" opacity="0.5"'
        parts.append(_line(_points(frames, scores, across, up), colour, thin))
    if curve.together is not None:
        mean = _points(curve.together.frames, curve.together.mean, across, up)
        parts.append(_line(mean, colour, 'stroke-width="2.2"'))
    return "".join(parts)


def _line(points: str, colour: str, style: str) -> str:
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" '
        f'stroke-linejoin="round" {style}/>'
    )


def _points(frames: Floats, scores: Floats, across: Axis, up: Axis) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(frames, scores, strict=True))


class Legend(NamedTuple):
    drawn: str
    lines: int


def _legend(curves: Sequence[Curve]) -> Legend:
    """Names of curves, in as many lines as they need."""
    parts, x, y = [], float(_LEFT), 34
    for number, curve in enumerate(curves):
        colour, count = _COLOURS[number % len(_COLOURS)], len(curve.seeds)
        seeds = f"{count} seed" + ("" if count == 1 else "s") if count else "missing"
        name = f"our {curve.name} ({seeds})"
        width = 44 + 6.6 * len(name)
        if x > _LEFT and x + width > WIDTH:
            x, y = float(_LEFT), y + _LEGEND_LINE
        parts.append(
            f'<line x1="{x:.0f}" x2="{x + 18:.0f}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="3"/>' + _text(x + 24, y + 4, name)
        )
        x += width
    return Legend("".join(parts), 1 + (y - 34) // _LEGEND_LINE)


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    size: int = 12,
    colour: str = _INK,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{colour}" stroke="#ffffff" stroke-width="3" '
        f'paint-order="stroke">{escape(text)}</text>'
    )
