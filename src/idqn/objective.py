"""What an i-DQN learns from a batch: its targets, its losses and their gradients.

Written for one run; the learner maps it over a population. The convolutions are not here: it
begins at the embeddings and reconstructions that they made, and ends with the gradients with
respect to those, from which the learner goes back through them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value
from torch.utils import _pytree as pytree

from idqn.config import Config
from idqn.losses import bellman_loss, distributional_loss, diversity_loss, reconstruction_loss
from idqn.networks import normalize
from idqn.networks.memory import KeyValueMemory, Recall
from idqn.policy import directed_action
from idqn.projection import project
from idqn.types import Decoded, Seen

Named = dict[str, Tensor]


class PerRun(NamedTuple):
    """Hyper-parameters in which the runs of a population may differ; each a tensor of length P."""

    bellman: Tensor
    distributional: Tensor
    reconstruction: Tensor
    diversity: Tensor
    exploration_factor: Tensor
    discount: Tensor
    clip_rewards: Tensor  # bool
    legal: Tensor  # [P, A] bool: games with fewer actions than the widest are masked


class Heads(NamedTuple):
    """Parameters of the memory in the two networks, and its buffers."""

    online: Named
    target: Named
    buffers: Named


class Outcome(NamedTuple):
    """What was done and what came of it; [B] each."""

    action: Tensor
    reward: Tensor
    terminated: Tensor


class Target(NamedTuple):
    """What an update moves towards."""

    q: Tensor  # [B]
    attention: Tensor  # [B, N]


class Gradients(NamedTuple):
    head: Named
    embedding: Tensor


class Objective:
    def __init__(self, config: Config, memory: KeyValueMemory) -> None:
        self.config = config
        self._memory = memory

    def act(self, heads: Heads, embedding: Tensor, own: PerRun) -> Tensor:
        """Actions [B], with the exploration bonus."""
        recall = self._recall(heads.online, heads.buffers, embedding)
        return directed_action(recall.q, recall.uncertainty, own.exploration_factor, own.legal)

    def gradients(
        self, heads: Heads, seen: Seen, outcome: Outcome, own: PerRun
    ) -> tuple[Gradients, Named]:
        """Gradients of all losses but that of reconstruction, and measurements: all scalars but
        `key_hits` [A, N]."""
        aim = self.aim(heads, seen, outcome, own)
        by = grad_and_value(self.loss, argnums=(0, 1), has_aux=True)
        gradients, (_, measured) = by(heads.online, seen.embedding, heads, outcome, aim, own)
        return Gradients(*gradients), measured

    def reconstruction_gradient(self, decoded: Decoded, own: PerRun) -> tuple[Tensor, Tensor]:
        """Gradient of the weighted loss with respect to the reconstruction, and the loss itself."""
        state = normalize(decoded.observation, decoded.mean_image)

        def loss(reconstruction: Tensor) -> tuple[Tensor, Tensor]:
            error = reconstruction_loss(reconstruction.float(), state)
            return own.reconstruction * error, error.detach()

        gradient, (_, error) = grad_and_value(loss, has_aux=True)(decoded.reconstruction)
        return gradient, error

    def aim(self, heads: Heads, seen: Seen, outcome: Outcome, own: PerRun) -> Target:
        """Y = r + γ Q(s', a*) and φTw(s')^a*, with a* chosen by mean Q alone."""
        kind = self.config.train.bootstrap
        valuing = heads.online if kind == "online" else heads.target
        value = self._recall(valuing, heads.buffers, seen.next_valuing)
        choice = value
        if kind == "double":
            choice = self._recall(heads.online, heads.buffers, seen.next_choosing)
        best = directed_action(choice.q, choice.uncertainty, 0.0, own.legal)  # [B]

        support = heads.buffers["values"]  # [N]
        reward = torch.where(own.clip_rewards, outcome.reward.clamp(-1, 1), outcome.reward)
        discount = own.discount * (~outcome.terminated)  # [B]
        atoms = reward[:, None] + discount[:, None] * support  # [B, N]
        next_q = value.q.gather(1, best[:, None])[:, 0]
        return Target(
            q=reward + discount * next_q,
            attention=project(_of_action(value.attention, best), atoms, support),
        )

    def loss(
        self,
        online: Named,
        embedding: Tensor,
        heads: Heads,
        outcome: Outcome,
        aim: Target,
        own: PerRun,
    ) -> tuple[Tensor, Named]:
        """The loss as a function of its first two arguments, and what it is made of."""
        options = self.config.loss
        recall = self._recall(online, heads.buffers, embedding)
        chosen = _of_action(recall.attention, outcome.action)  # [B, N]
        chosen_q = recall.q.gather(1, outcome.action[:, None])[:, 0]  # [B]
        rows = chosen
        if options.diversity_rows == "all":
            rows = (recall.attention * own.legal[:, None]).flatten(1)  # [B, A*N]
        losses = {
            "bellman": bellman_loss(chosen_q, aim.q, options.bellman_kind),
            "distributional": distributional_loss(
                _of_action(recall.log_attention, outcome.action),
                aim.attention,
                options.distributional_log_epsilon,
            ),
            "diversity": diversity_loss(rows, options.diversity_per_sample),
        }
        total = sum(
            (getattr(own, name) * loss for name, loss in losses.items()),
            start=torch.zeros((), device=embedding.device),
        )
        measured = {f"loss/{name}": loss for name, loss in losses.items()}
        measured["loss/total"] = total
        measured["q_mean"] = chosen_q.mean()
        measured["uncertainty_mean"] = recall.uncertainty.gather(1, outcome.action[:, None]).mean()
        measured["attention_entropy"] = torch.special.entr(chosen).sum(-1).mean()
        measured["key_hits"] = _key_hits(chosen, outcome.action, recall.attention.shape[1])
        return total, pytree.tree_map(torch.detach, measured)

    def _recall(self, parameters: Named, buffers: Named, embedding: Tensor) -> Recall:
        recall: Recall = functional_call(self._memory, (parameters, buffers), (embedding,))
        return recall


def _of_action(per_action: Tensor, action: Tensor) -> Tensor:
    """[B, A, N] and [B] to [B, N]."""
    index = action[:, None, None].expand(-1, 1, per_action.shape[2])
    return per_action.gather(1, index)[:, 0]


def _key_hits(chosen: Tensor, action: Tensor, num_actions: int) -> Tensor:
    """How often each key was the most attended one of the chosen action; [A, N]."""
    # comparisons instead of one_hot, which reads its argument's maximum and so stops vmap
    key = chosen.argmax(-1)[:, None] == torch.arange(chosen.shape[1], device=chosen.device)
    row = action[:, None] == torch.arange(num_actions, device=action.device)
    return (row[:, :, None] & key[:, None, :]).sum(0).float()
