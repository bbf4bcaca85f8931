"""The torso in torch's own layers, one run after another."""

from __future__ import annotations

import copy
import ctypes
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from idqn.networks import QNetwork, normalize
from idqn.networks.decoder import Decoder
from idqn.torso.interface import Networks
from idqn.types import Batch, Decoded, Seen


class PlainTorso:
    def __init__(self, networks: Networks) -> None:
        _keep_freed_memory()
        runs = range(len(networks.online))
        self._online = [_network(networks, networks.online, run) for run in runs]
        self._target = [_network(networks, networks.target, run) for run in runs]
        self._mean_image, self._bootstrap = networks.mean_image, networks.bootstrap
        self._gradient = torch.zeros_like(networks.online)
        # modules whose parameters are those of each run's gradient
        self._gradients = [_network(networks, self._gradient, run) for run in runs]
        self._observation: Tensor
        self._embeddings: list[Tensor] = []
        self._decoded: list[tuple[Tensor, Tensor]] = []  # code, reconstruction

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
        self._embeddings = [
            network.encoder(state) for network, state in zip(self._online, states, strict=True)
        ]
        embedding = torch.stack([own.detach() for own in self._embeddings])
        return Seen(embedding, next_choosing=choosing, next_valuing=valuing)

    def decode(self, code: Tensor) -> Decoded:
        codes = [own.detach().requires_grad_() for own in code]
        self._decoded = [
            (own, _decoder(network)(own)) for own, network in zip(codes, self._online, strict=True)
        ]
        images = torch.stack([image.detach() for _, image in self._decoded])
        return Decoded(self._observation, self._mean_image, images)

    @torch.no_grad()
    def back_through_decoder(self, reconstruction: Tensor) -> Tensor:
        codes = []
        for run, (code, image) in enumerate(self._decoded):
            parameters = [*_decoder(self._online[run]).parameters()]
            found = torch.autograd.grad(image, [code, *parameters], reconstruction[run])
            codes.append(found[0])
            _copy(found[1:], _decoder(self._gradients[run]))
        self._decoded = []
        return torch.stack(codes)

    @torch.no_grad()
    def gradient(self, embedding: Tensor, from_decoder: Tensor | None) -> Tensor:
        if from_decoder is not None:
            embedding = embedding + from_decoder
        for run, own in enumerate(self._embeddings):
            parameters = [*self._online[run].encoder.parameters()]
            found = torch.autograd.grad(own, parameters, embedding[run])
            _copy(found, self._gradients[run].encoder)
        self._embeddings = []
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


def _network(networks: Networks, matrix: Tensor, run: int) -> QNetwork:
    """A plain module whose parameters are one run's row of `matrix`: where one changes, so does the
    other."""
    network = copy.deepcopy(networks.module)
    parameters = {name: own[run] for name, own in networks.rows.named(matrix).items()}
    network.load_state_dict(parameters, strict=False, assign=True)
    return network


def _decoder(network: QNetwork) -> Decoder:
    assert network.decoder is not None
    return network.decoder


def _copy(gradients: Sequence[Tensor], module: nn.Module) -> None:
    for own, gradient in zip(module.parameters(), gradients, strict=True):
        own.copy_(gradient)


def _encode(networks: list[QNetwork], states: list[Tensor]) -> Tensor:
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
