"""The key-value memory: for each action N keys to attend to, each standing for a fixed return."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn


class Recall(NamedTuple):
    log_attention: Tensor  # [B, A, N]
    attention: Tensor  # [B, A, N]
    q: Tensor  # [B, A]
    uncertainty: Tensor  # [B, A]


def make_values(
    count: int,
    low: float,
    high: float,
    spacing: Literal["linspace", "uniform"],
    generator: Generator,
) -> Tensor:
    """The returns v_1 < ... < v_N that keys stand for."""
    if spacing == "linspace":
        return torch.linspace(low, high, count)
    while True:
        drawn = low + (high - low) * torch.rand(count, generator=generator)
        values = drawn.sort().values
        if bool((values[1:] > values[:-1]).all()):  # two equal atoms would have no space between
            return values


class KeyValueMemory(nn.Module):
    """w = softmax over keys of h·key (eq. 1); Q = Σ w·v; U = standard deviation of v under w."""

    action_parameters: ClassVar[frozenset[str]] = frozenset({"keys"})
    values: Tensor

    def __init__(
        self,
        num_actions: int,
        values: Tensor,
        embedding_size: int,
        key_init_std: float,
        generator: Generator,
    ) -> None:
        super().__init__()
        keys = torch.empty(num_actions, len(values), embedding_size)
        self.keys = nn.Parameter(nn.init.normal_(keys, std=key_init_std, generator=generator))
        self.register_buffer("values", values)

    def forward(self, embedding: Tensor) -> Recall:
        score = torch.einsum("be,ane->ban", embedding, self.keys)  # [B, A, N]
        log_attention = score.log_softmax(-1)
        attention = log_attention.exp()
        q = attention @ self.values  # [B, A]
        # Σ w (v - Q)², not Σ w v² - Q²: rounding cannot make it negative
        variance = (attention * (self.values - q[..., None]).square()).sum(-1)
        return Recall(log_attention, attention, q, variance.sqrt())
