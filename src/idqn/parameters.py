"""The parameters of P networks of one architecture as a matrix, one row per run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

_ALIGNMENT = 16  # every parameter begins at a multiple of so many numbers: GPUs read them faster


class Storage(NamedTuple):
    """A parameter is stored as `parameter.reshape(shape).permute(order)`."""

    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.order)


class ParameterRows:
    """How named parameters lie in a row.

    `per_action` names those with one row per action, padded with zeros in games with fewer actions
    than the widest. `storage` may ask for another order of a parameter's numbers than its own.
    """

    def __init__(
        self,
        widest: nn.Module,
        num_actions: Sequence[int],
        per_action: frozenset[str],
        storage: Mapping[str, Storage] | None = None,
    ) -> None:
        self.shapes = {name: tuple(p.shape) for name, p in widest.named_parameters()}
        self.columns: dict[str, slice] = {}
        start = 0
        for name, shape in self.shapes.items():
            self.columns[name] = slice(start, start + math.prod(shape))
            start += -(-math.prod(shape) // _ALIGNMENT) * _ALIGNMENT
        self.width = start
        self._num_actions = num_actions
        self._per_action = per_action
        self._storage = {
            name: Storage(shape, tuple(range(len(shape)))) for name, shape in self.shapes.items()
        } | dict(storage or {})

    def stored(self, matrix: Tensor, name: str) -> Tensor:
        """One parameter of all runs, as it is stored: a view of a matrix [P, D]."""
        shape = self._storage[name].stored_shape
        column: Tensor = matrix[:, self.columns[name]]
        return column.view(len(matrix), *shape)

    def named(self, matrix: Tensor) -> dict[str, Tensor]:
        """All parameters of all runs, [P, ...] each; views, where nothing is stored otherwise."""
        return {name: self._in_order(name, self.stored(matrix, name)) for name in self.shapes}

    def pack(self, named: Mapping[str, Tensor]) -> Tensor:
        """One row, on the CPU; parameters of absent actions become zeros."""
        row = torch.zeros(1, self.width)
        for name, shape in self.shapes.items():
            given = named[name].detach()
            if given.shape[1:] != shape[1:] or len(given) > shape[0]:
                raise ValueError(f"{name} is {tuple(given.shape)}, not {shape}")
            full = torch.zeros(shape)
            full[: len(given)] = given
            own = self._storage[name]
            self.stored(row, name)[0] = full.reshape(own.shape).permute(own.order)
        return row[0]

    def unpack(self, run: int, matrix: Tensor) -> dict[str, Tensor]:
        """One run's parameters, on the CPU, without the rows of actions it lacks."""
        named = {}
        for name, parameter in self.named(matrix[run : run + 1].cpu()).items():
            actions = self._num_actions[run] if name in self._per_action else None
            named[name] = parameter[0, :actions].clone(memory_format=torch.contiguous_format)
        return named

    def _in_order(self, name: str, stored: Tensor) -> Tensor:
        back = [self._storage[name].order.index(axis) for axis in range(stored.ndim - 1)]
        ordered = stored.permute(0, *(1 + axis for axis in back))
        return ordered.reshape(len(stored), *self.shapes[name])
