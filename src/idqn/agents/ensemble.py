"""Q-ensemble with UCB exploration (Chen et al. 2017): K networks, mean + λ·deviation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.func import vmap

from idqn.agents.ddqn import DDQN
from idqn.agents.objective import Heads
from idqn.agents.per_run import PerRun
from idqn.chance import Chance
from idqn.config import Config
from idqn.networks.heads import mean_and_spread


class Ensemble(DDQN):
    """Each member is a Double DQN that learns from the same batches; what `score` sees has the
    members in front, [K, ...]."""

    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        super().__init__(configs, head)
        self.members = self.config.agent.heads

    def score(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        def q(online: dict[str, Tensor], embedding: Tensor) -> Tensor:
            found: Tensor = self.answer(online, {}, embedding, chance, "acting").q
            return found

        head_q = vmap(q, out_dims=-1)(heads.online, embedding)  # [B, A, K]
        mean, spread = mean_and_spread(head_q)
        return mean + own.exploration_factor * spread
