"""Moments of a policy's own games, played on from there once more: as they were, or after an edit.

Until the stack of frames shows the edit, all play the actions of the original game; then the policy
decides. All luck is the same, so what differs comes from the edit, or from the policy's own dice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.envs.editable import EditableAtari
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.editing import Choice, Editable
from idqn.envs.edits import Box
from idqn.evaluate import Policy
from idqn.explain.progress import Progress, silent

NO_PLAYER: Box = (-1, -1, -1, -1)  # it is not on the screen


@dataclass
class Line:
    """One game, or the rest of one, step by step."""

    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    way: list[Box] = field(default_factory=list)
    """Where the player is before each action, and at the end."""

    def __len__(self) -> int:
        return len(self.actions)


@dataclass
class Original(Line):
    snapshots: dict[int, Any] = field(default_factory=dict)
    """By step, before its action."""


class Moment(NamedTuple):
    original: Original
    step: int

    @property
    def left(self) -> int:
        return len(self.original) - self.step


class Branch(NamedTuple):
    moment: Moment
    edit: Choice | None
    steps: int
    """Not played any longer than this."""


def play_originals(
    policy: Policy,
    envs: Sequence[Editable[Any, Any]],
    player: str,
    seed: int,
    max_steps: int,
    every: int,
    progress: Progress = silent,
) -> list[Original]:
    """One game in each environment, with a snapshot `every` so many steps."""
    games = [Original() for _ in envs]
    for number, env in enumerate(envs):
        env.reset(seed + number)
    playing = list(range(len(envs)))
    while playing:
        actions = policy(np.stack([envs[i].observation for i in playing]))
        still = []
        for i, action in zip(playing, actions.tolist(), strict=True):
            game = games[i]
            if len(game) % every == 0:
                game.snapshots[len(game)] = envs[i].save()
            if not _step(envs[i], game, action, player) and len(game) < max_steps:
                still.append(i)
        playing = still
        progress("playing games to be edited", len(envs) - len(playing), len(envs))
    return games


def play_branches(
    policy: Policy,
    envs: Sequence[Editable[Any, Any]],
    player: str,
    branches: Sequence[Branch],
    progress: Progress = silent,
) -> list[Line]:
    """As many at once as there are environments; what is long comes first, so that none waits."""
    found = [Line() for _ in branches]
    order = sorted(range(len(branches)), key=lambda i: -branches[i].steps)
    for first in range(0, len(order), len(envs)):
        own = order[first : first + len(envs)]
        _play_some(policy, envs, player, [branches[i] for i in own], [found[i] for i in own])
        progress("playing edited games", first + len(own), len(order))
    return found


def _play_some(
    policy: Policy,
    envs: Sequence[Editable[Any, Any]],
    player: str,
    branches: Sequence[Branch],
    lines: Sequence[Line],
) -> None:
    for env, branch in zip(envs, branches, strict=False):
        env.restore(branch.moment.original.snapshots[branch.moment.step])
        if branch.edit is not None:
            env.apply(branch.edit[0], **branch.edit[1])
    playing = list(range(len(branches)))
    step = 0
    while playing:
        if step < envs[0].settle_steps:
            actions = [_original_action(branches[i].moment, step) for i in playing]
        else:
            actions = policy(np.stack([envs[i].observation for i in playing])).tolist()
        step += 1
        playing = [
            i
            for i, action in zip(playing, actions, strict=True)
            if not _step(envs[i], lines[i], action, player) and step < branches[i].steps
        ]


def _original_action(moment: Moment, step: int) -> int:
    return moment.original.actions[min(moment.step + step, len(moment.original) - 1)]


def _step(env: Editable[Any, Any], line: Line, action: int, player: str) -> bool:
    """Whether the game is over now."""
    if not line.way:
        line.way.append(_where(env, player))
    _, reward, terminated, truncated = env.step(action)
    line.actions.append(action)
    line.rewards.append(reward)
    line.way.append(_where(env, player))
    return terminated or truncated


def _where(env: Editable[Any, Any], player: str) -> Box:
    return _objects(env).get(player, NO_PLAYER)


def _objects(env: Editable[Any, Any]) -> dict[str, Box]:
    """Also of a game that has just ended, of which `env.objects` would not tell."""
    if isinstance(env, EditableAtari):
        return env.game.objects(env.ram.tolist())
    assert isinstance(env, EditableMiniPacman)
    return env.game.objects(env.state)


def changes_only_the_picture(
    env: Editable[Any, Any], moment: Moment, edit: Choice, steps: int
) -> bool:
    """Whether the agent sees the edit within so many steps of the original's actions, but they are
    paid as in the unedited game, and everything that moves goes the same ways."""
    courses, pictures = [], []
    for each in (None, edit):
        env.restore(moment.original.snapshots[moment.step])
        if each is not None:
            env.apply(each[0], **each[1])
        course, frames = [], []
        for step in range(steps):
            observation, *paid = env.step(_original_action(moment, step))
            course.append((paid, _objects(env)))
            frames.append(observation[-1].tobytes())
            if paid[1] or paid[2]:
                break
        courses.append(course)
        pictures.append(frames)
    return courses[0] == courses[1] and pictures[0] != pictures[1]


def same_actions(moment: Moment, branch: Line, settle: int, steps: int) -> NDArray[np.bool_]:
    """[steps], whether the branch did what the original did, from when it was free to do otherwise;
    where one was over before, they differ."""
    first = moment.step + settle
    own = moment.original.actions[first : first + steps]
    its = branch.actions[settle : settle + steps]
    same = np.zeros(steps, bool)
    both = min(len(own), len(its))
    same[:both] = np.array(own[:both]) == np.array(its[:both])
    return same


def return_within(line: Line, first: int, steps: int) -> float:
    return float(sum(line.rewards[first : first + steps]))
