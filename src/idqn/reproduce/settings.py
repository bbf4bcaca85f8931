"""Which configs are the same experiment, and changes to them from a command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from idqn.config import Config, to_dict
from idqn.errors import UserError
from idqn.run_dir import RunDir

_WITHOUT_CONSEQUENCE = frozenset({"train.frames", "train.turns"})


def deciding(config: Config) -> dict[str, Any]:
    """Fields that decide what is learnt: not how far, nor on what machine."""
    return {
        f"{group}.{name}": value
        for group, fields in to_dict(config).items()
        for name, value in fields.items()
        if group != "system" and f"{group}.{name}" not in _WITHOUT_CONSEQUENCE
    }


class Difference(NamedTuple):
    field: str
    theirs: Any
    ours: Any


def differences(theirs: Config, ours: Config) -> list[Difference]:
    """Of the fields that decide what is learnt, those that are not the same."""
    their_values = deciding(theirs)
    return [
        Difference(name, their_values[name], value)
        for name, value in deciding(ours).items()
        if their_values[name] != value
    ]


def check_same(run: RunDir, wanted: Config, elsewhere: str) -> None:
    """Refuse to go on with a run of other settings; `elsewhere` is the option that says where."""
    for name, theirs, ours in differences(run.config(), wanted):
        raise UserError(
            f"'{run.path}' was trained with {name} = {theirs!r}, not {ours!r}; choose another "
            f"{elsewhere}"
        )


def changes(texts: Sequence[str]) -> dict[str, Any]:
    """`FIELD=VALUE ...`, for `Config.replace`."""
    return dict(_change(text) for text in texts)


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set takes FIELD=VALUE, got '{text}'; for example: train.envs=32")
    for read in (json.loads, int):  # int reads 250_000
        with suppress(ValueError):
            return name, read(value)
    return name, value


def game_of(env_id: str) -> str:
    """MsPacman of ALE/MsPacman-v5."""
    return env_id.split("/")[-1].rsplit("-v", 1)[0]
