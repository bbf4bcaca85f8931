"""From an environment id to what it is, with suggestions for what it is not."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

import numpy as np

from idqn.config import EnvConfig
from idqn.envs.atari_ids import rom_name
from idqn.envs.episodes import EnvGroup
from idqn.errors import UserError, nearest
from idqn.types import EnvSpec


def describe(config: EnvConfig) -> EnvSpec:
    """Frame shape and actions of an environment, or a UserError if it cannot be trained on."""
    if config.is_atari:
        return _describe_atari(config)
    check_registered(config.id)
    from idqn.envs.gym_images import make_image_env

    env = make_image_env(config)
    try:
        return EnvSpec(env.frame_shape, env.num_actions, env.action_names)
    finally:
        env.env.close()


def make_group(config: EnvConfig, count: int, screens: bool = False) -> EnvGroup:
    """`count` environments of one kind, in this process; with `screens` they show whole ones."""
    if screens:
        from idqn.envs.screens import ScreenGroup

        return ScreenGroup(config, count)
    if config.is_atari:
        from idqn.envs.atari import AtariGroup

        return AtariGroup(config, count)
    check_registered(config.id)
    from idqn.envs.gym_images import ImageGroup

    return ImageGroup(config, count)


def shows_screens(config: EnvConfig) -> bool:
    """Whether an environment can hand over whole screens, for a GPU to shrink."""
    if not config.is_atari:
        return False
    from idqn.envs.screens import shows_screens as atari_shows_screens

    return atari_shows_screens(config)


def step_cost(config: EnvConfig) -> float:
    """How long a step takes, compared with other environments of a population."""
    if config.is_atari:
        from idqn.envs.atari import step_cost as atari_cost

        return atari_cost(config)
    return 1.0


@cache  # it loads the cartridge, and a population has few games
def _describe_atari(config: EnvConfig) -> EnvSpec:
    import ale_py
    from ale_py import roms

    from idqn.envs.atari import native_options

    options = native_options(config)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.loadROM(str(roms.get_rom_path(options["game"])))
    actions = ale.getLegalActionSet() if config.full_action_space else ale.getMinimalActionSet()
    shape = (3 if config.color else 1, options["img_height"], options["img_width"])
    return EnvSpec(shape, len(actions), tuple(a.name for a in actions))


def check_registered(env_id: str) -> None:
    """Register what we know, then look the id up; `module:id` is left to Gymnasium."""
    import ale_py
    import gymnasium as gym

    gym.register_envs(ale_py)
    if ":ALE/" in env_id:
        raise UserError(f"Atari ids stand alone: '{env_id.split(':')[1]}' instead of '{env_id}'")
    spec = gym.registry.get(env_id)
    if spec is not None and str(spec.entry_point).startswith("ale_py"):
        rom_name(env_id)  # an older Atari id, with another preprocessing: says the one to use
    if ":" in env_id or spec is not None:
        return
    known = [name for name in gym.registry if name.startswith(("ALE/", "idqn/"))]
    others = [
        name
        for name, spec in gym.registry.items()
        if name not in known and not str(spec.entry_point).startswith("ale_py")
    ]
    short = {name.split("/")[1].split("-")[0].lower(): name for name in known}
    plain = env_id.split("/")[-1].split("-")[0].lower()
    games = [short[name] for name in get_close_matches(plain, short, n=1)]
    game = f"; did you mean '{games[0]}'?" if games else ""
    exact = game if plain in short else ""
    hint = exact or nearest(env_id, known) or game or nearest(env_id, others)
    raise UserError(
        f"unknown environment '{env_id}'{hint} (ALE/NAME-v5, idqn/MiniPacman-v0, or a registered "
        f"Gymnasium id; for your own, use 'module:Id-v0')"
    )


def check_same_frames(specs: list[EnvSpec], ids: list[str]) -> None:
    """One population is one network shape."""
    for spec, env_id in zip(specs, ids, strict=True):
        if spec.frame_shape != specs[0].frame_shape:
            raise UserError(
                f"one population needs one frame shape, but '{ids[0]}' has "
                f"{_shape(specs[0])} and '{env_id}' {_shape(spec)}; train them separately, or set "
                f"--env.frame-height, --env.frame-width and --env.color"
            )


def _shape(spec: EnvSpec) -> str:
    return "x".join(str(n) for n in np.roll(spec.frame_shape, -1))
