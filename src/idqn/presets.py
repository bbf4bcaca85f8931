"""Named starting points: what the paper says, what its authors' code did, what others have found to
work better since, what a laptop can do."""

from __future__ import annotations

from typing import Any

from idqn.config import Config, EnvConfig
from idqn.errors import UserError, nearest

PRESETS = {
    "paper": "the paper's text, made mathematically sound",
    "authors": "what the authors' code did",
    "tuned": "the paper's agents with what others have found to work better since",
    "quick": "small and fast, for a first look on a CPU",
}

PAPER_GAMES = (
    "Alien",
    "Freeway",
    "Frostbite",
    "Gravitar",
    "MsPacman",
    "Qbert",
    "SpaceInvaders",
    "Venture",
)
"""Of the paper's Table 1."""


def preset(name: str, env_id: str, agent: str = "idqn") -> Config:
    """The config of preset `name` for environment `env_id` and an agent."""
    if name not in PRESETS:
        raise UserError(f"unknown preset '{name}'{nearest(name, PRESETS)} ({', '.join(PRESETS)})")
    if agent not in _AGENTS:
        raise UserError(f"unknown agent '{agent}'{nearest(agent, _AGENTS)} ({', '.join(_AGENTS)})")
    config = Config(env=_default_env(env_id)).replace(**{"agent.name": agent}, **_AGENTS[agent])
    if name == "authors":
        if agent not in _AUTHORS:
            raise UserError(
                f"the authors' code has no {agent} agent, only {' and '.join(_AUTHORS)}; use "
                f"--preset paper"
            )
        return config.replace(**_AUTHORS_LOOP, **_AUTHORS[agent])
    if name == "tuned":
        return config.replace(**_TUNED, **_TUNED_AGENTS.get(agent, {}))
    if name == "quick":
        return config.replace(**_QUICK, **_QUICK_AGENTS[agent])
    return config


def _default_env(env_id: str) -> EnvConfig:
    """Atari's usual preprocessing for Atari; other environments as they are, two frames deep."""
    atari = EnvConfig(id=env_id)
    if atari.is_atari:
        return atari
    return EnvConfig(
        id=env_id,
        frame_height=None,
        frame_width=None,
        frame_stack=2,
        frame_skip=1,
        max_pool=False,
        noop_max=0,
        fire_on_reset=False,
        max_episode_frames=None,
    )


_BASELINE: dict[str, Any] = {  # the authors' Double DQN; docs/agents.md has the sources
    "agent.decoder": "none",
    "agent.embedding_size": 512,
    "agent.linear_init_std": None,
    "optimizer.learning_rate": 1e-4,
    "train.clip_rewards": True,
}
_EPSILON = {"agent.epsilon_start": 1.0, "agent.epsilon_end": 0.01}

_AGENTS: dict[str, dict[str, Any]] = {
    "idqn": {},
    "ddqn": {**_BASELINE, **_EPSILON},
    "c51": {
        **_BASELINE,
        **_EPSILON,
        "agent.value_min": -10.0,
        "agent.value_max": 10.0,
        "optimizer.learning_rate": 2.5e-4,
        "optimizer.epsilon": 0.01 / 32,
    },
    "noisy": _BASELINE,
    "bootstrap": _BASELINE,
    "ensemble": {**_BASELINE, "agent.exploration_factor": 0.1},
}

_AUTHORS_LOOP = {
    "train.frames": 40_000_000,  # their "10M frames" are 10M agent steps
    "train.bootstrap_on_truncation": False,
    "optimizer.clip_scope": "layer",
}
_AUTHORS: dict[str, dict[str, Any]] = {
    "idqn": {
        "agent.exploration_factor": 0.001,
        "agent.key_init_std": 1.0,
        "loss.reconstruction": 0.01,
        "loss.diversity": 0.1,
        "loss.diversity_rows": "all",
        "loss.diversity_per_sample": True,
        "loss.distributional_log_epsilon": 1e-6,
        "optimizer.halve_every_steps": 2_000_000,
    },
    "ddqn": {},
}

_TUNED = {  # docs/paper.md has the reasons
    "train.n_step": 3,
    "replay.transitions": 100_000,
}
_TUNED_EPSILON = {**_EPSILON, "agent.epsilon_steps": 62_500}
_TUNED_AGENTS: dict[str, dict[str, Any]] = {
    "idqn": {**_TUNED_EPSILON, "agent.key_init_std": 0.01, "train.clip_rewards": True},
    "ddqn": _TUNED_EPSILON,
    "c51": _TUNED_EPSILON,
}

_QUICK = {
    "train.frames": 14_000,
    "train.envs": 8,
    "train.target_sync_steps": 500,
    "agent.embedding_size": 64,
    "replay.transitions": 20_000,
    "replay.learning_starts_steps": 1_000,
    "system.threads": 1,  # networks this small gain nothing from more
    "system.log_every_frames": 1_000,
    "system.checkpoint_every_frames": 8_000,
}
_QUICK_BASELINE = {"optimizer.learning_rate": 1e-3}
_QUICK_EPSILON = {**_QUICK_BASELINE, "agent.epsilon_end": 0.05, "agent.epsilon_steps": 5_000}
_QUICK_AGENTS: dict[str, dict[str, Any]] = {
    "idqn": {"agent.key_init_std": 0.01},
    "ddqn": _QUICK_EPSILON,
    "c51": _QUICK_EPSILON,
    "noisy": _QUICK_BASELINE,
    "bootstrap": _QUICK_BASELINE,
    # members apart take a core nine times as long, and explore too little in so few frames
    "ensemble": {
        **_QUICK_BASELINE,
        "agent.exploration_factor": 3.0,
        "agent.shared_torso": True,
    },
}
