"""The gallery: what its sheets show, and what is said about it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.explain.keys import Keys
from idqn.explain.results import About
from idqn.report.figures.keys import section, value_name
from idqn.report.page import render


def smooth(rng: np.random.Generator, shape: tuple[int, ...], size: tuple[int, int]) -> Any:
    """Random pictures without fine detail."""
    rough = rng.normal(0, 1, (int(np.prod(shape)), 6, 6)).astype(np.float32)
    return np.stack([cv2.resize(each, size[::-1]) for each in rough]).reshape(*shape, *size)


def example(
    actions: int = 3,
    values: int = 4,
    frames: int = 2,
    channels: int = 1,
    size: tuple[int, int] = (20, 30),
    **changes: Any,
) -> Keys:
    rng = np.random.default_rng(0)
    stack, pair = frames * channels, (actions, values)
    mean = 100 + 30 * smooth(rng, (stack,), size)
    departing = 8 * smooth(rng, (actions, values, stack), size)
    common = departing.mean(0)
    attended = np.ones(pair, np.int64)
    attended[0, 0] = 0
    top = rng.integers(0, 5, (*pair, 3))
    top[1, 1] = [2, 4, -1]
    found = Keys(
        About("run", None, "ALE/Pong-v5", "idqn", 100, 0, tuple(f"A{a}" for a in range(actions))),
        values=np.linspace(-25, 25, values, dtype=np.float32),
        images=(mean + departing).round().clip(0, 255).astype(np.uint8),
        contrast=(departing - common).astype(np.float16),
        common=common.astype(np.float16),
        seen=(3 * departing[::-1]).astype(np.float16),
        mean_picture=mean.astype(np.float32),
        states=50,
        attended=attended,
        chosen=attended // 2,
        mean_attention=np.full(pair, 0.25, np.float32),
        top=top,
        top_attention=np.full((*pair, 3), 0.5, np.float32),
        nearest=np.full(pair, 3),
        distance=np.full(pair, 2.5, np.float32),
        cosine=np.full(pair, 0.5, np.float32),
        state_gap=0.5,
        state_spread=3.0,
        state_norm=6.0,
        key_norm=1.5,
        departure=np.full(pair, 2.0, np.float32),
        state_departure=8.0,
        alike=0.8,
        alike_otherwise=0.1,
        shown=np.arange(5),
        shown_frames=rng.integers(0, 255, (5, channels, *size), dtype=np.uint8),
        shown_episode=np.array([0, 0, 1, 1, 1]),
        shown_step=np.array([0, 10, 0, 7, 30]),
    )
    return replace(found, **changes)


def opened(url: str) -> NDArray[np.uint8]:
    file = np.frombuffer(base64.b64decode(url.split(",")[1]), np.uint8)
    drawn = cv2.imdecode(file, cv2.IMREAD_COLOR_RGB)
    assert drawn is not None
    return np.asarray(drawn, np.uint8)


def tile(atlas: dict[str, Any], place: int) -> NDArray[np.float64]:
    y, x = divmod(place, atlas["columns"])
    h, w = atlas["height"], atlas["width"]
    return opened(atlas["url"])[y * h : (y + 1) * h, x * w : (x + 1) * w].astype(float)


def test_columns_go_from_high_values_to_low() -> None:
    result = example()
    data = section(result).data
    assert data["values"] == ["25", "8.3", "−8.3", "−25"]
    assert data["keys"]["attended"] == [1, 1, 1, 0, *[1] * 8]  # the lowest of the first action
    assert data["keys"]["top"][6] == [2, 4, -1]  # of [1, 1]: a row of four, then the third highest


def test_layers_put_together_are_the_decoded_keys() -> None:
    result = example()
    data = section(result).data
    for frame, layer in enumerate(data["layers"]):
        mean = opened(layer["mean"]).astype(float)
        np.testing.assert_allclose(mean[..., 0], result.mean_picture[frame], atol=0.51)
        for place, (a, n) in {0: (0, 3), 6: (1, 1), 11: (2, 0)}.items():
            drawn = mean + (tile(layer["atlas"], place) - 128) / 127 * layer["largest"]
            error = np.abs(drawn[..., 0] - result.images[a, n, frame]).mean()
            others = np.abs(result.images[a, n, frame].astype(float) - result.images[0, 0, frame])
            assert error < 1
            assert others.mean() > 3


def test_views_name_what_they_show() -> None:
    views = {view["name"]: view for view in section(example()).data["views"]}
    assert list(views) == [
        "all frames at once",
        "newest frame",
        "minus the mean",
        "contrast",
        "as attention sees it",
        "1 before",
    ]
    assert views["all frames at once"]["frames"] == [0, 1]
    assert views["newest frame"]["frames"] == [1]
    assert views["1 before"]["frames"] == [0]
    alone = [view["name"] for view in section(example(frames=1)).data["views"]]
    assert alone == ["newest frame", "minus the mean", "contrast", "as attention sees it"]


def test_contrast_is_red_where_brighter_and_blue_where_darker() -> None:
    result = example()
    change = np.zeros_like(result.contrast)
    change[1, 1, 1, :10], change[1, 1, 1, 10:] = 5, -10
    view = section(replace(result, contrast=change)).data["views"][3]
    assert "full colour is a difference of 10 or more of 255 grey levels" in view["about"]
    drawn = tile(view["atlas"], 6)
    red, green, blue = drawn[3:7].mean((0, 1))
    assert red > green + 30
    assert red > blue + 30
    red, green, blue = drawn[13:17].mean((0, 1))
    assert blue > red + 150
    assert abs(np.ptp(tile(view["atlas"], 0).mean((0, 1)))) < 6  # grey: no change


def test_states_of_used_keys_are_drawn_and_found() -> None:
    result = example(top=np.zeros((3, 4, 3), np.int64), nearest=np.full((3, 4), 3))
    result.top[0, 0] = 4  # of the unused key
    data = section(result).data
    assert data["sources"] == [[0, 1, 1], [3, 2, 8]]
    shown = tile(data["frames"], 1).mean()
    np.testing.assert_allclose(shown, result.shown_frames[3].mean(), atol=3)


def test_many_large_colour_pictures_are_made_smaller() -> None:
    result = example(18, 20, frames=1, channels=3, size=(84, 60))
    shown = section(result)
    atlas = shown.data["layers"][0]["atlas"]
    assert atlas["width"] * atlas["height"] * 360 <= 1_350_000
    assert atlas["columns"] == 20
    assert f"60 × 84 pixels, here reduced to {atlas['width']} × {atlas['height']}." in shown.html
    assert len(json.dumps(shown.data)) < 1_500_000


def test_an_atari_gallery_is_not_reduced_and_not_heavy() -> None:
    shown = section(example(9, 20, frames=4, size=(84, 84)))
    assert "84 × 84 pixels.</p>" in shown.html
    assert len(json.dumps(shown.data)) < 1_500_000


def test_findings_follow_the_numbers() -> None:
    result = example()
    assert section(result).finding == (
        "11 of 12 keys are ever the most attended of their action, 0 when it is chosen. Decoded "
        "keys are faint: they differ from the mean picture by 2.0 grey levels, decoded states by "
        "8.0, and those of one value are nearly the same across actions (mean correlation 0.80, "
        "0.10 if values differ too)."
    )
    strong = replace(result, departure=result.departure * 4, alike=0.15)
    assert "Decoded keys differ from the mean picture by 8.0 grey" in section(strong).finding
    assert "hardly more alike than any others (mean correlation 0.15" in section(strong).finding
    differing = replace(result, alike=0.15, alike_otherwise=-0.3)
    assert "are different across actions (mean correlation 0.15" in section(differing).finding
    unknown = replace(result, alike=None, alike_otherwise=None)
    assert section(unknown).finding.endswith("decoded states by 8.0.")


def test_values_are_written_short() -> None:
    names = [value_name(v) for v in (25, -25, 1.3157, -0.01, 14.47, 0)]
    assert names == ["25", "−25", "1.3", "0", "14.5", "0"]


def test_the_page_holds_the_gallery() -> None:
    html = render(example().about, [section(example(state_gap=None))], {})
    assert 'id="data-keys"' in html
    assert "idqn.data(kind)" in html
