"""Which of many edits to play: the best candidates, and controls of their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ALIKE = 0.25  # sizes that differ by no more than this share, or by a pixel, are about the same
Numbers = NDArray[np.int64]


def ranked(
    eligible: NDArray[np.bool_],
    pixels: Numbers,
    score: NDArray[np.float64],
    moment: Numbers,
    count: int,
) -> Numbers:
    """Places of the best edits, the smallest first and of equally small ones that with the lowest
    score; one of each moment, so that they are no copies of each other."""
    order = np.lexsort((score, pixels))
    order = order[eligible[order]]
    _, first = np.unique(moment[order], return_index=True)
    chosen: Numbers = order[np.sort(first)][:count]
    return chosen


def matched(
    candidates: Numbers,
    pool: NDArray[np.bool_],
    pixels: Numbers,
    moment: Numbers,
    rng: np.random.Generator,
) -> Numbers:
    """For each candidate, a random edit of the pool that is about as large: of moments not yet
    taken, if one of these has such; if the pool has none, the nearest in size."""
    left = pool.copy()
    left[candidates] = False
    found: list[int] = []
    for candidate in candidates:
        if not left.any():
            break
        away = np.abs(pixels - pixels[candidate])
        alike = left & (away <= max(1, _ALIKE * pixels[candidate]))
        fresh = alike & ~np.isin(moment, moment[found])
        nearest = left & (away == away[left].min())
        places = next(each for each in (fresh, alike, nearest) if each.any())
        found.append(int(rng.choice(np.flatnonzero(places))))
        left[found[-1]] = False
    return np.array(found, np.int64)
