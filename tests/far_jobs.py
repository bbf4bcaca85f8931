"""What `test_far_device.py` runs in processes of their own: `python -m tests.far_jobs JOB`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.func import vmap

from idqn import training
from idqn.agent import Agent
from idqn.config import Config
from idqn.explain.kinds import KINDS, Settings, Subject
from idqn.explain.results import Result
from idqn.explain.saliency import METHODS, saliency_maps
from idqn.explain.search import search
from idqn.presets import preset
from tests.explain.untrained import untrained
from tests.far_device import FAR, far_device, recording

_LONG = ("memorization", "search", "extra-pellet", "inverted-triangle", "pixel-max")


def refuse() -> None:
    """What a GPU would not do, this device does not do either."""
    with far_device() as device:
        far, near = torch.arange(3.0, device=device), torch.arange(3.0)
        assert (far + 1).device == FAR
        assert (far + 1).cpu().tolist() == [1, 2, 3]
        for wrong in (lambda: far + near, far.numpy):
            with pytest.raises(RuntimeError):
                wrong()
        with recording():
            for waiting in (far.cpu, far.sum().item, lambda: far[far > 1], lambda: near.to(FAR)):
                with pytest.raises(RuntimeError, match="cannot be recorded"):
                    waiting()


def train(agent: str) -> None:
    """Two runs, mapped as on a GPU; what a GPU records must not wait for it."""
    plain = _small(agent)
    for config in (plain, plain.replace(**{"replay.prioritized": True, "train.n_step": 3})):
        seeds = [config, config.replace(**{"train.seed": 1})]
        with (
            far_device(),
            tempfile.TemporaryDirectory() as folder,
            training.Training(seeds) as population,
        ):
            population.learner.map_with(vmap)
            population.create([Path(folder) / "a", Path(folder) / "b"])
            while population.steps < 120:
                population.choose()
                population.send()
                population.receive()
            for _ in range(2):
                population.update()
            with recording():
                population._draw_and_learn()
                population._choices[0]._on_device()
                population.replay._sort_in(0)
            population.log()
            population.finish()


def explain(agent: str) -> None:
    with far_device():
        far, other = _far(agent), _far(agent)
        subject = Subject(far, None, Settings(2, 30, film_steps=8), other)
        lacking = ("keys", "attention", "interpolation", "agreement", "comparison", "surgery")
        for kind, make in KINDS.items():
            if kind in _LONG or (agent != "idqn" and kind in lacking):
                continue
            print(kind, flush=True)
            assert isinstance(make(subject), Result)
        search(far, 8, max_steps=40)
        observations, actions = subject.states.observations([3, 9]), subject.states.action[[3, 9]]
        maps = {m: saliency_maps(far, observations, actions, m) for m in METHODS}
    near = untrained(agent)
    for method, found in maps.items():
        expected = saliency_maps(near, observations, actions, method)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * expected.max())


def _far(agent: str) -> Agent:
    near = untrained(agent)
    return Agent(near.network, near.config, near.spec, FAR)


def _small(agent: str) -> Config:
    config = preset("quick", "idqn/MiniPacman-v0", agent).replace(
        **{
            "train.envs": 4,
            "train.turns": 2,
            "agent.embedding_size": 16,
            "env.frame_height": 11,
            "env.frame_width": 11,
            "env.max_episode_frames": 15,
            "replay.transitions": 300,
            "replay.batch_size": 8,
            "replay.learning_starts_steps": 100,
        }
    )
    return config.replace(**{"agent.keys": 5}) if agent == "idqn" else config


if __name__ == "__main__":
    torch.set_num_threads(1)
    training.resolve_device = lambda _: FAR  # type: ignore[assignment]
    job, *agents = sys.argv[1:]
    {"refuse": refuse, "train": train, "explain": explain}[job](*agents)
