"""Pieces of pages."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from idqn.report.drawing import (
    Bar,
    Line,
    atlas,
    bars,
    enlarged,
    frame_picture,
    heatmap,
    interval,
    lines,
    number,
    overlay,
    picture,
    picture_url,
    signed_picture,
    table,
    ticks,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.00"),
        (12.345, "12.3"),
        (-0.5, "−0.50"),
        (1234.5, "1,234"),
        (0.00001, "1.00e-05"),
        (2.5e7, "2.50e+07"),
        (9.997, "10.0"),  # the digits of what is written, not of what was given
        (-0.0, "0.00"),
        (-0.004, "0.00"),  # nothing is not less than nothing
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_numbers_are_written_as_people_do(value: float | None, expected: str) -> None:
    assert number(value) == expected


def test_intervals() -> None:
    assert interval(-1.0, 12.0) == "−1.00 to 12.0"


def decoded(url: str) -> np.ndarray:
    file = base64.b64decode(url.split(",")[1])
    found = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_UNCHANGED)
    assert found is not None
    return found


def test_pictures_keep_their_pixels() -> None:
    rng = np.random.default_rng(0)
    grey, colour = rng.integers(0, 256, (4, 6), np.uint8), rng.integers(0, 256, (4, 6, 3), np.uint8)
    np.testing.assert_array_equal(decoded(picture_url(grey)), grey)
    np.testing.assert_array_equal(decoded(picture_url(colour))[..., ::-1], colour)
    assert picture_url(grey, quality=80).startswith("data:image/webp")
    assert 'alt="a &lt; b"' in picture(grey, "a < b")


def test_an_atlas_has_each_picture_at_its_place() -> None:
    pictures = [np.full((20, 30), 40 * i, np.uint8) for i in range(5)]
    made = atlas(pictures, columns=3)
    sheet = decoded(made.url)
    assert sheet.shape[:2] == (40, 90)
    assert (made.rows, made.width, made.height) == (2, 30, 20)
    assert abs(int(sheet[30, 45].max()) - 160) < 8  # the fifth: second row, second column


def test_frames_and_signed_changes_become_pictures() -> None:
    assert frame_picture(np.zeros((1, 4, 5), np.uint8)).shape == (4, 5)
    assert frame_picture(np.zeros((3, 4, 5), np.uint8)).shape == (4, 5, 3)
    drawn = signed_picture(np.array([[-2.0, 0.0, 1.0]]), 1.0)
    assert drawn[0].tolist() == [[40, 110, 240], [128, 128, 128], [240, 70, 40]]


def test_an_overlay_is_warm_where_the_map_is_and_dark_elsewhere() -> None:
    drawn = overlay(np.full((4, 4), 100, np.uint8), np.eye(4))
    assert drawn[0, 0].tolist() == [255, 80, 40]
    assert drawn[0, 3].tolist() == [75, 75, 75]
    assert overlay(np.zeros((4, 4), np.uint8), np.zeros((2, 2))).max() == 0  # nothing to show
    red = np.full((4, 4, 3), (90, 0, 0), np.uint8)
    assert overlay(red, np.zeros((2, 2)))[0, 0].tolist() == [22, 22, 22]
    assert overlay(red, np.zeros((2, 2)), colour=1.0)[0, 0].tolist() == [68, 0, 0]


def test_pictures_grow_by_whole_pixels() -> None:
    assert enlarged(np.zeros((33, 20), np.uint8), 100).shape == (132, 80)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_a_heatmap_is_full_where_it_is_largest() -> None:
    chart = parsed(heatmap(np.array([[0.0, 1.0], [2.0, 4.0]]), ["<a>", "b"], ["1", "2"], "label"))
    cells = [rect.get("fill-opacity") for rect in chart.iter("rect")]
    assert cells == ["0.000", "0.250", "0.500", "1.000"]
    words = [text.text for text in chart.iter("text")]
    assert "<a>" in words
    assert "full colour: 4.00" in words


def test_lines_reach_from_edge_to_edge_and_are_named() -> None:
    x = np.array([0.0, 10.0])
    curve = Line("one", x, np.array([0.0, 1.0]), low=x * 0, high=x * 0 + 1)
    chart = parsed(lines([curve, Line("two", x, x / 10, dashed=True)], "steps", "share", "label"))
    first = next(chart.iter("polyline")).get("points", "").split()
    assert [float(point.split(",")[0]) for point in first] == [58.0, 440.0]
    words = [text.text for text in chart.iter("text")]
    assert {"one", "two", "steps", "share", "0.00", "10.0", "1.00"} <= set(words)
    flat = lines([Line("flat", x, x * 0 + 3)], "x", "y", "label")  # no range to divide by
    assert not re.search("nan|inf", flat)


def test_bars_are_as_long_as_their_values() -> None:
    chart = parsed(bars([Bar("a", 2.0, 1.0, 3.0, "(n = 5)"), Bar("b", 1.0)], "across", "label"))
    lengths = [float(rect.get("width", 0)) for rect in chart.iter("rect")]
    assert lengths == [160.0, 80.0]  # the whisker's end is the largest
    assert "2.00  (n = 5)" in [text.text for text in chart.iter("text")]


def test_bars_end_where_their_texts_do() -> None:
    name, across = "a long name", "what it is, " * 12
    chart = parsed(bars([Bar(name, 0.5), Bar("b", 0.2, 0.1, 1.0, "%")], across, "label"))
    width, height = float(chart.get("width", 0)), float(chart.get("height", 0))
    texts = [(float(t.get("x", 0)), float(t.get("y", 0)), t.text or "") for t in chart.iter("text")]
    begin = float(next(chart.iter("rect")).get("x", 0))
    under = [text for x, _, text in texts if x == begin]
    assert " ".join(under) == across.strip()
    assert len(under) > 1  # else a phone would show half of it
    for x, y, text in texts:
        assert y < height
        if x >= begin:
            assert x + 7 * len(text) <= width
    short = parsed(bars([Bar("a", 1.0)], "x", "label", largest=4.0))
    assert float(short.get("width", 0)) < begin + 240  # no room for bars that are not there


def test_ticks_are_round_and_zero_is_zero() -> None:
    assert [number(tick) for tick in ticks(-0.35, 1.9)] == ["0.00", "0.50", "1.00", "1.50"]
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_captions_are_not_part_of_what_scrolls() -> None:
    html = table(["a", "b"], [["c", "1"]], "what it is")
    assert html.index("what it is") < html.index("<div class='wide'>")
    assert '<table aria-label="what it is">' in html


def test_tables_are_escaped() -> None:
    html = table(["a", "b"], [["<x>", "1"]], "words & more")
    assert "&lt;x&gt;" in html
    assert "words &amp; more" in html
