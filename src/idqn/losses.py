"""Losses as pure functions of one run's batch. B samples, A actions, N keys or atoms.

Equation numbers are the i-DQN paper's where it numbers them. What prioritised replay weighs is
returned per sample; the rest are scalars.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def bellman_loss(q: Tensor, target: Tensor, kind: Literal["smooth_l1", "squared"]) -> Tensor:
    """Error of Q(s, a) against Y = r + γ Q(s', a*), for each sample."""
    assert q.shape == target.shape
    if kind == "squared":
        return functional.mse_loss(q, target, reduction="none")
    return functional.smooth_l1_loss(q, target, reduction="none")


def distributional_loss(log_attention: Tensor, target: Tensor, log_epsilon: float = 0.0) -> Tensor:
    """Cross-entropy of the projected target φTw(s')^a* against w(s)^a (eq. 2-3), for each sample;
    both [B, N].

    The paper's eq. 3 leaves out the logarithm. With `log_epsilon` the authors' log(w + ε).
    """
    assert log_attention.ndim == 2
    assert log_attention.shape == target.shape
    if log_epsilon > 0:
        log_attention = (log_attention.exp() + log_epsilon).log()
    return -(target * log_attention).sum(-1)


def reconstruction_loss(reconstruction: Tensor, state: Tensor) -> Tensor:
    """½ ‖ŝ - s‖², summed over pixels, averaged over the batch; both [B, C, H, W]."""
    assert reconstruction.ndim == 4
    assert reconstruction.shape == state.shape
    error = functional.mse_loss(reconstruction, state, reduction="sum")
    return 0.5 * error / len(state)


def diversity_loss(attention: Tensor, per_sample: bool = False) -> Tensor:
    """‖AAᵀ - I‖² with one row of attention per sample; [B, N] or, all actions, [B, A·N]."""
    assert attention.ndim == 2
    gram = attention @ attention.T  # [B, B]
    identity = torch.eye(len(attention), device=attention.device, dtype=attention.dtype)
    loss = (gram - identity).square().sum()
    return loss / len(attention) if per_sample else loss


def divergence_loss(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)), summed over dimensions, averaged over the batch; both [B, E]."""
    assert mean.shape == log_variance.shape
    each = mean.square() + log_variance.exp() - 1 - log_variance
    return 0.5 * each.sum(-1).mean()
