"""What tells the agents apart: how each chooses and what it learns, one file for each."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from idqn.agents.bootstrap import Bootstrap, SharedEnsemble
from idqn.agents.c51 import C51
from idqn.agents.ddqn import DDQN
from idqn.agents.ensemble import Ensemble
from idqn.agents.idqn import IDQN
from idqn.agents.noisy import Noisy
from idqn.agents.objective import Objective
from idqn.config import Config

_OBJECTIVES: dict[str, type[Objective]] = {
    "idqn": IDQN,
    "ddqn": DDQN,
    "c51": C51,
    "noisy": Noisy,
    "bootstrap": Bootstrap,
    "ensemble": Ensemble,
}


def make_objective(configs: Sequence[Config], head: nn.Module) -> Objective:
    """The objective of a population, for networks with such a head."""
    agent = configs[0].agent
    if agent.name == "ensemble" and agent.shares_torso:
        return SharedEnsemble(configs, head)
    return _OBJECTIVES[agent.name](configs, head)


__all__ = ["Objective", "make_objective"]
