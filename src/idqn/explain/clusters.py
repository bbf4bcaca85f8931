"""How well the embeddings of states keep the actions apart, in numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from idqn.explain.tsne import squared_distances


def silhouettes(points: Tensor, label: Tensor) -> Tensor:
    """Of each point [n], from -1 to 1 (Rousseeuw 1987): how much nearer its own label's points
    [n, E] are than those of the nearest other label; 0 where a label has one point, and if there
    is but one label."""
    one = torch.nn.functional.one_hot(label).float()  # [n, labels]
    count = one.sum(0)
    total = squared_distances(points).sqrt() @ one
    own = total.gather(1, label[:, None])[:, 0] / (count[label] - 1).clamp_min(1)
    mean = (total / count).masked_fill(one.bool() | (count == 0), torch.inf)
    other = mean.min(1).values
    score = (other - own) / torch.maximum(other, own).clamp_min(1e-30)
    return torch.where((count[label] > 1) & other.isfinite(), score, 0.0)


def most_frequent(label: Tensor) -> float:
    """How often one is right who always says the label most points have."""
    return float(label.bincount().max()) / len(label)


def nearest(points: Tensor, keys: Tensor) -> Tensor:
    """The place in keys [K, E] of the one nearest to each point [n, E]: [n]."""
    return torch.cdist(points, keys).argmin(1)


def strongest(points: Tensor, keys: Tensor) -> Tensor:
    """The place in keys [K, E] of the one whose product with each point [n, E] is largest: [n]."""
    return (points @ keys.T).argmax(1)


def beside(some: Tensor, others: Tensor) -> float:
    """The share of points [n, E] to which one of the others [m, E] is nearer than the rest of
    their own."""
    own = squared_distances(some).fill_diagonal_(torch.inf).sqrt().min(1).values
    return float((torch.cdist(some, others).min(1).values < own).float().mean())


def share(found: Tensor, label: Tensor) -> float:
    """How often it is the label."""
    return float((found == label).float().mean())


def centroids(points: Tensor, label: Tensor) -> tuple[float, float]:
    """How often the label whose mean point is nearest is right, in one half of the points when
    the means are of the other; and the same of the other half's most frequent label. Halves in
    order, so that a game's neighbouring moments are not on both sides."""
    one = torch.nn.functional.one_hot(label).to(points.dtype)  # [n, labels]
    middle = (len(points) + 1) // 2
    halves = (slice(None, middle), slice(middle, None))
    right = frequent = 0
    for known, asked in (halves, halves[::-1]):
        count = one[known].sum(0)
        means = (one[known].T @ points[known]) / count.clamp_min(1)[:, None]
        distance = torch.cdist(points[asked], means).masked_fill(count == 0, torch.inf)
        right += int((distance.argmin(1) == label[asked]).sum())
        frequent += int((label[asked] == count.argmax()).sum())
    return right / len(points), frequent / len(points)
