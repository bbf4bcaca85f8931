"""Edits, played: what the agent does in the edited world, what it would have earned there by going
on as before, and what it earns in the world as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from idqn.agent import Agent
from idqn.envs.editing import Choice
from idqn.envs.single import make_editable
from idqn.explain.edited import Moment
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import Game, Trajectory, first_difference, walk

_TOGETHER = 16  # games


class Played(NamedTuple):
    """After the edit has settled, until the horizon or the game's end."""

    steps: int
    """How long the unedited game goes on."""
    kept: int
    """Steps for which the agent acts as in the unedited game."""
    reacting: float
    """Return of the agent in the edited world."""
    as_before: float
    """Return there of the actions of the unedited game; where that was over, the agent goes on."""
    unedited: float
    """Return of the unedited game."""


def play_edits(
    agent: Agent,
    games: Sequence[Trajectory],
    jobs: Sequence[tuple[Moment, Choice]],
    horizon: int,
    progress: Progress = silent,
) -> list[Played]:
    """Each edit twice: with the agent, and with the actions of the unedited game."""
    envs: list[Game] = [
        make_editable(agent.config.env) for _ in range(min(_TOGETHER, max(len(jobs), 1)))
    ]
    try:
        snapshots = _snapshots(envs[0], games, [moment for moment, _ in jobs])
        found: list[Played] = []
        for first in range(0, len(jobs), len(envs)):
            some = jobs[first : first + len(envs)]
            pairs = list(zip(envs, some, strict=False))
            both = []
            for follows_plan in (False, True):
                rollouts = [
                    _Rollout(env, games[moment.game], moment, edit, snapshots[moment], follows_plan)
                    for env, (moment, edit) in pairs
                ]
                _play(agent, rollouts, horizon)
                both.append(rollouts)
            found += [_compared(*pair) for pair in zip(*both, strict=True)]
            progress("playing edited games", len(found), len(jobs))
        return found
    finally:
        for env in envs:
            env.close()


def _snapshots(
    env: Game, games: Sequence[Trajectory], moments: Sequence[Moment]
) -> dict[Moment, Any]:
    found: dict[Moment, Any] = {}
    for number, trajectory in enumerate(games):
        here = {moment.step: moment for moment in moments if moment.game == number}
        if here:
            for step in walk(env, trajectory, list(here)):
                found[here[step]] = env.save()
    return found


class _Rollout:
    def __init__(
        self,
        env: Game,
        trajectory: Trajectory,
        moment: Moment,
        edit: Choice,
        snapshot: Any,
        follows_plan: bool,
    ) -> None:
        settled = moment.step + env.settle_steps
        ahead = slice(settled, settled + moment.ahead)
        self.env = env
        self.before = trajectory.actions[ahead].tolist()
        self.unedited = float(trajectory.rewards[ahead].sum())
        self.plan = self.before if follows_plan else []
        self.actions: list[int] = []
        self.earned = 0.0
        env.restore(snapshot)
        env.apply(edit[0], **edit[1])
        answer = env.settle(trajectory.actions[moment.step : settled].tolist())
        self.over = answer.terminated or answer.truncated

    def step(self, action: int) -> None:
        planned = len(self.actions) < len(self.plan)
        self.actions.append(self.plan[len(self.actions)] if planned else action)
        _, reward, terminated, truncated = self.env.step(self.actions[-1])
        self.earned += reward
        self.over = terminated or truncated


def _play(agent: Agent, rollouts: list[_Rollout], horizon: int) -> None:
    for _ in range(horizon):
        playing = [rollout for rollout in rollouts if not rollout.over]
        if not playing:
            return
        seen = np.stack([rollout.env.observation for rollout in playing])
        for rollout, action in zip(playing, agent.act(seen), strict=True):
            rollout.step(int(action))


def _compared(reacting: _Rollout, as_before: _Rollout) -> Played:
    steps = len(reacting.before)
    parted = first_difference(reacting.actions, reacting.before)
    kept = steps if parted is None else parted
    return Played(steps, kept, reacting.earned, as_before.earned, reacting.unedited)
