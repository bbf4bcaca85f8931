"""What the runs of a population share, and what is made of it: their environments and replay."""

from __future__ import annotations

from typing import Any

import torch

from idqn.capture import has_kernels
from idqn.config import Config, field_names, to_dict
from idqn.envs import RunEnvs, VectorEnv, shows_screens
from idqn.errors import UserError
from idqn.priorities import Priorities
from idqn.replay import Replay, Returns, Shrink
from idqn.types import EnvSpec

PER_RUN_FIELDS = frozenset(
    {
        "train.seed",
        "train.discount",
        "train.clip_rewards",
        "loss.bellman",
        "loss.distributional",
        "loss.reconstruction",
        "loss.diversity",
        "optimizer.learning_rate",
        "agent.exploration_factor",
        "agent.beta",
        "agent.epsilon_start",
        "agent.epsilon_end",
        "agent.epsilon_steps",
        "agent.noise_sigma",
        "agent.value_min",
        "agent.value_max",
        "agent.value_spacing",
        "agent.key_init_std",
        "agent.linear_init_std",
        "env.id",
        "env.max_pool",
        "env.noop_max",
        "env.fire_on_reset",
        "env.sticky_probability",
        "env.full_action_space",
        "env.max_episode_frames",
    }
)
"""Fields in which the runs of one population may differ; the others shape the shared program."""


def check_population(configs: list[Config]) -> None:
    for name in field_names():
        if name in PER_RUN_FIELDS:
            continue
        values = [_field(config, name) for config in configs]
        for value in values:
            if value != values[0]:
                raise UserError(
                    f"the runs of one population must agree in {name}, got {values[0]!r} and "
                    f"{value!r}; train them separately"
                )


def population_envs(configs: list[Config], device: torch.device) -> VectorEnv:
    """The environments of a population that is trained on `device`."""
    shared = configs[0]
    assert shared.train.turns is not None
    # emulators have no time to spare, GPUs do: there, screens are shrunk
    screens = has_kernels(device) and all(shows_screens(config.env) for config in configs)
    return VectorEnv(
        [RunEnvs(config.env, config.train.seed) for config in configs],
        shared.train.envs,
        shared.system.workers,
        shared.train.turns,
        screens,
        watchful=device.type == "cuda",
    )


def population_replay(
    configs: list[Config], spec: EnvSpec, given_shape: tuple[int, int, int], device: torch.device
) -> Replay:
    """Replay for frames of `given_shape`, which it keeps as `spec` has them."""
    shared = configs[0]
    assert shared.train.turns is not None
    return Replay(
        shared.replay.transitions,
        spec.frame_shape,
        shared.env.frame_stack,
        shared.train.envs,
        [config.train.seed for config in configs],
        device,
        shared.train.turns,
        _shrink(given_shape, spec.frame_shape, device),
        returns=Returns(
            shared.train.n_step,
            [config.train.discount for config in configs],
            [config.train.clip_rewards for config in configs],
        ),
        priorities=_priorities(shared),
    )


def _priorities(config: Config) -> Priorities | None:
    options = config.replay
    if not options.prioritized:
        return None
    draws = max(1, options.priority_correction_steps // config.train.train_every_steps)
    return Priorities(options.priority_exponent, options.priority_correction, draws)


def _shrink(
    given: tuple[int, int, int], wanted: tuple[int, int, int], device: torch.device
) -> Shrink | None:
    if given == wanted:
        return None
    from idqn.kernels import ShrinkToArea

    return ShrinkToArea(given, wanted[1:], device)


def _field(config: Config, dotted: str) -> Any:
    group, name = dotted.split(".")
    return to_dict(config)[group][name]
