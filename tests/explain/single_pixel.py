"""An agent whose values are numbers times one pixel of the newest frame."""

from __future__ import annotations

import torch

from idqn.agent import Agent
from idqn.networks import QNetwork
from idqn.networks.heads import LinearHead
from tests.explain.untrained import untrained

PLACE = (6, 4)


def single_pixel_agent(
    weights: tuple[float, float], bias: tuple[float, float] = (0.0, 0.0), side: int = 11
) -> Agent:
    """Q of the first two actions is weight x pixel / 255 + bias, of the others -99."""
    agent = untrained("ddqn", env__frame_height=side, env__frame_width=side)
    network = agent.network
    assert isinstance(network, QNetwork)
    assert isinstance(network.head, LinearHead)
    assert network.encoder.linear is not None
    for parameter in network.parameters():
        parameter.zero_()
    first, second = network.encoder.convolutions  # 3x3 each, without a stride
    first.weight[0, -1, 1, 1] = 1
    second.weight[0, 0, 1, 1] = 1
    left = side - 4
    network.encoder.linear.weight[0, (PLACE[0] - 2) * left + PLACE[1] - 2] = 1
    network.head.weight[:2, 0] = torch.tensor(weights)
    network.head.bias.fill_(-99)
    network.head.bias[:2] = torch.tensor(bias)
    return agent
