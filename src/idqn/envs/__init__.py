"""Environments behind one interface: frames in, autoreset hidden, every episode from its seed."""

from idqn.envs.registry import describe
from idqn.envs.vector import EnvPositions, RunEnvs, VectorEnv

__all__ = ["EnvPositions", "RunEnvs", "VectorEnv", "describe"]
