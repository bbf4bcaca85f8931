"""Convolutions from frames to an embedding, and the arithmetic of their sizes."""

from __future__ import annotations

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


def smallest_frame(layers: tuple[Conv, ...]) -> int:
    """The smallest height or width that leaves at least one pixel after `layers`."""
    size = 1
    for layer in reversed(layers):
        size = (size - 1) * layer.stride + layer.kernel
    return size


def choose_layers(encoder: str, height: int, width: int) -> tuple[Conv, ...]:
    """The layers named `encoder`, or for "auto" the first that leaves enough of the frame."""
    if encoder == "auto":
        for layers in ENCODERS.values():
            if min(height, width) >= smallest_frame(layers):
                return layers
        encoder = "tiny"
    layers = ENCODERS[encoder]
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


def init_linear(layer: nn.Linear, std: float, generator: Generator) -> None:
    nn.init.normal_(layer.weight, std=std, generator=generator)
    nn.init.zeros_(layer.bias)


class Encoder(nn.Module):
    """Convolutions, each followed by ReLU, then one linear layer: h(s) of the paper."""

    def __init__(
        self,
        in_shape: tuple[int, int, int],
        layers: tuple[Conv, ...],
        embedding_size: int,
        linear_init_std: float,
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
        height, width = layer_sizes(layers, height, width)[-1]
        self.linear = nn.Linear(channels * height * width, embedding_size)
        init_linear(self.linear, linear_init_std, generator)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))
        embedding: Tensor = self.linear(x.flatten(1))  # [B, E]
        return embedding
