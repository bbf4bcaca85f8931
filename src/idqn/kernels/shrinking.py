"""Making images smaller, as OpenCV does it."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from idqn.kernels.launching import on


@triton.jit
def _shrink(
    image, out, rows, row_weights, columns, column_weights,
    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < OH * OW
    y, x = pixel // OW, pixel % OW
    total = tl.zeros((BLOCK,), tl.float32)
    for j in tl.static_range(ROWS):
        row = tl.load(rows + y * ROWS + j, mask=inside, other=0)
        line = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(COLUMNS):
            column = tl.load(columns + x * COLUMNS + i, mask=inside, other=0)
            value = tl.load(image + sample * H * W + row * W + column, mask=inside, other=0)
            line += value.to(tl.float32) * tl.load(
                column_weights + x * COLUMNS + i, mask=inside, other=0.0
            )
        total += line * tl.load(row_weights + y * ROWS + j, mask=inside, other=0.0)
    rounded = (total + 8388608.0) - 8388608.0  # 2**23: to the nearest integer, halves to even
    tl.store(out + sample * OH * OW + pixel, rounded.to(tl.uint8), mask=inside)


class ShrinkToArea:
    """What OpenCV's INTER_AREA makes of grey images, to the last bit: the same weights, in single
    precision, added in the same order, never fused with the multiplication before."""

    def __init__(
        self, given: tuple[int, int, int], size: tuple[int, int], device: torch.device
    ) -> None:
        self.given_shape = given
        self._size = size
        self._rows, self._row_weights = _area_weights(given[1], size[0], device)
        self._columns, self._column_weights = _area_weights(given[2], size[1], device)

    def __call__(self, frames: Tensor) -> Tensor:
        """[..., 1, H, W] to [..., 1, h, w], uint8."""
        *samples, channels, height, width = frames.shape
        frames = frames.contiguous()
        out = frames.new_empty(*samples, channels, *self._size)
        pixels = self._size[0] * self._size[1]
        on(_shrink, triton.cdiv(pixels, 256), out.numel() // pixels)(
            frames, out, self._rows, self._row_weights, self._columns, self._column_weights,
            height, width, *self._size, self._rows.shape[1], self._columns.shape[1], 256,
            enable_fp_fusion=False,
        )  # fmt: skip
        return out


def _area_weights(given: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each of `size` pixels, which of `given` ones it covers and how much of it they are; as
    `computeResizeAreaTab` in OpenCV's resize.cpp has it."""
    scale = given / size
    covered: list[list[tuple[int, float]]] = []
    for i in range(size):
        start, end = i * scale, i * scale + scale
        cell = min(scale, given - start)
        last = min(math.floor(end), given - 1)
        first = min(math.ceil(start), last)
        own = [(whole, 1 / cell) for whole in range(first, last)]
        if first - start > 1e-3:
            own.insert(0, (first - 1, (first - start) / cell))
        if end - last > 1e-3:
            own.append((last, min(end - last, 1.0, cell) / cell))
        covered.append(own)
    most = max(len(own) for own in covered)
    padded = [own + [(0, 0.0)] * (most - len(own)) for own in covered]
    index = torch.tensor([[i for i, _ in own] for own in padded], dtype=torch.int32)
    weight = torch.tensor([[w for _, w in own] for own in padded], dtype=torch.float32)
    return index.to(device), weight.to(device)
