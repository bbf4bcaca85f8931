"""Gradients of the weights, of convolutions and of linear layers, and sums for those of biases.

Sums over many pixels are made in parts, which `collect` adds up in a fixed order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from idqn.kernels.launching import on, precision
from idqn.kernels.tiles import correlate_tile


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
    tile, splits = correlate_tile(k, filters, runs)
    tiles = triton.cdiv(k, tile.k) * triton.cdiv(filters, tile.n)
    splits = min(splits, triton.cdiv(m, 2 * tile.m))
    per_split = triton.cdiv(triton.cdiv(m, splits), tile.m) * tile.m
    splits = triton.cdiv(m, per_split)
    width = (k + bias) * filters
    parts = big.new_empty(splits, runs, width, dtype=torch.float32)
    on(_correlate, tiles, splits, runs)(
        big, small, parts,
        m, runs, width, *big.stride()[:3], small.stride(0), per_split,
        oh, ow, channels, filters, kh, kw, stride, bias, precision(),
        tile.m, tile.n, tile.k, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    collect(parts, out)


def collect(parts: Tensor, out: Tensor) -> None:
    """Sum [parts, P, N] over parts into `out` [P, >= N], whose rows may lie apart."""
    splits, runs, width = parts.shape
    block = 256
    on(_collect, triton.cdiv(width, block), runs)(
        parts, out, runs, width, splits, out.stride(0), block
    )


def outer(left: Tensor, right: Tensor, out: Tensor, sums: Tensor) -> None:
    """A linear layer's gradients: into `out` [P, N, K] the product of `left` [P, B, N] transposed
    and `right` [P, B, K], into `sums` [P, N] the sums of `left`."""
    runs, batch, columns = left.shape
    inner = right.shape[2]
    block_n, block_k = 64, 128
    on(_outer, triton.cdiv(columns, block_n), triton.cdiv(inner, block_k), runs)(
        left, right, out, sums, batch, columns, inner,
        left.stride(0), right.stride(0), out.stride(0), sums.stride(0),
        precision(), block_n, block_k, 32,
    )  # fmt: skip


def sum_pixels(image: Tensor) -> Tensor:
    """Sums over samples and pixels of [P, B, H, W, C], in parts for `collect`: [parts, P, C]."""
    runs, samples, height, width, channels = image.shape
    rows = samples * height * width
    padded = triton.next_power_of_2(channels)
    block, steps = 2048 // padded, 8
    parts = triton.cdiv(rows, block * steps)
    out = image.new_empty(parts, runs, channels, dtype=torch.float32)
    on(_sum_pixels, parts, runs)(
        image, out, rows, runs, image.stride(0), channels, padded, block, steps
    )
    return out
