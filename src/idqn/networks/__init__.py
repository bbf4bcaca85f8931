"""Q-networks: plain single-run modules that return a `QOutput` and never a loss."""

from idqn.networks.network import Ensemble, QNetwork, build_network, members, normalize

__all__ = ["Ensemble", "QNetwork", "build_network", "members", "normalize"]
