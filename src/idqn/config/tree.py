"""The whole tree, and as JSON and TOML."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from idqn.config.agent import AgentConfig, LossConfig, OptimizerConfig
from idqn.config.checks import require
from idqn.config.env import EnvConfig
from idqn.config.overlay import names_in, overlay
from idqn.config.training import ReplayConfig, SystemConfig, TrainConfig


@dataclass(frozen=True)
class Config:
    """Everything that defines one run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    system: SystemConfig = field(default_factory=SystemConfig)

    def __post_init__(self) -> None:
        for group, fields in to_dict(self).items():
            for name, value in fields.items():
                finite = not isinstance(value, float) or math.isfinite(value)
                require(finite, f"{group}.{name} must be a finite number, got {value}")
        n_step, envs = self.train.n_step, self.train.envs
        require(
            self.replay.transitions > n_step * envs,
            f"replay.transitions must be more than train.n_step x train.envs ({n_step} x {envs}), "
            f"got {self.replay.transitions}",
        )
        require(
            self.replay.learning_starts_steps > (n_step - 1) * envs,
            f"replay.learning_starts_steps must be more than (train.n_step - 1) x train.envs "
            f"({n_step - 1} x {envs}), so that there is a sum of {n_step} rewards to learn from; "
            f"got {self.replay.learning_starts_steps}",
        )

    def replace(self, **changes: Any) -> Config:
        """A copy with dotted fields changed: `config.replace(**{"train.seed": 1})`."""
        tree: dict[str, Any] = {}
        for dotted, value in changes.items():
            *parents, leaf = dotted.split(".")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = value
        return from_dict(tree, base=self)


def to_dict(config: Config) -> dict[str, Any]:
    return dataclasses.asdict(config)


def to_json(config: Config) -> str:
    return json.dumps(to_dict(config), indent=2) + "\n"


def to_toml(config: Config) -> str:
    """The config as TOML that `from_dict` reads back."""
    lines: list[str] = []
    for group, fields in to_dict(config).items():
        lines += ["", f"[{group}]"]
        for name, value in fields.items():
            lines.append(f"{name} = {json.dumps('none' if value is None else value)}")
    return "\n".join(lines).lstrip() + "\n"


def from_dict(data: Mapping[str, Any], base: Config | None = None) -> Config:
    """Lay `data` (nested, may be partial) over `base`; unknown keys and wrong types are errors."""
    result = overlay(base if base is not None else Config(), data)
    assert isinstance(result, Config)
    return result


def field_names() -> list[str]:
    """All dotted field names of the tree, in order."""
    return names_in(Config)
