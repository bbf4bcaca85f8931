"""The configuration of one run: a tree of frozen dataclasses, checked on construction.

Every place where the paper's text and its authors' code differ is a field here (see
`docs/paper.md`); `presets.py` gathers the choices. Frames are emulator frames, steps are agent
steps: with `frame_skip = 4`, one step is four frames.
"""

from __future__ import annotations

from idqn.config.agent import AgentConfig, AgentName, LossConfig, OptimizerConfig
from idqn.config.checks import unchecked
from idqn.config.env import EnvConfig
from idqn.config.training import ReplayConfig, SystemConfig, TrainConfig
from idqn.config.tree import Config, field_names, from_dict, to_dict, to_json, to_toml

__all__ = [
    "AgentConfig",
    "AgentName",
    "Config",
    "EnvConfig",
    "LossConfig",
    "OptimizerConfig",
    "ReplayConfig",
    "SystemConfig",
    "TrainConfig",
    "field_names",
    "from_dict",
    "to_dict",
    "to_json",
    "to_toml",
    "unchecked",
]
