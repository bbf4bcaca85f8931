"""Edits, played: what the agent does in the edited world, what it would have earned there by going
on as before, and what it earns in the world as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.editing import Choice
from idqn.envs.single import make_editable
from idqn.explain.edited import Moment
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import Game, Trajectory, first_difference, walk

_TOGETHER = 16  # games


class Played(NamedTuple):
    """After the edit has settled, for as long as the unedited game is compared."""

    steps: int
    """How long that is."""
    kept: int
    """Steps for which the agent acts as in the unedited game."""
    reacting: float
    """Return of the agent in the edited world."""
    as_before: float
    """Return there of the actions of the unedited game."""
    unedited: float
    """Return of the unedited game."""


def play_edits(
    agent: Agent,
    games: Sequence[Trajectory],
    jobs: Sequence[tuple[Moment, Choice]],
    progress: Progress = silent,
) -> list[Played]:
    """One after another per environment, several at once per look of the agent."""
    envs: list[Game] = [
        make_editable(agent.config.env) for _ in range(min(_TOGETHER, max(len(jobs), 1)))
    ]
    try:
        snapshots = _snapshots(envs[0], games, [moment for moment, _ in jobs])
        found: list[Played] = []
        for first in range(0, len(jobs), len(envs)):
            some = jobs[first : first + len(envs)]
            rollouts = [
                _Rollout(env, games[moment.game], moment, edit, snapshots[moment])
                for env, (moment, edit) in zip(envs, some, strict=False)
            ]
            _react(agent, rollouts)
            found += [rollout.played() for rollout in rollouts]
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
        self, env: Game, trajectory: Trajectory, moment: Moment, edit: Choice, snapshot: Any
    ) -> None:
        settled = moment.step + env.settle_steps
        self.env = env
        self.given = trajectory.actions[moment.step : settled].tolist()
        self.before = trajectory.actions[settled : settled + moment.ahead].tolist()
        self.unedited = float(trajectory.rewards[settled : settled + moment.ahead].sum())
        self.edit, self.snapshot = edit, snapshot
        self.actions: list[int] = []
        self.earned = 0.0
        self.over = self._begin()

    def step(self, action: int) -> None:
        _, reward, terminated, truncated = self.env.step(action)
        self.actions.append(action)
        self.earned += reward
        self.over = terminated or truncated or len(self.actions) == len(self.before)

    def played(self) -> Played:
        """And the same with the actions of before."""
        actions, reacting = self.actions, self.earned
        parted = first_difference(actions, self.before)
        self.actions, self.earned = [], 0.0
        self.over = self._begin()
        while not self.over:
            self.step(self.before[len(self.actions)])
        steps = len(self.before)
        kept = steps if parted is None else parted
        return Played(steps, kept, reacting, self.earned, self.unedited)

    def _begin(self) -> bool:
        self.env.restore(self.snapshot)
        self.env.apply(self.edit[0], **self.edit[1])
        settled = self.env.settle(self.given)
        return settled.terminated or settled.truncated


def _react(agent: Agent, rollouts: list[_Rollout]) -> None:
    playing = [rollout for rollout in rollouts if not rollout.over]
    while playing:
        seen: NDArray[np.uint8] = np.stack([rollout.env.observation for rollout in playing])
        for rollout, action in zip(playing, agent.act(seen), strict=True):
            rollout.step(int(action))
        playing = [rollout for rollout in playing if not rollout.over]
