"""Convolutions in our kernels against torch's own, run by run."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from idqn import kernels
from tests.kernel_device import MARKS, TYPES
from tests.kernels.layer import CASES, World

pytestmark = MARKS


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_convolve(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    found = kernels.convolve(w.big, w.weight, w.small_bias, w.stride, relu=True)
    w.check(found, torch.relu(w.convolved(w.small_bias)))
    found, parts = kernels.convolve_and_sum(w.big, w.weight, w.stride, gate=w.small)
    expected = w.convolved() * (w.small > 0)
    w.check(found, expected)
    w.check(parts.sum(0), expected.sum((1, 2, 3)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_spread(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    size = (w.height, w.width)
    found = kernels.spread(w.small, w.weight, w.big_bias, w.stride, size, relu=True)
    w.check(found, torch.relu(w.spread(w.big_bias)))
    found = kernels.spread(w.small, w.weight, None, w.stride, size, gate=w.big)
    w.check(found, w.spread() * (w.big > 0))
