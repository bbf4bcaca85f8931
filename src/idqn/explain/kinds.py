"""All explanations of a run, by name, in the order in which they are made and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.performance import performance
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, collect
from idqn.run_dir import RunDir


@dataclass(frozen=True)
class Settings:
    """What a user may choose."""

    episodes: int = 5
    max_steps: int = 1_000
    seed: int = EVALUATION_SEED


@dataclass
class Subject:
    """An agent to be explained; it plays when somebody first asks for its states."""

    agent: Agent
    run: RunDir | None = None
    settings: Settings = Settings()
    other: Agent | None = None
    progress: Progress = silent

    @cached_property
    def states(self) -> States:
        return self.states_of(self.agent)

    def states_of(self, agent: Agent) -> States:
        s = self.settings
        return collect(agent, s.episodes, s.max_steps, s.seed, self.progress)


Explain = Callable[[Subject], Result]

KINDS: dict[str, Explain] = {
    "performance": lambda s: performance(
        s.agent,
        seed=s.settings.seed,
        evaluations=s.run.evaluations() if s.run is not None else None,
        progress=s.progress,
    ),
}


class Explained(NamedTuple):
    kind: str
    result: Result | None
    refusal: str | None
    """Why there is no result."""


def explain(subject: Subject, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Explained]:
    """Explain in so many ways, one after another; what cannot be done does not keep the others
    from being done."""
    for kind in kinds:
        try:
            yield Explained(kind, KINDS[kind](subject), None)
        except UserError as error:
            yield Explained(kind, None, str(error))
