"""From observations to embeddings and reconstructions, for all runs of a population, and back.

`look` goes forward, `gradient` back through what was last looked at. `PlainTorso` leaves both to
torch, one run after another: simple, and to the bit what each run would compute alone.
`idqn.fused.FusedTorso` does the same on a GPU, for all runs at once.
"""

from __future__ import annotations

import copy
import ctypes
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from idqn.networks import IDQN, normalize
from idqn.parameters import ParameterRows
from idqn.types import Batch, Decoded, Seen


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
        """The embeddings of a batch."""
        ...

    def decode(self) -> Decoded:
        """What the decoder makes of the embeddings of s that `look` saw."""
        ...

    def back_through_decoder(self, reconstruction: Tensor) -> None:
        """Begin with the gradient with respect to what `decode` returned."""
        ...

    def gradient(self, embedding: Tensor) -> Tensor:
        """Go on with the gradient with respect to the embeddings, besides what comes from the
        decoder; returns that of the parameters, [P, D]. The memory's columns are the caller's."""
        ...

    def beside(self) -> AbstractContextManager[None]:
        """Within it, work is queued beside what follows it, until `gradient`. What `look` saw is
        there to be read after it."""
        ...

    def online_changed(self) -> None: ...

    def target_changed(self) -> None: ...


class PlainTorso:
    def __init__(self, networks: Networks) -> None:
        _keep_freed_memory()
        runs = range(len(networks.online))
        self._online = [_network(networks, networks.online, run) for run in runs]
        self._target = [_network(networks, networks.target, run) for run in runs]
        self._mean_image, self._bootstrap = networks.mean_image, networks.bootstrap
        self._gradient = torch.zeros_like(networks.online)
        # of each run, what its parameters' gradients are copied into
        self._gradients = [_torso(_network(networks, self._gradient, run)) for run in runs]
        self._observation: Tensor
        self._kept: list[tuple[Tensor, Tensor]] = []  # embedding, reconstruction
        self._upstream: Tensor  # gradient with respect to the reconstructions

    @torch.no_grad()
    def embed(self, observation: Tensor) -> Tensor:
        return _encode(self._online, self._states(observation))

    def look(self, batch: Batch) -> Seen:
        with torch.no_grad():
            after = self._states(batch.next_observation)
            valuing = _encode(self._online if self._bootstrap == "online" else self._target, after)
            choosing = _encode(self._online, after) if self._bootstrap == "double" else valuing
            states = self._states(batch.observation)
        self._observation = batch.observation
        embeddings = [
            network.encoder(state) for network, state in zip(self._online, states, strict=True)
        ]
        self._kept = [
            (embedding, network.decoder(embedding))
            for embedding, network in zip(embeddings, self._online, strict=True)
        ]
        embedding = torch.stack([embedding.detach() for embedding in embeddings])
        return Seen(embedding, next_choosing=choosing, next_valuing=valuing)

    def decode(self) -> Decoded:
        images = torch.stack([image.detach() for _, image in self._kept])
        return Decoded(self._observation, self._mean_image, images)

    def back_through_decoder(self, reconstruction: Tensor) -> None:
        self._upstream = reconstruction

    @torch.no_grad()
    def gradient(self, embedding: Tensor) -> Tensor:
        for run, (kept, network) in enumerate(zip(self._kept, self._online, strict=True)):
            upstream = (embedding[run], self._upstream[run])
            found = torch.autograd.grad(kept, _torso(network), upstream)
            for own, gradient in zip(self._gradients[run], found, strict=True):
                own.copy_(gradient)
        self._kept = []
        return self._gradient

    def beside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def online_changed(self) -> None:
        """Nothing is kept of it."""

    def target_changed(self) -> None:
        """Nothing is kept of it."""

    def _states(self, observation: Tensor) -> list[Tensor]:
        """Of each run, what its encoder reads, in the order that convolutions on a CPU prefer."""
        return [
            normalize(own, mean).contiguous(memory_format=torch.channels_last)
            for own, mean in zip(observation, self._mean_image, strict=True)
        ]


def _network(networks: Networks, matrix: Tensor, run: int) -> IDQN:
    """A plain module whose parameters are one run's row of `matrix`: where one changes, so does the
    other."""
    network = copy.deepcopy(networks.module)
    parameters = {name: own[run] for name, own in networks.rows.named(matrix).items()}
    network.load_state_dict(parameters, strict=False, assign=True)
    return network


def _torso(network: IDQN) -> list[nn.Parameter]:
    return [*network.encoder.parameters(), *network.decoder.parameters()]


def _encode(networks: list[IDQN], states: list[Tensor]) -> Tensor:
    encoded = [network.encoder(state) for network, state in zip(networks, states, strict=True)]
    return torch.stack(encoded)


def _keep_freed_memory() -> None:
    """Images come and go by the megabyte. glibc would hand them back to the system at once, and
    every update would spend a seventh of its time on being given the same pages again."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        mallopt(_MMAP_THRESHOLD, 32 << 20)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
