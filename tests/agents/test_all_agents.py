"""What holds for every agent: populations, restarts, mapping over runs, loading and playing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import vmap

import idqn
from idqn.config import Config
from idqn.errors import UserError
from idqn.evaluate import evaluate
from idqn.learner import Learner
from idqn.train import resume, train
from idqn.types import Batch
from tests.agents.plain import CPU, SHAPE, make_batch, variant
from tests.comparison import assert_same_checkpoint, metrics

EPSILON = {"agent.epsilon_start": 1.0, "agent.epsilon_end": 0.1, "agent.epsilon_steps": 300}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "idqn": ("idqn", {"agent.decoder": "ae"}),
    "idqn, vae": ("idqn", {"agent.decoder": "vae"}),
    "idqn, 3 steps, prioritized": (
        "idqn",
        {
            "agent.decoder": "ae",
            "train.n_step": 3,
            "replay.prioritized": True,
            "replay.priority_correction_steps": 500,
        },
    ),
    "ddqn": ("ddqn", EPSILON),
    "c51": ("c51", EPSILON | {"agent.atoms": 11}),
    "noisy": ("noisy", {}),
    "bootstrap": ("bootstrap", {"agent.heads": 3, "train.turns": 2}),
    "ensemble": ("ensemble", {"agent.heads": 3}),
    "ensemble, shared": ("ensemble", {"agent.heads": 3, "agent.shared_torso": True}),
}
PARTS = {
    "idqn": {"uncertainty", "attention", "log_attention", "reconstruction"},
    "idqn, vae": {"uncertainty", "attention", "log_attention", "reconstruction"},
    "idqn, 3 steps, prioritized": {"uncertainty", "attention", "log_attention", "reconstruction"},
    "ddqn": set(),
    "c51": {"uncertainty", "distribution", "log_distribution"},
    "noisy": set(),
    "bootstrap": {"uncertainty", "head_q"},
    "ensemble": {"uncertainty", "head_q"},
    "ensemble, shared": {"uncertainty", "head_q"},
}
ALL_PARTS = {"q", "embedding"}.union(*PARTS.values())

every_variant = pytest.mark.parametrize("name", VARIANTS)
Trained = Callable[[str, list[Config]], list[Path]]


def config_of(tiny: Config, name: str) -> Config:
    agent, changes = VARIANTS[name]
    sparing = {"train.train_every_steps": 8, "system.checkpoint_every_frames": 300}
    return variant(tiny, agent, sparing | changes)


def other_of(config: Config) -> Config:
    """A run that differs from another in much of what runs of a population may differ in."""
    changes: dict[str, Any] = {
        "train.seed": 1,
        "train.discount": 0.9,
        "train.clip_rewards": True,
        "optimizer.learning_rate": 1e-3,
        "agent.exploration_factor": 0.7,
        "agent.noise_sigma": 0.9,
        "agent.beta": 0.3,
        "agent.value_max": 12.0,
        "agent.linear_init_std": None,
        "loss.diversity": 0.5,
    }
    if config.agent.dithers:
        changes |= {"agent.epsilon_start": 0.6, "agent.epsilon_steps": 100}
    return config.replace(**changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Train a population under a name, once, for all tests that ask for it."""
    folder = tmp_path_factory.mktemp("runs")
    known: dict[str, list[Path]] = {}

    def get(name: str, configs: list[Config]) -> list[Path]:
        if name not in known:
            paths = [folder / f"{name} {run}" for run in range(len(configs))]
            train(configs, paths)
            known[name] = paths
        return known[name]

    return get


@every_variant
def test_a_population_of_two_equals_two_runs_alone(
    tiny: Config, name: str, trained: Trained
) -> None:
    first = config_of(tiny, name)
    second = other_of(first)
    together = trained(f"{name} together", [first, second])
    for path, config in zip(together, (first, second), strict=True):
        (alone,) = trained(f"{name} alone {config.train.seed}", [config])
        assert_same_checkpoint(path, alone)
        assert metrics(path) == metrics(alone)
    one, other = (metrics(path)[-1] for path in together)
    assert one["updates"] == other["updates"] == 62
    assert one["loss/total"] != other["loss/total"]


@every_variant
def test_resuming_is_exact(tiny: Config, name: str, trained: Trained, tmp_path: Path) -> None:
    config = config_of(tiny, name)
    (whole,) = trained(f"{name} alone 0", [config])
    train([config.replace(**{"train.frames": 300})], [tmp_path / "part"])
    assert metrics(tmp_path / "part")[-1]["updates"] > 20

    outcome = resume(tmp_path / "part", frames=600)

    assert (outcome.first_frame, outcome.frames) == (300, 600)
    assert_same_checkpoint(whole, tmp_path / "part")
    assert metrics(whole) == metrics(tmp_path / "part")


@every_variant
def test_a_loaded_agent_has_its_own_parts_and_no_others(
    tiny: Config, name: str, trained: Trained
) -> None:
    config = config_of(tiny, name)
    (path,) = trained(f"{name} alone 0", [config])
    agent = idqn.load(path)
    assert agent.name == VARIANTS[name][0]
    batch = np.random.default_rng(0).integers(0, 256, (4, *agent.observation_shape), np.uint8)
    look, single = agent.look(batch), agent.look(batch[0])

    parts = {"q", "embedding"} | PARTS[name]

    for part in ALL_PARTS:
        assert (part in look) == (part in parts), part
        if part in parts:
            found = getattr(look, part)
            assert len(found) == 4
            assert bool(found.isfinite().all())
            torch.testing.assert_close(getattr(single, part), found[0], rtol=1e-4, atol=1e-4)
        else:
            with pytest.raises(UserError, match=rf"this {agent.name} agent has no {part}"):
                getattr(look, part)
    shapes = {
        "q": (4, 5),
        "uncertainty": (4, 5),
        "attention": (4, 5, 5),
        "distribution": (4, 5, 11),
        "head_q": (4, 5, config.agent.heads),
        "reconstruction": (4, *SHAPE),
        "embedding": (4, 16 * config.agent.heads if "head_q" in parts else 16),
    }
    for part, shape in shapes.items():
        if part in parts:
            assert getattr(look, part).shape == shape, part
    if agent.name == "idqn":
        assert agent.keys.shape == (5, 5, 16)
    else:
        with pytest.raises(UserError, match="only idqn agents"):
            _ = agent.keys
        with pytest.raises(UserError, match="only idqn agents"):
            agent.decode(torch.zeros(16))
    if agent.name in ("idqn", "c51"):
        assert len(agent.values) == {"idqn": 5, "c51": 11}[agent.name]
    else:
        with pytest.raises(UserError, match="only idqn and c51 agents"):
            _ = agent.values


@every_variant
def test_a_loaded_agent_plays(tiny: Config, name: str, trained: Trained) -> None:
    (path,) = trained(f"{name} alone 0", [config_of(tiny, name)])
    agent = idqn.load(path)
    zeros = np.zeros(agent.observation_shape, np.uint8)

    action = agent.act(zeros)

    assert type(action) is int
    assert 0 <= action < 5
    assert agent.act(zeros[None].repeat(3, 0)).tolist() == [action] * 3
    played = evaluate(agent.act, agent.config.env, episodes=3)
    assert played.episodes == 3
    assert all(1 <= length <= 15 for length in played.lengths)
    again = evaluate(agent.act, agent.config.env, episodes=3)
    assert again.returns == played.returns
    assert again.lengths == played.lengths


def population(tiny: Config, name: str) -> list[Config]:
    first = config_of(tiny, name)
    return [first, other_of(first), first.replace(**{"train.seed": 2})]


def assert_close_gradients(one: torch.Tensor, other: torch.Tensor) -> None:
    largest = float(other.abs().max())
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * largest)


@every_variant
def test_games_with_different_actions_in_one_population(tiny: Config, name: str) -> None:
    """What a run learns and does is what it would alone, but for rounding, which depends on the
    sizes of matrices; actions that only others have are never taken and never learned."""
    configs, actions = population(tiny, name), [5, 3, 4]
    together = Learner(configs, SHAPE, actions, CPU)
    batch = make_batch(runs=3)
    gradient, found = together.gradient(batch)
    observation = make_batch(40, runs=3, seed=9).observation
    episode = torch.arange(120).view(3, 40)
    acted = torch.stack([together.act(observation, episode) for _ in range(3)], 1)  # [P, 3, E]
    for run, (config, count) in enumerate(zip(configs, actions, strict=True)):
        part = slice(run, run + 1)
        alone = Learner([config], SHAPE, [count], CPU)
        own_gradient, own = alone.gradient(Batch(*(tensor[part] for tensor in batch)))
        rows = slice(run * together.members, (run + 1) * together.members)
        expected = alone.rows.named(own_gradient)
        for key, ours in together.rows.named(gradient).items():
            mine, theirs = ours[rows], expected[key]
            if mine.shape != theirs.shape:
                assert not mine[:, count:].any(), key
                mine = mine[:, :count]
            assert_close_gradients(mine, theirs)
        for key, value in own.measured.items():
            if key != "key_hits":
                torch.testing.assert_close(found.measured[key][rows], value)
        torch.testing.assert_close(found.surprise[rows], own.surprise)
        steps = [alone.act(observation[part], episode[part])[0] for _ in range(3)]
        assert torch.equal(acted[run], torch.stack(steps))
        assert int(acted[run].max()) < count


@every_variant
def test_vmap_and_the_loop_compute_the_same(tiny: Config, name: str) -> None:
    configs, actions = population(tiny, name), [5, 3, 4]
    looped, mapped = (Learner(configs, SHAPE, actions, CPU) for _ in range(2))
    mapped.map_with(vmap)
    for learner in (looped, mapped):
        learner.updates.fill_(7)
    batch = make_batch(runs=3)

    (loops, first), (maps, second) = looped.gradient(batch), mapped.gradient(batch)

    assert bool(loops.any(1).all())
    assert_close_gradients(maps, loops)
    assert first.measured.keys() == second.measured.keys()
    for key, value in first.measured.items():
        torch.testing.assert_close(second.measured[key], value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second.surprise, first.surprise, rtol=1e-4, atol=1e-4)
    observation = make_batch(runs=3, seed=9).observation
    for number in range(3):
        episode = torch.full((3, 12), number)
        acted = looped.act(observation, episode)
        assert torch.equal(acted, mapped.act(observation, episode))
