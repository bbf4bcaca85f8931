"""Transposed convolutions from an embedding back to frames: the encoder, mirrored."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from idqn.networks.encoder import Conv, init_convolution, init_linear, layer_sizes


class Decoder(nn.Module):
    """h_dec = W·h (eq. 4), then ReLU and transposed convolution, layer by layer, to [C, H, W]."""

    def __init__(
        self,
        out_shape: tuple[int, int, int],
        layers: tuple[Conv, ...],
        embedding_size: int,
        linear_init_std: float | None,
        generator: Generator,
    ) -> None:
        super().__init__()
        channels, height, width = out_shape
        sizes = layer_sizes(layers, height, width)
        self.start_shape = (layers[-1].channels, *sizes[-1])
        flat = self.start_shape[0] * self.start_shape[1] * self.start_shape[2]
        self.linear = nn.Linear(embedding_size, flat)
        init_linear(
            self.linear.weight, self.linear.bias, embedding_size, linear_init_std, generator
        )
        out_channels = [channels, *(layer.channels for layer in layers[:-1])]
        self.deconvolutions = nn.ModuleList()
        for layer, out, (h, w) in reversed(
            list(zip(layers, out_channels, sizes[:-1], strict=True))
        ):
            # where the stride does not divide the frame, the encoder dropped a border
            border = ((h - layer.kernel) % layer.stride, (w - layer.kernel) % layer.stride)
            deconvolution = TransposedConvolution(
                layer.channels, out, layer.kernel, layer.stride, output_padding=border
            )
            init_convolution(deconvolution, generator)
            self.deconvolutions.append(deconvolution)

    def forward(self, embedding: Tensor) -> Tensor:
        x: Tensor = self.linear(embedding).unflatten(1, self.start_shape)
        for deconvolution in self.deconvolutions:
            x = deconvolution(torch.relu(x))
        return x


class TransposedConvolution(nn.ConvTranspose2d):
    """What torch's own computes, faster where it has few channels to compute: CPUs compute 16 at a
    time, and pixels that lie alike in the grid of strides can be channels of one small image."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        kernel, stride, out = self.kernel_size[0], self.stride[0], self.out_channels
        if out >= 16 or kernel % stride > 0 or any(self.output_padding):
            return super().forward(x, output_size)
        assert self.bias is not None
        # position = stride * cell + place; within a convolution, cells are counted backwards
        cells, bias = kernel // stride, self.bias.repeat(stride * stride)
        weight = self.weight.view(-1, out, cells, stride, cells, stride).flip(2, 4)
        weight = weight.permute(3, 5, 1, 0, 2, 4).flatten(0, 2)  # [places * out, in, cells, cells]
        image = functional.conv2d(x, weight, bias, padding=cells - 1)
        size, _, height, width = image.shape
        places = image.view(size, stride, stride, out, height, width)
        # pixel_shuffle wants another order of channels, and takes longer
        return places.permute(0, 3, 4, 1, 5, 2).reshape(size, out, stride * height, stride * width)
