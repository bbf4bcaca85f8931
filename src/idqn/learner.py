"""Update and act, for a population of P runs as one program.

Everything is written for one run: a loss, a choice of actions, pure functions of that run's
parameters. `_map` carries them over the leading dimension of the stacked runs: by `vmap` on a
GPU, one after another on a CPU, where batching across runs gains nothing and a plain loop gives
each run the very bits it would have alone.

A run's parameters are one row of a [P, D] matrix, so that the optimiser is a few lines.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap
from torch.utils import _pytree as pytree

from idqn.config import Config
from idqn.losses import bellman_loss, distributional_loss, diversity_loss, reconstruction_loss
from idqn.networks import IDQN, build_network, normalize
from idqn.policy import directed_action
from idqn.projection import project
from idqn.types import Batch, QOutput


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


class Target(NamedTuple):
    """What an update moves towards."""

    q: Tensor  # [B]
    attention: Tensor  # [B, N]


class Learner:
    """State: `online`, `target`, `adam_mean`, `adam_square` [P, D], `buffers`, `updates`. Its
    tensors stay where they are and change in place, so that `act` and `update` can be captured."""

    def __init__(
        self,
        configs: Sequence[Config],
        observation_shape: tuple[int, int, int],
        num_actions: Sequence[int],
        device: torch.device,
    ) -> None:
        self.config = configs[0]  # for what all runs share
        self.device = device
        self.num_actions = list(num_actions)
        networks = [
            build_network(c.agent, observation_shape, actions, c.train.seed)
            for c, actions in zip(configs, num_actions, strict=True)
        ]
        widest = networks[self.num_actions.index(max(num_actions))]
        self.layout = {name: p.shape for name, p in widest.named_parameters()}
        # the network's code without its numbers, which come from the rows
        self._module = copy.deepcopy(widest).to("meta")
        rows = [self._pack(dict(n.named_parameters())) for n in networks]
        self.online = torch.stack(rows).to(device)  # [P, D]
        self.target = self.online.clone()
        self.adam_mean = torch.zeros_like(self.online)
        self.adam_square = torch.zeros_like(self.online)
        self.buffers = {
            name: torch.stack([dict(n.named_buffers())[name] for n in networks]).to(device)
            for name in dict(widest.named_buffers())
        }
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        self.per_run = _per_run(configs, self.num_actions, device)
        self._first_rate = torch.tensor([c.optimizer.learning_rate for c in configs])
        self.learning_rate = self._first_rate.to(device)
        map_runs = _vmap if device.type == "cuda" else _loop
        self._act = map_runs(self._act_one)
        self._aim = map_runs(self._aim_one)
        self._grad = map_runs(grad_and_value(self._loss_one, has_aux=True))
        self._clip = map_runs(self._clip_one)

    @torch.no_grad()
    def act(self, observation: Tensor) -> Tensor:
        """Actions [P, E] for observations [P, E, C, H, W], with the exploration bonus."""
        action: Tensor = self._act(self.online, self.buffers, observation, self.per_run)
        return action

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One step of Adam on one batch per run. Returns per-run measurements, all [P] but
        `key_hits` [P, A, N]."""
        with torch.no_grad():
            aim = self._aim(self.online, self.target, self.buffers, batch, self.per_run)
        gradient, (_, measured) = self._grad(self.online, self.buffers, batch, aim, self.per_run)
        with torch.no_grad():
            clipped, norm = self._clip(gradient)
            self._adam(clipped)
        measurements: dict[str, Tensor] = measured | {"gradient_norm": norm}
        return measurements

    def schedule(self, steps: int) -> None:
        """Set the learning rate for so many agent steps."""
        options = self.config.optimizer
        if options.halve_every_steps is not None:
            rate = self._first_rate * 0.5 ** (steps // options.halve_every_steps)
            self.learning_rate.copy_(rate.clamp(min=options.min_learning_rate))

    def sync_target(self) -> None:
        self.target.copy_(self.online)

    def set_mean_image(self, mean: Tensor) -> None:
        self.buffers["mean_image"].copy_(mean)

    def weights(self, run: int) -> dict[str, Tensor]:
        """Parameters and buffers of one run, as its plain module would have them, on the CPU."""
        buffers = {name: b[run].cpu().clone() for name, b in self.buffers.items()}
        return self._unpack(run, self.online) | buffers

    def state(self, run: int) -> dict[str, Tensor]:
        """What training on needs besides `weights`."""
        named = {
            "target": self.target,
            "adam_mean": self.adam_mean,
            "adam_square": self.adam_square,
        }
        return {
            f"{kind}.{name}": tensor
            for kind, matrix in named.items()
            for name, tensor in self._unpack(run, matrix).items()
        }

    def load(self, run: int, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        self.online[run] = self._pack(weights).to(self.device)
        for kind in ("target", "adam_mean", "adam_square"):
            part = {name: state[f"{kind}.{name}"] for name in self.layout}
            getattr(self, kind)[run] = self._pack(part).to(self.device)
        for name, buffer in self.buffers.items():
            buffer[run] = weights[name].to(self.device)

    # One run. `row` is its row of parameters; B samples, A actions, N keys.

    def _forward(
        self, row: Tensor, buffers: dict[str, Tensor], observation: Tensor, decode: bool
    ) -> QOutput:
        pieces = self._split(row)
        named = zip(self.layout.items(), pieces, strict=True)
        parameters = {name: piece.view(shape) for (name, shape), piece in named}
        output: QOutput = functional_call(
            self._module, (parameters, buffers), (observation,), {"decode": decode}
        )
        return output

    def _act_one(
        self, row: Tensor, buffers: dict[str, Tensor], observation: Tensor, own: PerRun
    ) -> Tensor:
        out = self._forward(row, buffers, observation, decode=False)
        return directed_action(out.q, out.uncertainty, own.exploration_factor, own.legal)

    def _aim_one(
        self,
        online: Tensor,
        target: Tensor,
        buffers: dict[str, Tensor],
        batch: Batch,
        own: PerRun,
    ) -> Target:
        """Y = r + γ Q(s', a*) and φTw(s')^a*, with a* chosen by mean Q alone."""
        kind = self.config.train.bootstrap
        valuing = online if kind == "online" else target
        choosing = target if kind == "target" else online
        value = self._forward(valuing, buffers, batch.next_observation, decode=False)
        choice = value
        if choosing is not valuing:
            choice = self._forward(choosing, buffers, batch.next_observation, decode=False)
        best = directed_action(choice.q, choice.uncertainty, 0.0, own.legal)  # [B]

        support = buffers["memory.values"]  # [N]
        reward = torch.where(own.clip_rewards, batch.reward.clamp(-1, 1), batch.reward)
        discount = own.discount * (~batch.terminated)  # [B]
        atoms = reward[:, None] + discount[:, None] * support  # [B, N]
        next_q = value.q.gather(1, best[:, None])[:, 0]
        return Target(
            q=reward + discount * next_q,
            attention=project(_of_action(value.attention, best), atoms, support),
        )

    def _loss_one(
        self,
        row: Tensor,
        buffers: dict[str, Tensor],
        batch: Batch,
        aim: Target,
        own: PerRun,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        options = self.config.loss
        out = self._forward(row, buffers, batch.observation, decode=True)
        assert out.reconstruction is not None
        state = normalize(batch.observation, buffers["mean_image"])
        chosen = _of_action(out.attention, batch.action)  # [B, N]
        chosen_q = out.q.gather(1, batch.action[:, None])[:, 0]  # [B]
        rows = chosen
        if options.diversity_rows == "all":
            rows = (out.attention * own.legal[:, None]).flatten(1)  # [B, A*N]
        losses = {
            "bellman": bellman_loss(chosen_q, aim.q, options.bellman_kind),
            "distributional": distributional_loss(
                _of_action(out.log_attention, batch.action),
                aim.attention,
                options.distributional_log_epsilon,
            ),
            "reconstruction": reconstruction_loss(out.reconstruction, state),
            "diversity": diversity_loss(rows, options.diversity_per_sample),
        }
        total = sum(
            (getattr(own, name) * loss for name, loss in losses.items()),
            start=torch.zeros((), device=row.device),
        )
        measured = {f"loss/{name}": loss for name, loss in losses.items()}
        measured["loss/total"] = total
        measured["q_mean"] = chosen_q.mean()
        measured["uncertainty_mean"] = out.uncertainty.gather(1, batch.action[:, None]).mean()
        measured["attention_entropy"] = torch.special.entr(chosen).sum(-1).mean()
        measured["key_hits"] = _key_hits(chosen, batch.action, out.attention.shape[1])
        return total, pytree.tree_map(torch.detach, measured)

    def _clip_one(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Scale the gradient down to the norm allowed; returns it and its norm before."""
        norm = torch.linalg.vector_norm(gradient)
        limit = self.config.optimizer.clip_norm
        if self.config.optimizer.clip_scope == "global":
            return gradient * (limit / norm.clamp(min=limit)), norm
        pieces = list(self._split(gradient))
        for i, name in enumerate(self.layout):
            if name not in IDQN.action_parameters:  # the authors never clipped the keys
                pieces[i] = pieces[i] * (
                    limit / torch.linalg.vector_norm(pieces[i]).clamp(min=limit)
                )
        return torch.cat(pieces), norm

    def _adam(self, gradient: Tensor) -> None:
        """Kingma & Ba's Algorithm 1, elementwise on [P, D], with a learning rate per run."""
        options = self.config.optimizer
        self.updates += 1
        count = self.updates.double()
        mean_scale = (1 - options.beta1**count).float()
        square_scale = (1 - options.beta2**count).float()
        self.adam_mean.lerp_(gradient, 1 - options.beta1)
        self.adam_square.mul_(options.beta2).addcmul_(gradient, gradient, value=1 - options.beta2)
        deviation = (self.adam_square / square_scale).sqrt_().add_(options.epsilon)
        step = (self.learning_rate / mean_scale)[:, None] * self.adam_mean
        self.online.sub_(step.div_(deviation))

    def _split(self, row: Tensor) -> tuple[Tensor, ...]:
        """A row's parameters, each still flat."""
        return torch.split_with_sizes(row, [shape.numel() for shape in self.layout.values()])

    def _pack(self, named: Mapping[str, Tensor]) -> Tensor:
        """One row from named parameters; those of absent actions become zeros."""
        pieces = []
        for name, shape in self.layout.items():
            full = named[name].new_zeros(shape)
            full[: len(named[name])] = named[name].detach()
            pieces.append(full.flatten())
        return torch.cat(pieces)

    def _unpack(self, run: int, matrix: Tensor) -> dict[str, Tensor]:
        """Named parameters of one run, on the CPU, without the rows of actions it lacks."""
        named: dict[str, Tensor] = {}
        pieces = self._split(matrix[run].cpu())
        for (name, shape), piece in zip(self.layout.items(), pieces, strict=True):
            tensor = piece.view(shape)
            if name in IDQN.action_parameters:
                tensor = tensor[: self.num_actions[run]]
            named[name] = tensor.clone()
        return named


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


def _per_run(configs: Sequence[Config], num_actions: list[int], device: torch.device) -> PerRun:
    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, device=device)

    actions = torch.tensor(num_actions, device=device)
    return PerRun(
        bellman=column([c.loss.bellman for c in configs]),
        distributional=column([c.loss.distributional for c in configs]),
        reconstruction=column([c.loss.reconstruction for c in configs]),
        diversity=column([c.loss.diversity for c in configs]),
        exploration_factor=column([c.agent.exploration_factor for c in configs]),
        discount=column([c.train.discount for c in configs]),
        clip_rewards=column([c.train.clip_rewards for c in configs]),
        legal=torch.arange(max(num_actions), device=device) < actions[:, None],
    )


def _vmap(function: Callable[..., Any]) -> Callable[..., Any]:
    return vmap(function)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `vmap` does, one run after another."""

    def mapped(*stacked: Any) -> Any:
        runs = len(pytree.tree_leaves(stacked)[0])
        results = [
            function(*pytree.tree_map(lambda leaf, r=run: leaf[r], stacked)) for run in range(runs)
        ]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves), *results)

    return mapped
