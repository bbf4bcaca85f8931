from __future__ import annotations

from types import SimpleNamespace

import pytest

from idqn import clock
from idqn.clock import Clock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A time that passes when told to."""
    now = SimpleNamespace(s=1000.0)
    told = SimpleNamespace(monotonic=lambda: now.s, perf_counter=lambda: now.s)
    monkeypatch.setattr(clock, "time", told)
    return now


def test_a_row_tells_of_the_time_since_the_one_before(now: SimpleNamespace) -> None:
    clock = Clock()
    now.s += 2
    assert clock.row(frames=100)["time/frames_per_s"] == 50

    with clock.waiting("envs"):
        now.s += 3
    with clock.waiting("device"):
        now.s += 1
    now.s += 4

    assert clock.row(frames=900) == {
        "time/elapsed_s": 10,
        "time/frames_per_s": 100,
        "time/waiting_for_device": 0.125,
        "time/waiting_for_envs": 0.375,
    }
    now.s += 1
    assert clock.row(frames=900)["time/waiting_for_envs"] == 0


def test_resuming_goes_on_from_the_time_before(now: SimpleNamespace) -> None:
    clock = Clock()
    clock.resume(elapsed=500, frames=1000)
    now.s += 10

    assert clock.elapsed == 510
    assert clock.row(frames=1200)["time/frames_per_s"] == 20
