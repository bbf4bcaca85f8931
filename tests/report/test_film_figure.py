"""The film: a player's data, and the video."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from idqn.explain.film import Film
from idqn.explain.results import About
from idqn.report.figures.film import section
from idqn.report.film import frames, write_film
from idqn.report.page import render

ABOUT = About("run", None, "idqn/MiniPacman-v0", "idqn", 500, 0, ("NOOP", "UP", "<b>"))


def png(colour: tuple[int, int, int], height: int = 33, width: int = 20) -> bytes:
    return cv2.imencode(".png", np.full((height, width, 3), colour[::-1], np.uint8))[1].tobytes()


@pytest.fixture
def film() -> Film:
    """Three steps: red, green, blue."""
    files = [png((255, 0, 0)), png((0, 255, 0)), png((0, 0, 255))]
    saliency = np.zeros((3, 2, 2), np.float32)
    saliency[1] = [[4.0, 0], [0, 2.0]]
    return Film(
        ABOUT,
        screens=np.frombuffer(b"".join(files), np.uint8),
        ends=np.cumsum([len(file) for file in files]),
        action=np.array([0, 1, 2]),
        reward=np.array([0.0, 10, -1]),
        q=np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32),
        uncertainty=np.full((3, 3), 1.5, np.float32),
        attention=np.array([[[1.0, 0], [0.5, 0.5], [0, 1]]] * 3, np.float32),
        values=np.array([-25.0, 25], np.float32),
        saliency=saliency,
        whole=True,
        steps_per_second=8.0,
    )


def without_keys(film: Film) -> Film:
    return dataclasses.replace(film, attention=None, values=None, uncertainty=None)


def unpacked(text: str) -> list[int]:
    return list(base64.b64decode(text))


def test_the_player_gets_each_step(film: Film) -> None:
    data = section(film).data
    sheet = cv2.imdecode(
        np.frombuffer(base64.b64decode(data["atlas"]["url"].split(",")[1]), np.uint8),
        cv2.IMREAD_COLOR_RGB,
    )
    assert sheet is not None
    middles = [sheet[10, 20 * i + 10].tolist() for i in range(3)]
    assert middles == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]  # nothing is lost
    assert unpacked(data["attention"]) == [255, 0, 128, 128, 0, 255] * 3
    assert unpacked(data["saliency"]) == [0] * 4 + [255, 0, 0, 128] + [0] * 4
    assert data["grid"] == [2, 2]
    assert data["peak"] == [0, 4, 0]
    assert data["q_range"] == [-1.5, 4.5]
    assert data["largest_gap"] == 2.0  # 3 above a mean of 1
    json.dumps(data, allow_nan=False)


def test_large_screens_shrink_by_whole_pixels(film: Film) -> None:
    file = png((9, 8, 7), 500, 400)
    large = dataclasses.replace(
        film, screens=np.frombuffer(file * 3, np.uint8), ends=len(file) * np.arange(1, 4)
    )
    atlas = section(large).data["atlas"]
    assert (atlas["width"], atlas["height"]) == (133, 166)


def test_the_finding_counts_clear_choices(film: Film) -> None:
    # they lead by 1, 2 and 3, and U is 1.5
    assert section(film).finding == (
        "It scores 9 in the 3 steps of its first game; in 2 of them its best action leads by more "
        "than its own uncertainty U."
    )
    assert film.uncertainty is not None
    unsure = dataclasses.replace(film, whole=False, uncertainty=film.uncertainty * 10)
    assert section(unsure).finding == (
        "It scores 9 in the first 3 steps of its first game; in none of them its best action leads "
        "by more than its own uncertainty U, so most choices are not clear-cut."
    )
    assert section(without_keys(film)).finding == "It scores 9 in the 3 steps of its first game."


def test_the_video_is_offered_and_lies_beside_the_page(
    film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = section(film)
    video = drawn.files["film.mp4"]
    assert video[4:8] == b"ftyp"
    assert base64.b64encode(video).decode() in drawn.html
    assert "href='film.mp4'" in drawn.html
    monkeypatch.setattr("idqn.report.video._EMBEDDED_BYTES", 10)
    apart = section(film).html
    assert "base64" not in apart
    assert "href='film.mp4'" in apart
    assert "<b>" not in render(ABOUT, [drawn], {})


def _refuse(*_: object, **__: object) -> None:
    raise ImportError("needs imageio-ffmpeg")


def test_without_ffmpeg_the_page_says_what_the_video_needs(
    film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imageio.v2.get_writer", _refuse)
    drawn = section(film)
    assert drawn.files == {}
    assert "needs the package imageio-ffmpeg" in drawn.html
    assert "href='film.mp4'" not in drawn.html


@pytest.mark.parametrize("keys", [True, False])
def test_the_video_has_a_frame_for_each_step(film: Film, keys: bool, tmp_path: Path) -> None:
    shown = film if keys else without_keys(film)
    path = tmp_path / "new" / "film.mp4"
    write_film(shown, path)
    reader = cv2.VideoCapture(str(path))
    assert reader.get(cv2.CAP_PROP_FPS) == 8
    found = []
    while (read := reader.read())[0]:
        found.append(read[1][..., ::-1])
    reader.release()
    drawn = list(frames(shown))
    assert len(found) == len(drawn) == 3
    for one, expected in zip(found, drawn, strict=True):
        assert one.shape == expected.shape
        assert all(side % 2 == 0 for side in one.shape[:2])
        assert np.abs(one.astype(int) - expected).mean() < 4
    assert np.abs(drawn[0].astype(int) - drawn[2]).max() > 50


def test_the_screen_is_warm_where_the_saliency_is(film: Film) -> None:
    _, second, third = frames(film)
    size = (254, 420)  # 20 x 33, enlarged, from (16, 44)
    screen = second[44 : 44 + size[1], 16 : 16 + size[0]].astype(int)
    corner, opposite = screen[20, 20], screen[20, -20]
    assert corner[0] > 240  # red, where it was green
    assert opposite.argmax() == 1
    quiet = third[44 : 44 + size[1], 16 : 16 + size[0]]
    assert np.ptp(quiet.reshape(-1, 3), axis=0).max() <= 1  # nothing on it
