"""Two ways to spend less time between a GPU's kernels: fuse them, and launch them all at once.

`compiled` fuses chains of small operations; `Captured` records a function as a CUDA graph.

An update is hundreds of small kernels, and launching each from Python takes longer than running
it. A graph launches them all at once. It repeats exactly what was recorded: whatever changes from
call to call must live in a tensor that the function reads, and what it returns is overwritten by
the next call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")
_WARM_UP_CALLS = 3  # libraries choose algorithms and allocate workspaces, which cannot be recorded

_MANY = 10_000


def has_kernels(device: torch.device) -> bool:
    """Whether Triton is there to make kernels: it comes with torch for GPUs on Linux."""
    return device.type == "cuda" and find_spec("triton") is not None


def compiled(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """`function` with its operations fused where that is possible; compiled once per shape."""
    if not has_kernels(device):
        return function
    fused: Callable[..., Any] = torch.compile(function, fullgraph=True, dynamic=False)

    def call(*arguments: Any) -> Any:
        # one piece of code may be compiled once per population, and there may be many in a process
        with torch._dynamo.config.patch(recompile_limit=_MANY, accumulated_recompile_limit=_MANY):
            return fused(*arguments)

    return call


class Captured(Generic[T]):
    """`function` itself on a CPU; on a GPU, run plainly a few times, then recorded and replayed."""

    def __init__(self, function: Callable[[], T], device: torch.device) -> None:
        self._function = function
        self._plain_calls_left = _WARM_UP_CALLS if device.type == "cuda" else -1
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: T

    def __call__(self) -> T:
        if self._plain_calls_left < 0:
            return self._function()
        if self._plain_calls_left > 0:
            self._plain_calls_left -= 1
            return self._on_side_stream()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # other threads, which write checkpoints, may go on
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._result = self._function()
        self._graph.replay()
        return self._result

    def _on_side_stream(self) -> T:
        """As recording will run it: warming up on the main stream would not count."""
        main, side = torch.cuda.current_stream(), _side_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            result = self._function()
        main.wait_stream(side)
        return result


@cache
def _side_stream() -> torch.cuda.Stream:
    """One for all: on every stream that they see, libraries keep workspaces of many megabytes."""
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return stream
