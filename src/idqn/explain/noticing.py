"""Does a policy go on as before when something irrelevant changes, and does it take what is put
beside its way?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.editing import Choice, Editable
from idqn.envs.edits import Box
from idqn.envs.single import make_editable
from idqn.evaluate import Policy
from idqn.explain.counterfactuals import (
    Branch,
    Line,
    Moment,
    Original,
    changes_only_the_picture,
    play_branches,
    play_originals,
    return_within,
    same_actions,
)
from idqn.explain.edited_worlds import (
    Food,
    Irrelevant,
    Way,
    food_beside,
    irrelevant_edits,
    reached,
)
from idqn.explain.progress import Progress, silent

GAMES = 24  # as many environments at once
MAX_STEPS = 1_500  # of an original game
REST_STEPS = 300  # over which returns after an edit are compared
_TRIES = 4  # moments looked at, for each that is wanted

Candidates = Callable[[Editable[Any, Any], Way], list[Choice]]


class Undisturbed(NamedTuple):
    """Of each moment at which there was an irrelevant edit."""

    same: NDArray[np.bool_]  # [n, steps], the original's actions, after the edit
    same_unedited: NDArray[np.bool_]  # [n, steps], and when played again without an edit
    lost: NDArray[np.float64]  # [n], the original's return less that after the edit
    game: NDArray[np.int64]  # [n], which it is of

    @property
    def divergence(self) -> NDArray[np.int64]:
        """[n], steps until the first different action; all of them if there is none."""
        different = ~self.same
        steps = self.same.shape[1]
        return np.asarray(np.where(different.any(1), different.argmax(1), steps), np.int64)


class Fed(NamedTuple):
    """Of each moment at which food could be put beside the way."""

    reached: NDArray[np.bool_]  # [n]
    reached_unedited: NDArray[np.bool_]  # [n], the same place without food


@dataclass(frozen=True)
class _Trial:
    moment: Moment
    edit: Choice
    places: tuple[Box, ...]
    """Where it is."""


class Stage:
    """A policy's own games, with moments to go back to. Of equal games, one: their moments would
    say everything twice."""

    def __init__(
        self,
        policy: Policy,
        config: EnvConfig,
        player: str,
        moments: int,
        seed: int,
        progress: Progress = silent,
    ) -> None:
        self._policy, self._player, self._moments = policy, player, moments
        self._seed, self._progress = seed, progress
        self._envs: list[Editable[Any, Any]] = []
        for made in range(min(GAMES, moments)):
            progress("preparing games to be edited", made, min(GAMES, moments))
            self._envs.append(make_editable(config))
        every = 25 if config.is_atari else 3  # a snapshot of Atari is 100 KB
        played = play_originals(policy, self._envs, player, seed, MAX_STEPS, every, progress)
        self._originals = different(played)
        self._settle = self._envs[0].settle_steps

    @property
    def games(self) -> int:
        return len(self._originals)

    def after_irrelevant_edits(self, rule: Irrelevant) -> Undisturbed:
        needed = self._settle + rule.steps
        trials = self._trials(
            lambda env, way: irrelevant_edits(env, rule, way),
            needed,
            lambda env, moment, edit: changes_only_the_picture(env, moment, edit, needed),
        )
        edited, again = self._play(trials, max(needed, REST_STEPS), needed)

        def same(lines: Sequence[Line]) -> NDArray[np.bool_]:
            rows = [
                same_actions(trial.moment, line, self._settle, rule.steps)
                for trial, line in zip(trials, lines, strict=True)
            ]
            return np.array(rows, bool).reshape(len(rows), rule.steps)

        lost = [
            return_within(trial.moment.original, trial.moment.step, REST_STEPS)
            - return_within(line, 0, REST_STEPS)
            for trial, line in zip(trials, edited, strict=True)
        ]
        place = {id(original): i for i, original in enumerate(self._originals)}
        game = [place[id(trial.moment.original)] for trial in trials]
        return Undisturbed(
            same(edited), same(again), np.array(lost, np.float64), np.array(game, np.int64)
        )

    def after_added_food(self, rule: Food) -> Fed:
        needed = self._settle + rule.steps
        trials = self._trials(lambda env, way: food_beside(env, rule, way, needed), needed)
        edited, again = self._play(trials, needed, needed)

        def came(lines: Sequence[Line]) -> NDArray[np.bool_]:
            pairs = zip(trials, lines, strict=True)
            return np.array([reached(line.way, trial.places) for trial, line in pairs], bool)

        return Fed(came(edited), came(again))

    def _trials(
        self,
        candidates: Candidates,
        needed: int,
        fits: Callable[[Editable[Any, Any], Moment, Choice], bool] = lambda env, moment, edit: True,
    ) -> list[_Trial]:
        """At moments drawn at random, with so many steps left, one edit drawn at random; if it does
        not fit, none."""
        rng = np.random.default_rng(self._seed)
        moments = [
            moment
            for game in self._originals
            for moment in (Moment(game, step) for step in game.snapshots)
            if moment.left >= needed
        ]
        env = self._envs[0]
        found: list[_Trial] = []
        for i in rng.permutation(len(moments))[: _TRIES * self._moments]:
            if len(found) == self._moments:
                break
            self._progress("looking for edits", len(found), self._moments)
            original, step = moments[i]
            env.restore(original.snapshots[step])
            edits = candidates(env, original.way[step:])
            if edits:
                edit = edits[rng.integers(len(edits))]
                places = env.region(edit[0], **edit[1])
                if fits(env, moments[i], edit):
                    found.append(_Trial(moments[i], edit, places))
        return found

    def _play(
        self, trials: Sequence[_Trial], edited_steps: int, unedited_steps: int
    ) -> tuple[list[Line], list[Line]]:
        branches = [
            *(Branch(trial.moment, trial.edit, edited_steps) for trial in trials),
            *(Branch(trial.moment, None, unedited_steps) for trial in trials),
        ]
        lines = play_branches(self._policy, self._envs, self._player, branches, self._progress)
        return lines[: len(trials)], lines[len(trials) :]

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for env in self._envs:
            env.close()


def different(games: Sequence[Original]) -> list[Original]:
    """Without those that are another one step by step; where no-ops are all the luck there is,
    many are."""
    found: dict[object, Original] = {}
    for game in games:
        found.setdefault((tuple(game.actions), tuple(game.rewards), tuple(game.way)), game)
    return list(found.values())
