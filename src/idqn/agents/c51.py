"""Distributional DQN, C51 (Bellemare et al. 2017)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from idqn.agents.objective import Heads, Named, Objective, Outcome, detached, of_action
from idqn.agents.per_run import PerRun
from idqn.chance import Chance
from idqn.losses import distributional_loss
from idqn.policy import best_action
from idqn.projection import project
from idqn.types import Seen


class Target(NamedTuple):
    distribution: Tensor  # [B, N]


class C51(Objective):
    def aim(
        self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun
    ) -> Target:
        """The distribution of r + γ Z(s', a*), projected onto the atoms."""
        choice, value = self.next_answers(heads, seen, chance)
        best = best_action(choice.q, own.legal)
        support = heads.buffers["values"]
        atoms = outcome.reward[:, None] + outcome.discount[:, None] * support  # [B, N]
        return Target(project(of_action(value.distribution, best), atoms, support))

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
        answer = self.answer(online, heads.buffers, embedding, chance, "learning")
        each = distributional_loss(of_action(answer.log_distribution, outcome.action), aim[0])
        total = (outcome.weight * each).mean()
        chosen = outcome.action[:, None]
        measured = {
            "loss/distributional": total,
            "loss/total": total,
            "q_mean": answer.q.gather(1, chosen).mean(),
            "uncertainty_mean": answer.uncertainty.gather(1, chosen).mean(),
        }
        return total, (each.detach(), detached(measured))
