"""idqn: train deep Q-networks that can be looked into, and look into them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idqn import explain
    from idqn.agent import Agent, load
    from idqn.config import Config
    from idqn.errors import UserError
    from idqn.evaluate import play
    from idqn.presets import preset

__version__ = "0.1.0"
__all__ = ["Agent", "Config", "UserError", "explain", "load", "play", "preset"]

_HOMES = {
    "Agent": "idqn.agent",
    "load": "idqn.agent",
    "Config": "idqn.config",
    "UserError": "idqn.errors",
    "play": "idqn.evaluate",
    "preset": "idqn.presets",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `idqn --help` must not wait for torch."""
    if name == "explain":
        return import_module("idqn.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'idqn' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
