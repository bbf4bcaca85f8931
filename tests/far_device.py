"""A device that is not the CPU, on machines that have no other: tensors on it compute on the CPU,
but refuse what a GPU refuses, such as to be added to a tensor of the CPU or to become a NumPy
array.

To be imported in a process of its own: torch takes one such device, and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

backend_registration._setup_privateuseone_for_python_backend("far")
FAR = torch.device("far", 0)

_MOVING = ("aten::_to_copy", "aten::copy_")  # between devices
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
"""Indices may be on the CPU."""
_WAITING = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal")
_recording = False


@contextmanager
def far_device() -> Iterator[torch.device]:
    with _Mode(), _Factories():
        yield FAR


@contextmanager
def recording() -> Iterator[None]:
    """Within it, what could not be recorded as a CUDA graph is an error."""
    global _recording
    _recording = True
    try:
        yield
    finally:
        _recording = False


class _Factories(TorchFunctionMode):
    """What makes tensors of Python's numbers goes around dispatch."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = torch.device(kwargs["device"])
            return function(*args, **kwargs | {"device": None}).to(device)
        return function(*args, **kwargs)


class _Far(Tensor):
    """Holds a tensor of the CPU and shares its storage with views of it."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _Far:
        made: _Far = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=FAR,
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(operation, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """Sees also what makes tensors from nothing."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(operation, args, kwargs or {})


def _compute(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = operation.name().split(".")[0]
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    far = any(isinstance(tensor, _Far) for tensor in tensors)
    near = any(not isinstance(tensor, _Far) and tensor.ndim > 0 for tensor in tensors)
    if far and near and name not in _MOVING and name not in _INDEXING:
        raise RuntimeError(f"{name}: expected all tensors on one device, found cpu and far")
    if _recording and _waits(name, args, kwargs):
        raise RuntimeError(f"{name} waits for the device: this cannot be recorded as a graph")
    if kwargs.get("device") is not None:
        far = torch.device(kwargs["device"]) == FAR
        kwargs = kwargs | {"device": torch.device("cpu")}
    out = operation(*tree_map(_held, args), **tree_map(_held, kwargs))
    if name == "aten::_local_scalar_dense":
        return out
    if name.endswith("_") and isinstance(args[0], Tensor):
        return args[0]
    return tree_map(_far, out) if far else out


def _waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the host must wait for the far device, or the device for pageable memory."""
    if name == "aten::copy_":
        apart = isinstance(args[0], _Far) != isinstance(args[1], _Far)
        return apart and not (len(args) > 2 and args[2])
    if name == "aten::_to_copy":
        device = kwargs.get("device")
        return device is not None and (torch.device(device) == FAR) != isinstance(args[0], _Far)
    if not any(isinstance(leaf, _Far) for leaf in tree_leaves((args, kwargs))):
        return False
    masked = name in _INDEXING and any(
        isinstance(index, Tensor) and (index.dtype == torch.bool or not isinstance(index, _Far))
        for index in args[1]
    )
    return masked or name in _WAITING


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, _Far) else leaf


def _far(leaf: Any) -> Any:
    return _Far(leaf) if isinstance(leaf, Tensor) else leaf
