"""K Q-functions on shared convolutions: Bootstrapped DQN (Osband et al. 2016), and an ensemble that
explores by their disagreement (Chen et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from idqn.agents.objective import Heads, Named, Objective, Outcome, detached, of_action
from idqn.agents.per_run import PerRun
from idqn.chance import Chance, Needs
from idqn.config import Config
from idqn.losses import bellman_loss
from idqn.networks.heads import ManyHeads, ManyValues
from idqn.types import Seen


class Target(NamedTuple):
    q: Tensor  # [B, K]


class ManyQ(Objective):
    """Each head has a target of its own, from its twin in the target network."""

    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        super().__init__(configs, head)
        assert isinstance(head, ManyHeads)
        self.heads = head.heads

    def aim(
        self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun
    ) -> Target:
        choice, value = self.next_answers(heads, seen, chance)
        liked = choice.head_q.masked_fill(~own.legal[:, None], float("-inf"))
        best = liked.argmax(1)  # [B, K]
        next_q = value.head_q.gather(1, best[:, None])[:, 0]
        return Target(outcome.reward[:, None] + outcome.discount[:, None] * next_q)

    def loss(
        self,
        online: Named,
        embedding: Tensor,
        heads: Heads,
        outcome: Outcome,
        aim: Target,
        chance: Chance,
        own: PerRun,
    ) -> tuple[Tensor, tuple[Tensor, Named]]:
        # heads learn at full speed; the convolutions, which all of them pull at, at 1/K of it
        share = embedding / self.heads
        embedding = share + (embedding - share).detach()
        answer: ManyValues = self.answer(online, heads.buffers, embedding, chance, "learning")
        chosen_q = of_action(answer.head_q, outcome.action)  # [B, K]
        each = bellman_loss(chosen_q, aim.q, self.config.loss.bellman_kind)
        learning = self.learning(chance, each)
        total = (outcome.weight[:, None] * learning * each).mean(0).sum()
        measured = {
            "loss/bellman": total / self.heads,
            "loss/total": total / self.heads,
            "q_mean": chosen_q.mean(),
            "uncertainty_mean": answer.uncertainty.gather(1, outcome.action[:, None]).mean(),
        }
        return total, ((aim.q - chosen_q).abs().mean(1).detach(), detached(measured))

    def learning(self, chance: Chance, like: Tensor) -> Tensor:
        """Which head learns from which sample: 0 or 1, [B, K]."""
        return torch.ones_like(like)


class Bootstrap(ManyQ):
    """One head leads through each episode. Each transition teaches some heads and not others, the
    same ones as long as it is remembered."""

    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        super().__init__(configs, head)
        self.update_needs = Needs(lasting=self.heads)

    @property
    def choice_needs(self) -> Needs:
        return super().choice_needs._replace(lasting=1)

    def score(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        answer = self.answer(heads.online, heads.buffers, embedding, chance, "acting")
        head_q: Tensor = answer.head_q  # [B, A, K]
        leading = (chance.lasting * self.heads).long().clamp(max=self.heads - 1)  # [B, 1]
        index = leading[:, None].expand(-1, head_q.shape[1], 1)
        return head_q.gather(2, index)[:, :, 0]

    def learning(self, chance: Chance, like: Tensor) -> Tensor:
        return (chance.lasting < self.config.agent.mask_probability).to(like.dtype)


class SharedEnsemble(ManyQ):
    def score(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        answer = self.answer(heads.online, heads.buffers, embedding, chance, "acting")
        score: Tensor = answer.q + own.exploration_factor * answer.uncertainty
        return score
