"""From observations to embeddings and reconstructions, for all runs of a population, and back.

`look` goes forward, `gradient` back through what was last looked at. `PlainTorso` leaves both to
torch, one run after another: simple, and to the bit what each run would compute alone.
`idqn.fused.FusedTorso` does the same on a GPU, for all runs at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from idqn.networks import IDQN, normalize
from idqn.parameters import ParameterRows
from idqn.types import Batch, Seen


class Networks(NamedTuple):
    """Code and numbers of a population's networks."""

    module: IDQN  # without numbers of its own
    rows: ParameterRows
    online: Tensor  # [P, D]
    target: Tensor  # [P, D]
    mean_image: Tensor  # [P, C, H, W]
    bootstrap: str  # "double", "target" or "online"


class Torso(Protocol):
    def embed(self, observation: Tensor) -> Tensor:
        """h(s) in the online networks, [P, E, embedding size]."""
        ...

    def look(self, batch: Batch) -> Seen:
        """What the networks make of a batch."""
        ...

    def gradient(self, embedding: Tensor, reconstruction: Tensor) -> Tensor:
        """From gradients with respect to what `look` saw to those of the parameters, [P, D]. The
        memory's columns are left as they are, for the caller."""
        ...

    def online_changed(self) -> None: ...

    def target_changed(self) -> None: ...


class PlainTorso:
    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self._gradient = torch.zeros_like(networks.online)
        self._kept: list[tuple[Tensor, Tensor, Tensor]] = []  # row, embedding, reconstruction

    @torch.no_grad()
    def embed(self, observation: Tensor) -> Tensor:
        return self._each(
            lambda run: self._encode(self._networks.online[run], self._state(run, observation[run]))
        )

    def look(self, batch: Batch) -> Seen:
        online, target, kind = (
            self._networks.online,
            self._networks.target,
            self._networks.bootstrap,
        )
        with torch.no_grad():
            valuing = self._next(online if kind == "online" else target, batch)
            choosing = self._next(online, batch) if kind == "double" else valuing
        self._kept = []
        for run in range(len(online)):
            row = online[run].detach().requires_grad_()
            embedding = self._encode(row, self._state(run, batch.observation[run]))
            self._kept.append((row, embedding, self._call("decoder", row, embedding)))
        return Seen(
            batch.observation,
            self._networks.mean_image,
            reconstruction=torch.stack([decoded.detach() for _, _, decoded in self._kept]),
            embedding=torch.stack([embedding.detach() for _, embedding, _ in self._kept]),
            next_choosing=choosing,
            next_valuing=valuing,
        )

    def gradient(self, embedding: Tensor, reconstruction: Tensor) -> Tensor:
        for run, (row, embedded, decoded) in enumerate(self._kept):
            upstream = (embedding[run], reconstruction[run])
            (self._gradient[run],) = torch.autograd.grad((embedded, decoded), row, upstream)
        self._kept = []
        return self._gradient

    def online_changed(self) -> None:
        """Nothing is kept of it."""

    def target_changed(self) -> None:
        """Nothing is kept of it."""

    def _next(self, rows: Tensor, batch: Batch) -> Tensor:
        return self._each(
            lambda run: self._encode(rows[run], self._state(run, batch.next_observation[run]))
        )

    def _state(self, run: int, observation: Tensor) -> Tensor:
        return normalize(observation, self._networks.mean_image[run])

    def _encode(self, row: Tensor, state: Tensor) -> Tensor:
        return self._call("encoder", row, state)

    def _call(self, part: str, row: Tensor, x: Tensor) -> Tensor:
        """One part of one run's network."""
        module: nn.Module = getattr(self._networks.module, part)
        prefix = f"{part}."
        parameters = {
            name.removeprefix(prefix): parameter[0]
            for name, parameter in self._networks.rows.named(row[None]).items()
            if name.startswith(prefix)
        }
        result: Tensor = functional_call(module, parameters, (x,))
        return result

    def _each(self, function: Callable[[int], Tensor]) -> Tensor:
        return torch.stack([function(run) for run in range(len(self._networks.online))])
