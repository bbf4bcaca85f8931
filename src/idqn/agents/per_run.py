"""What the runs of a population may differ in, as columns: a number for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from idqn.config import Config


class PerRun(NamedTuple):
    """Hyper-parameters in which the runs of a population may differ; each a tensor of length P."""

    bellman: Tensor
    distributional: Tensor
    reconstruction: Tensor
    diversity: Tensor
    beta: Tensor
    exploration_factor: Tensor
    epsilon_start: Tensor
    epsilon_end: Tensor
    epsilon_steps: Tensor
    legal: Tensor  # [P, A] bool: games with fewer actions than the widest are masked


def per_run(configs: Sequence[Config], num_actions: Sequence[int], device: torch.device) -> PerRun:
    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, device=device)

    actions = torch.tensor(num_actions, device=device)
    return PerRun(
        bellman=column([c.loss.bellman for c in configs]),
        distributional=column([c.loss.distributional for c in configs]),
        reconstruction=column([c.loss.reconstruction for c in configs]),
        diversity=column([c.loss.diversity for c in configs]),
        beta=column([c.agent.beta for c in configs]),
        exploration_factor=column([c.agent.exploration_factor for c in configs]),
        epsilon_start=column([c.agent.epsilon_start for c in configs]),
        epsilon_end=column([c.agent.epsilon_end for c in configs]),
        epsilon_steps=column([float(c.agent.epsilon_steps) for c in configs]),
        legal=torch.arange(max(num_actions), device=device) < actions[:, None],
    )
