"""Categorical projection onto any sorted support."""

from __future__ import annotations

import torch
from torch import Tensor


def project(probability: Tensor, position: Tensor, support: Tensor) -> Tensor:
    """Move mass lying at `position` onto the atoms of `support`: φ in the paper's eq. 3.

    Each particle is shared between the two atoms around it, in proportion to its closeness, so
    that mass is kept and, inside the range, the mean is too. Particles outside the range go to
    the nearest end. The atoms need not be evenly spaced. Written with hat functions instead of
    scatter-adds: the same result on every device, in the same order.

    probability, position: [..., M]; support: [N], ascending; returns [..., N].
    """
    assert support.ndim == 1
    assert probability.shape == position.shape
    gap = support[1:] - support[:-1]  # [N-1]
    x = position.clamp(support[0], support[-1])[..., None]  # [..., M, 1]
    fraction = ((x - support[:-1]) / gap).clamp(0, 1)  # [..., M, N-1] way from atom i to i+1
    one = torch.ones_like(x)
    rising = torch.cat([one, fraction], dim=-1)  # [..., M, N] reached atom i from below
    falling = torch.cat([fraction, torch.zeros_like(x)], dim=-1)  # left atom i upwards
    share = rising - falling  # rows sum to 1
    return (probability[..., None] * share).sum(-2)
