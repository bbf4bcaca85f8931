"""Perturbation as the paper of Greydanus et al. describes it: one mask at a time, each perturbed
state by itself, in float64 but for the network."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.agent import Agent

Image = NDArray[np.float64]


def sizes(height: int, width: int) -> tuple[float, float, int, int]:
    """Sigma of masks and of the blur, and how many masks there are down and across."""
    scale = min(height, width) / 84
    if scale < 1 / 3:
        scale = 1 / 3
    stride = round(3 * scale)
    return 3 * scale, 5 * scale, math.ceil(height / stride), math.ceil(width / stride)


def gaussian(distance: float, sigma: float) -> float:
    return math.exp(-(distance**2) / (2 * sigma**2)) if abs(distance) <= 4 * sigma else 0.0


def mask(i: float, j: float, height: int, width: int, sigma: float) -> Image:
    down = np.array([gaussian(y - i, sigma) for y in range(height)])
    across = np.array([gaussian(x - j, sigma) for x in range(width)])
    return np.outer(down, across)


def blur(plane: Image, sigma: float) -> Image:
    """Taps as far as 4 sigma; the plane is mirrored at its edges."""
    reach = int(4 * sigma + 0.5)
    taps = np.array([math.exp(-(d**2) / (2 * sigma**2)) for d in range(-reach, reach + 1)])
    taps /= taps.sum()
    for axis in (0, 1):
        around = [(reach, reach) if a == axis else (0, 0) for a in (0, 1)]
        padded = np.pad(plane, around, mode="symmetric")
        size = plane.shape[axis]
        shifted = [padded.take(range(k, k + size), axis) for k in range(len(taps))]
        plane = sum((t * s for t, s in zip(taps, shifted, strict=True)), np.zeros_like(plane))
    return plane


def places(height: int, width: int, rows: int, columns: int) -> Iterator[tuple[int, int, Image]]:
    """Each mask of the grid, whose middles are spread evenly over the frame."""
    sigma = sizes(height, width)[0]
    for r in range(rows):
        for k in range(columns):
            i, j = (r + 0.5) * height / rows - 0.5, (k + 0.5) * width / columns - 0.5
            yield r, k, mask(i, j, height, width, sigma)


def perturbed_outputs(
    agent: Agent, observation: NDArray[np.uint8], rows: int, columns: int
) -> tuple[Image, NDArray[np.int64]]:
    """Q [rows, columns, A] and the choice, of one state under every mask."""
    state = observation.astype(np.float64)
    height, width = state.shape[1:]
    smooth = np.stack([blur(plane, sizes(height, width)[1]) for plane in state])
    q = np.zeros((rows, columns, agent.spec.num_actions))
    choice = np.zeros((rows, columns), np.int64)
    for r, k, m in places(height, width, rows, columns):
        mixed = state * (1 - m) + smooth * m
        out = agent.network(torch.from_numpy(mixed).float()[None], False)
        q[r, k] = out.q[0].numpy()
        choice[r, k] = int(q[r, k].argmax())
        if agent.name == "bootstrap":
            votes = np.bincount(out.head_q[0].argmax(0).numpy(), minlength=q.shape[2])
            best = np.flatnonzero(votes == votes.max())
            choice[r, k] = best[q[r, k, best].argmax()]
    return q, choice
