"""Convolutions with one set of weights per run, and Adam, as Triton kernels.

Libraries have no convolution for P small networks at once: grouped ones are slow, and unfolding
the image to multiply matrices moves many times the data. Here a convolution is one matrix product
per run whose left operand is read straight from the image (an implicit GEMM).

Images are channels last, [P, B, H, W, C]; weights are [P, KH, KW, C, F] (C channels in the big
image, F in the small one). Both are dense within a run; runs may lie any distance apart, as rows
of one matrix of parameters do. A transposed convolution has the same weights, so three products
serve both ways: `convolve` (big to small), `spread` (small to big) and `correlate` (the gradient
of the weights). The order of every sum is fixed: results repeat.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# How products are cut up was measured on an H200, for one run and for 24; see docs/performance.md.
_BUSY = 264  # blocks that keep a large GPU busy
_rehearsing = False


class Tile(NamedTuple):
    """How a product is cut up."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


@triton.jit
def _convolve(
    image, weight, bias, gate, out, sums,
    M, runs, image_run, image_sample, image_row, weight_run, bias_run, gate_run,
    OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, F: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr,
    RELU: tl.constexpr, BIAS: tl.constexpr, GATE: tl.constexpr, SUMS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[m, f] = Σ_k patch[m, k] weight[k, f] (+ bias), m = (sample, oy, ox), k = (ky, kx, c)."""
    K: tl.constexpr = KH * KW * C
    run = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    f = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sample, oy, ox = m // (OH * OW), m // OW % OH, m % OW
    corner = sample * image_sample + oy * STRIDE * image_row + ox * STRIDE * C
    image += run * image_run
    weight += run * weight_run
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        offset = k // (KW * C) * image_row + k % (KW * C)
        inside = (m < M)[:, None]
        if K % BLOCK_K != 0:
            inside = inside & (k < K)[None, :]
        patch = tl.load(image + corner[:, None] + offset[None, :], mask=inside, other=0.0)
        inside = (f < F)[None, :]
        if K % BLOCK_K != 0:
            inside = inside & (k < K)[:, None]
        taps = tl.load(weight + k[:, None] * F + f[None, :], mask=inside, other=0.0)
        total = tl.dot(patch, taps, total, input_precision=PRECISION)
    if BIAS:
        total += tl.load(bias + run * bias_run + f, mask=f < F, other=0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    place = m[:, None] * F + f[None, :]
    inside = (m < M)[:, None] & (f < F)[None, :]
    if GATE:
        open = tl.load(gate + run * gate_run + place, mask=inside, other=0.0) > 0
        total = tl.where(open, total, 0.0)
    if SUMS:
        total = tl.where(inside, total, 0.0)
        row = (tl.program_id(0) * runs + run) * F
        tl.store(sums + row + f, tl.sum(total, 0), mask=f < F)
    tl.store(out + run * M * F + place, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _spread(
    image, weight, bias, gate, out,
    M, image_run, image_sample, weight_run, bias_run, gate_run,
    H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr,
    RELU: tl.constexpr, BIAS: tl.constexpr, GATE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The transposed convolution, by blocks of STRIDE x STRIDE pixels.

    Pixel (y·S + py, x·S + px) gets what position (y - jy, x - jx) of the small image spreads
    through tap (py + jy·S, px + jx·S). All pixels of a block need the same few positions, so a
    block is a row m = (sample, y, x) of a product whose columns are n = (py, px, c) and whose
    inner dimension is (jy, jx, f).
    """
    TW: tl.constexpr = (KW + STRIDE - 1) // STRIDE
    TH: tl.constexpr = (KH + STRIDE - 1) // STRIDE
    BH: tl.constexpr = (H + STRIDE - 1) // STRIDE
    BW: tl.constexpr = (W + STRIDE - 1) // STRIDE
    N: tl.constexpr = STRIDE * STRIDE * C
    run = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sample, y, x = m // (BH * BW), m // BW % BH, m % BW
    py, px, c = n // (STRIDE * C), n // C % STRIDE, n % C
    image += run * image_run
    weight += run * weight_run
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, TH * TW * F, BLOCK_K):  # a tile lies within one (jy, jx)
        tap = start // F
        jy, jx = tap // TW, tap % TW
        f = start % F + tl.arange(0, BLOCK_K)
        sy, sx = y - jy, x - jx
        inside = (m < M) & (sy >= 0) & (sy < OH) & (sx >= 0) & (sx < OW)
        source = sample * image_sample + (sy * OW + sx) * F
        values = tl.load(image + source[:, None] + f[None, :], mask=inside[:, None], other=0.0)
        ky, kx = py + jy * STRIDE, px + jx * STRIDE
        column = ((ky * KW + kx) * C + c) * F
        inside = (n < N) & (ky < KH) & (kx < KW)
        taps = tl.load(weight + f[:, None] + column[None, :], mask=inside[None, :], other=0.0)
        total = tl.dot(values, taps, total, input_precision=PRECISION)
    if BIAS:
        total += tl.load(bias + run * bias_run + c, mask=n < N, other=0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    row = (y * STRIDE)[:, None] + py[None, :]
    column = (x * STRIDE)[:, None] + px[None, :]
    inside = (m < M)[:, None] & (n < N)[None, :] & (row < H) & (column < W)
    place = ((sample[:, None] * H + row) * W + column) * C + c[None, :]
    if GATE:
        open = tl.load(gate + run * gate_run + place, mask=inside, other=0.0) > 0
        total = tl.where(open, total, 0.0)
    samples = M // (BH * BW)
    tl.store(out + run * samples * H * W * C + place, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _correlate(
    big, small, out,
    M, runs, width, big_run, big_sample, big_row, small_run, per_split,
    OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, F: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, STRIDE: tl.constexpr,
    BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out[k, f] = Σ_m patch[m, k] small[m, f], each split of m on its own, and a row Σ_m small."""
    K: tl.constexpr = KH * KW * C
    split, run = tl.program_id(1), tl.program_id(2).to(tl.int64)
    columns: tl.constexpr = (F + BLOCK_N - 1) // BLOCK_N
    k = tl.program_id(0) // columns * BLOCK_K + tl.arange(0, BLOCK_K)
    f = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    offset = k // (KW * C) * big_row + k % (KW * C)
    big += run * big_run
    small += run * small_run
    total = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
    summed = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, per_split, BLOCK_M):
        m = split * per_split + start + tl.arange(0, BLOCK_M)
        sample, oy, ox = m // (OH * OW), m // OW % OH, m % OW
        corner = sample * big_sample + oy * STRIDE * big_row + ox * STRIDE * C
        inside = (m < M)[None, :]
        if K % BLOCK_K != 0:
            inside = inside & (k < K)[:, None]
        patch = tl.load(big + offset[:, None] + corner[None, :], mask=inside, other=0.0)
        inside = (m < M)[:, None] & (f < F)[None, :]
        values = tl.load(small + m[:, None] * F + f[None, :], mask=inside, other=0.0)
        if BIAS:
            summed += tl.sum(values.to(tl.float32), 0)
        total = tl.dot(patch, values, total, input_precision=PRECISION)
    out += (split * runs + run) * width
    inside = (k < K)[:, None] & (f < F)[None, :]
    tl.store(out + k[:, None] * F + f[None, :], total, mask=inside)
    if BIAS:
        own = tl.where(tl.program_id(0) // columns == 0, F, 0)  # those with the first rows
        tl.store(out + K * F + f, summed, mask=f < own)


@triton.jit
def _collect(parts, out, runs, width, splits, out_run, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(splits):
        total += tl.load(parts + (split * runs + run) * width + i, mask=i < width, other=0.0)
    tl.store(out + run * out_run + i, total, mask=i < width)


@triton.jit
def _outer(
    left, right, out, sums, B, N, K, left_run, right_run, out_run, sums_run,
    PRECISION: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """out[n, k] = Σ_b left[b, n] right[b, k] and sums[n] = Σ_b left[b, n]."""
    run = tl.program_id(2).to(tl.int64)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    left += run * left_run
    right += run * right_run
    total = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    summed = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, B, BLOCK_B):
        b = start + tl.arange(0, BLOCK_B)
        inside = (n < N)[:, None] & (b < B)[None, :]
        ours = tl.load(left + n[:, None] + b[None, :] * N, mask=inside, other=0.0)
        inside = (b < B)[:, None] & (k < K)[None, :]
        theirs = tl.load(right + b[:, None] * K + k[None, :], mask=inside, other=0.0)
        summed += tl.sum(ours.to(tl.float32), 1)
        total = tl.dot(ours, theirs, total, input_precision=PRECISION)
    inside = (n < N)[:, None] & (k < K)[None, :]
    tl.store(out + run * out_run + n[:, None] * K + k[None, :], total, mask=inside)
    own = tl.where(tl.program_id(1) == 0, N, 0)
    tl.store(sums + run * sums_run + n, summed, mask=n < own)


@triton.jit
def _sum_pixels(
    image, out, rows, runs, image_run, C: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, PADDED)
    total = tl.zeros((BLOCK, PADDED), tl.float32)
    for step in range(STEPS):
        row = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        inside = (row < rows)[:, None] & (c < C)[None, :]
        place = image + run * image_run + row[:, None] * C + c[None, :]
        total += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    place = out + (tl.program_id(0) * runs + run) * C + c
    tl.store(place, tl.sum(total, 0), mask=c < C)


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


@triton.jit
def _adam(
    parameter, mean, square, gradient, half, norm, rate, count,
    D, LIMIT: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    LOG_BETA1: tl.constexpr, LOG_BETA2: tl.constexpr, EPSILON: tl.constexpr,
    HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < D
    i = run * D + column
    scale = LIMIT / tl.maximum(tl.load(norm + run), LIMIT)
    g = tl.load(gradient + i, mask=inside) * scale
    m = tl.load(mean + i, mask=inside)
    v = tl.load(square + i, mask=inside)
    m += (g - m) * (1 - BETA1)
    v = v * BETA2 + g * g * (1 - BETA2)
    updates = tl.load(count).to(tl.float64)
    mean_scale = (1 - tl.exp(updates * LOG_BETA1)).to(tl.float32)
    square_scale = (1 - tl.exp(updates * LOG_BETA2)).to(tl.float32)
    step = tl.load(rate + run) / mean_scale * m / (tl.sqrt(v / square_scale) + EPSILON)
    tl.store(mean + i, m, mask=inside)
    tl.store(square + i, v, mask=inside)
    p = tl.load(parameter + i, mask=inside) - step
    tl.store(parameter + i, p, mask=inside)
    if HALF:
        tl.store(half + i, p.to(half.dtype.element_ty), mask=inside)


def convolve(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    *,
    relu: bool = False,
    gate: Tensor | None = None,
) -> Tensor:
    """Big image to small one: [P, B, H, W, C] to [P, B, OH, OW, F].

    Where `gate` (shaped like the result) is not positive, the result is zero.
    """
    return _convolved(image, weight, bias, stride, relu, gate)[0]


def convolve_and_sum(
    image: Tensor, weight: Tensor, stride: int, gate: Tensor
) -> tuple[Tensor, Tensor]:
    """The same, and sums of the result over pixels in parts, for `collect`: [parts, P, F]."""
    return _convolved(image, weight, None, stride, False, gate, sums=True)


def _convolved(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    relu: bool,
    gate: Tensor | None,
    sums: bool = False,
) -> tuple[Tensor, Tensor]:
    runs, samples, height, width, channels = image.shape
    _, kh, kw, _, filters = weight.shape
    oh, ow = (height - kh) // stride + 1, (width - kw) // stride + 1
    out = image.new_empty(runs, samples, oh, ow, filters)
    m = samples * oh * ow
    tile = _convolve_tile(m, filters, runs)
    blocks = triton.cdiv(m, tile.m)
    parts = image.new_empty(blocks if sums else 0, runs, filters, dtype=torch.float32)
    _on(_convolve, blocks, triton.cdiv(filters, tile.n), runs)(
        image, weight, _given(bias, out), _given(gate, out), out, parts,
        m, runs, *image.stride()[:3], weight.stride(0), _run_stride(bias), _run_stride(gate),
        oh, ow, channels, filters, kh, kw, stride,
        relu, bias is not None, gate is not None, sums, _precision(),
        tile.m, tile.n, tile.k, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out, parts


def spread(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    size: tuple[int, int],
    *,
    relu: bool = False,
    gate: Tensor | None = None,
) -> Tensor:
    """Small image to big one: [P, B, OH, OW, F] to [P, B, *size, C], the transposed convolution."""
    runs, samples, oh, ow, filters = image.shape
    _, kh, kw, channels, _ = weight.shape
    height, width = size
    out = image.new_empty(runs, samples, height, width, channels)
    m = samples * triton.cdiv(height, stride) * triton.cdiv(width, stride)
    n = stride * stride * channels
    tile = _spread_tile(m, n, runs, filters)
    _on(_spread, triton.cdiv(m, tile.m), triton.cdiv(n, tile.n), runs)(
        image, weight, _given(bias, out), _given(gate, out), out,
        m, *image.stride()[:2], weight.stride(0), _run_stride(bias), _run_stride(gate),
        height, width, oh, ow, channels, filters, kh, kw, stride,
        relu, bias is not None, gate is not None, _precision(),
        tile.m, tile.n, tile.k, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out


def correlate(
    big: Tensor,
    small: Tensor,
    kernel: tuple[int, int],
    stride: int,
    out: Tensor,
    *,
    bias: bool,
) -> None:
    """The weights' gradient, [P, KH * KW * C * F], into `out`; with `bias`, [P, F] right after it
    gets the sum of `small` over pixels."""
    runs, samples, oh, ow, filters = small.shape
    channels = big.shape[-1]
    kh, kw = kernel
    k, m = kh * kw * channels, samples * oh * ow
    tile, splits = _correlate_tile(k, filters, runs)
    tiles = triton.cdiv(k, tile.k) * triton.cdiv(filters, tile.n)
    splits = min(splits, triton.cdiv(m, 2 * tile.m))
    per_split = triton.cdiv(triton.cdiv(m, splits), tile.m) * tile.m
    splits = triton.cdiv(m, per_split)
    width = (k + bias) * filters
    parts = big.new_empty(splits, runs, width, dtype=torch.float32)
    _on(_correlate, tiles, splits, runs)(
        big, small, parts,
        m, runs, width, *big.stride()[:3], small.stride(0), per_split,
        oh, ow, channels, filters, kh, kw, stride, bias, _precision(),
        tile.m, tile.n, tile.k, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    collect(parts, out)


def collect(parts: Tensor, out: Tensor) -> None:
    """Sum [parts, P, N] over parts into `out` [P, >= N], whose rows may lie apart."""
    splits, runs, width = parts.shape
    block = 256
    _on(_collect, triton.cdiv(width, block), runs)(
        parts, out, runs, width, splits, out.stride(0), block
    )


def outer(left: Tensor, right: Tensor, out: Tensor, sums: Tensor) -> None:
    """A linear layer's gradients: into `out` [P, N, K] the product of `left` [P, B, N] transposed
    and `right` [P, B, K], into `sums` [P, N] the sums of `left`."""
    runs, batch, columns = left.shape
    inner = right.shape[2]
    block_n, block_k = 64, 128
    _on(_outer, triton.cdiv(columns, block_n), triton.cdiv(inner, block_k), runs)(
        left, right, out, sums, batch, columns, inner,
        left.stride(0), right.stride(0), out.stride(0), sums.stride(0),
        _precision(), block_n, block_k, 32,
    )  # fmt: skip


def sum_pixels(image: Tensor) -> Tensor:
    """Sums over samples and pixels of [P, B, H, W, C], in parts for `collect`: [parts, P, C]."""
    runs, samples, height, width, channels = image.shape
    rows = samples * height * width
    padded = triton.next_power_of_2(channels)
    block, steps = 2048 // padded, 8
    parts = triton.cdiv(rows, block * steps)
    out = image.new_empty(parts, runs, channels, dtype=torch.float32)
    _on(_sum_pixels, parts, runs)(
        image, out, rows, runs, image.stride(0), channels, padded, block, steps
    )
    return out


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
        _on(_shrink, triton.cdiv(pixels, 256), out.numel() // pixels)(
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


def adam(
    parameter: Tensor,
    mean: Tensor,
    square: Tensor,
    gradient: Tensor,
    *,
    half: Tensor | None,
    norm: Tensor,
    limit: float,
    rate: Tensor,
    count: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """One step, in place, for matrices [P, D] and gradients of `norm` [P], scaled down to `limit`;
    `rate` is [P], `count` one number. `half` gets a copy of the parameters in its own type."""
    runs, size = parameter.shape
    block = 1024
    _on(_adam, triton.cdiv(size, block), runs)(
        parameter, mean, square, gradient, _given(half, parameter), norm, rate, count,
        size, limit, *betas, *(math.log(beta) for beta in betas), epsilon, half is not None, block,
    )  # fmt: skip


@contextmanager
def rehearsal() -> Iterator[None]:
    """Within it kernels are compiled, many at once, and none is launched."""
    global _rehearsing
    mode = getattr(triton, "AsyncCompileMode", None)
    if mode is None:  # one after another then, when they are first launched
        yield
        return
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as threads, mode(threads):
        _rehearsing = True
        try:
            yield
        finally:
            _rehearsing = False


def _on(kernel: Any, *grid: int) -> Any:
    """`kernel`, to be launched on a grid of blocks."""
    return partial(kernel.warmup, grid=grid) if _rehearsing else kernel[grid]


def _precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _columns(n: int) -> int:
    return min(max(triton.next_power_of_2(n), 16), 64)


def _convolve_tile(m: int, n: int, runs: int) -> Tile:
    many = triton.cdiv(m, 128) * runs >= _BUSY
    return Tile(128, _columns(n), 32, 4, 3) if many else Tile(64, _columns(n), 64, 4, 3)


def _spread_tile(m: int, n: int, runs: int, filters: int) -> Tile:
    inner = 64 if filters % 64 == 0 else 32  # a tile must lie within one tap
    times = runs * triton.cdiv(n, _columns(n))
    if triton.cdiv(m, 128) * times >= _BUSY:
        return Tile(128, _columns(n), inner, 4, 3)
    rows = 64 if triton.cdiv(m, 64) * times >= _BUSY // 4 else 32
    return Tile(rows, _columns(n), inner, 8, 3)


def _correlate_tile(k: int, n: int, runs: int) -> tuple[Tile, int]:
    """And into how many parts to split the sum."""
    tile, blocks = (
        (Tile(64, _columns(n), 128, 4, 3), 3 * _BUSY // 2)
        if runs >= 4
        else (Tile(128, _columns(n), 64, 4, 3), _BUSY // 2)
    )
    tiles = triton.cdiv(k, tile.k) * triton.cdiv(n, tile.n)
    return tile, max(blocks // (tiles * runs), 1)


def _given(tensor: Tensor | None, instead: Tensor) -> Tensor:
    return instead if tensor is None else tensor


def _run_stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)
