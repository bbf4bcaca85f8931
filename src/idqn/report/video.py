"""Films as videos, in the page or beside it."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from idqn.explain.film import Film
from idqn.report.drawing import number
from idqn.report.film import write_film

_EMBEDDED_BYTES = 1_500_000  # a larger video only lies beside the page


def encode(film: Film, beside: Film | None = None) -> bytes | None:
    """An mp4; None where there is no ffmpeg to make one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        try:
            write_film(film, path, beside)
        except ImportError:
            return None
        return path.read_bytes()


def offer(video: bytes | None, name: str, what: str, label: str) -> str:
    """The video itself if it is small, and a link to it."""
    if video is None:
        return f"<p>{what} as a video needs the package imageio-ffmpeg, which is not installed.</p>"
    link = f"<a href='{name}' download='{name}'>{name}</a> ({number(len(video) / 1e6, 2)} MB)"
    if len(video) > _EMBEDDED_BYTES:
        return f"<p>{what} as a video, beside this page: {link}.</p>"
    url = "data:video/mp4;base64," + base64.b64encode(video).decode()
    return (
        f"<details class='film-video'><summary>{what} as a video</summary>"
        f"<video controls preload='metadata' aria-label='{label}' src='{url}'></video>"
        f"<p>{link}</p></details>"
    )


def files(video: bytes | None, name: str) -> dict[str, bytes]:
    """What lies beside the page."""
    return {} if video is None else {name: video}
