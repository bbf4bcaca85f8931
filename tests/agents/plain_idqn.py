"""i-DQN's network and losses, written out: for frames of 11x11 and two convolutions of 3x3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import conv_transpose2d, linear

from idqn.config import Config
from idqn.types import Batch
from tests.agents.plain import (
    ACTIONS,
    Named,
    best_of,
    embedding,
    project_slowly,
    smooth_l1,
)

DECODERS = ["ae", "vae", "dense-vae"]
SIZE, KEYS = 16, 5
VALUES = [-25.0, -12.5, 0.0, 12.5, 25.0]
WEIGHTS = {"bellman": 0.7, "distributional": 1.3, "reconstruction": 0.2, "diversity": 0.05}


def idqn(tiny: Config, decoder: str, changes: dict[str, Any] | None = None) -> Config:
    own: dict[str, Any] = {"agent.decoder": decoder, "agent.beta": 0.4}
    own |= {f"loss.{name}": weight for name, weight in WEIGHTS.items()}
    return tiny.replace(**own | (changes or {}))


def decode(w: Named, code: Tensor) -> Tensor:
    x = linear(code, w["decoder.linear.weight"], w["decoder.linear.bias"])
    x = x.view(len(x), -1, 7, 7)
    for layer in ("decoder.deconvolutions.0", "decoder.deconvolutions.1"):
        x = conv_transpose2d(x.relu(), w[f"{layer}.weight"], w[f"{layer}.bias"])
    return x


def attention_of(w: Named, mean: Tensor) -> Tensor:
    each = [linear(mean, w["head.keys"][a]) for a in range(ACTIONS)]
    return torch.stack(each, 1).softmax(-1)  # [B, A, N]


def q_of(attention: Tensor) -> Tensor:
    return attention @ torch.tensor(VALUES, dtype=torch.float64)


def losses_by_hand(w: Named, other: Named, batch: Batch, noise: Tensor | None) -> Named:
    """With noise [B, E], the embedding is variational."""
    observation, after, size = batch.observation[0], batch.next_observation[0], len(batch.action[0])
    h = embedding(w, observation)
    attention = attention_of(w, h[:, :SIZE])
    q = q_of(attention)
    choosing = q_of(attention_of(w, embedding(w, after)[:, :SIZE]))
    valuing = attention_of(other, embedding(other, after)[:, :SIZE])
    bellman, distributional = [], []
    for i, action in enumerate(batch.action[0].tolist()):
        best = best_of(choosing[i].detach())
        reward, discount = batch.reward[0, i].item(), batch.discount[0, i].item()
        difference = q[i, action] - (reward + discount * q_of(valuing[i, best]))
        bellman.append(batch.weight[0, i] * smooth_l1(difference))
        aim = project_slowly(valuing[i, best].tolist(), reward, discount, VALUES)
        entropy = -(torch.tensor(aim, dtype=torch.float64) * attention[i, action].log()).sum()
        distributional.append(batch.weight[0, i] * entropy)
    diversity = torch.zeros((), dtype=torch.float64)
    rows = [attention[i, action] for i, action in enumerate(batch.action[0].tolist())]
    for i in range(size):
        for j in range(size):
            diversity = diversity + ((rows[i] * rows[j]).sum() - int(i == j)) ** 2
    found = {
        "bellman": torch.stack(bellman).mean(),
        "distributional": torch.stack(distributional).mean(),
        "diversity": diversity,
    }
    if "decoder.linear.weight" not in w:
        return found
    code, state = h, (observation.double() - w["mean_image"]) / 255
    if noise is not None:
        mean, deviation = h[:, :SIZE], (h[:, SIZE:] / 2).exp()
        code = mean + deviation * noise.double()
        apart = kl_divergence(Normal(mean, deviation), Normal(0.0, 1.0))
        found["divergence"] = apart.sum(-1).mean()
    error = (decode(w, code) - state) ** 2
    found["reconstruction"] = error.sum((1, 2, 3)).mean() / 2
    return found
