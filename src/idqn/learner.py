"""Update and act, for a population of P runs as one program.

The `Torso` goes through the convolutions of all runs. What lies between its ends, the `Objective`,
is written for one run, and `_map` carries it over the population: vectorised and compiled on a
GPU, one run after another on a CPU, where batching across runs gains nothing and a plain loop
gives each run the very bits it would have alone.

A run's parameters are one row of a [P, D] matrix, so that the optimiser is a few lines.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from idqn.capture import compiled, has_kernels
from idqn.config import Config
from idqn.networks import IDQN, build_network
from idqn.objective import Gradients, Heads, Named, Objective, Outcome, PerRun
from idqn.parameters import ParameterRows, Storage
from idqn.torso import Networks, PlainTorso, Torso
from idqn.types import Batch, Decoded, Seen

if TYPE_CHECKING:  # needs Triton
    from idqn.fused import FusedTorso


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
        networks = [
            build_network(c.agent, observation_shape, actions, c.train.seed)
            for c, actions in zip(configs, num_actions, strict=True)
        ]
        widest = networks[list(num_actions).index(max(num_actions))]
        fast = has_kernels(device)
        self.rows = ParameterRows(
            widest, num_actions, IDQN.action_parameters, _storage(widest) if fast else None
        )
        packed = [self.rows.pack(dict(n.named_parameters())) for n in networks]
        self.online = torch.stack(packed).to(device)  # [P, D]
        self.target = self.online.clone()
        self.adam_mean = torch.zeros_like(self.online)
        self.adam_square = torch.zeros_like(self.online)
        self.buffers = {
            name: torch.stack([dict(n.named_buffers())[name] for n in networks]).to(device)
            for name in dict(widest.named_buffers())
        }
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        self.per_run = _per_run(configs, num_actions, device)
        self._first_rate = torch.tensor([c.optimizer.learning_rate for c in configs])
        self.learning_rate = self._first_rate.to(device)
        # the network's code without its numbers, which come from the rows
        module = copy.deepcopy(widest).to("meta")
        self.objective = Objective(self.config, module.memory)
        self._choose = _map(self.objective.act, device)
        self._gradients = _map(self.objective.gradients, device)
        self._pixels = _map(self.objective.reconstruction_gradient, device)
        mean_image = self.buffers["mean_image"]
        shared = Networks(
            module, self.rows, self.online, self.target, mean_image, self.config.train.bootstrap
        )
        self._fused = _fused_torso(shared) if fast else None
        self.torso: Torso = self._fused or PlainTorso(shared)

    @torch.no_grad()
    def act(self, observation: Tensor) -> Tensor:
        """Actions [P, E] for observations [P, E, C, H, W], with the exploration bonus."""
        embedding = self.torso.embed(observation)
        action: Tensor = self._choose(self._heads(), embedding, self.per_run)
        return action

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One step of Adam on one batch per run. Returns per-run measurements, all [P] but
        `key_hits` [P, A, N]."""
        gradient, measured = self.gradient(batch)
        with torch.no_grad():
            norm = _norm(gradient)
            if self.config.optimizer.clip_scope == "global":
                self._adam(gradient, norm, self.config.optimizer.clip_norm)
            else:
                self._clip_layers(gradient)
                self._adam(gradient, norm, math.inf)
        return measured | {"gradient_norm": norm}

    def gradient(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss's gradient [P, D], in memory that the next call reuses, and measurements."""
        seen = self.torso.look(batch)
        with self.torso.beside():  # the decoder and the memory need not wait for each other
            pixels, error = self._pixels(self.torso.decode(), self.per_run)
            self.torso.back_through_decoder(pixels)
        outcome = Outcome(batch.action, batch.reward, batch.terminated)
        gradients: Gradients
        gradients, measured = self._gradients(self._heads(), seen, outcome, self.per_run)
        gradient = self.torso.gradient(gradients.embedding)
        for name, own in gradients.head.items():
            gradient[:, self.rows.columns[f"memory.{name}"]] = own.flatten(1)
        total = torch.addcmul(measured["loss/total"], self.per_run.reconstruction, error)
        return gradient, measured | {"loss/reconstruction": error, "loss/total": total}

    def warm_up(self, batch: Batch, observation: Tensor) -> None:
        """Compile all there is to compile for inputs like these, in a fraction of the time that the
        first update would take; changes no state but the gradient's memory."""
        if self._fused is None:
            return
        from idqn import kernels

        self._fused.compile_small(batch, observation)
        with ThreadPoolExecutor(1) as thread:
            with kernels.rehearsal():
                embedding = self.torso.embed(observation)
                seen = self.torso.look(batch)
                with self.torso.beside():
                    decoded = self.torso.decode()
                    self.torso.back_through_decoder(torch.zeros_like(decoded.reconstruction))
                self.torso.gradient(torch.zeros_like(seen.embedding))
                objective = (batch, seen, decoded, embedding)
                compiling = thread.submit(self._compile_objective, *objective)
            compiling.result()

    def _compile_objective(
        self, batch: Batch, seen: Seen, decoded: Decoded, embedding: Tensor
    ) -> None:
        outcome = Outcome(batch.action, batch.reward, batch.terminated)
        self._gradients(self._heads(), seen, outcome, self.per_run)
        self._pixels(decoded, self.per_run)
        with torch.no_grad():
            self._choose(self._heads(), embedding, self.per_run)

    def schedule(self, steps: int) -> None:
        """Set the learning rate for so many agent steps."""
        options = self.config.optimizer
        if options.halve_every_steps is not None:
            rate = self._first_rate * 0.5 ** (steps // options.halve_every_steps)
            self.learning_rate.copy_(rate.clamp(min=options.min_learning_rate))

    def sync_target(self) -> None:
        self.target.copy_(self.online)
        self.torso.target_changed()

    def set_mean_image(self, mean: Tensor) -> None:
        self.buffers["mean_image"].copy_(mean)

    def weights(self, run: int) -> dict[str, Tensor]:
        """Parameters and buffers of one run, as its plain module would have them, on the CPU."""
        buffers = {name: b[run].cpu().clone() for name, b in self.buffers.items()}
        return self.rows.unpack(run, self.online) | buffers

    def state(self, run: int) -> dict[str, Tensor]:
        """What training on needs besides `weights`."""
        return {
            f"{kind}.{name}": tensor
            for kind in _KEPT
            for name, tensor in self.rows.unpack(run, getattr(self, kind)).items()
        }

    def load(self, run: int, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        self.online[run] = self.rows.pack(weights).to(self.device)
        for kind in _KEPT:
            part = {name: state[f"{kind}.{name}"] for name in self.rows.shapes}
            getattr(self, kind)[run] = self.rows.pack(part).to(self.device)
        for name, buffer in self.buffers.items():
            buffer[run] = weights[name].to(self.device)
        self.torso.online_changed()
        self.torso.target_changed()

    def _heads(self) -> Heads:
        return Heads(
            online={"keys": self.rows.stored(self.online, "memory.keys")},
            target={"keys": self.rows.stored(self.target, "memory.keys")},
            buffers=_under("memory", self.buffers),
        )

    def _clip_layers(self, gradient: Tensor) -> None:
        """Scale each layer down by its own norm, as the authors did, who never clipped the keys."""
        limit = self.config.optimizer.clip_norm
        for name, columns in self.rows.columns.items():
            if name not in IDQN.action_parameters:
                piece = gradient[:, columns]
                piece.mul_((limit / _norm(piece).clamp(min=limit))[:, None])

    def _adam(self, gradient: Tensor, norm: Tensor, limit: float) -> None:
        """Kingma & Ba's Algorithm 1, elementwise on [P, D], with a learning rate per run, for
        gradients of norms [P], scaled down to `limit` where theirs are greater."""
        options = self.config.optimizer
        self.updates += 1
        if self._fused is not None:
            from idqn.kernels import adam

            adam(
                self.online,
                self.adam_mean,
                self.adam_square,
                gradient,
                half=self._fused.online_copy,
                norm=norm,
                limit=min(limit, _LARGEST),
                rate=self.learning_rate,
                count=self.updates,
                betas=(options.beta1, options.beta2),
                epsilon=options.epsilon,
            )
            return
        for run in range(len(gradient)):  # in one pass, what takes ten with torch's public parts
            torch._fused_adam_(
                [self.online[run]],
                [gradient[run]],
                [self.adam_mean[run]],
                [self.adam_square[run]],
                [],
                [self.updates.float()],
                lr=self.learning_rate[run],
                beta1=options.beta1,
                beta2=options.beta2,
                weight_decay=0.0,
                eps=options.epsilon,
                amsgrad=False,
                maximize=False,
                grad_scale=(norm[run] / limit).clamp(min=1),
            )


_LARGEST = 1e30  # no gradient is longer: one that is has diverged
_KEPT = ("target", "adam_mean", "adam_square")


def _norm(matrix: Tensor) -> Tensor:
    """Norms of rows, one row at a time on a CPU: each as it would be alone."""
    if matrix.is_cuda:
        norms: Tensor = torch.linalg.vector_norm(matrix, dim=1)
        return norms
    return torch.stack([torch.linalg.vector_norm(row) for row in matrix])


def _under(part: str, named: Mapping[str, Tensor]) -> Named:
    prefix = f"{part}."
    return {n.removeprefix(prefix): t for n, t in named.items() if n.startswith(prefix)}


def _storage(module: IDQN) -> Mapping[str, Storage]:
    from idqn.fused import storage

    return storage(module)


def _fused_torso(networks: Networks) -> FusedTorso:
    from idqn.fused import FusedTorso

    return FusedTorso(networks, half=torch.get_float32_matmul_precision() == "medium")


def _per_run(configs: Sequence[Config], num_actions: Sequence[int], device: torch.device) -> PerRun:
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


def _map(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """A function of one run as one of all runs."""
    return compiled(vmap(function), device) if device.type == "cuda" else _loop(function)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `vmap` does, one run after another."""

    def mapped(*stacked: Any) -> Any:
        runs = len(pytree.tree_leaves(stacked)[0])
        results = [
            function(*pytree.tree_map(lambda leaf, r=run: leaf[r], stacked)) for run in range(runs)
        ]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves), *results)

    return mapped
