"""What agents other than i-DQN make of an embedding. B samples, A actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from idqn.networks.encoder import init_linear


class Values(NamedTuple):
    q: Tensor  # [B, A]


class LinearHead(nn.Module):
    """Q = W·relu(h) + b: the last layer of DQN (Mnih et al. 2015)."""

    action_parameters: ClassVar[frozenset[str]] = frozenset({"weight", "bias"})

    def __init__(
        self, num_actions: int, embedding_size: int, init_std: float | None, generator: Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_actions, embedding_size))
        self.bias = nn.Parameter(torch.empty(num_actions))
        init_linear(self.weight, self.bias, embedding_size, init_std, generator)

    def forward(self, embedding: Tensor) -> Values:
        return Values(torch.relu(embedding) @ self.weight.T + self.bias)


class Returns(NamedTuple):
    log_distribution: Tensor  # [B, A, N]
    distribution: Tensor  # [B, A, N]
    q: Tensor  # [B, A]
    uncertainty: Tensor  # [B, A]


class CategoricalHead(nn.Module):
    """A distribution of returns over N fixed values per action (Bellemare et al. 2017)."""

    action_parameters: ClassVar[frozenset[str]] = frozenset({"weight", "bias"})
    values: Tensor

    def __init__(
        self,
        num_actions: int,
        values: Tensor,
        embedding_size: int,
        init_std: float | None,
        generator: Generator,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_actions, len(values), embedding_size))
        self.bias = nn.Parameter(torch.empty(num_actions, len(values)))
        init_linear(self.weight, self.bias, embedding_size, init_std, generator)
        self.register_buffer("values", values)

    def forward(self, embedding: Tensor) -> Returns:
        score = torch.einsum("be,ane->ban", torch.relu(embedding), self.weight) + self.bias
        log_distribution = score.log_softmax(-1)
        distribution = log_distribution.exp()
        q = distribution @ self.values  # [B, A]
        variance = (distribution * (self.values - q[..., None]).square()).sum(-1)
        return Returns(log_distribution, distribution, q, variance.sqrt())


class NoisyValues(NamedTuple):
    embedding: Tensor  # [B, hidden]
    q: Tensor  # [B, A]


class NoisyLinear(nn.Module):
    """A linear layer with noise on every weight, factorised: a weight's noise is the product of
    one number per input and one per output."""

    def __init__(self, inputs: int, outputs: int, sigma: float, generator: Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        init_linear(self.weight, self.bias, inputs, None, generator)
        spread = sigma * inputs**-0.5
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, spread))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, spread))

    def forward(self, x: Tensor, noise_in: Tensor | None, noise_out: Tensor | None) -> Tensor:
        y = x @ self.weight.T + self.bias
        if noise_in is None or noise_out is None:
            return y
        return y + noise_out * ((x * noise_in) @ self.weight_sigma.T + self.bias_sigma)


class NoisyHead(nn.Module):
    """DQN's two last layers, noisy (Fortunato et al. 2017).

    `noise` are standard normal numbers, `noise_size` of them, for all samples [n] or one set for
    each [B, n]; without them the layers are their means.
    """

    action_parameters: ClassVar[frozenset[str]] = frozenset(
        {"out.weight", "out.weight_sigma", "out.bias", "out.bias_sigma"}
    )

    def __init__(
        self, num_actions: int, features: int, hidden: int, sigma: float, generator: Generator
    ) -> None:
        super().__init__()
        self.hidden = NoisyLinear(features, hidden, sigma, generator)
        self.out = NoisyLinear(hidden, num_actions, sigma, generator)
        # actions last: games with fewer of them need the first of the numbers
        self._sizes = [features, hidden, hidden, num_actions]

    @property
    def noise_size(self) -> int:
        return sum(self._sizes)

    def forward(self, features: Tensor, noise: Tensor | None = None) -> NoisyValues:
        parts: Sequence[Tensor | None] = [None] * 4
        if noise is not None:
            parts = torch.split_with_sizes(_squashed(noise), self._sizes, -1)
        embedding = torch.relu(self.hidden(features, *parts[:2]))
        return NoisyValues(embedding, self.out(embedding, *parts[2:]))


def _squashed(noise: Tensor) -> Tensor:
    """f(x) = sgn(x)·√|x|"""
    return noise.sign() * noise.abs().sqrt()


class ManyValues(NamedTuple):
    embedding: Tensor  # [B, K * hidden]
    head_q: Tensor  # [B, A, K]
    q: Tensor  # [B, A], their mean
    uncertainty: Tensor  # [B, A], their standard deviation


class ManyHeads(nn.Module):
    """K times DQN's two last layers, on the same convolutions (Osband et al. 2016)."""

    action_parameters: ClassVar[frozenset[str]] = frozenset({"weight", "bias"})

    def __init__(
        self,
        num_actions: int,
        heads: int,
        features: int,
        hidden: int,
        init_std: float | None,
        generator: Generator,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.hidden_weight = nn.Parameter(torch.empty(heads, hidden, features))
        self.hidden_bias = nn.Parameter(torch.empty(heads, hidden))
        init_linear(self.hidden_weight, self.hidden_bias, features, init_std, generator)
        self.weight = nn.Parameter(torch.empty(num_actions, heads, hidden))
        self.bias = nn.Parameter(torch.empty(num_actions, heads))
        init_linear(self.weight, self.bias, hidden, init_std, generator)

    def forward(self, features: Tensor) -> ManyValues:
        hidden = features @ self.hidden_weight.flatten(0, 1).T + self.hidden_bias.flatten()
        embedding = torch.relu(hidden)
        each = embedding.view(len(embedding), self.heads, -1)  # [B, K, hidden]
        head_q = torch.einsum("bke,ake->bak", each, self.weight) + self.bias
        return ManyValues(embedding, head_q, *mean_and_spread(head_q))


def mean_and_spread(head_q: Tensor) -> tuple[Tensor, Tensor]:
    """Of K opinions [..., K]; the spread of the population, not of a sample."""
    return head_q.mean(-1), head_q.std(-1, correction=0)
