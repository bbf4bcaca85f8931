"""Named edits of a game, as data: parameters, rules, what is changed, where the screen shows it.

An edit looks at the game's state (128 bytes of RAM, or MiniPacman's state) and answers with the
change to make, or refuses. It never acts: applying is `envs.editing`'s work, so a refused edit
cannot have touched anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from idqn.errors import UserError, nearest

State = TypeVar("State")
Change = TypeVar("Change")

Box = tuple[int, int, int, int]
"""Top, left, bottom, right on the screen, ends excluded."""
Ram = Sequence[int]
Pokes = dict[int, int]
Params = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    name: str
    meaning: str
    kind: type
    values: Container[Any]
    """All that may be given..."""
    expected: str
    """...and that in words."""
    search: Sequence[Any]
    """What `choices` tries: of many values, some."""
    optional: bool = False
    """May be left out (None), and then stays as it is."""

    def checked(self, edit: str, value: Any) -> Any:
        if value is None and self.optional:
            return None
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, list):
            plain = tuple(plain)
        # the type counts, because True == 1: a row is no truth value and a switch is no number
        if type(plain) is not self.kind or plain not in self.values:
            raise UserError(f"{edit}: {self.name} is {value!r}; expected {self.expected}")
        return plain


def number(name: str, low: int, high: int, meaning: str, step: int = 1) -> Parameter:
    """An integer from low to high; a search tries every `step`-th."""
    search = range(low, high + 1, step)
    return Parameter(name, meaning, int, range(low, high + 1), f"{low} to {high}", search)


def one_of(name: str, values: Sequence[Any], meaning: str, optional: bool = False) -> Parameter:
    expected = " or ".join(repr(value) for value in values)
    return Parameter(name, meaning, type(values[0]), values, expected, values, optional)


def switch(meaning: str) -> Parameter:
    return one_of("on", (True, False), meaning)


@dataclass(frozen=True)
class Edit(Generic[State, Change]):
    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    rules: tuple[str, ...]
    """When it is refused, in words."""
    change: Callable[..., Change]
    """(state, **params) -> the change; raises UserError where a rule forbids it."""
    boxes: Callable[..., tuple[Box, ...]]
    """(state, **params) -> where the screen changes: what appears, moves (from, to) or goes."""
    writes: frozenset[int] = frozenset()
    """Every byte of RAM it may set."""

    def checked(self, params: Mapping[str, Any]) -> Params:
        """The parameters as plain values, one for each; UserError if one is wrong."""
        names = [parameter.name for parameter in self.parameters]
        for name in params:
            if name not in names:
                known = ", ".join(names)
                raise UserError(f"{self.name} has no '{name}'; it takes {known}")
        missing = [p.name for p in self.parameters if p.name not in params and not p.optional]
        if missing:
            raise UserError(
                f"{self.name} needs {', '.join(missing)}; it takes "
                + ", ".join(f"{p.name} ({p.expected})" for p in self.parameters)
            )
        return {p.name: p.checked(self.name, params.get(p.name)) for p in self.parameters}

    def plan(self, state: State, params: Mapping[str, Any]) -> Change:
        """The change these parameters mean in this state, or a UserError."""
        return self.change(state, **self.checked(params))

    def region(self, state: State, params: Mapping[str, Any]) -> tuple[Box, ...]:
        return self.boxes(state, **self.checked(params))

    def choices(self, state: State) -> Iterator[Params]:
        """Every set of parameters that a search should try and that is valid in this state."""
        given = [p for p in self.parameters if not p.optional]
        left_out = {p.name: None for p in self.parameters if p.optional}
        for combination in itertools.product(*(p.search for p in given)):
            params = dict(zip((p.name for p in given), combination, strict=True))
            try:
                self.change(state, **params, **left_out)
            except UserError:
                continue
            yield params


def _no_objects(_: Any) -> dict[str, Box]:
    return {}


@dataclass(frozen=True)
class GameEdits(Generic[State, Change]):
    """What can be edited in one game."""

    edits: Mapping[str, Edit[State, Change]]
    objects: Callable[[State], dict[str, Box]] = field(default=_no_objects)
    """Where things that move are on the screen now, by name."""
    score: frozenset[int] = frozenset()
    """Bytes of the score: rewards are its differences, so no edit may write them."""

    def __post_init__(self) -> None:
        for edit in self.edits.values():
            if edit.writes & self.score:
                raise ValueError(f"{edit.name} writes score bytes {edit.writes & self.score}")

    def named(self, name: str, game: str) -> Edit[State, Change]:
        if name in self.edits:
            return self.edits[name]
        if not self.edits:
            raise UserError(f"'{game}' has no named edits; bytes of RAM can be set with poke()")
        known = ", ".join(self.edits)
        raise UserError(
            f"'{game}' has no edit '{name}'; expected {known}{nearest(name, self.edits)}"
        )


def game_edits(
    edits: Iterable[Edit[State, Change]],
    objects: Callable[[State], dict[str, Box]] = _no_objects,
    score: Iterable[int] = (),
) -> GameEdits[State, Change]:
    by_name = MappingProxyType({edit.name: edit for edit in edits})
    return GameEdits(by_name, objects, frozenset(score))


def changed(ram: Ram, pokes: Pokes, edit: str) -> Pokes:
    """The pokes that make a difference; an edit that would change nothing is refused, lest a
    search count it as one that the agent does not react to."""
    real = {index: value for index, value in pokes.items() if ram[index] != value}
    if not real:
        raise UserError(f"{edit}: that is how it is already; nothing would change")
    return real


def refuse(edit: str, given: str, expected: str) -> UserError:
    return UserError(f"{edit}: {given}; {expected}")


def touch(one: Box, other: Box, margin: int = 0) -> bool:
    """Whether two boxes overlap, or come closer than a margin."""
    return (
        one[0] < other[2] + margin
        and other[0] < one[2] + margin
        and one[1] < other[3] + margin
        and other[1] < one[3] + margin
    )


def clip(box: Box, height: int, width: int) -> Box | None:
    """The part of a box that is on the screen, if any."""
    top, left, bottom, right = (
        max(0, box[0]),
        max(0, box[1]),
        min(height, box[2]),
        min(width, box[3]),
    )
    return (top, left, bottom, right) if top < bottom and left < right else None
