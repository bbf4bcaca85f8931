"""Convolutions from frames to an embedding, and the arithmetic of their sizes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from idqn.errors import UserError


class Conv(NamedTuple):
    channels: int
    kernel: int
    stride: int


ENCODERS: dict[str, tuple[Conv, ...]] = {
    "nature": (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1)),
    "small": (Conv(32, 4, 2), Conv(64, 4, 2), Conv(64, 3, 1)),
    "tiny": (Conv(32, 3, 1), Conv(64, 3, 1)),
}
DENSE_ENCODERS: dict[str, tuple[Conv, ...]] = {  # deeper and wider, after Oh et al. (2015)
    "nature": (Conv(64, 8, 2), Conv(128, 6, 2), Conv(128, 6, 2), Conv(128, 4, 2)),
    "small": (Conv(64, 4, 2), Conv(128, 4, 2), Conv(128, 3, 1)),
    "tiny": (Conv(64, 3, 1), Conv(128, 3, 1)),
}


def smallest_frame(layers: tuple[Conv, ...]) -> int:
    """The smallest height or width that leaves at least one pixel after `layers`."""
    size = 1
    for layer in reversed(layers):
        size = (size - 1) * layer.stride + layer.kernel
    return size


def choose_layers(encoder: str, height: int, width: int, dense: bool = False) -> tuple[Conv, ...]:
    """The layers named `encoder`, or for "auto" the first that leaves enough of the frame."""
    family = DENSE_ENCODERS if dense else ENCODERS
    if encoder == "auto":
        for layers in family.values():
            if min(height, width) >= smallest_frame(layers):
                return layers
        encoder = "tiny"
    layers = family[encoder]
    if min(height, width) < smallest_frame(layers):
        raise UserError(
            f"frames of {height}x{width} are too small for the '{encoder}' encoder, which needs "
            f"{smallest_frame(layers)} pixels each way; enlarge them with --env.frame-height and "
            f"--env.frame-width" + ("" if encoder == "tiny" else " or use --agent.encoder auto")
        )
    return layers


def layer_sizes(layers: tuple[Conv, ...], height: int, width: int) -> list[tuple[int, int]]:
    """Height and width of the input and after each layer."""
    sizes = [(height, width)]
    for layer in layers:
        height = (height - layer.kernel) // layer.stride + 1
        width = (width - layer.kernel) // layer.stride + 1
        sizes.append((height, width))
    return sizes


def init_convolution(layer: nn.Conv2d | nn.ConvTranspose2d, generator: Generator) -> None:
    assert layer.bias is not None
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)


def init_linear(
    weight: Tensor, bias: Tensor, inputs: int, std: float | None, generator: Generator
) -> None:
    """Normal weights and no bias or, without `std`, both uniform within ±1/√inputs."""
    if std is None:
        bound = inputs**-0.5
        nn.init.uniform_(weight, -bound, bound, generator=generator)
        nn.init.uniform_(bias, -bound, bound, generator=generator)
    else:
        nn.init.normal_(weight, std=std, generator=generator)
        nn.init.zeros_(bias)


class Encoder(nn.Module):
    """Convolutions, each followed by ReLU, then one linear layer: h(s) of the paper. Without an
    `embedding_size` there is no linear layer, and the embedding is what the convolutions give."""

    def __init__(
        self,
        in_shape: tuple[int, int, int],
        layers: tuple[Conv, ...],
        embedding_size: int | None,
        linear_init_std: float | None,
        generator: Generator,
    ) -> None:
        super().__init__()
        channels, height, width = in_shape
        self.convolutions = nn.ModuleList()
        for layer in layers:
            convolution = nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride)
            init_convolution(convolution, generator)
            self.convolutions.append(convolution)
            channels = layer.channels
        self.image_shape = (channels, *layer_sizes(layers, height, width)[-1])
        features = math.prod(self.image_shape)
        self.embedding_size = embedding_size or features
        self.linear = None
        if embedding_size is not None:
            self.linear = nn.Linear(features, embedding_size)
            init_linear(self.linear.weight, self.linear.bias, features, linear_init_std, generator)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))
        flat = x.flatten(1)
        return flat if self.linear is None else self.linear(flat)  # [B, E]
