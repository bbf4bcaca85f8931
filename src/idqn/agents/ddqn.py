"""Double DQN (van Hasselt et al. 2016): the online network chooses, the target network values."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from idqn.agents.objective import Heads, Named, Objective, Outcome, detached
from idqn.agents.per_run import PerRun
from idqn.chance import Chance
from idqn.losses import bellman_loss
from idqn.policy import best_action
from idqn.types import Seen


class Target(NamedTuple):
    q: Tensor  # [B]


class DDQN(Objective):
    def aim(
        self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun
    ) -> Target:
        """Y = r + γ Q(s', a*)."""
        choice, value = self.next_answers(heads, seen, chance)
        best = best_action(choice.q, own.legal)
        return Target(outcome.reward + outcome.discount * value.q.gather(1, best[:, None])[:, 0])

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
        chosen_q = answer.q.gather(1, outcome.action[:, None])[:, 0]
        each = bellman_loss(chosen_q, aim.q, self.config.loss.bellman_kind)
        total = (outcome.weight * each).mean()
        measured = {"loss/bellman": total, "loss/total": total, "q_mean": chosen_q.mean()}
        return total, ((aim.q - chosen_q).abs().detach(), detached(measured))
