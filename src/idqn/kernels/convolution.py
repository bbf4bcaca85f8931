"""Convolutions, from big images to small ones, and transposed ones, from small to big."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from idqn.kernels.launching import given, on, precision, run_stride
from idqn.kernels.tiles import convolve_tile, spread_tile


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
    tile = convolve_tile(m, filters, runs)
    blocks = triton.cdiv(m, tile.m)
    parts = image.new_empty(blocks if sums else 0, runs, filters, dtype=torch.float32)
    on(_convolve, blocks, triton.cdiv(filters, tile.n), runs)(
        image, weight, given(bias, out), given(gate, out), out, parts,
        m, runs, *image.stride()[:3], weight.stride(0), run_stride(bias), run_stride(gate),
        oh, ow, channels, filters, kh, kw, stride,
        relu, bias is not None, gate is not None, sums, precision(),
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
    tile = spread_tile(m, n, runs, filters)
    on(_spread, triton.cdiv(m, tile.m), triton.cdiv(n, tile.n), runs)(
        image, weight, given(bias, out), given(gate, out), out,
        m, *image.stride()[:2], weight.stride(0), run_stride(bias), run_stride(gate),
        height, width, oh, ow, channels, filters, kh, kw, stride,
        relu, bias is not None, gate is not None, precision(),
        tile.m, tile.n, tile.k, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out
