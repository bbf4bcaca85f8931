"""Update and act, for a population of P runs as one program.

The `Torso` goes through the convolutions of all runs. What lies between its ends, the `Objective`,
is written for one run and carried over the population (`idqn.mapping`).

A network's parameters are one row of a [R, D] matrix, so that the optimiser is a few lines. A run
has one network, or as many as its ensemble has members, which follow each other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from idqn.agents import make_objective
from idqn.agents.idqn import code_gradient, draw_code, reconstruction_gradient
from idqn.agents.objective import Heads, Learned, Named, Outcome
from idqn.agents.per_run import PerRun, per_run
from idqn.capture import has_kernels
from idqn.chance import Dice
from idqn.config import Config
from idqn.mapping import mapping_on
from idqn.networks import build_network, members
from idqn.optimizer import Optimizer
from idqn.parameters import ParameterRows
from idqn.system import use_device
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
    """State: `online`, `target` [R, D], `buffers`, the optimiser's, `updates`, `choices`. Its
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
        self.buffers = {
            name: torch.stack([dict(n.named_buffers())[name] for n in every]).to(device)
            for name in dict(widest.named_buffers())
        }
        self.choices = torch.zeros((), dtype=torch.int64, device=device)  # of actions, ever made
        self.per_run = per_run(configs, num_actions, device)
        self._per_row: PerRun = pytree.tree_map(self._per_member, self.per_run)
        self._dice = Dice([c.train.seed for c in configs], self.members, device)
        # the network's code without its numbers, which come from the rows
        module = copy.deepcopy(widest).to("meta")
        self._variational = module.variational
        self._reconstructs = module.decoder is not None and any(
            c.loss.reconstruction > 0 for c in configs
        )
        self.objective = make_objective(configs, module.head)
        self.map_with(mapping_on(device))
        mean_image = self.buffers["mean_image"]
        shared = Networks(
            module, self.rows, self.online, self.target, mean_image, self.config.train.bootstrap
        )
        self._fused = _fused_torso(shared) if fast else None
        self.torso: Torso = self._fused or PlainTorso(shared)
        self.optimizer = Optimizer(
            self.config.optimizer,
            self.rows,
            self.online,
            self._per_member(torch.tensor([c.optimizer.learning_rate for c in configs])),
            in_kernel=fast,
            half=None if self._fused is None else self._fused.online_copy,
        )
        self.updates = self.optimizer.updates
        self._kept = {
            "target": self.target,
            "adam_mean": self.optimizer.mean,
            "adam_square": self.optimizer.square,
        }

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
        needs = self.objective.choice_needs
        chance = self._dice.for_acting(needs, self.choices, episode, first_env)
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
            norm = self.optimizer.step(gradient)
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
        chance = self._dice.for_learning(self.objective.update_needs, self.updates, batch.place)
        outcome = Outcome(batch.action, batch.reward, batch.discount, batch.weight)
        learned: Learned = self._learn(self._heads(), seen, outcome, chance, self._per_row)
        return learned

    def _reconstruct(self, embedding: Tensor) -> tuple[Tensor, Named]:
        """The gradient with respect to the embeddings that comes from reconstructing, [P, B, E]."""
        if not self._variational:
            pixels, error = self._pixels(self.torso.decode(embedding), self._per_row)
            return self.torso.back_through_decoder(pixels), {"loss/reconstruction": error}
        count = embedding.shape[1] * embedding.shape[2] // 2
        noise = self._dice.for_codes(self.updates, count)
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
        with ThreadPoolExecutor(1, initializer=use_device, initargs=(self.device,)) as thread:
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
            for kind, matrix in self._kept.items()
            for prefix, row in self._rows_of(run)
            for name, tensor in self.rows.unpack(row, matrix).items()
        }

    def load(self, run: int, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        for prefix, row in self._rows_of(run):
            own = {name: weights[prefix + name] for name in self.rows.shapes}
            self.online[row] = self.rows.pack(own).to(self.device)
            for kind, matrix in self._kept.items():
                part = {name: state[f"{kind}.{prefix}{name}"] for name in self.rows.shapes}
                matrix[row] = self.rows.pack(part).to(self.device)
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


_HEAD = "head."


def _fused_torso(networks: Networks) -> FusedTorso:
    from idqn.torso.fused import FusedTorso

    return FusedTorso(networks, half=torch.get_float32_matmul_precision() == "medium")
