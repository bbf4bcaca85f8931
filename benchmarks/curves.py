"""What the rows of metrics of trained runs say of scores and speed."""

from __future__ import annotations

import statistics
from typing import Any

from idqn.export import thinned
from idqn.reproduce.scores import Row

_POINTS = 60


def speed(runs: list[list[Row]]) -> dict[str, Any]:
    """Of a population, whose runs share one clock."""
    first = runs[0]
    learning = [row for row in first if "loss/total" in row]
    learning = learning[1:] or learning or first  # before the first, much is compiled
    rates = [row["time/frames_per_s"] for row in learning]
    waiting = [row["time/waiting_for_envs"] for row in learning]
    return {
        "frames_per_s": round(len(runs) * statistics.median(rates), 1),
        "share_waiting_for_envs": round(statistics.fmean(waiting), 3),
        "seconds": first[-1]["time/elapsed_s"],
        "updates": first[-1]["updates"],
    }


def scores(run: list[Row]) -> dict[str, Any]:
    last = run[-1]
    return {
        "frames": last["frames"],
        "episodes": last["episodes"],
        "final_100": last["return_last_100"],
        "best_100": last["return_best_100"],
    }


def curve(run: list[Row]) -> dict[str, list[Any]]:
    """The running mean over 100 episodes, at evenly spaced rows up to the last."""
    scored = [row for row in run if row["return_last_100"] is not None]
    points = thinned(scored, _POINTS)
    return {
        "frames": [row["frames"] for row in points],
        "return_last_100": [round(row["return_last_100"], 2) for row in points],
    }
