"""Named starting points: what the paper says, what its authors' code did, what a laptop can do."""

from __future__ import annotations

from idqn.config import Config, EnvConfig
from idqn.errors import UserError, nearest

PRESETS = {
    "paper": "the paper's text, made mathematically sound",
    "authors": "what the authors' code did",
    "quick": "small and fast, for a first look on a CPU",
}


def preset(name: str, env_id: str) -> Config:
    """The config of preset `name` for environment `env_id`."""
    if name not in PRESETS:
        raise UserError(f"unknown preset '{name}'{nearest(name, PRESETS)} ({', '.join(PRESETS)})")
    config = Config(env=_default_env(env_id))
    if name == "authors":
        return config.replace(**_AUTHORS)
    if name == "quick":
        return config.replace(**_QUICK)
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


_AUTHORS = {
    "train.frames": 40_000_000,  # their "10M frames" are 10M agent steps
    "train.bootstrap_on_truncation": False,
    "agent.exploration_factor": 0.001,
    "agent.key_init_std": 1.0,
    "loss.reconstruction": 0.01,
    "loss.diversity": 0.1,
    "loss.diversity_rows": "all",
    "loss.diversity_per_sample": True,
    "loss.distributional_log_epsilon": 1e-6,
    "optimizer.clip_scope": "layer",
    "optimizer.halve_every_steps": 2_000_000,
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
