"""Where environments stand, as checkpoints hold it: the numbers of their episodes, and the actions
since those began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from idqn.checkpoint import Checkpoint
from idqn.envs import EnvPositions


def packed(positions: EnvPositions, own: slice) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Those of one run's environments, for its checkpoint: tensors, and what becomes JSON."""
    logs = positions.actions[own]
    tensors = {"env_actions": torch.from_numpy(np.concatenate(logs).astype(np.int32))}
    state = {
        "env_episodes": positions.episode[own].tolist(),
        "env_action_counts": [len(log) for log in logs],
    }
    return tensors, state


def unpacked(saved: Sequence[Checkpoint]) -> EnvPositions:
    """Those of all runs' environments, from their checkpoints."""
    episodes: list[int] = []
    logs: list[Any] = []
    for own in saved:
        episodes += own.state["env_episodes"]
        ends = np.cumsum(own.state["env_action_counts"])[:-1]
        logs += np.split(own.training["env_actions"].numpy().astype(np.uint16), ends)
    return EnvPositions(np.array(episodes, np.int64), logs)
