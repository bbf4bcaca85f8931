"""How an action's value follows the pixels: gradients of Q, all in pixel units."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.networks import members

STEPS = 32
_PIXELS_AT_ONCE = 2**22  # of states, so that memory stays bounded


def gradient(
    agent: Agent, observations: NDArray[np.uint8], actions: NDArray[np.int64]
) -> NDArray[np.float32]:
    """dQ(s, a) / ds, [n, C, h, w]."""
    states, chosen = _tensors(agent, observations, actions)
    return _gradient(agent, states, chosen).cpu().numpy()


def baseline(agent: Agent) -> Tensor:
    """What integrated gradients start from: the mean image [C, h, w]."""
    return members(agent.network)[0].mean_image


def integrated_gradients(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    steps: int = STEPS,
) -> NDArray[np.float32]:
    """Sundararajan et al. (2017): each pixel's difference from the mean image, times the gradient's
    mean on the straight way from there; [n, C, h, w]. They sum to Q(s, a) - Q(mean image, a), but
    for the finite number of steps."""
    states, chosen = _tensors(agent, observations, actions)
    base = baseline(agent)
    share = (torch.arange(steps, device=agent.device) + 0.5) / steps  # the middle of each step
    mean = torch.zeros_like(states)
    at_once = max(1, _PIXELS_AT_ONCE // (steps * base.numel()))
    for i in range(0, len(states), at_once):
        some = states[i : i + at_once]
        way = base + share[:, None, None, None, None] * (some - base)  # [steps, b, C, h, w]
        found = _gradient(agent, way.flatten(0, 1), chosen[i : i + at_once].repeat(steps))
        mean[i : i + at_once] = found.view_as(way).mean(0)
    return ((states - base) * mean).cpu().numpy()


def _gradient(agent: Agent, states: Tensor, actions: Tensor) -> Tensor:
    at_once = max(1, _PIXELS_AT_ONCE // states[:1].numel())
    found = []
    for some, chosen in zip(
        torch.split(states, at_once), torch.split(actions, at_once), strict=True
    ):
        pixels = some.detach().requires_grad_()
        with torch.enable_grad():
            q = agent.network(pixels, False).q.gather(1, chosen[:, None])
            # states of a batch know nothing of each other: the gradient of the sum is each one's
            (slope,) = torch.autograd.grad(q.sum(), pixels)
        found.append(slope)
    return torch.cat(found)


def _tensors(
    agent: Agent, observations: NDArray[np.uint8], actions: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    states = torch.as_tensor(observations, device=agent.device).float()
    return states, torch.as_tensor(actions, device=agent.device)
