"""The torso of a whole population on a GPU, in few kernels, forwards and backwards by hand.

The online networks see s and s' as one batch of 2B samples, but only the first B are gone back
through. With `half`, images and weights are bfloat16 where they enter products; sums, parameters
and their gradients are float32 always.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from idqn import kernels
from idqn.capture import compiled
from idqn.networks import normalize
from idqn.torso.interface import Networks
from idqn.torso.layers import convolutions
from idqn.torso.streams import SideStream
from idqn.types import Batch, Decoded, Seen


@dataclass
class _Kept:
    """What is kept between the steps of an update. Streams know nothing of each other's memory:
    what one made must stay until the others that read it have been joined."""

    observation: Tensor
    states: Tensor
    layers: list[Tensor]  # activations of s after each convolution
    code: Tensor | None = None  # what was decoded
    # what enters each transposed convolution, then the reconstruction
    decoded: list[Tensor] = field(default_factory=list)
    alive: list[Tensor] = field(default_factory=list)


class FusedTorso:
    def __init__(self, networks: Networks, half: bool) -> None:
        self._networks = networks
        self._gradient = torch.zeros_like(networks.online)
        self._half = half
        self._online = networks.online.bfloat16() if half else networks.online
        self._target = networks.target.bfloat16() if half else networks.target
        self._states = compiled(_states, networks.online.device)
        self._activated = compiled(_activated, networks.online.device)
        self._gated = compiled(_gated, networks.online.device)
        self._encoder, self._decoder = convolutions(networks.module)
        self._small = networks.module.encoder.image_shape
        self._has_linear = networks.module.encoder.linear is not None
        device = networks.online.device
        self._for_target, self._for_decoder, self._for_weights = (
            SideStream(device) for _ in range(3)
        )
        self._last: _Kept | None = None

    @property
    def online_copy(self) -> Tensor | None:
        """Where the optimiser must put a copy of the parameters."""
        return self._online if self._half else None

    @torch.no_grad()
    def embed(self, observation: Tensor) -> Tensor:
        states = self._states(self._networks.mean_image, (observation,), self._online.dtype)
        return self._encode(self._networks.online, self._online, states)[-1]

    @torch.no_grad()
    def look(self, batch: Batch) -> Seen:
        size, kind = batch.action.shape[1], self._networks.bootstrap
        images = (batch.observation, batch.next_observation)
        states = self._states(self._networks.mean_image, images, self._online.dtype)
        before, after = states[:, :size], states[:, size:]
        with self._for_target:
            by_target = None
            if kind != "online":
                by_target = self._encode(self._networks.target, self._target, after)[-1]
        *layers, embedding = self._encode(
            self._networks.online, self._online, before if kind == "target" else states
        )
        here, by_online = embedding[:, :size], embedding[:, size:]
        layers = [layer[:, :size] for layer in layers]
        self._last = _Kept(batch.observation, before, layers)
        if by_target is None:
            return Seen(here, next_choosing=by_online, next_valuing=by_online)
        choosing = by_target if kind == "target" else by_online
        return Seen(here, next_choosing=choosing, next_valuing=by_target)

    @torch.no_grad()
    def decode(self, code: Tensor) -> Decoded:
        kept = self._kept
        kept.code = code
        kept.decoded = self._decode(code)
        observation = kept.observation.permute(0, 1, 3, 4, 2)
        return Decoded(observation, self._networks.mean_image.permute(0, 2, 3, 1), kept.decoded[-1])

    @torch.no_grad()
    def back_through_decoder(self, reconstruction: Tensor) -> Tensor:
        return self._back_through_decoder(reconstruction.contiguous())

    @torch.no_grad()
    def gradient(self, embedding: Tensor, from_decoder: Tensor | None) -> Tensor:
        self._for_decoder.join()
        if from_decoder is not None:
            embedding = embedding + from_decoder
        self._back_through_encoder(embedding)
        self._for_weights.join()
        self._last = None
        return self._gradient

    @contextmanager
    def beside(self) -> Iterator[None]:
        with self._for_decoder:
            yield
        self._for_target.join()  # the decoder does not wait for the target network

    @property
    def _kept(self) -> _Kept:
        assert self._last is not None, "look at a batch first"
        return self._last

    @torch.no_grad()
    def compile_small(self, batch: Batch, observation: Tensor) -> None:
        """What the compiler makes; it works on one thing at a time, and the kernels need not wait
        for it."""
        images = (batch.observation, batch.next_observation)
        self._states(self._networks.mean_image, images, self._online.dtype)
        self._states(self._networks.mean_image, (observation,), self._online.dtype)
        runs, samples = batch.action.shape
        product = self._networks.online.new_zeros(runs, samples, math.prod(self._small))
        if self._decoder:
            bias = self._of(self._networks.online, "decoder.linear", "bias").flatten(1)[:, None]
            self._activated(product, bias, self._online.dtype)
        seen = samples if self._networks.bootstrap == "target" else 2 * samples
        both = product.new_zeros(runs, seen, product.shape[2], dtype=self._online.dtype)
        self._gated(product, both[:, :samples])

    def online_changed(self) -> None:
        if self._half:
            self._online.copy_(self._networks.online)

    def target_changed(self) -> None:
        if self._half:
            self._target.copy_(self._networks.target)

    def _encode(self, exact: Tensor, rows: Tensor, images: Tensor) -> list[Tensor]:
        """Activations after each convolution, then the embedding."""
        activations = []
        for layer in self._encoder:
            images = kernels.convolve(
                images,
                self._of(rows, layer.name, "weight"),
                self._of(exact, layer.name, "bias"),
                layer.stride,
                relu=True,
            )
            activations.append(images)
        if not self._has_linear:  # features in the order that a plain network has them
            return [*activations, images.permute(0, 1, 4, 2, 3).flatten(2).float()]
        flat = images.flatten(2)
        weight = self._of(rows, "encoder.linear", "weight").flatten(2)
        product = _product(flat, weight.mT)
        return [*activations, product + self._of(exact, "encoder.linear", "bias")[:, None]]

    def _decode(self, embedding: Tensor) -> list[Tensor]:
        """What enters each transposed convolution, then the reconstruction."""
        weight = self._of(self._online, "decoder.linear", "weight").flatten(1, 3)
        product = _product(embedding.to(weight.dtype), weight.mT)
        bias = self._of(self._networks.online, "decoder.linear", "bias").flatten(1)
        flat = self._activated(product, bias[:, None], self._online.dtype)
        channels, height, width = self._small
        images = [flat.unflatten(2, (height, width, channels))]
        for number, layer in enumerate(self._decoder):
            images.append(
                kernels.spread(
                    images[-1],
                    self._of(self._online, layer.name, "weight"),
                    self._of(self._networks.online, layer.name, "bias"),
                    layer.stride,
                    layer.big,
                    relu=number + 1 < len(self._decoder),
                )
            )
        return images

    def _back_through_decoder(self, g: Tensor) -> Tensor:
        """Gradient with respect to the embedding."""
        images, keep = self._kept.decoded, self._kept.alive.append
        with self._for_weights:
            last = self._column(self._decoder[-1].name, "bias")
            kernels.collect(kernels.sum_pixels(g), last)
        for number in reversed(range(len(self._decoder))):
            layer, small = self._decoder[number], images[number]
            keep(g)
            with self._for_weights:
                into = self._column(layer.name, "weight")
                kernels.correlate(g, small, layer.kernel, layer.stride, into, bias=False)
            weight = self._of(self._online, layer.name, "weight")
            g, parts = kernels.convolve_and_sum(g, weight, layer.stride, small)
            if number > 0:
                keep(parts)
                with self._for_weights:
                    kernels.collect(parts, self._column(self._decoder[number - 1].name, "bias"))
        flat = g.flatten(2)
        keep(flat)
        with self._for_weights:
            bias = self._column("decoder.linear", "bias")
            assert self._kept.code is not None
            low = self._kept.code.to(flat.dtype)
            kernels.outer(flat, low, self._matrix("decoder.linear"), bias)
        weight = self._of(self._online, "decoder.linear", "weight").flatten(1, 3)
        return _product(flat, weight)

    def _back_through_encoder(self, g: Tensor) -> None:
        layers, keep = self._kept.layers, self._kept.alive.append
        flat = layers[-1].flatten(2)
        if self._has_linear:
            low = g.to(flat.dtype)
            keep(low)
            with self._for_weights:
                bias = self._column("encoder.linear", "bias")
                kernels.outer(low, flat, self._matrix("encoder.linear"), bias)
            weight = self._of(self._online, "encoder.linear", "weight").flatten(2)
            g = _product(low, weight)
        else:
            g = g.reshape(*g.shape[:2], *self._small).permute(0, 1, 3, 4, 2).reshape(flat.shape)
        g = self._gated(g, flat).unflatten(2, layers[-1].shape[2:])
        for number in reversed(range(len(self._encoder))):
            layer = self._encoder[number]
            big = layers[number - 1] if number > 0 else self._kept.states
            keep(g)
            with self._for_weights:
                both = slice(
                    self._networks.rows.columns[f"{layer.name}.weight"].start,
                    self._networks.rows.columns[f"{layer.name}.bias"].stop,
                )
                into = self._gradient[:, both]  # the bias comes right after the weights
                kernels.correlate(big, g, layer.kernel, layer.stride, into, bias=True)
            if number > 0:
                weight = self._of(self._online, layer.name, "weight")
                g = kernels.spread(g, weight, None, layer.stride, layer.big, gate=big)

    def _of(self, matrix: Tensor, layer: str, kind: str) -> Tensor:
        return self._networks.rows.stored(matrix, f"{layer}.{kind}")

    def _column(self, layer: str, kind: str) -> Tensor:
        """Where a parameter's gradient goes, [P, size]."""
        return self._gradient[:, self._networks.rows.columns[f"{layer}.{kind}"]]

    def _matrix(self, layer: str) -> Tensor:
        """Where the gradient of a linear layer's weights goes, [P, outputs, inputs]."""
        shape = self._networks.rows.shapes[f"{layer}.weight"]
        column: Tensor = self._column(layer, "weight")
        return column.view(-1, *shape)


def _states(mean_image: Tensor, observations: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
    """Observations [P, B, C, H, W], one after another, as the networks' channels last images."""
    states = [normalize(o, mean_image[:, None]).permute(0, 1, 3, 4, 2) for o in observations]
    return torch.cat(states, 1).to(dtype).contiguous()


def _activated(product: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.relu(product + bias).to(dtype)


def _gated(gradient: Tensor, activation: Tensor) -> Tensor:
    return torch.where(activation > 0, gradient, 0.0).to(activation.dtype)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product per run, in float32."""
    if left.dtype == torch.float32:
        return torch.bmm(left, right)
    return torch.bmm(left, right, out_dtype=torch.float32)
