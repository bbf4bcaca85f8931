"""Means over seeds with their intervals, and scores on a scale from random play to a person's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from idqn.reproduce.published import SCALES

# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom
# fmt: off
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on
_Z = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    interval: tuple[float, float] | None
    """95 %, by Student's t, which takes what seeds give as normally distributed; None of a single
    seed."""
    seeds: int


def over_seeds(values: Sequence[float]) -> Estimate | None:
    """None of nothing."""
    if not values:
        return None
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None, 1)
    reach = student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, (mean - reach, mean + reach), len(values))


def student_t(degrees: int) -> float:
    """The 97.5 % quantile; beyond 30 degrees by Cornish and Fisher's expansion."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    return _Z + (_Z**3 + _Z) / (4 * degrees)


def normalised(game: str, score: float) -> float:
    """Percent of the way from random play (0) to a person's score (100)."""
    scale = SCALES[game]
    return 100 * (score - scale.random) / (scale.human - scale.random)


@dataclass(frozen=True)
class Summary:
    """Of normalised scores, over games."""

    median: float
    mean: float


def summary(scores: dict[str, float]) -> Summary:
    values = [normalised(game, score) for game, score in scores.items()]
    return Summary(statistics.median(values), statistics.fmean(values))
