"""How a function of one run becomes one of all runs: vectorised and compiled on a GPU, one run
after another on a CPU, where batching across runs gains nothing and a plain loop gives each run the
very bits it would have alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.func import vmap
from torch.utils import _pytree as pytree

from idqn.capture import compiled

Function = Callable[..., Any]


def mapping_on(device: torch.device) -> Callable[[Function], Function]:
    return partial(vectorised, device=device) if device.type == "cuda" else loop


def vectorised(function: Function, device: torch.device) -> Function:
    """Fused, where there is a compiler for that."""
    return compiled(vmap(function), device)


def loop(function: Function) -> Function:
    """What `vmap` does, one run after another."""

    def mapped(*stacked: Any) -> Any:
        runs = len(pytree.tree_leaves(stacked)[0])
        results = [
            function(*pytree.tree_map(lambda leaf, r=run: leaf[r], stacked)) for run in range(runs)
        ]
        return pytree.tree_map(lambda *leaves: torch.stack(leaves), *results)

    return mapped
