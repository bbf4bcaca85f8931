"""How each kind of result is drawn; in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from idqn.explain.performance import Performance
from idqn.explain.results import Result
from idqn.report.figures import performance
from idqn.report.section import Section


class Figure(NamedTuple):
    result: type[Result]
    section: Callable[[Any], Section]


FIGURES: tuple[Figure, ...] = (Figure(Performance, performance.section),)
