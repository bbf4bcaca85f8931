"""i-DQN: the memory's targets and losses, and how embeddings become pictures again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import grad_and_value

from idqn.agents.objective import Heads, Named, Objective, Outcome, Role, detached, of_action
from idqn.agents.per_run import PerRun
from idqn.chance import Chance
from idqn.config import Config
from idqn.losses import (
    bellman_loss,
    distributional_loss,
    divergence_loss,
    diversity_loss,
    reconstruction_loss,
)
from idqn.networks import normalize
from idqn.networks.memory import Recall
from idqn.policy import best_action
from idqn.projection import project
from idqn.types import Decoded, Seen


class Target(NamedTuple):
    q: Tensor  # [B]
    attention: Tensor  # [B, N]


class IDQN(Objective):
    def __init__(self, configs: Sequence[Config], head: nn.Module) -> None:
        super().__init__(configs, head)
        self._used = {  # losses that count in no run are not computed
            name
            for name in ("bellman", "distributional", "diversity")
            if any(getattr(config.loss, name) > 0 for config in configs)
        }

    def score(self, heads: Heads, embedding: Tensor, chance: Chance, own: PerRun) -> Tensor:
        recall = self.answer(heads.online, heads.buffers, embedding, chance, "acting")
        score: Tensor = recall.q + own.exploration_factor * recall.uncertainty
        return score

    def answer(
        self, parameters: Named, buffers: Named, embedding: Tensor, chance: Chance, role: Role
    ) -> Recall:
        mean = embedding[..., : self.config.agent.embedding_size]  # all, but of variational ones
        recall: Recall = super().answer(parameters, buffers, mean, chance, role)
        return recall

    def aim(
        self, heads: Heads, seen: Seen, outcome: Outcome, chance: Chance, own: PerRun
    ) -> Target:
        """Y = r + γ Q(s', a*) and φTw(s')^a*, with a* chosen by mean Q alone."""
        choice, value = self.next_answers(heads, seen, chance)
        best = best_action(choice.q, own.legal)  # [B]
        support = heads.buffers["values"]  # [N]
        atoms = outcome.reward[:, None] + outcome.discount[:, None] * support  # [B, N]
        next_q = value.q.gather(1, best[:, None])[:, 0]
        return Target(
            q=outcome.reward + outcome.discount * next_q,
            attention=project(of_action(value.attention, best), atoms, support),
        )

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
        options = self.config.loss
        recall = self.answer(online, heads.buffers, embedding, chance, "learning")
        chosen = of_action(recall.attention, outcome.action)  # [B, N]
        chosen_q = recall.q.gather(1, outcome.action[:, None])[:, 0]  # [B]
        losses: Named = {}
        if "bellman" in self._used:
            each = bellman_loss(chosen_q, aim.q, options.bellman_kind)
            losses["bellman"] = (outcome.weight * each).mean()
        if "distributional" in self._used:
            each = distributional_loss(
                of_action(recall.log_attention, outcome.action),
                aim.attention,
                options.distributional_log_epsilon,
            )
            losses["distributional"] = (outcome.weight * each).mean()
        if "diversity" in self._used:
            rows = chosen
            if options.diversity_rows == "all":
                rows = (recall.attention * own.legal[:, None]).flatten(1)  # [B, A*N]
            losses["diversity"] = diversity_loss(rows, options.diversity_per_sample)
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
        return total, ((aim.q - chosen_q).abs().detach(), detached(measured))


def reconstruction_gradient(decoded: Decoded, own: PerRun) -> tuple[Tensor, Tensor]:
    """Gradient of the weighted loss with respect to the reconstruction, and the loss itself."""
    state = normalize(decoded.observation, decoded.mean_image)

    def loss(reconstruction: Tensor) -> tuple[Tensor, Tensor]:
        error = reconstruction_loss(reconstruction.float(), state)
        return own.reconstruction * error, error.detach()

    gradient, (_, error) = grad_and_value(loss, has_aux=True)(decoded.reconstruction)
    return gradient, error


def draw_code(embedding: Tensor, noise: Tensor) -> Tensor:
    """z = μ + σ·ε, what a VAE decodes; embedding [B, 2E], noise [B*E]."""
    mean, log_variance = embedding.chunk(2, -1)
    return mean + (0.5 * log_variance).exp() * noise.view_as(mean)


def code_gradient(
    code: Tensor, embedding: Tensor, noise: Tensor, own: PerRun
) -> tuple[Tensor, Tensor]:
    """From the gradient with respect to z to that with respect to the embedding, with the
    divergence loss added; and that loss itself."""

    def loss(embedding: Tensor) -> tuple[Tensor, Tensor]:
        divergence = divergence_loss(*embedding.chunk(2, -1))
        pull = (draw_code(embedding, noise) * code).sum()
        return pull + own.reconstruction * own.beta * divergence, divergence.detach()

    gradient, (_, divergence) = grad_and_value(loss, has_aux=True)(embedding)
    return gradient, divergence


def _key_hits(chosen: Tensor, action: Tensor, num_actions: int) -> Tensor:
    """How often each key was the most attended one of the chosen action; [A, N]."""
    # comparisons instead of one_hot, which reads its argument's maximum and so stops vmap
    key = chosen.argmax(-1)[:, None] == torch.arange(chosen.shape[1], device=chosen.device)
    row = action[:, None] == torch.arange(num_actions, device=action.device)
    return (row[:, :, None] & key[:, None, :]).sum(0).float()
