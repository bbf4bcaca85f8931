"""How alike two series of numbers are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean = np.cumsum(counts) - (counts - 1) / 2
    found: NDArray[np.float64] = mean[group]
    return found


def correlation(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Pearson's; 0 if one of them is the same everywhere."""
    a, b = unit(one.astype(np.float64)[None]), unit(other.astype(np.float64)[None])
    return float((a @ b.T).item())


def unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minus their mean and of length 1, along the last axis: products are correlations."""
    centred = values - values.mean(-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    # what rounding leaves of a constant has no direction
    flat = length <= 1e-12 * np.linalg.norm(values, axis=-1, keepdims=True)
    found: NDArray[np.float64] = np.where(flat, 0, centred / np.where(flat, 1, length))
    return found
