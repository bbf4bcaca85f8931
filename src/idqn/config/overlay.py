"""Laying data that somebody wrote over a config: every name and type is checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from idqn.errors import UserError, nearest


def names_in(tree: Any, prefix: str = "") -> list[str]:
    """All dotted field names of a tree of dataclasses, in order."""
    names: list[str] = []
    hints = get_type_hints(tree)
    for f in dataclasses.fields(tree):
        if dataclasses.is_dataclass(hints[f.name]):
            names += names_in(hints[f.name], f"{prefix}{f.name}.")
        else:
            names.append(prefix + f.name)
    return names


def overlay(base: Any, data: Any) -> Any:
    """A copy of `base` with `data` (nested, may be partial) laid over it."""
    return _overlay(base, data, "", names_in(type(base)))


def _overlay(base: Any, data: Any, path: str, names: list[str]) -> Any:
    if not isinstance(data, Mapping):
        raise UserError(f"config: '{path.rstrip('.')}' must be a table of fields, got {data!r}")
    hints = get_type_hints(type(base))
    changes: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            known = [*(path + n for n in hints), *names]
            raise UserError(f"config: unknown key '{path}{name}'{nearest(path + name, known)}")
        current = getattr(base, name)
        if dataclasses.is_dataclass(current):
            changes[name] = _overlay(current, value, f"{path}{name}.", names)
        else:
            changes[name] = _checked(value, hints[name], path + name)
    return dataclasses.replace(base, **changes)


def _checked(value: Any, hint: Any, path: str) -> Any:
    """`value` if it fits the type `hint`; floats are no integers, bools no numbers."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value == "none" and type(None) in options:  # TOML has no null
        return None
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if option in (int, float) and isinstance(value, bool):
            continue
        if option is float and isinstance(value, int):
            return float(value)
        if isinstance(option, type) and isinstance(value, option):
            return value
    wanted = " or ".join(_describe(option) for option in options)
    raise UserError(f"config: '{path}' must be {wanted}, got {value!r}")


def _describe(option: Any) -> str:
    if get_origin(option) is Literal:
        return "one of " + ", ".join(repr(a) for a in get_args(option))
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(option, "'none'")
