"""All explanations of a run, by name, in the order in which they are made and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from idqn.agent import Agent
from idqn.envs.mini_pacman import ENV_ID as MINI_PACMAN
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED, check_seed
from idqn.explain.agreement import agreement
from idqn.explain.attack import RECIPES, attack
from idqn.explain.attention import attention
from idqn.explain.comparison import check_comparable, comparison
from idqn.explain.embedding import check_threshold, embedding
from idqn.explain.faithfulness import faithfulness
from idqn.explain.film import film
from idqn.explain.ground_truth import ground_truth
from idqn.explain.grounding import grounding
from idqn.explain.interpolation import interpolation
from idqn.explain.keys import keys
from idqn.explain.memorization import Options as MemorizationOptions
from idqn.explain.memorization import memorization
from idqn.explain.performance import performance
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.saliency import saliency
from idqn.explain.search import BUDGET, search
from idqn.explain.states import States, collect
from idqn.explain.surgery import surgery
from idqn.explain.tsne import check_perplexity
from idqn.run_dir import RunDir


@dataclass(frozen=True)
class Settings:
    """What a user may choose."""

    episodes: int = 5
    max_steps: int = 1_000
    seed: int = EVALUATION_SEED
    film_steps: int = 240
    perplexity: float = 40.0
    attention_threshold: float = 0.9

    def __post_init__(self) -> None:
        for name in ("episodes", "max_steps", "film_steps"):
            if getattr(self, name) < 1:
                what = f"{getattr(self, name)} {name.removeprefix('max_').replace('_', ' ')}"
                raise UserError(f"there is nothing to explain in {what}; play at least 1")
        # now, rather than after minutes of other explanations
        check_seed(self.seed)
        check_perplexity(self.perplexity)
        check_threshold(self.attention_threshold)


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
    "film": lambda s: film(s.agent, s.states, s.settings.film_steps, progress=s.progress),
    "keys": lambda s: keys(s.agent, s.states, progress=s.progress),
    "attention": lambda s: attention(s.agent, s.states, progress=s.progress),
    "saliency": lambda s: saliency(s.agent, s.states, progress=s.progress),
    "embedding": lambda s: embedding(
        s.agent,
        s.states,
        threshold=s.settings.attention_threshold,
        perplexity=s.settings.perplexity,
        progress=s.progress,
    ),
    "interpolation": lambda s: interpolation(s.agent, s.states, progress=s.progress),
    "agreement": lambda s: agreement(s.agent, s.states, progress=s.progress),
    "faithfulness": lambda s: faithfulness(s.agent, s.states, progress=s.progress),
    "grounding": lambda s: grounding(
        s.agent, s.settings.seed, max_steps=s.settings.max_steps, progress=s.progress
    ),
    "ground-truth": lambda s: ground_truth(s.agent, progress=s.progress),
    "comparison": lambda s: _comparison(s),
    "memorization": lambda s: memorization(
        s.agent,
        other=s.other,
        options=MemorizationOptions(seed=s.settings.seed),
        progress=s.progress,
    ),
    "extra-pellet": lambda s: _attack(s, "extra-pellet"),
    "inverted-triangle": lambda s: _attack(s, "inverted-triangle"),
    "pixel-max": lambda s: _attack(s, "pixel-max"),
    "search": lambda s: search(s.agent, BUDGET, s.settings.seed, progress=s.progress),
    "surgery": lambda s: surgery(s.agent, s.states, seed=s.settings.seed, progress=s.progress),
}


def _comparison(subject: Subject) -> Result:
    other = subject.other
    if other is None:
        raise UserError("comparison needs a second run: idqn explain A --compare B")
    check_comparable(subject.agent, other)  # before any game is played
    first, second = subject.agent.origin, other.origin
    if first.run_id is not None and (first.run_id, first.frames) == (second.run_id, second.frames):
        raise UserError(
            f"both runs to compare are {second.run} at {second.frames:,} frames; "
            f"give --compare another run"
        )
    own, its = subject.states, subject.states_of(other)
    return comparison(subject.agent, other, own, its, subject.progress)


def _attack(subject: Subject, recipe: str) -> Result:
    states = subject.states if recipe == "pixel-max" else None
    s = subject.settings
    return attack(
        subject.agent,
        recipe,
        seed=s.seed,
        max_steps=s.max_steps,
        states=states,
        progress=subject.progress,
    )


ON_REQUEST = frozenset({"grounding", "memorization", "surgery", "search", *RECIPES})
"""They play for minutes, or are for one game."""


def usual(subject: Subject) -> tuple[str, ...]:
    """The explanations that a user who names none gets."""
    missing = set(ON_REQUEST)
    if subject.other is None:
        missing.add("comparison")
    if subject.agent.config.env.id != MINI_PACMAN:
        missing.add("ground-truth")
    return tuple(kind for kind in KINDS if kind not in missing)


class Explained(NamedTuple):
    kind: str
    result: Result | None
    refusal: str | None
    """Why there is no result."""


def explain(subject: Subject, kinds: Sequence[str]) -> Iterator[Explained]:
    """Explain in so many ways, one after another; what cannot be done does not keep the others
    from being done."""
    for kind in kinds:
        try:
            yield Explained(kind, KINDS[kind](subject), None)
        except UserError as error:
            yield Explained(kind, None, str(error))
