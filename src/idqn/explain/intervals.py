"""Numbers with a 95 % interval: arrays of the value and the interval's two ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idqn.explain.rates import Rate

Number = NDArray[np.float64]  # [3]: value, low, high

RESAMPLES = 10_000
UNKNOWN: Number = np.full(3, np.nan)


def mean_of(
    samples: NDArray[np.floating] | NDArray[np.bool_], cluster: NDArray[np.int64] | None = None
) -> Number:
    """Percentile bootstrap (Efron 1979), from a fixed seed; unknown without samples. Samples of one
    cluster belong together: whole clusters are drawn, if there are two or more."""
    if len(samples) == 0:
        return UNKNOWN
    rng = np.random.default_rng(0)
    if cluster is None or len(np.unique(cluster)) < 2:
        means = _resampled(samples, rng)
    else:
        _, place, size = np.unique(cluster, return_inverse=True, return_counts=True)
        total = np.bincount(place, np.asarray(samples, np.float64))
        drawn = rng.integers(len(size), size=(RESAMPLES, len(size)))
        means = total[drawn].sum(1) / size[drawn].sum(1)
    return np.array([float(np.mean(samples)), *np.quantile(means, [0.025, 0.975])])


def difference_of_means(one: NDArray[np.floating], other: NDArray[np.floating]) -> Number:
    """One less the other, which are independent."""
    if len(one) == 0 or len(other) == 0:
        return UNKNOWN
    rng = np.random.default_rng(0)
    differences = _resampled(one, rng) - _resampled(other, rng)
    value = float(np.mean(one) - np.mean(other))
    return np.array([value, *np.quantile(differences, [0.025, 0.975])])


def share_of(hits: int, count: int) -> Number:
    """Wilson's interval; unknown of nothing."""
    rate = Rate(hits, count)
    return np.array([rate.share, *rate.interval]) if count else UNKNOWN


def difference_of_shares(one: Number, other: Number) -> Number:
    """One less the other, by Newcombe's method (1998), from their Wilson intervals."""
    (p, p_low, p_high), (q, q_low, q_high) = one, other
    below = np.hypot(p - p_low, q_high - q)
    above = np.hypot(p_high - p, q - q_low)
    return np.array([p - q, p - q - below, p - q + above])


def _resampled(
    samples: NDArray[np.floating] | NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = rng.integers(len(samples), size=(RESAMPLES, len(samples)))
    means: NDArray[np.float64] = np.asarray(samples, np.float64)[drawn].mean(1)
    return means
