"""Adversarial states, found automatically: valid edits of the game that the agent is blind to, or
that break its play; proved by playing on, beside random edits of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.edits import Box
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.confirm import Played, play_edits
from idqn.explain.edited import PLAYERS, Scored, score_edits
from idqn.explain.picking import Numbers, matched, ranked
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import about
from idqn.explain.twins import Game, seconds_ahead, walk
from idqn.networks import build_network, members

BUDGET = 2_000  # edited states, where nobody says how many
UNMOVED = 0.05  # what the agent says differs by no more than this, where it is blind
BLIND, BROKEN = "blind", "broken"
MODES = (BLIND, BROKEN)
TWIN = "random weights"
OUTCOMES = ("unchanged", "better", "worse")


@dataclass(frozen=True, eq=False, repr=False)
class Search(Result):
    """By whom: the agent, and maybe its twin with random weights, in games of its own."""

    kind: ClassVar[str] = "search"
    budget: int
    horizon: int
    settle: int
    measure: str
    """What distances are of: attention (total variation) or Q (shares of its range)."""
    knows_path: bool
    whose: tuple[str, ...]
    games: tuple[int, ...]
    moments: tuple[int, ...]
    vulnerable: dict[str, int]  # "who, mode" -> moments that have a candidate
    edit_names: tuple[str, ...]
    edit: dict[str, NDArray[np.int64]]  # [N], which of them
    near: dict[str, NDArray[np.bool_]]  # [N]
    pixels: dict[str, NDArray[np.int64]]  # [N]
    distance: dict[str, NDArray[np.float64]]  # [N]
    flipped: dict[str, NDArray[np.bool_]]  # [N]
    outcomes: dict[str, NDArray[np.bool_]]  # "who, group" -> [n, OUTCOMES]
    """Whether it acted as in the unedited game; and earned more, or less, than by doing so."""
    kept: dict[str, NDArray[np.float64]]  # "who, group" -> [n], share of steps it acted so
    gains: dict[str, NDArray[np.float64]]  # "who, group" -> [n], what it earned more
    sizes: dict[str, NDArray[np.int64]]  # "who, group" -> [n], pixels that differ
    examples: tuple[dict[str, Any], ...]
    """The agent's first of either mode; whether confirmed or not."""
    pictures: NDArray[np.uint8]  # [examples, 2, height, width, 3], unedited and edited, settled
    boxes: NDArray[np.int64]  # [m, 5], the example, and where it was edited
    baseline_refusal: str | None
    """Why there is no twin, if there should be one."""


def search(
    agent: Agent,
    budget: int = BUDGET,
    seed: int = EVALUATION_SEED,
    horizon: int | None = None,
    games: int = 8,
    max_steps: int = 1_000,
    confirmed: int = 24,
    shown: int = 3,
    baseline: bool = True,
    progress: Progress = silent,
) -> Search:
    """Look at `budget` edited states, and play the `confirmed` best of each mode, and as many
    control edits."""
    if budget < 1:
        raise UserError(f"nothing is found among {budget} edited states; give --budget at least 1")
    ahead = seconds_ahead(agent, horizon)
    env = make_editable(agent.config.env)
    try:
        if not env.edits:
            raise UserError(
                f"{agent.config.env.id} has no named edits, so there is nothing to search; nobody "
                f"has mapped its memory yet"
            )
        options = _Options(budget, games, ahead, max_steps, seed, confirmed)
        own = _find(agent, env, options, progress)
        found, refusal = {agent.name: own}, None
        if baseline:
            try:
                found[TWIN] = _find(untrained_twin(agent), env, options, progress)
            except UserError as error:
                refusal = str(error)
        examples = [
            (mode, i) for mode in MODES for i in range(min(shown, len(own.picks[_best(mode)])))
        ]
        views = [_view(env, own.scored, own.picks[_best(mode)][i]) for mode, i in examples]
        names = tuple(env.edits)
    finally:
        env.close()
    boxes = [(number, *box) for number, view in enumerate(views) for box in view.boxes]
    kinds = {
        who: np.array([names.index(edit) for edit, _ in each.scored.edits])
        for who, each in found.items()
    }
    return Search(
        about(agent),
        budget=budget,
        horizon=ahead,
        settle=own.scored.settle,
        measure=own.scored.measure,
        knows_path=own.scored.knows_path,
        whose=tuple(found),
        games=tuple(len(each.scored.games) for each in found.values()),
        moments=tuple(len(each.scored.moments) for each in found.values()),
        vulnerable={
            f"{who}, {mode}": count
            for who, each in found.items()
            for mode, count in each.vulnerable.items()
        },
        edit_names=names,
        edit=kinds,
        near={who: each.scored.near for who, each in found.items()},
        pixels={who: each.scored.pixels for who, each in found.items()},
        distance={who: each.scored.distance for who, each in found.items()},
        flipped={who: each.scored.flipped for who, each in found.items()},
        outcomes={
            f"{who}, {group}": _outcomes(played)
            for who, each in found.items()
            for group, played in each.played.items()
        },
        kept={
            f"{who}, {group}": np.array([p.kept / p.steps for p in played])
            for who, each in found.items()
            for group, played in each.played.items()
        },
        gains={
            f"{who}, {group}": np.array([p.reacting - p.as_before for p in played])
            for who, each in found.items()
            for group, played in each.played.items()
        },
        sizes={
            f"{who}, {group}": each.scored.pixels[picked]
            for who, each in found.items()
            for group, picked in each.picks.items()
        },
        examples=tuple(_told(agent, own, mode, i) for mode, i in examples),
        pictures=np.stack([view.screens for view in views]) if views else np.zeros((0,), np.uint8),
        boxes=np.array(boxes, np.int64).reshape(-1, 5),
        baseline_refusal=refusal,
    )


def untrained_twin(agent: Agent) -> Agent:
    """An agent of the same architecture, with the same normalisation, that has learnt nothing."""
    spec, config = agent.spec, agent.config
    seed = config.train.seed + 1
    network = build_network(config.agent, agent.observation_shape, spec.num_actions, seed)
    for own, its in zip(members(network), members(agent.network), strict=True):
        own.mean_image.copy_(its.mean_image)
    return Agent(network, config, spec, agent.device)


class _Options(NamedTuple):
    budget: int
    games: int
    ahead: int
    max_steps: int
    seed: int
    confirmed: int


class _Findings(NamedTuple):
    scored: Scored
    vulnerable: dict[str, int]  # by mode
    picks: dict[str, Numbers]  # by group
    played: dict[str, list[Played]]


def _find(agent: Agent, env: Game, options: _Options, progress: Progress) -> _Findings:
    scored = score_edits(
        agent,
        env,
        options.budget,
        options.games,
        options.ahead,
        options.max_steps,
        options.seed,
        progress,
    )
    rng = np.random.default_rng(options.seed)
    visible = scored.pixels > 0
    gap = scored.gap[scored.moment]
    blind = visible & scored.near
    unmoved = blind & ~scored.flipped & (scored.distance <= UNMOVED)
    # whose own figure is moved has reason to act otherwise
    others = visible & np.array([name not in PLAYERS for name, _ in scored.edits])
    confident = others & scored.flipped & (gap >= np.median(scored.gap))
    picks: dict[str, Numbers] = {}
    vulnerable = {}
    for mode, pool, eligible, score in (
        (BLIND, blind, unmoved, scored.distance),
        (BROKEN, others, confident, -gap),
    ):
        best = ranked(eligible, scored.pixels, score, scored.moment, options.confirmed)
        vulnerable[mode] = len(np.unique(scored.moment[eligible]))
        picks[_best(mode)] = best
        picks[f"{mode} control"] = matched(best, pool, scored.pixels, scored.moment, rng)
    jobs = [
        (scored.moments[scored.moment[i]], scored.edits[i]) for each in picks.values() for i in each
    ]
    played = iter(play_edits(agent, scored.games, jobs, options.ahead, progress))
    by_group = {group: [next(played) for _ in each] for group, each in picks.items()}
    return _Findings(scored, vulnerable, picks, by_group)


def _best(mode: str) -> str:
    return f"{mode} candidates"


def _outcomes(played: list[Played]) -> NDArray[np.bool_]:
    """[n, OUTCOMES]"""
    rows = [(p.kept == p.steps, p.reacting > p.as_before, p.reacting < p.as_before) for p in played]
    return np.array(rows, np.bool_).reshape(-1, len(OUTCOMES))


class _View(NamedTuple):
    screens: NDArray[np.uint8]  # [2, height, width, 3]
    boxes: tuple[Box, ...]


def _view(env: Game, scored: Scored, number: int) -> _View:
    """What a person sees when an edit has settled, without it and with it."""
    moment = scored.moments[scored.moment[number]]
    trajectory, (name, params) = scored.games[moment.game], scored.edits[number]
    given = trajectory.actions[moment.step : moment.step + scored.settle].tolist()
    screens = []
    for _ in walk(env, trajectory, [moment.step]):
        boxes = env.region(name, **params)
        snapshot = env.save()
        for edited in (False, True):
            env.restore(snapshot)
            if edited:
                env.apply(name, **params)
            env.settle(given)
            screens.append(env.screen())
    return _View(np.stack(screens), boxes)


def _told(agent: Agent, found: _Findings, mode: str, i: int) -> dict[str, Any]:
    """One example, for JSON."""
    scored, group = found.scored, _best(mode)
    number, played = int(found.picks[group][i]), found.played[group][i]
    moment, (name, params) = scored.moments[scored.moment[number]], scored.edits[number]
    return {
        "mode": mode,
        "edit": _words(name, params),
        "game": moment.game,
        "step": moment.step,
        "ahead": moment.ahead,
        "pixels": int(scored.pixels[number]),
        "distance": float(scored.distance[number]),
        "gap": float(scored.gap[scored.moment[number]]),
        "plain_action": agent.action_names[scored.plain_action[scored.moment[number]]],
        "action": agent.action_names[scored.action[number]],
        **played._asdict(),
    }


def _words(name: str, params: Mapping[str, Any]) -> str:
    """An edit as a person says it: "pellet off, row 3, col 4"."""
    switch = {True: " on", False: " off"}.get(params.get("on", ""), "")
    rest = [f"{key} {value}" for key, value in params.items() if key != "on" and value is not None]
    return ", ".join([f"{name}{switch}", *rest])
