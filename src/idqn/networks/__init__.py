"""Q-networks: plain single-run modules that return a `QOutput` and never a loss."""

from idqn.networks.idqn import IDQN, build_network, normalize

__all__ = ["IDQN", "build_network", "normalize"]
