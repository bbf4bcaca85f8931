"""Which action to take."""

from __future__ import annotations

import torch
from torch import Tensor


def best_action(score: Tensor, legal: Tensor | None = None) -> Tensor:
    """argmax over legal actions; score [B, A], legal [A]; returns [B]."""
    if legal is not None:
        score = score.masked_fill(~legal, float("-inf"))
    return score.argmax(-1)


def majority_vote(head_q: Tensor) -> Tensor:
    """The action that most of K heads prefer, of equals the one they value most; [B, A, K]."""
    num_actions = head_q.shape[1]
    choice = head_q.argmax(1)  # [B, K]
    every = torch.arange(num_actions, device=head_q.device)
    votes = (choice[:, None] == every[:, None]).sum(-1).double()  # [B, A]
    value = head_q.mean(-1).double()
    rank = value.argsort(-1).argsort(-1) / num_actions  # below one vote
    return (votes + rank).argmax(-1)


def epsilon(start: Tensor, end: Tensor, over_steps: Tensor, steps: Tensor) -> Tensor:
    """The probability of a random action after so many agent steps."""
    return start + (end - start) * (steps / over_steps).clamp(max=1)


def epsilon_greedy(action: Tensor, dice: Tensor, probability: Tensor, legal: Tensor) -> Tensor:
    """`action` [B], but now and then a random legal one; dice [B, 2] are uniform numbers. Legal
    actions come before the others."""
    count = legal.sum()
    anything = (dice[:, 1] * count).long().clamp(max=count - 1)
    return torch.where(dice[:, 0] < probability, anything, action)
