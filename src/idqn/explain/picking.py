"""Which of many edits to play: the best candidates, and controls of their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NEAREST = 10
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
    """For each candidate, a random edit of the pool that is about as large: of the ten nearest in
    size, of moments not yet taken as long as there are such."""
    left = pool.copy()
    left[candidates] = False
    found: list[int] = []
    for candidate in candidates:
        fresh = left & ~np.isin(moment, moment[found])
        places = np.flatnonzero(fresh if fresh.any() else left)
        if not len(places):
            break
        away = np.abs(pixels[places] - pixels[candidate])
        # in random order first: nearest by size alone would favour early moments
        order = rng.permutation(len(places))
        nearest = places[order[np.argsort(away[order], kind="stable")[:_NEAREST]]]
        found.append(int(rng.choice(nearest)))
        left[found[-1]] = False
    return np.array(found, np.int64)
