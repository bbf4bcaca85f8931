"""Does an agent play, or repeat what it did in training?

One page of numbers for any agent: how many different games it plays, what it loses when it is
pushed off its path, whether it goes on as before when something irrelevant changes, and whether it
takes what is put beside its way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.config import EnvConfig
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED, check_seed, random_policy
from idqn.explain.edited_worlds import FOOD, IRRELEVANT
from idqn.explain.intervals import (
    UNKNOWN,
    Number,
    difference_of_means,
    difference_of_shares,
    mean_of,
    share_of,
)
from idqn.explain.noticing import Stage
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.side_by_side import side_by_side
from idqn.explain.states import about
from idqn.explain.verdict import Verdict, judge
from idqn.explain.whole_games import STICKY, Player, Stadium

RANDOM = "random"

NUMBERS = (
    "return",
    "repeated returns",
    "repeated games",
    "repeated beginnings",
    "lost: sticky",
    "lost: random start",
    "lost: irrelevant edit",
    "same actions",
    "same actions, unedited",
    "divergence",
    "reached",
    "reached, unedited",
    "gain",
)
COUNTS = (
    "games",
    "distinct returns",
    "distinct games",
    "distinct beginnings",
    "sticky games",
    "random starts",
    "edited games",
    "irrelevant edits",
    "added food",
)


@dataclass(frozen=True, eq=False, repr=False)
class Memorization(Result):
    kind: ClassVar[str] = "memorization"
    policies: tuple[str, ...]
    """This run, a random policy and, if there is one, the other run."""
    numbers: dict[str, NDArray[np.float64]]
    """Of `NUMBERS`, [policies, 3]: value and 95 % interval; NaN where it cannot be measured."""
    counts: dict[str, NDArray[np.int64]]
    """Of `COUNTS`, [policies]: what was played, and how much of it differed."""
    verdicts: tuple[str, ...]
    signs: tuple[dict[str, bool | None], ...]
    """For each policy, what speaks for memorised play: yes, no, or nobody knows."""
    starts: float
    """Different beginnings to be expected of so many games."""
    beginning_steps: int
    random_start_steps: int
    sticky_probability: float
    irrelevant: str | None
    """What was edited, and why that does not matter; None where nothing is known not to."""
    same_steps: int
    food_steps: int
    """0 for games where nothing can be put to be eaten."""

    def __post_init__(self) -> None:
        if (set(self.numbers), set(self.counts)) != (set(NUMBERS), set(COUNTS)):
            raise ValueError("it has other numbers than are asked for now")


@dataclass(frozen=True)
class Options:
    episodes: int = 100
    moments: int = 48
    """At most so many for irrelevant edits, and so many for food."""
    beginning_steps: int = 100
    random_start_steps: int = 30
    seed: int = EVALUATION_SEED
    workers: int | None = None

    def __post_init__(self) -> None:
        for name in ("episodes", "moments", "beginning_steps", "random_start_steps"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; expected at least 1")
        check_seed(self.seed)


def memorization(
    agent: Agent,
    episodes: int | None = None,
    other: Agent | None = None,
    options: Options | None = None,
    progress: Progress = silent,
) -> Memorization:
    """Beside a random policy and, if given, another agent of the same game; `episodes` is laid over
    the options."""
    env = agent.config.env
    chosen = options or Options()
    if episodes is not None:
        chosen = dataclasses.replace(chosen, episodes=episodes)
    players = {
        agent.origin.run: Player(agent.act, env, steady=True),
        RANDOM: Player(random_policy(env, chosen.seed), env),
    }
    if other is not None:
        if other.config.env.id != env.id:
            raise UserError(
                f"this agent plays {env.id} and the other one {other.config.env.id}; memorised "
                "play is compared between agents of one game"
            )
        name = other.origin.run
        players[name if name not in players else f"{name} (other)"] = Player(
            other.act, other.config.env, steady=True
        )
    measured = measure(players, chosen, progress)
    rule, food = IRRELEVANT.get(env.id), FOOD.get(env.id)
    return Memorization(
        about(agent),
        policies=tuple(players),
        numbers={name: np.stack([m.numbers[name] for m in measured]) for name in NUMBERS},
        counts={name: np.array([m.counts[name] for m in measured], np.int64) for name in COUNTS},
        verdicts=tuple(m.verdict.text for m in measured),
        signs=tuple(m.verdict.signs for m in measured),
        starts=expected_starts(env, chosen.episodes),
        beginning_steps=chosen.beginning_steps,
        random_start_steps=chosen.random_start_steps,
        sticky_probability=STICKY,
        irrelevant=rule.reason if rule is not None else None,
        same_steps=rule.steps if rule is not None else 0,
        food_steps=food.steps if food is not None else 0,
    )


class Found(NamedTuple):
    """Some of what there is to be found out about a player."""

    numbers: dict[str, Number]
    counts: dict[str, int]

    def __or__(self, other: Found) -> Found:
        return Found(self.numbers | other.numbers, self.counts | other.counts)


Part = Callable[[Progress], Found]


class Measured(NamedTuple):
    numbers: dict[str, Number]
    counts: dict[str, int]
    verdict: Verdict


def measure(
    players: Mapping[str, Player], options: Options, progress: Progress = silent
) -> list[Measured]:
    """Of policies of any kind; the one named "random", if there is one, is the floor that losses
    are held against."""
    envs = [player.env for player in players.values()]
    with Stadium(envs, options.episodes, options.seed, options.workers) as stadium:

        def parts(name: str, player: Player) -> list[Part]:
            both: list[Part] = [
                lambda shown: _games(name, player, options, stadium, shown),
                lambda shown: _edits(player, options, _named(shown, name)),
            ]
            if player.steady:
                return both
            # whoever has dice throws them in this order
            return [lambda shown: both[0](shown) | both[1](shown)]

        jobs = [(name, part) for name in players for part in parts(name, players[name])]
        news = side_by_side([part for _, part in jobs], progress, stadium.give_up)
    found = {
        name: Found(dict.fromkeys(NUMBERS, UNKNOWN), dict.fromkeys(COUNTS, 0)) for name in players
    }
    for (name, _), part_of_it in zip(jobs, news, strict=True):
        found[name] |= part_of_it
    random_return, random_returns = float("nan"), 0
    if RANDOM in players:
        numbers, counts = found[RANDOM]
        random_return, random_returns = float(numbers["return"][0]), counts["distinct returns"]

    def verdict(numbers: dict[str, Number], counts: dict[str, int], env: EnvConfig) -> Verdict:
        starts = expected_starts(env, options.episodes)
        return judge(numbers, counts, starts, random_return, random_returns)

    return [
        Measured(numbers, counts, verdict(numbers, counts, player.env))
        for (numbers, counts), player in zip(found.values(), players.values(), strict=True)
    ]


def expected_starts(env: EnvConfig, episodes: int) -> float:
    """Of so many games; Atari without sticky actions knows no luck but the number of no-ops."""
    if not env.is_atari or env.sticky_probability > 0:
        return float(episodes)
    different = env.noop_max + 1
    return float(different * (1 - (1 - 1 / different) ** episodes))


def _games(
    name: str, player: Player, options: Options, stadium: Stadium, progress: Progress
) -> Found:
    usual, sticky, pushed = stadium.play(name, player, options.random_start_steps, progress)
    beginnings = [actions[: options.beginning_steps] for actions in usual.actions]
    numbers = {
        "return": mean_of(usual.returns),
        "lost: random start": difference_of_means(usual.returns, pushed.returns),
    }
    counts = {"games": len(usual.returns), "random starts": len(pushed.returns)}
    for what, things in (
        ("returns", usual.returns.tolist()),
        ("games", [actions.tobytes() for actions in usual.actions]),
        ("beginnings", [actions.tobytes() for actions in beginnings]),
    ):
        counts[f"distinct {what}"] = len(set(things))
        numbers[f"repeated {what}"] = repeated(things)
    if sticky is not None:
        counts["sticky games"] = len(sticky.returns)
        numbers["lost: sticky"] = difference_of_means(usual.returns, sticky.returns)
    return Found(numbers, counts)


def repeated(things: Sequence[object]) -> Number:
    """The share of them that equal another one."""
    return share_of(sum(things.count(thing) > 1 for thing in things), len(things))


def _edits(player: Player, options: Options, progress: Progress) -> Found:
    numbers, counts = {}, {}
    irrelevant, food = IRRELEVANT.get(player.env.id), FOOD.get(player.env.id)
    who = irrelevant or food
    if who is None:
        return Found({}, {})
    where = (player.policy, player.env, who.player, options.moments, options.seed, progress)
    with Stage(*where) as stage:
        counts["edited games"] = stage.games
        if irrelevant is not None:
            after = stage.after_irrelevant_edits(irrelevant)
            counts["irrelevant edits"] = len(after.lost)
            for what, samples in (
                ("lost: irrelevant edit", after.lost),
                ("same actions", after.same.mean(1)),
                ("same actions, unedited", after.same_unedited.mean(1)),
                ("divergence", after.divergence.astype(np.float64)),
            ):
                numbers[what] = mean_of(samples, cluster=after.game)
        if food is not None:
            fed = stage.after_added_food(food)
            counts["added food"] = len(fed.reached)
            with_it = share_of(int(fed.reached.sum()), len(fed.reached))
            without = share_of(int(fed.reached_unedited.sum()), len(fed.reached))
            numbers["reached"], numbers["reached, unedited"] = with_it, without
            numbers["gain"] = difference_of_shares(with_it, without)
    return Found(numbers, counts)


def _named(progress: Progress, name: str) -> Progress:
    return lambda doing, done, total: progress(f"{name}: {doing}", done, total)
