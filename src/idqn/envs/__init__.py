"""Environments behind one interface: frames in, autoreset hidden, every episode from its seed.

Importing this package registers `idqn/MiniPacman-v0` with Gymnasium.
"""

from idqn.envs import mini_pacman
from idqn.envs.dealing import RunEnvs
from idqn.envs.episodes import EnvPositions
from idqn.envs.registry import describe, shows_screens
from idqn.envs.vector import VectorEnv

mini_pacman.register()

__all__ = ["EnvPositions", "RunEnvs", "VectorEnv", "describe", "shows_screens"]
