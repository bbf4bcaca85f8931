"""Thousands of edited states of the agent's own games, and what the agent says of each.

An edit is made at a moment of a game, and the actions of that game are played until the agent's
whole stack of frames shows it; what the agent says then is compared with what it says there in
the game as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.editing import Choice
from idqn.envs.edits import Box, touch
from idqn.errors import UserError
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import Game, Trajectory, record, walk

PLAYERS = ("pacman", "player", "chicken", "ship")  # what games call what the agent moves
_PER_MOMENT = 16  # edits, where there are moments enough
AT_ONCE = 256  # observations


class Moment(NamedTuple):
    game: int
    step: int
    ahead: int
    """Steps that the game goes on after the edit has settled, the horizon at most."""


@dataclass(frozen=True, eq=False)
class Scored:
    """N edited states, of M moments."""

    games: tuple[Trajectory, ...]
    moments: tuple[Moment, ...]  # M
    settle: int
    measure: str
    """What `distance` is of: attention (total variation) or Q (shares of its range)."""
    knows_path: bool
    """Whether the game says where the agent's figure is; if not, all edits count as near."""
    moment: NDArray[np.int64]  # [N]
    edits: tuple[Choice, ...]  # N
    near: NDArray[np.bool_]  # [N], it concerns the agent's figure, or what is beside its way
    pixels: NDArray[np.int64]  # [N], that differ in the newest frame
    distance: NDArray[np.float64]  # [N], of what the agent says; 0: the same as without the edit
    flipped: NDArray[np.bool_]  # [N], whether it chooses another action
    action: NDArray[np.int64]  # [N]
    plain_action: NDArray[np.int64]  # [M]
    gap: NDArray[np.float64]  # [M], by how much the chosen action leads, as a share of Q's range


def score_edits(
    agent: Agent,
    env: Game,
    budget: int,
    games: int,
    horizon: int,
    max_steps: int,
    seed: int,
    progress: Progress = silent,
) -> Scored:
    """Make up to `budget` edits, evenly over moments and kinds of edit, and look at them all. Of
    games that are the same, one counts: what is found in it would be found twice."""
    by_course: dict[object, Trajectory] = {}
    for i in range(games):
        game_played = record(agent, env, seed + i, max_steps, progress)
        course = game_played.actions.tobytes(), game_played.rewards.tobytes()
        by_course.setdefault(course, game_played)
    played = tuple(by_course.values())
    moments = _moments(played, env.settle_steps, horizon, max(1, budget // _PER_MOMENT))
    made = _Made(agent)
    rng = np.random.default_rng(seed)
    for game, trajectory in enumerate(played):
        numbers = {m.step: i for i, m in enumerate(moments) if m.game == game}
        if not numbers:
            continue
        way = _way(env, trajectory)
        for step in walk(env, trajectory, list(numbers)):
            share = -(-(budget - len(made.edits)) // (len(moments) - len(made.plain)))
            given = trajectory.actions[step : step + env.settle_steps]
            beside = way[step : step + env.settle_steps + horizon]
            made.at_moment(env, given, beside, _draw(env, share, rng))
            progress("looking at edited states", len(made.edits), budget)
    if not made.edits:
        raise UserError(
            f"no edit of {agent.config.env.id} is valid at the {len(moments)} moments looked at; "
            f"give a larger --budget, or another --seed"
        )
    return made.scored(played, moments, env.settle_steps)


class _Made:
    """Edits, moment by moment."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.channels = agent.spec.frame_shape[0]
        self.plain: list[int] = []  # of each moment, its place among the observations
        self.places: list[int] = []  # and of each edit
        self.edits: list[Choice] = []
        self.moment: list[int] = []
        self.near: list[bool] = []
        self.pixels: list[int] = []
        self.knows_path = False
        self._seen = 0
        self._waiting: list[NDArray[np.uint8]] = []
        self._said: list[tuple[NDArray[Any], ...]] = []

    def at_moment(
        self,
        env: Game,
        given: NDArray[np.int64],
        beside: list[Box | None],
        edits: list[Choice],
    ) -> None:
        regions = [env.region(name, **params) for name, params in edits]
        trials: list[list[Choice]] = [[], *([edit] for edit in edits)]
        plain = env.observation
        self.knows_path = self.knows_path or any(beside)
        for i, settled in enumerate(env.try_edits(trials, given.tolist())):
            if i == 0:
                plain = settled.observation
                self.plain.append(self._add(plain))
            elif not settled.terminated | settled.truncated:
                changed = settled.observation[-self.channels :] != plain[-self.channels :]
                self.places.append(self._add(settled.observation))
                self.edits.append(edits[i - 1])
                self.moment.append(len(self.plain) - 1)
                self.near.append(_concerns(regions[i - 1], beside))
                self.pixels.append(int(changed.any(0).sum()))

    def scored(self, games: tuple[Trajectory, ...], moments: list[Moment], settle: int) -> Scored:
        self._flush()
        q, action, *attention = (np.concatenate(part) for part in zip(*self._said, strict=True))
        moment = np.array(self.moment)
        plain, place = np.array(self.plain)[moment], np.array(self.places)
        plain_q = q[self.plain].astype(np.float64)
        spread = float(np.ptp(plain_q, axis=1).mean())
        best = np.sort(plain_q, 1)
        lead = best[:, -1] - best[:, -2] if q.shape[1] > 1 else best[:, -1] * 0
        if attention:
            weights = attention[0].astype(np.float64)
            distance = 0.5 * np.abs(weights[place] - weights[plain]).sum(-1).mean(-1)
        else:
            distance = np.abs(q[place] - q[plain]).mean(-1) / max(spread, 1e-12)
        return Scored(
            games,
            tuple(moments),
            settle,
            "attention" if attention else "Q",
            self.knows_path,
            moment,
            tuple(self.edits),
            np.array(self.near) | (not self.knows_path),
            np.array(self.pixels),
            distance,
            action[place] != action[plain],
            action[place],
            action[self.plain],
            lead / max(spread, 1e-12),
        )

    def _add(self, observation: NDArray[np.uint8]) -> int:
        self._waiting.append(observation)
        self._seen += 1
        if len(self._waiting) == AT_ONCE:
            self._flush()
        return self._seen - 1

    def _flush(self) -> None:
        if not self._waiting:
            return
        self._said.append(heard(self.agent, self._waiting))
        self._waiting = []


def heard(agent: Agent, observations: list[NDArray[np.uint8]]) -> tuple[NDArray[Any], ...]:
    """What the agent says of each: Q, its action, and attention where it has some."""
    out = agent.look(np.stack(observations), decode=False)
    said = [out.q.cpu().numpy(), agent.choose(out)]
    if "attention" in out:
        said.append(out.attention.cpu().numpy())
    return tuple(said)


def _moments(games: tuple[Trajectory, ...], settle: int, horizon: int, count: int) -> list[Moment]:
    """Spread evenly over all moments whose next steps are known, be it that the game is over: to
    leave out those before an end would favour the actions that were taken."""
    found = []
    for game, trajectory in enumerate(games):
        for step in range(len(trajectory) - settle):
            ahead = min(horizon, len(trajectory) - settle - step)
            if trajectory.finished or ahead == horizon:
                found.append(Moment(game, step, ahead))
    if not found:
        longest = max(len(game) for game in games)
        raise UserError(
            f"of the agent's {len(games)} games, of {longest} steps at most, none goes on for "
            f"{horizon} steps after an edit; lower --horizon, or raise --max-steps"
        )
    chosen = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
    return [found[i] for i in chosen]


def _draw(env: Game, count: int, rng: np.random.Generator) -> list[Choice]:
    """So many valid edits, of each kind in turn."""
    each = [
        iter([(name, choices[i]) for i in rng.permutation(len(choices))[:count]])
        for name, choices in ((name, env.choices(name)) for name in env.edits)
    ]
    drawn: list[Choice] = []
    while each and len(drawn) < count:
        for kind in list(each):
            choice = next(kind, None)
            if choice is None:
                each.remove(kind)
            elif len(drawn) < count:
                drawn.append(choice)
    return drawn


def _way(env: Game, trajectory: Trajectory) -> list[Box | None]:
    """Where the agent's figure is at each step, on the screen; None where nobody knows."""
    found = []
    for _ in walk(env, trajectory):
        objects = env.objects()
        name = next((name for name in PLAYERS if name in objects), None)
        found.append(None if name is None else objects[name])
    return found


def _concerns(region: tuple[Box, ...], way: list[Box | None]) -> bool:
    """Whether a place of the edit is no further from the way than the figure is large."""
    return any(
        touch(place, box, margin=max(box[2] - box[0], box[3] - box[1]))
        for box in way
        if box is not None
        for place in region
    )
