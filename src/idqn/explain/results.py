"""What an explanation found: frozen, and kept in the run as JSON and safetensors.

A result has numbers, texts and arrays; figures and pages draw it and never see a network. In
`result.json`, arrays stand by their name alone, and lie in `arrays.safetensors`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from idqn.errors import UserError
from idqn.run_dir import RunDir, write_atomically

_FORMAT = 1
_ARRAY = "array:"
_FEW = 4  # of many, as many are shown in short


@dataclass(frozen=True)
class About:
    """Whom a result is about."""

    run: str
    run_id: str | None
    """What the run calls itself in `system.json`: names can be given twice."""
    env: str
    agent: str
    frames: int
    """Emulator frames of training."""
    seed: int
    action_names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Fields are arrays, dicts of arrays by name, numbers, texts, None, and tuples and dicts of
    these."""

    kind: ClassVar[str]
    about: About

    def __repr__(self) -> str:
        """What there is, short enough for a notebook: arrays by their type and shape."""
        fields = (field.name for field in dataclasses.fields(self))
        parts = (f"{name}={_in_short(getattr(self, name))}" for name in fields if name != "about")
        return f"{type(self).__name__}({', '.join([f'of {self.about.run}', *parts])})"

    def save(self, run: RunDir) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        fields = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "about":
                value = dataclasses.asdict(value)
            fields[field.name] = _without_arrays(value, field.name, arrays)
        text = json.dumps({"kind": self.kind, "format": _FORMAT, **fields}, indent=1)
        # the text last: it says that the result is whole
        write_atomically(run.explanation_arrays(self.kind), save(arrays))
        write_atomically(run.explanation(self.kind), text.encode() + b"\n")

    @classmethod
    def load(cls, run: RunDir) -> Self:
        path = run.explanation(cls.kind)
        if not path.is_file():
            raise UserError(
                f"'{run.path}' has no stored {cls.kind}; "
                f"`idqn explain {run.path} --only {cls.kind}` makes them"
            )
        try:
            data = json.loads(path.read_text())
            arrays = load(run.explanation_arrays(cls.kind).read_bytes())
            about = About(**_with_arrays(data.pop("about"), arrays))
            if (data.pop("kind"), data.pop("format")) != (cls.kind, _FORMAT):
                raise ValueError("another kind or format")
            return cls(about=about, **_with_arrays(data, arrays))
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise UserError(
                f"'{path.parent}' cannot be read ({error}); "
                f"`idqn explain {run.path} --only {cls.kind}` makes it anew"
            ) from error


def _in_short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_in_short(v)}" for key, v in value.items()) + "}"
    if isinstance(value, tuple):
        parts = [_in_short(v) for v in value[:_FEW]]
        return f"({', '.join(parts)}{f', ... {len(value)}' if len(value) > _FEW else ''})"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _without_arrays(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """For JSON; arrays go to `arrays` under their name."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        return _ARRAY + name
    if isinstance(value, dict):
        return {key: _without_arrays(v, f"{name}.{key}", arrays) for key, v in value.items()}
    if isinstance(value, tuple):
        return [_without_arrays(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _with_arrays(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """And back; JSON's lists were tuples."""
    if isinstance(value, str) and value.startswith(_ARRAY):
        return arrays[value.removeprefix(_ARRAY)]
    if isinstance(value, dict):
        return {key: _with_arrays(v, arrays) for key, v in value.items()}
    if isinstance(value, list):
        return tuple(_with_arrays(v, arrays) for v in value)
    return value
