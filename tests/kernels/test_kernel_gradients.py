"""Gradients of weights and biases in our kernels against torch's own."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from idqn import kernels
from tests.kernel_device import DEVICE, MARKS, RUNS, TYPES
from tests.kernels.layer import CASES, World

pytestmark = MARKS


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_correlate(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    weight, bias = w.weight.float().requires_grad_(), w.small_bias.requires_grad_()
    w.weight = weight
    expected = torch.autograd.grad(w.convolved(bias), (weight, bias), w.small.float())
    taps, filters = weight[0].numel(), bias.shape[1]
    out = torch.full((RUNS, taps + filters + 5), 7.0, device=DEVICE)
    kernel = (w.kernel, w.kernel)
    kernels.correlate(w.big, w.small, kernel, w.stride, out, bias=True)
    w.check(out[:, :taps], expected[0].flatten(1))
    w.check(out[:, taps : taps + filters], expected[1])
    assert bool((out[:, taps + filters :] == 7).all())
    out.fill_(7.0)
    kernels.correlate(w.big, w.small, kernel, w.stride, out, bias=False)
    w.check(out[:, :taps], expected[0].flatten(1))
    assert bool((out[:, taps:] == 7).all())


@pytest.mark.parametrize("dtype", TYPES)
def test_outer(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(RUNS, 40, n, generator=generator).to(DEVICE, dtype) for n in (70, 150)
    )
    rows = torch.full((RUNS, 70 * 150 + 70 + 3), 7.0, device=DEVICE)
    kernels.outer(left, right, rows[:, : 70 * 150].unflatten(1, (70, 150)), rows[:, 70 * 150 :])
    expected = left.float().mT @ right.float()
    torch.testing.assert_close(rows[:, : 70 * 150], expected.flatten(1), rtol=1e-4, atol=1e-4)
    sums = left.float().sum(1)
    torch.testing.assert_close(rows[:, 70 * 150 : -3], sums, rtol=1e-4, atol=1e-4)
    assert bool((rows[:, -3:] == 7).all())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [4, 3, 32])
def test_sum_pixels(channels: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(RUNS, 5, 31, 47, channels, generator=generator).to(DEVICE, dtype)
    found = kernels.sum_pixels(image).sum(0)
    expected = image.float().sum((1, 2, 3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
