"""What an agent says about an observation."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from idqn.errors import UserError

_OWNERS = {
    "uncertainty": "idqn, c51, bootstrap and ensemble agents",
    "attention": "idqn agents",
    "log_attention": "idqn agents",
    "distribution": "c51 agents",
    "log_distribution": "c51 agents",
    "head_q": "bootstrap and ensemble agents",
    "reconstruction": "idqn agents with a decoder",
}


class Look:
    """B is missing where one observation was looked at. Asking for what the agent does not have is
    an error that says who has it; `"attention" in look` asks first."""

    def __init__(self, agent: str, parts: Mapping[str, Tensor]) -> None:
        self._agent, self._parts = agent, dict(parts)

    @property
    def q(self) -> Tensor:
        """[B, A]: the value of each action."""
        return self._part("q")

    @property
    def embedding(self) -> Tensor:
        """[B, E]: what the encoder makes of the observation; of agents without a memory, the last
        hidden layer, one after another if there are several."""
        return self._part("embedding")

    @property
    def uncertainty(self) -> Tensor:
        """[B, A]: the standard deviation of the return, or of the heads' values."""
        return self._part("uncertainty")

    @property
    def attention(self) -> Tensor:
        """[B, A, N]: the attention to each key; sums to 1 over the keys of an action."""
        return self._part("attention")

    @property
    def log_attention(self) -> Tensor:
        """[B, A, N]"""
        return self._part("log_attention")

    @property
    def distribution(self) -> Tensor:
        """[B, A, N]: the probability of each return in `agent.values`."""
        return self._part("distribution")

    @property
    def log_distribution(self) -> Tensor:
        """[B, A, N]"""
        return self._part("log_distribution")

    @property
    def head_q(self) -> Tensor:
        """[B, A, K]: the value of each action to each of K heads."""
        return self._part("head_q")

    @property
    def reconstruction(self) -> Tensor:
        """[B, C, H, W]: the observation, decoded from its embedding; pixels, 0 to 255."""
        return self._part("reconstruction")

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(part.shape)}" for name, part in self._parts.items())
        return f"Look({self._agent}: {shapes})"

    def _part(self, name: str) -> Tensor:
        if name not in self._parts:
            raise UserError(
                f"this {self._agent} agent has no {name}; {_OWNERS[name]} do. It has "
                f"{', '.join(self._parts)}"
            )
        return self._parts[name]
