"""Agents that have learnt nothing: all that the mechanics of explanations need."""

from __future__ import annotations

from typing import Any

import torch

from idqn.agent import Agent
from idqn.envs import describe
from idqn.networks import build_network
from idqn.presets import preset


def untrained(name: str = "idqn", env: str = "idqn/MiniPacman-v0", **changes: Any) -> Agent:
    """Small, and quick to ask; `changes` go into the config: `agent__keys=6`."""
    small = {"agent.embedding_size": 16, "system.device": "cpu"}
    if name == "idqn":
        small["agent.keys"] = 6
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    config = preset("quick", env, name).replace(**{**small, **changed})
    spec = describe(config.env)
    shape = spec.observation_shape(config.env.frame_stack)
    network = build_network(config.agent, shape, spec.num_actions, seed=0)
    return Agent(network, config, spec, torch.device("cpu"))
