"""Noisy DQN (Fortunato et al. 2017): exploration by noise on the weights, learnt with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from idqn.agents.ddqn import DDQN
from idqn.agents.objective import Named, Role
from idqn.chance import Chance, Needs
from idqn.config import Config
from idqn.networks.heads import NoisyHead

_DRAWS: tuple[Role, ...] = ("learning", "choosing", "valuing")


class Noisy(DDQN):
    """Each environment acts with noise of its own, new at every step. An update draws noise three
    times, for Q(s, a), for the choice of a* and for its value, each time for the whole batch."""

    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        super().__init__(configs, head)
        assert isinstance(head, NoisyHead)
        self._noise_size = head.noise_size
        self.update_needs = Needs(normal=len(_DRAWS) * head.noise_size)

    @property
    def choice_needs(self) -> Needs:
        return super().choice_needs._replace(normal=self._noise_size)

    def answer(
        self, parameters: Named, buffers: Named, embedding: Tensor, chance: Chance, role: Role
    ) -> Any:
        noise = chance.normal
        if role != "acting":
            # what one weight's draws need lies together: games with more actions have more
            # weights, and the first of them must find the same numbers
            noise = noise.view(-1, len(_DRAWS))[:, _DRAWS.index(role)]
        return functional_call(self._head, (parameters, buffers), (embedding, noise))
