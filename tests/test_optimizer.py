from __future__ import annotations

import pytest
import torch

from idqn.config import Config
from idqn.learner import Learner

SHAPE = (2, 11, 11)
CPU = torch.device("cpu")


def test_the_learning_rate_halves_and_stops_at_its_floor(tiny: Config) -> None:
    """With one gradient, Adam's first step is the learning rate in every coordinate."""
    changes = {"optimizer.halve_every_steps": 100, "optimizer.min_learning_rate": 1e-4}
    for steps, rate in ((99, 1e-3), (100, 5e-4), (299, 2.5e-4), (10_000, 1e-4)):
        config = tiny.replace(**changes, **{"optimizer.learning_rate": 1e-3})
        learner = Learner([config], SHAPE, [3], CPU)
        before = learner.online.clone()
        learner.optimizer.schedule(steps)
        learner.optimizer.schedule(steps)  # as every update does: once is enough
        learner.optimizer.adam(torch.ones_like(before), torch.ones(1), limit=1.0)
        torch.testing.assert_close(before - learner.online, torch.full_like(before, rate))


def test_layer_clipping_leaves_the_keys_alone(tiny: Config) -> None:
    config = tiny.replace(**{"optimizer.clip_scope": "layer", "optimizer.clip_norm": 1.0})
    learner = Learner([config], SHAPE, [3], CPU)
    gradient = torch.full_like(learner.online, 2.0)
    learner.optimizer.clip_layers(gradient)
    for name, columns in learner.rows.columns.items():
        piece = gradient[:, columns]
        if name == "head.keys":
            assert torch.equal(piece, torch.full_like(piece, 2.0))
        else:
            assert float(piece.norm()) == pytest.approx(1.0, rel=1e-4)
