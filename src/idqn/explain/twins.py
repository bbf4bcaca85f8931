"""Two games from one moment and with the same luck: one as it was, one in which something was
changed.

The moment is one of the agent's own games. For as many steps as the agent's stack of frames takes
to show the change, both are played with the actions of that game; then the agent decides. So a
game in which nothing was changed is the agent's own, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.editing import Choice, Editable
from idqn.errors import UserError
from idqn.evaluate import check_seed
from idqn.explain.film import Film, coarse_saliency
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import about, as_png

FACTUAL, COUNTERFACTUAL = "factual", "counterfactual"
SIDES = (FACTUAL, COUNTERFACTUAL)
SECONDS = 3.0  # of a game, that are played on after a change
_TRIES = 8  # games

Game = Editable[Any, Any]
Actions = NDArray[np.int64]


class Trajectory(NamedTuple):
    """One of the agent's own games; as all luck comes from the seed, the actions say it all."""

    seed: int
    actions: Actions  # [T]
    rewards: NDArray[np.float64]  # [T]
    finished: bool
    """False if it was cut off."""

    def __len__(self) -> int:
        return len(self.actions)


def record(
    agent: Agent, env: Game, seed: int, max_steps: int, progress: Progress = silent
) -> Trajectory:
    """A game of the agent, greedy."""
    check_seed(seed)
    if max_steps < 1:
        raise UserError(f"there is nothing to edit in a game of {max_steps} steps; play at least 1")
    observation = env.reset(seed)
    actions: list[int] = []
    rewards: list[float] = []
    over = False
    while not over and len(actions) < max_steps:
        actions.append(agent.act(observation))
        observation, reward, terminated, truncated = env.step(actions[-1])
        rewards.append(reward)
        over = terminated or truncated
        progress("playing", len(actions), max_steps)
    return Trajectory(seed, np.array(actions, np.int64), np.array(rewards, np.float64), over)


class Place(Protocol):
    """A moment of a game at which it may be changed."""

    @property
    def whole(self) -> bool:
        """Whether the unchanged game goes on from there for all that is to be filmed."""


P = TypeVar("P", bound=Place)


def first_with_place(
    find: Callable[[Trajectory], P], play: Callable[[int], Trajectory], seed: int, step: int | None
) -> tuple[Trajectory, P]:
    """The first of the agent's games, from that with `seed` on, that has a place and then goes on
    for the whole film; if none does, the first that has a place. Whoever names a step means the
    first game. `find` raises a UserError where there is no place."""
    cut_short: list[tuple[Trajectory, P]] = []
    refusals: list[UserError] = []
    for number in range(_TRIES if step is None else 1):
        try:
            trajectory = play(seed + number)
            place = find(trajectory)
        except UserError as error:
            refusals.append(error)
            continue
        if place.whole:
            return trajectory, place
        cut_short.append((trajectory, place))
    if not cut_short:
        raise refusals[0]
    return cut_short[0]


def goes_on(trajectory: Trajectory, step: int, steps: int) -> bool:
    """For so many steps from there; what was cut off would."""
    return step + steps <= len(trajectory) or not trajectory.finished


def walk(env: Game, trajectory: Trajectory, steps: Sequence[int] | None = None) -> Iterator[int]:
    """Play a game again, and stop at these steps (or at each), in order, before their actions.
    Whoever changes something there must put it back."""
    wanted = range(len(trajectory)) if steps is None else sorted(set(steps))
    env.reset(trajectory.seed)
    at = 0
    for step in wanted:
        for action in trajectory.actions[at:step]:
            env.step(int(action))
        at = step
        yield step


def seconds_ahead(agent: Agent, steps: int | None) -> int:
    """How far to play on, in steps; without a wish, for 3 seconds of the game."""
    if steps is None:
        return max(1, round(SECONDS * agent.config.env.steps_per_second))
    if steps < 1:
        raise UserError(f"nothing can be compared in {steps} steps; play on for at least 1")
    return steps


@dataclass(frozen=True, eq=False)
class Side:
    """One of two games, from the moment of the change on."""

    action: Actions  # [T]
    reward: NDArray[np.float64]  # [T]
    finished: bool
    frames: tuple[bytes, ...]  # T, the newest of what the agent saw before each action
    watched: tuple[Any, ...]  # T + 1, what `watch` saw before each action, and at the end
    observations: NDArray[np.uint8]  # [filmed, C, h, w]
    screens: tuple[bytes, ...]  # filmed, PNG files
    said: dict[str, NDArray[np.float32]]  # [filmed, ...], by name


def play_on(
    agent: Agent,
    env: Game,
    given: Sequence[int] | Actions,
    filmed: int,
    max_steps: int,
    watch: Callable[[Game], Any] = lambda env: None,
    progress: Progress = silent,
) -> Side:
    """From the present moment, play the given actions and then greedily, until the game ends; the
    first `filmed` steps are remembered in full."""
    channels = agent.spec.frame_shape[0]
    observations, screens, looks = [], [], []
    actions: list[int] = []
    rewards: list[float] = []
    frames: list[bytes] = []
    watched = [watch(env)]
    observation, over = env.observation, False
    while not over and len(actions) < max_steps:
        out = agent.look(observation, decode=False)
        frames.append(observation[-channels:].tobytes())
        done = len(actions)
        actions.append(int(given[done]) if done < len(given) else int(agent.choose(out)))
        if done < filmed:
            observations.append(observation)
            screens.append(as_png(env.screen()))
            looks.append(out)
        observation, reward, terminated, truncated = env.step(actions[-1])
        rewards.append(reward)
        watched.append(watch(env))
        over = terminated or truncated
        progress("playing on", len(actions), max_steps)
    names = [name for name in ("q", "uncertainty", "attention") if name in looks[0]]
    return Side(
        np.array(actions, np.int64),
        np.array(rewards, np.float64),
        over,
        tuple(frames),
        tuple(watched),
        np.stack(observations),
        tuple(screens),
        {n: np.stack([getattr(look, n).cpu().numpy() for look in looks]) for n in names},
    )


def play_twins(
    agent: Agent,
    env: Game,
    trajectory: Trajectory,
    step: int,
    changes: dict[str, Choice | None],
    filmed: int,
    max_steps: int,
    watch: Callable[[Game], Any] = lambda env: None,
    progress: Progress = silent,
) -> dict[str, Side]:
    """From one step of a game, a side for each change, or for none."""
    given = trajectory.actions[step : step + env.settle_steps]
    sides = {}
    for _ in walk(env, trajectory, [step]):
        snapshot = env.save()
        for name, change in changes.items():
            env.restore(snapshot)
            if change is not None:
                env.apply(change[0], **change[1])
            sides[name] = play_on(agent, env, given, filmed, max_steps, watch, progress)
    return sides


def check_step(step: int | None, trajectory: Trajectory) -> None:
    if step is not None and not 0 <= step < len(trajectory):
        raise UserError(
            f"there is no step {step} in a game of {len(trajectory)} steps; choose --step from 0 "
            f"to {len(trajectory) - 1}, or leave it to the recipe"
        )


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Where two sequences part: the first place that differs, or where one ends before the other;
    None if they are the same."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return None if len(one) == len(other) else min(len(one), len(other))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Twins(Result):
    """What became of both; steps are counted from the moment of the change. Screens and what the
    agent said are of the first `filmed` steps, or fewer if the game ends before."""

    seed: int
    step: int
    """Of the agent's own game, at which the change was made."""
    game_steps: int
    """That game's length."""
    because: str
    """Why at this step."""
    changes: dict[str, str]
    """What was changed on each side, in words."""
    boxes: NDArray[np.int64]  # [n, 4], where on the screen the two differ: top, left, bottom, right
    settle: int
    """Steps played with the actions of the agent's own game."""
    filmed: int
    screens: dict[str, NDArray[np.uint8]]  # [bytes], PNG files one after another
    ends: dict[str, NDArray[np.int64]]  # [filmed], where each ends
    action: dict[str, NDArray[np.int64]]  # [T], to the end
    reward: dict[str, NDArray[np.float64]]  # [T]
    finished: dict[str, bool]
    q: dict[str, NDArray[np.float32]]  # [filmed, A]
    uncertainty: dict[str, NDArray[np.float32]] | None
    attention: dict[str, NDArray[np.float32]] | None  # [filmed, A, N], of agents with keys
    values: NDArray[np.float32] | None  # [N]
    saliency: dict[str, NDArray[np.float32]]  # [filmed, R, K], of the chosen action
    first_action: int | None
    """The first step at which they act differently (or one game is over); None: never."""
    first_frame: int | None
    """The first step at which the agent sees different frames."""
    steps_per_second: float

    def film(self, side: str) -> Film:
        count = len(self.ends[side])
        return Film(
            self.about,
            screens=self.screens[side],
            ends=self.ends[side],
            action=self.action[side][:count],
            reward=self.reward[side][:count],
            q=self.q[side],
            uncertainty=None if self.uncertainty is None else self.uncertainty[side],
            attention=None if self.attention is None else self.attention[side],
            values=self.values,
            saliency=self.saliency[side],
            whole=self.finished[side] and count == len(self.action[side]),
            steps_per_second=self.steps_per_second,
        )


def compared(agent: Agent, sides: dict[str, Side], progress: Progress = silent) -> dict[str, Any]:
    """The fields of `Twins` that come from the two games."""
    one, other = (sides[name] for name in SIDES)
    parts = {
        name: {key: side.said[name] for key, side in sides.items()} if name in one.said else None
        for name in ("q", "uncertainty", "attention")
    }
    return parts | {
        "about": about(agent),
        "screens": {
            key: np.frombuffer(b"".join(side.screens), np.uint8) for key, side in sides.items()
        },
        "ends": {
            key: np.cumsum([len(screen) for screen in side.screens]) for key, side in sides.items()
        },
        "action": {key: side.action for key, side in sides.items()},
        "reward": {key: side.reward for key, side in sides.items()},
        "finished": {key: side.finished for key, side in sides.items()},
        "values": agent.values.cpu().numpy() if parts["attention"] else None,
        "saliency": {
            key: coarse_saliency(
                agent, side.observations, side.action[: len(side.observations)], progress
            )
            for key, side in sides.items()
        },
        "first_action": first_difference(one.action.tolist(), other.action.tolist()),
        "first_frame": first_difference(one.frames, other.frames),
        "steps_per_second": agent.config.env.steps_per_second,
    }
