"""Which action to take."""

from __future__ import annotations

from torch import Tensor


def directed_action(
    q: Tensor, uncertainty: Tensor, exploration_factor: Tensor | float, legal: Tensor | None = None
) -> Tensor:
    """argmax over legal actions of Q + λ·U; q and uncertainty [B, A], legal [A]; returns [B]."""
    score = q + exploration_factor * uncertainty
    if legal is not None:
        score = score.masked_fill(~legal, float("-inf"))
    return score.argmax(-1)
