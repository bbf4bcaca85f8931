"""Keys taken out of a memory or exchanged, for many variants of one agent at once.

The agent itself is never changed: its scores are put in another order, or left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

REMOVE_KEY, SWAP_KEYS = "remove a key", "swap two keys"
REMOVE_VALUE, REMOVE_ACTION = "remove a value", "remove an action"
SWAP_ACTIONS, CONTROL = "swap two actions", "remove a key of least attention"
OPERATIONS = (REMOVE_KEY, SWAP_KEYS, REMOVE_VALUE, REMOVE_ACTION, SWAP_ACTIONS, CONTROL)


@dataclass(frozen=True, eq=False)
class Operation:
    """What is done to a memory of A actions with N keys each."""

    what: str
    order: Tensor  # [A, N] int64, the place (a * N + n) of the key that stands here now
    removed: Tensor  # [A, N] bool
    action: int | None = None
    value: int | None = None
    """Place among the values."""
    partner: int | None = None
    """The other action of an exchange."""

    @staticmethod
    def none(actions: int, keys: int) -> Operation:
        order = torch.arange(actions * keys).reshape(actions, keys)
        return Operation("", order, torch.zeros(actions, keys, dtype=torch.bool))

    def without_key(self, action: int, value: int, what: str = REMOVE_KEY) -> Operation:
        removed = self.removed.clone()
        removed[action, value] = True
        return replace(self, what=what, removed=removed, action=action, value=value)

    def without_value(self, value: int) -> Operation:
        """For no action."""
        removed = self.removed.clone()
        removed[:, value] = True
        return replace(self, what=REMOVE_VALUE, removed=removed, value=value)

    def without_action(self, action: int) -> Operation:
        """Whose keys are all gone: it is never taken."""
        removed = self.removed.clone()
        removed[action] = True
        return replace(self, what=REMOVE_ACTION, removed=removed, action=action)

    def with_keys_swapped(self, action: int, partner: int, value: int) -> Operation:
        """Done twice, nothing has happened."""
        order = self.order.clone()
        order[[action, partner], value] = order[[partner, action], value]
        return replace(
            self, what=SWAP_KEYS, order=order, action=action, partner=partner, value=value
        )

    def with_actions_swapped(self, action: int, partner: int) -> Operation:
        order = self.order.clone()
        order[[action, partner]] = order[[partner, action]]
        return replace(self, what=SWAP_ACTIONS, order=order, action=action, partner=partner)


def scores(embedding: Tensor, keys: Tensor) -> Tensor:
    """What attention is the softmax of: [B, A, N] of embeddings [B, E] and keys [A, N, E]."""
    return torch.einsum("be,ane->ban", embedding, keys)


def operated_q(score: Tensor, order: Tensor, removed: Tensor, values: Tensor) -> Tensor:
    """Q [B, A] of scores [B, A, N], where order and removed are one [A, N] or one for each [B, A,
    N]: attention to what was removed is shared out among the other keys of its action. An action
    without keys has Q = -inf."""
    placed = score.flatten(1).gather(1, order.expand_as(score).flatten(1)).view_as(score)
    placed = placed.masked_fill(removed, float("-inf"))
    gone = removed.all(-1).expand(score.shape[:2])  # [B, A]
    attention = placed.masked_fill(gone[..., None], 0.0).log_softmax(-1).exp()
    return (attention @ values).masked_fill(gone, float("-inf"))
