"""Layers for kernels to compute, and what torch makes of them."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.kernel_device import DEVICE, RUNS

SAMPLES = 3

# image height, width, channels, filters, kernel, stride: every layer there is, and borders
CASES = [
    (84, 84, 4, 32, 8, 4),
    (20, 20, 32, 64, 4, 2),
    (9, 9, 64, 64, 3, 1),
    (21, 17, 2, 32, 4, 2),
    (15, 15, 3, 32, 3, 1),
]
if not torch.cuda.is_available():  # the interpreter is slow
    CASES = [(20, 21, 4, 32, 8, 4), *CASES[3:]]


class World:
    """Random images and weights of one layer, in and around the memory they are views of."""

    def __init__(self, case: tuple[int, ...], dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.height, self.width, channels, filters, self.kernel, self.stride = case
        small = [(side - self.kernel) // self.stride + 1 for side in case[:2]]

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(DEVICE, dtype)

        taps = self.kernel * self.kernel * channels * filters
        shape = (RUNS, self.kernel, self.kernel, channels, filters)
        self.weight = normal(RUNS, taps + 16)[:, :taps].view(shape)
        self.big = normal(RUNS, 2 * SAMPLES, self.height, self.width, channels)[:, :SAMPLES]
        self.small = normal(RUNS, 2 * SAMPLES, *small, filters)[:, :SAMPLES]
        self.big_bias, self.small_bias = normal(RUNS, channels), normal(RUNS, filters)
        self.big_bias, self.small_bias = self.big_bias.float(), self.small_bias.float()
        self.tolerance = 1e-5 if dtype == torch.float32 else 8e-3

    def convolved(self, bias: torch.Tensor | None = None) -> torch.Tensor:
        return torch.stack(
            [
                functional.conv2d(
                    self.big[run].float().permute(0, 3, 1, 2),
                    self.weight[run].float().permute(3, 2, 0, 1),
                    None if bias is None else bias[run],
                    self.stride,
                ).permute(0, 2, 3, 1)
                for run in range(RUNS)
            ]
        )

    def spread(self, bias: torch.Tensor | None = None) -> torch.Tensor:
        border = [(side - self.kernel) % self.stride for side in (self.height, self.width)]
        return torch.stack(
            [
                functional.conv_transpose2d(
                    self.small[run].float().permute(0, 3, 1, 2),
                    self.weight[run].float().permute(3, 2, 0, 1),
                    None if bias is None else bias[run],
                    self.stride,
                    output_padding=border,
                ).permute(0, 2, 3, 1)
                for run in range(RUNS)
            ]
        )

    def check(self, found: torch.Tensor, expected: torch.Tensor) -> None:
        assert found.shape == expected.shape
        error = (found.float() - expected).abs().max() / expected.abs().max()
        assert float(error) < self.tolerance
