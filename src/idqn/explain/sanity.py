"""Would the explanation be the same of another network? Adebayo et al. (2018), "Sanity Checks for
Saliency Maps": weights are drawn anew, from the head downwards, and what does not change with them
was never about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.explain.correlation import correlation, ranks
from idqn.networks import build_network

DEPTHS = {
    "head": ("head.",),
    "head and linear layer": ("head.", "encoder.linear."),
    "all layers": ("head.", "encoder."),
}


class Redrawn(NamedTuple):
    depth: str
    agent: Agent


def redraw(agent: Agent, parts: tuple[str, ...], seed: int) -> Agent:
    """The same agent, but with the weights of those parts as a new network begins with."""
    shape, actions = agent.observation_shape, agent.spec.num_actions
    # never the training's own seed: its first weights are no strangers to the trained ones
    network = build_network(agent.config.agent, shape, actions, agent.config.train.seed + 1 + seed)
    kept = {
        name: weight
        for name, weight in agent.network.state_dict().items()
        if not _local(name).startswith(parts)
    }
    # buffers are no weights: the mean image and the keys' values stay what they are
    kept |= dict(agent.network.named_buffers())
    network.load_state_dict(network.state_dict() | kept)
    return Agent(network, agent.config, agent.spec, agent.device, agent.origin)


def redrawn(agent: Agent, seed: int) -> Iterator[Redrawn]:
    """From the head downwards; without a step that has nothing more to draw."""
    names = [_local(name) for name, _ in agent.network.named_parameters()]
    before = 0
    for depth, parts in DEPTHS.items():
        count = sum(name.startswith(parts) for name in names)
        if count > before:
            yield Redrawn(depth, redraw(agent, parts, seed))
        before = count


def first_agent(agent: Agent) -> Agent:
    """The same agent as its training began."""
    shape, actions = agent.observation_shape, agent.spec.num_actions
    network = build_network(agent.config.agent, shape, actions, agent.config.train.seed)
    return Agent(network, agent.config, agent.spec, agent.device, agent.origin)


def rank_correlation(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Spearman's, of each pair of maps [n, h, w]; 0 with a map that is the same everywhere."""
    pairs = zip(one, other, strict=True)
    return np.array([correlation(ranks(a.ravel()), ranks(b.ravel())) for a, b in pairs])


def _local(name: str) -> str:
    """Of a parameter, within its member of an ensemble."""
    return re.sub(r"^members\.\d+\.", "", name)
