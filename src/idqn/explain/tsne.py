"""t-SNE (van der Maaten & Hinton 2008), exact: points that are close in many dimensions, drawn
close in two."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from idqn.errors import UserError

EXAGGERATION = 12.0
EXAGGERATED, ITERATIONS = 100, 750
"""Of so many iterations, the first few pull neighbours together harder than they should be. Going
on to 2,000 lowered the divergence of real maps by 1 to 4 %."""
_BLOCK = 1 << 20  # pairs handled at once: few enough for the cache, enough to share among threads
_PATIENT = 50  # iterations between two reports


class Map(NamedTuple):
    position: Tensor  # [n, 2]
    perplexity: float
    """The one used: n points allow at most (n - 1) / 3."""
    divergence: float
    """Kullback-Leibler, of the map's neighbours from the points': what is made small."""


def tsne(
    points: Tensor,
    perplexity: float = 40.0,
    seed: int = 0,
    iterations: int = ITERATIONS,
    progress: Callable[[int, int], None] | None = None,
) -> Map:
    """A map of points [n, E], begun from their two principal components. Deterministic."""
    n = len(points)
    if n < 4:
        raise UserError(f"a map of neighbours needs at least 4 points, got {n}")
    check_perplexity(perplexity)
    perplexity = min(perplexity, (n - 1) / 3)
    p = joint(conditional(squared_distances(points), perplexity))
    y = pca(points)[0]
    # equal points begin apart, or they would be pulled as one for ever
    noise = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed)).to(y)
    y = 1e-4 * (y / y[:, 0].std().clamp_min(1e-12) + 0.01 * noise)
    divergence = Divergence(p)
    velocity, gains = torch.zeros_like(y), torch.ones_like(y)
    for iteration in range(iterations):
        early = iteration < EXAGGERATED
        exaggeration, momentum = (EXAGGERATION, 0.5) if early else (1.0, 0.8)
        slope = divergence.gradient(y, exaggeration)
        onward = slope * velocity < 0  # goes on downhill: faster; turned round: slower
        gains = torch.where(onward, gains + 0.2, gains * 0.8).clamp_min_(0.01)
        rate = max(n / exaggeration / 4, 50.0)
        velocity.mul_(momentum).sub_(gains * slope, alpha=rate)
        y += velocity
        if progress is not None and (iteration + 1) % _PATIENT == 0:
            progress(iteration + 1, iterations)
    y -= y.mean(0)
    return Map(y, perplexity, divergence.value(y))


def check_perplexity(perplexity: float) -> None:
    if not perplexity > 1:
        raise UserError(f"perplexity is a number of neighbours above 1, got {perplexity:g}")


def squared_distances(points: Tensor) -> Tensor:
    """[n, n]; in double precision, or those of nearly equal points would be noise."""
    x = (points - points.mean(0)).double()
    square = x.square().sum(1)
    return torch.addmm(square[:, None] + square, x, x.T, alpha=-2).clamp_min_(0).float()


def conditional(distance: Tensor, perplexity: float) -> Tensor:
    """How likely each point [n, n] would pick each other as its neighbour: a Gaussian around each
    row's point, as wide as gives the row this perplexity."""
    n = len(distance)
    distance = distance.clone().fill_diagonal_(math.inf)
    distance -= distance.min(1, keepdim=True).values
    distance.fill_diagonal_(0)
    distance /= (distance.sum(1, keepdim=True) / (n - 1)).clamp_min(1e-30)
    low = torch.full((n, 1), -20.0, device=distance.device)  # of the logarithm of the precision
    high = -low
    p = torch.empty_like(distance)
    for _ in range(30):  # until the interval is as small as single precision can say
        middle = (low + high) / 2
        precision = middle.exp()
        torch.mul(distance, -precision, out=p).exp_().fill_diagonal_(0)
        total = p.sum(1, keepdim=True)
        mean = torch.linalg.vecdot(p, distance)[:, None] / total
        entropy = total.log() + precision * mean
        wide = entropy > math.log(perplexity)
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    return p / total


def joint(conditional: Tensor) -> Tensor:
    """Of pairs: symmetrical, and sums to 1."""
    return (conditional + conditional.T) / (2 * len(conditional))


def pca(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first two principal components [n, 2], and each one's share of the variance [2]."""
    x = (points - points.mean(0)).double().cpu()  # where this is quick
    _, size, directions = torch.linalg.svd(x, full_matrices=False)
    count = min(2, len(size))
    first, share = x.new_zeros(2, x.shape[1]), x.new_zeros(2)
    first[:count] = directions[:count]
    share[:count] = (size.square() / size.square().sum().clamp_min(1e-30))[:count]
    largest = first.gather(1, first.abs().argmax(1, keepdim=True))
    first *= torch.where(largest < 0, -1.0, 1.0)  # a component's sign is a matter of taste
    return (x @ first.T).to(points), share.to(points)


class Divergence:
    """Of the neighbours in a map, under a Student's t, from p [n, n].

    Works through rows in blocks that stay in the cache; their memory is taken once."""

    def __init__(self, p: Tensor) -> None:
        self.p = p
        n = len(p)
        rows = n if p.is_cuda else min(n, max(1, _BLOCK // n))
        self.blocks = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
        self.near, self.pull = p.new_empty(rows, n), p.new_empty(rows, n)

    def gradient(self, y: Tensor, exaggeration: float = 1.0) -> Tensor:
        """[n, 2]: 4 Σ (p - q) (y_i - y_j) / (1 + |y_i - y_j|²)"""
        left, right, ends = _factors(y)
        pulls, pushes, total = torch.empty_like(ends), torch.empty_like(ends), y.new_zeros(())
        for rows in self.blocks:
            count = rows.stop - rows.start
            near, pull = self.near[:count], self.pull[:count]
            torch.mm(left[rows], right, out=near).reciprocal_()
            near.diagonal(rows.start).zero_()
            total += near.sum()
            torch.mul(self.p[rows], near, out=pull)
            pulls[:, rows] = ends @ pull.T  # this way round, BLAS is six times as fast
            pushes[:, rows] = ends @ near.square_().T
        weighted = exaggeration * pulls - pushes / total
        return 4 * (weighted[2:] * y.T - weighted[:2]).T

    def value(self, y: Tensor) -> float:
        left, right, _ = _factors(y)
        near = (left @ right).reciprocal_().fill_diagonal_(0)
        q = (near / near.sum()).clamp_min_(1e-37)
        return float(torch.special.xlogy(self.p, self.p / q).sum(dtype=torch.float64))


def _factors(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """left [n, 4] @ right [4, n] is 1 + |y_i - y_j|²; ends [3, n] are the points, and 1."""
    square, one = y.square().sum(1, keepdim=True), torch.ones_like(y[:, :1])
    left = torch.cat([-2 * y, 1 + square, one], 1)
    right = torch.cat([y, one, square], 1).T.contiguous()
    return left, right, torch.cat([y, one], 1).T.contiguous()
