"""Who the agent is: how well it plays, and in how many different ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from idqn.agent import Agent
from idqn.evaluate import EVALUATION_SEED, play_many, random_policy, summarize
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import about


@dataclass(frozen=True, eq=False, repr=False)
class Performance(Result):
    kind: ClassVar[str] = "performance"
    episodes: int
    mean: float
    interval: tuple[float, float]
    """95 %, of the mean."""
    median: float
    distinct: int
    """Different returns among the episodes."""
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    """In agent steps."""
    sticky_probability: float
    random_mean: float
    random_interval: tuple[float, float]


def performance(
    agent: Agent,
    episodes: int = 16,
    seed: int = EVALUATION_SEED,
    evaluations: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress = silent,
) -> Performance:
    """The score of full games, and a random policy's; what `evaluations` (as in a run's
    `evaluation/`) say of this agent is not played again."""
    env = agent.config.env
    found = {}
    for name, policy, frames in (
        (agent.name, agent.act, agent.origin.frames),
        ("random", random_policy(env, seed), 0),
    ):
        known = [
            evaluation
            for evaluation in (evaluations or {}).values()
            if (evaluation.get("policy"), evaluation.get("frames_trained")) == (name, frames)
            and evaluation.get("sticky_probability") == env.sticky_probability
            and evaluation.get("episodes", 0) >= episodes
        ]
        if known:
            found[name] = max(known, key=lambda evaluation: evaluation["episodes"])
            continue
        played = []
        for episode in play_many(policy, env, episodes, seed):
            played.append(episode)
            progress(f"{name} plays", len(played), episodes)
        found[name] = vars(summarize(played, env, name, frames, seed))
    own, chance = found[agent.name], found["random"]
    return Performance(
        about(agent),
        episodes=own["episodes"],
        mean=own["mean"],
        interval=tuple(own["interval"]),
        median=own["median"],
        distinct=own["distinct"],
        returns=tuple(own["returns"]),
        lengths=tuple(own["lengths"]),
        sticky_probability=env.sticky_probability,
        random_mean=chance["mean"],
        random_interval=tuple(chance["interval"]),
    )
