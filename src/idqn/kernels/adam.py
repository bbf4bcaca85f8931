"""Adam on a matrix of parameters."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from idqn.kernels.launching import given, on


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


def adam_step(
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
    on(_adam, triton.cdiv(size, block), runs)(
        parameter, mean, square, gradient, given(half, parameter), norm, rate, count,
        size, limit, *betas, *(math.log(beta) for beta in betas), epsilon, half is not None, block,
    )  # fmt: skip
