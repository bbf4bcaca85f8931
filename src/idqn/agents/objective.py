"""What every agent has in common: it chooses actions, and learns from batches.

Written for one run; the learner maps it over a population. The convolutions are not here: an
objective begins at the embeddings that they made, and ends with the gradients with respect to
those, from which the learner goes back through them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value
from torch.utils import _pytree as pytree

from idqn.agents.per_run import PerRun
from idqn.chance import Chance, Needs
from idqn.config import Config
from idqn.policy import best_action, epsilon, epsilon_greedy
from idqn.types import Seen

Named = dict[str, Tensor]
Role = Literal["acting", "learning", "choosing", "valuing"]


class Heads(NamedTuple):
    """Parameters of the head in the two networks, and its buffers."""

    online: Named
    target: Named
    buffers: Named


class Outcome(NamedTuple):
    """What was done and what came of it; [B] each."""

    action: Tensor
    reward: Tensor
    discount: Tensor  # of the next state's value; 0 where there is none
    weight: Tensor  # how much the sample counts


class Gradients(NamedTuple):
    head: Named
    embedding: Tensor


class Learned(NamedTuple):
    gradients: Gradients
    surprise: Tensor  # [B], what prioritised replay goes by
    measured: Named  # scalars, but `key_hits` [A, N]


class Objective(ABC):
    members = 1
    """Networks of one run, which learn apart from each other and choose together."""
    update_needs = Needs()

    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        self.config = configs[0]  # for what all runs share
        self._head = head
        self._dithers = any(config.agent.dithers for config in configs)

    @property
    def choice_needs(self) -> Needs:
        return Needs(uniform=2 if self._dithers else 0)

    def act(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        """Actions [B], as in training."""
        action = best_action(self.score(heads, embedding, chance, own), own.legal)
        if not self._dithers:
            return action
        probability = epsilon(own.epsilon_start, own.epsilon_end, own.epsilon_steps, chance.steps)
        return epsilon_greedy(action, chance.uniform, probability, own.legal)

    def gradients(
        self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun
    ) -> Learned:
        """Gradients of all losses but that of reconstruction."""
        aim = self.aim(heads, seen, outcome, chance, own)
        by = grad_and_value(self.loss, argnums=(0, 1), has_aux=True)
        gradients, (_, (surprise, measured)) = by(
            heads.online, seen.embedding, heads, outcome, aim, chance, own
        )
        return Learned(Gradients(*gradients), surprise, measured)

    def score(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        """What the agent likes most has the highest, [B, A]."""
        q: Tensor = self.answer(heads.online, heads.buffers, embedding, chance, "acting").q
        return q

    @abstractmethod
    def aim(self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun) -> Any:
        """What an update moves towards: a tuple of tensors."""

    @abstractmethod
    def loss(
        self,
        online: Named,
        embedding: Tensor,
        heads: Heads,
        outcome: Outcome,
        aim: Any,
        chance: Chance,
        own: PerRun,
    ) -> tuple[Tensor, tuple[Tensor, Named]]:
        """The loss as a function of its first two arguments; surprise and measurements."""

    def answer(
        self, parameters: Named, buffers: Named, embedding: Tensor, chance: Chance, role: Role
    ) -> Any:
        """What the head makes of an embedding."""
        return functional_call(self._head, (parameters, buffers), (embedding,))

    def next_answers(self, heads: Heads, seen: Seen, chance: Chance) -> tuple[Any, Any]:
        """What the head says of s' where a* is chosen, and where it is valued."""
        kind = self.config.train.bootstrap
        valuing = heads.online if kind == "online" else heads.target
        value = self.answer(valuing, heads.buffers, seen.next_valuing, chance, "valuing")
        if kind != "double":
            return value, value
        choosing = seen.next_choosing
        return self.answer(heads.online, heads.buffers, choosing, chance, "choosing"), value


def of_action(per_action: Tensor, action: Tensor) -> Tensor:
    """[B, A, N] and [B] to [B, N]."""
    index = action[:, None, None].expand(-1, 1, per_action.shape[2])
    return per_action.gather(1, index)[:, 0]


def detached(measured: Named) -> Named:
    found: Named = pytree.tree_map(torch.detach, measured)
    return found
