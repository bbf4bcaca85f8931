"""Transposed convolutions from an embedding back to frames: the encoder, mirrored."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from idqn.networks.encoder import Conv, init_convolution, init_linear, layer_sizes


class Decoder(nn.Module):
    """h_dec = W·h (eq. 4), then ReLU and transposed convolution, layer by layer, to [C, H, W]."""

    def __init__(
        self,
        out_shape: tuple[int, int, int],
        layers: tuple[Conv, ...],
        embedding_size: int,
        linear_init_std: float,
        generator: Generator,
    ) -> None:
        super().__init__()
        channels, height, width = out_shape
        sizes = layer_sizes(layers, height, width)
        self.start_shape = (layers[-1].channels, *sizes[-1])
        flat = self.start_shape[0] * self.start_shape[1] * self.start_shape[2]
        self.linear = nn.Linear(embedding_size, flat)
        init_linear(self.linear, linear_init_std, generator)
        out_channels = [channels, *(layer.channels for layer in layers[:-1])]
        self.deconvolutions = nn.ModuleList()
        for layer, out, (h, w) in reversed(
            list(zip(layers, out_channels, sizes[:-1], strict=True))
        ):
            # where the stride does not divide the frame, the encoder dropped a border
            border = ((h - layer.kernel) % layer.stride, (w - layer.kernel) % layer.stride)
            deconvolution = nn.ConvTranspose2d(
                layer.channels, out, layer.kernel, layer.stride, output_padding=border
            )
            init_convolution(deconvolution, generator)
            self.deconvolutions.append(deconvolution)

    def forward(self, embedding: Tensor) -> Tensor:
        x: Tensor = self.linear(embedding).unflatten(1, self.start_shape)
        for deconvolution in self.deconvolutions:
            x = deconvolution(torch.relu(x))
        return x
