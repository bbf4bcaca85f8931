"""How kernels are launched or, in a rehearsal, only compiled; and how they are told what to leave
out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

_rehearsing = False


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


def on(kernel: Any, *grid: int) -> Any:
    """`kernel`, to be launched on a grid of blocks."""
    return partial(kernel.warmup, grid=grid) if _rehearsing else kernel[grid]


def precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def given(tensor: Tensor | None, instead: Tensor) -> Tensor:
    """What a kernel gets in the place of a tensor that is not there, and that it will not read."""
    return instead if tensor is None else tensor


def run_stride(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0)
