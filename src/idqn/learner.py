"""Update and act, for a population of P runs as one program.

The `Torso` goes through the convolutions of all runs. What lies between its ends, the `Objective`,
is written for one run, and `_map` carries it over the population: vectorised and compiled on a
GPU, one run after another on a CPU, where batching across runs gains nothing and a plain loop
gives each run the very bits it would have alone.

A network's parameters are one row of a [R, D] matrix, so that the optimiser is a few lines. A run
has one network, or as many as its ensemble has members, which follow each other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils import _pytree as pytree

from idqn.agents import make_objective
from idqn.agents.idqn import code_gradient, draw_code, reconstruction_gradient
from idqn.agents.objective import Chance, Heads, Learned, Named, Outcome, PerRun
from idqn.capture import compiled, has_kernels
from idqn.chance import Dice
from idqn.config import Config
from idqn.networks import build_network, members
from idqn.parameters import ParameterRows
from idqn.rng import normal, uniform
from idqn.torso import Networks, PlainTorso, Torso
from idqn.torso.layers import storage
from idqn.types import Batch, Decoded, Seen

if TYPE_CHECKING:  # needs Triton
    from idqn.torso.fused import FusedTorso


class Update(NamedTuple):
    """What came of an update."""

    measured: Named  # all [P], but `key_hits` [P, A, N]
    surprise: Tensor  # [P, B]


class Learner:
    """State: `online`, `target`, `adam_mean`, `adam_square` [R, D], `buffers`, `updates`,
    `choices`. Its tensors stay where they are and change in place, so that `act` and `update` can
    be captured."""

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
        self.members = len(members(networks[0]))
        every = [member for network in networks for member in members(network)]
        widest = members(networks[list(num_actions).index(max(num_actions))])[0]
        fast = has_kernels(device)
        self.rows = ParameterRows(
            widest,
            [actions for actions in num_actions for _ in range(self.members)],
            widest.action_parameters,
            storage(widest) if fast else None,
        )
        packed = [self.rows.pack(dict(n.named_parameters())) for n in every]
        self.online = torch.stack(packed).to(device)  # [R, D]
        self.target = self.online.clone()
        self.adam_mean = torch.zeros_like(self.online)
        self.adam_square = torch.zeros_like(self.online)
        self.buffers = {
            name: torch.stack([dict(n.named_buffers())[name] for n in every]).to(device)
            for name in dict(widest.named_buffers())
        }
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        self.choices = torch.zeros((), dtype=torch.int64, device=device)  # of actions, ever made
        self.per_run = _per_run(configs, num_actions, device)
        self._per_row: PerRun = pytree.tree_map(self._per_member, self.per_run)
        self._first_rate = torch.tensor([c.optimizer.learning_rate for c in configs])
        self.learning_rate = self._per_member(self._first_rate.to(device))
        self._dice = Dice([c.train.seed for c in configs], self.members, device)
        # the network's code without its numbers, which come from the rows
        module = copy.deepcopy(widest).to("meta")
        self._variational = module.variational
        self._reconstructs = module.decoder is not None and any(
            c.loss.reconstruction > 0 for c in configs
        )
        self.objective = make_objective(configs, module.head)
        self.map_with(partial(_vectorised, device=device) if device.type == "cuda" else _loop)
        mean_image = self.buffers["mean_image"]
        shared = Networks(
            module, self.rows, self.online, self.target, mean_image, self.config.train.bootstrap
        )
        self._fused = _fused_torso(shared) if fast else None
        self.torso: Torso = self._fused or PlainTorso(shared)

    def map_with(self, mapping: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Decide how functions of one run become functions of all."""
        self._choose = mapping(self.objective.act)
        self._learn = mapping(self.objective.gradients)
        self._pixels = mapping(reconstruction_gradient)
        self._draw_code = mapping(draw_code)
        self._code_gradient = mapping(code_gradient)

    @torch.no_grad()
    def act(self, observation: Tensor, episode: Tensor | None = None, first_env: int = 0) -> Tensor:
        """Actions [P, E] for observations [P, E, C, H, W], as in training, of the environments
        from number `first_env` on in their so manieth episodes [P, E]."""
        if episode is None:
            episode = torch.zeros(observation.shape[:2], dtype=torch.int64, device=self.device)
        embedding = self.torso.embed(self._per_member(observation))
        action = self._decide(embedding, episode, first_env)
        self.choices += 1
        return action

    def _decide(self, embedding: Tensor, episode: Tensor, first_env: int) -> Tensor:
        envs, needs = embedding.shape[1], self.objective.choice_needs
        chance = Chance(
            uniform=self._dice.per_env(uniform, _ACTING, self.choices, envs, needs.uniform),
            normal=self._dice.per_env(normal, _NOISE, self.choices, envs, needs.normal),
            lasting=self._dice.per_episode(_LEADING, episode, first_env, needs.lasting),
            steps=(self.choices * envs).float().expand(len(self.per_run.legal)),
        )
        heads = self._heads()
        if self.members > 1:
            heads, embedding = pytree.tree_map(
                lambda t: t.unflatten(0, (-1, self.members)), (heads, embedding)
            )
        action: Tensor = self._choose(heads, embedding, chance, self.per_run)
        return action

    def update(self, batch: Batch) -> Update:
        """One step of Adam on one batch per run."""
        gradient, found = self.gradient(batch)
        with torch.no_grad():
            norm = _norm(gradient)
            if self.config.optimizer.clip_scope == "global":
                self._adam(gradient, norm, self.config.optimizer.clip_norm)
            else:
                self._clip_layers(gradient)
                self._adam(gradient, norm, math.inf)
        measured = found.measured | {"gradient_norm": norm}
        if self.members == 1:
            return Update(measured, found.surprise)
        means: Update = pytree.tree_map(
            lambda t: t.view(-1, self.members, *t.shape[1:]).mean(1),
            Update(measured, found.surprise),
        )
        return means

    def gradient(self, batch: Batch) -> tuple[Tensor, Update]:
        """The loss's gradient [R, D], in memory that the next call reuses, and measurements; all
        per network."""
        batch = Batch(*map(self._per_member, batch))
        seen = self.torso.look(batch)
        from_decoder: Tensor | None = None
        measured: Named = {}
        with self.torso.beside():  # the decoder and the head need not wait for each other
            if self._reconstructs:
                from_decoder, measured = self._reconstruct(seen.embedding)
        learned = self._learn_from(seen, batch)
        gradient = self.torso.gradient(learned.gradients.embedding, from_decoder)
        for name, own in learned.gradients.head.items():
            gradient[:, self.rows.columns[f"head.{name}"]] = own.flatten(1)
        total, weight = learned.measured["loss/total"], self._per_row.reconstruction
        if "loss/reconstruction" in measured:
            total = torch.addcmul(total, weight, measured["loss/reconstruction"])
        if "loss/divergence" in measured:
            total = torch.addcmul(total, weight * self._per_row.beta, measured["loss/divergence"])
        measured = learned.measured | measured | {"loss/total": total}
        return gradient, Update(measured, learned.surprise)

    def _learn_from(self, seen: Seen, batch: Batch) -> Learned:
        needs = self.objective.update_needs
        chance = Chance(
            uniform=self._dice.per_row(uniform, _LEARNING, self.updates, needs.uniform),
            normal=self._dice.per_row(normal, _LEARNING, self.updates, needs.normal),
            lasting=self._dice.per_place(_MASKS, batch.place, needs.lasting),
            steps=self.updates.float().expand(len(batch.action)),
        )
        outcome = Outcome(batch.action, batch.reward, batch.discount, batch.weight)
        learned: Learned = self._learn(self._heads(), seen, outcome, chance, self._per_row)
        return learned

    def _reconstruct(self, embedding: Tensor) -> tuple[Tensor, Named]:
        """The gradient with respect to the embeddings that comes from reconstructing, [P, B, E]."""
        if not self._variational:
            pixels, error = self._pixels(self.torso.decode(embedding), self._per_row)
            return self.torso.back_through_decoder(pixels), {"loss/reconstruction": error}
        count = embedding.shape[1] * embedding.shape[2] // 2
        noise = self._dice.per_row(normal, _CODE, self.updates, count)
        code = self._draw_code(embedding, noise)
        pixels, error = self._pixels(self.torso.decode(code), self._per_row)
        back = self.torso.back_through_decoder(pixels)
        from_decoder, divergence = self._code_gradient(back, embedding, noise, self._per_row)
        return from_decoder, {"loss/reconstruction": error, "loss/divergence": divergence}

    def warm_up(self, batch: Batch, observation: Tensor) -> None:
        """Compile all there is to compile for inputs like these, in a fraction of the time that the
        first update would take; changes no state but the gradient's memory."""
        if self._fused is None:
            return
        from idqn import kernels

        batch = Batch(*map(self._per_member, batch))
        self._fused.compile_small(batch, self._per_member(observation))
        with ThreadPoolExecutor(1) as thread:
            with kernels.rehearsal():
                embedding = self.torso.embed(self._per_member(observation))
                seen = self.torso.look(batch)
                decoded = None
                with self.torso.beside():
                    if self._reconstructs:
                        size = self.config.agent.embedding_size
                        decoded = self.torso.decode(seen.embedding[..., :size].contiguous())
                        self.torso.back_through_decoder(torch.zeros_like(decoded.reconstruction))
                self.torso.gradient(torch.zeros_like(seen.embedding), None)
                compiling = thread.submit(self._compile_objective, batch, seen, decoded, embedding)
            compiling.result()

    def _compile_objective(
        self, batch: Batch, seen: Seen, decoded: Decoded | None, embedding: Tensor
    ) -> None:
        self._learn_from(seen, batch)
        if decoded is not None:
            self._pixels(decoded, self._per_row)
        with torch.no_grad():
            episode = torch.zeros(len(self.per_run.legal), embedding.shape[1], device=self.device)
            self._decide(embedding, episode.long(), first_env=0)

    def schedule(self, steps: int) -> None:
        """Set the learning rate for so many agent steps."""
        options = self.config.optimizer
        if options.halve_every_steps is not None:
            rate = self._first_rate * 0.5 ** (steps // options.halve_every_steps)
            rate = rate.clamp(min=options.min_learning_rate)
            self.learning_rate.copy_(rate.repeat_interleave(self.members))

    def sync_target(self) -> None:
        self.target.copy_(self.online)
        self.torso.target_changed()

    def set_mean_image(self, mean: Tensor) -> None:
        self.buffers["mean_image"].copy_(self._per_member(mean))

    def weights(self, run: int) -> Named:
        """Parameters and buffers of one run, as its plain module would have them, on the CPU."""
        named: Named = {}
        for prefix, row in self._rows_of(run):
            own = self.rows.unpack(row, self.online)
            own |= {name: b[row].cpu().clone() for name, b in self.buffers.items()}
            named |= {prefix + name: tensor for name, tensor in own.items()}
        return named

    def state(self, run: int) -> Named:
        """What training on needs besides `weights`."""
        return {
            f"{kind}.{prefix}{name}": tensor
            for kind in _KEPT
            for prefix, row in self._rows_of(run)
            for name, tensor in self.rows.unpack(row, getattr(self, kind)).items()
        }

    def load(self, run: int, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        for prefix, row in self._rows_of(run):
            own = {name: weights[prefix + name] for name in self.rows.shapes}
            self.online[row] = self.rows.pack(own).to(self.device)
            for kind in _KEPT:
                part = {name: state[f"{kind}.{prefix}{name}"] for name in self.rows.shapes}
                getattr(self, kind)[row] = self.rows.pack(part).to(self.device)
            for name, buffer in self.buffers.items():
                buffer[row] = weights[prefix + name].to(self.device)
        self.torso.online_changed()
        self.torso.target_changed()

    def _rows_of(self, run: int) -> list[tuple[str, int]]:
        """The rows of a run's networks, and what the names of their parameters begin with."""
        if self.members == 1:
            return [("", run)]
        return [(f"members.{k}.", run * self.members + k) for k in range(self.members)]

    def _per_member(self, per_run: Tensor) -> Tensor:
        """[P, ...] to [R, ...]: what is a run's is each of its networks'."""
        return per_run if self.members == 1 else per_run.repeat_interleave(self.members, 0)

    def _heads(self) -> Heads:
        columns = [name for name in self.rows.shapes if name.startswith(_HEAD)]
        return Heads(
            online={n.removeprefix(_HEAD): self.rows.stored(self.online, n) for n in columns},
            target={n.removeprefix(_HEAD): self.rows.stored(self.target, n) for n in columns},
            buffers={
                name.removeprefix(_HEAD): buffer
                for name, buffer in self.buffers.items()
                if name.startswith(_HEAD)
            },
        )

    def _clip_layers(self, gradient: Tensor) -> None:
        """Scale each layer down by its own norm, as the authors did, who never clipped the keys."""
        limit = self.config.optimizer.clip_norm
        for name, columns in self.rows.columns.items():
            if name != "head.keys":
                piece = gradient[:, columns]
                piece.mul_((limit / _norm(piece).clamp(min=limit))[:, None])

    def _adam(self, gradient: Tensor, norm: Tensor, limit: float) -> None:
        """Kingma & Ba's Algorithm 1, elementwise on [P, D], with a learning rate per run, for
        gradients of norms [P], scaled down to `limit` where theirs are greater."""
        options = self.config.optimizer
        self.updates += 1
        if self._fused is not None:
            from idqn.kernels import adam_step

            adam_step(
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


# what random numbers are for
_ACTING, _NOISE, _LEADING, _LEARNING, _MASKS, _CODE = range(1, 7)
_HEAD = "head."
_LARGEST = 1e30  # no gradient is longer: one that is has diverged
_KEPT = ("target", "adam_mean", "adam_square")


def _norm(matrix: Tensor) -> Tensor:
    """Norms of rows, one row at a time on a CPU: each as it would be alone."""
    if matrix.is_cuda:
        norms: Tensor = torch.linalg.vector_norm(matrix, dim=1)
        return norms
    return torch.stack([torch.linalg.vector_norm(row) for row in matrix])


def _fused_torso(networks: Networks) -> FusedTorso:
    from idqn.torso.fused import FusedTorso

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
        beta=column([c.agent.beta for c in configs]),
        exploration_factor=column([c.agent.exploration_factor for c in configs]),
        epsilon_start=column([c.agent.epsilon_start for c in configs]),
        epsilon_end=column([c.agent.epsilon_end for c in configs]),
        epsilon_steps=column([float(c.agent.epsilon_steps) for c in configs]),
        legal=torch.arange(max(num_actions), device=device) < actions[:, None],
    )


def _vectorised(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """A function of one run as one of all runs, fused where there is a compiler for that."""
    return compiled(vmap(function), device)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `vmap` does, one run after another."""

    def mapped(*stacked: Any) -> Any:
        runs = len(pytree.tree_leaves(stacked)[0])
        results = [
            function(*pytree.tree_map(lambda leaf, r=run: leaf[r], stacked)) for run in range(runs)
        ]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves), *results)

    return mapped
