"""Walks from keys to states, drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from idqn.explain.interpolation import Interpolation
from idqn.explain.results import About
from idqn.report.figures.interpolation import section


def example(frame_channels: int = 1, height: int = 12) -> Interpolation:
    rng = np.random.default_rng(0)
    shape = (2 * frame_channels, height, 10)
    q = np.zeros((2, 3, 3), np.float32)
    q[0] = [[4, 1, 2], [5, 2, 3], [6, 5, 3]]  # key of action 0: ahead by 2, 2, 1
    q[1] = [[1, 4, 2], [3, 4, 4.5], [2, 3, 5]]  # of action 2: behind by 2, ahead by .5, by 2
    return Interpolation(
        About("run", None, "ALE/Pong-v5", "idqn", 100, 0, ("NOOP", "UP & AWAY", "DOWN")),
        mix=np.array([0, 0.5, 1]),
        action=np.array([0, 2]),
        key=np.array([1, 0]),
        value=np.array([25, -2.5], np.float32),
        state=np.array([7, 1200]),
        episode=np.array([0, 2]),
        step=np.array([7, 1100]),
        images=rng.integers(0, 255, (2, 3, *shape), dtype=np.uint8),
        observations=rng.integers(0, 255, (2, *shape), dtype=np.uint8),
        error=np.array([[8, 6, 4], [10, 8, 5]], np.float32),
        attention=np.array([[0.1, 0.2, 0.4], [0.2, 0.2, 0.3]], np.float32),
        q=q,
        frame_channels=frame_channels,
    )


@pytest.mark.parametrize(("channels", "height"), [(1, 12), (3, 240)], ids=["grey", "colour"])
def test_each_walk_is_a_row_with_the_real_frame_at_its_end(channels: int, height: int) -> None:
    html = section(example(channels, height)).html
    assert html.count("class='wide interpolation'") == 2
    assert html.count("<img") == 2 * (3 + 1)
    assert "<h3>NOOP, value 25</h3>" in html
    assert "<h3>DOWN, value −2.5</h3>" in html
    assert "λ = 0.5<br>attention 20\u00a0%<br>Q 5.00</figcaption>" in html
    assert "real frame<br>game 3,<br>step 1,101" in html
    assert html.count('height="105"') == (8 if height == 240 else 0)
    assert html.count("<svg") == 2


def test_findings_follow_the_numbers() -> None:
    result = example()
    assert section(result).finding == (
        "At the key itself its action is the best in 1 of 2 walks, ahead by 0.0 on average, at the "
        "state by 1.5; attention to the key rises from 15 to 35 %, and the decoded picture is 9.0 "
        "grey levels off the real one at the key, 4.5 at the state."
    )
    backward = replace(
        result,
        attention=result.attention[:, ::-1],
        error=result.error[:, ::-1],
        q=result.q[:, ::-1],
    )
    finding = section(backward).finding
    assert "best in 2 of 2 walks, ahead by 1.5 on average, at the state by 0.0" in finding
    assert "attention to the key falls from 35 to 15 %" in finding
    assert "comes no nearer to the real one (4.5 grey levels off, then 9.0)" in finding
    level = replace(result, attention=np.full((2, 3), 0.2, np.float32))
    assert "hardly changes from 20 to 20 %" in section(level).finding
