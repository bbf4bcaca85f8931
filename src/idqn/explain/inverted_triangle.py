"""The paper's second adversarial example: SpaceInvaders' ships, which the agent has learnt to clear
from one side, stand the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.editable import EditableAtari
from idqn.envs.games import spaceinvaders as game
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import (
    COUNTERFACTUAL,
    FACTUAL,
    Game,
    Trajectory,
    Twins,
    check_step,
    compared,
    first_with_place,
    goes_on,
    play_twins,
    record,
    seconds_ahead,
    walk,
)

GAMES = ("ALE/SpaceInvaders-v5",)
FORMATIONS = {FACTUAL: game.TRAINING_FORMATION, COUNTERFACTUAL: game.INVERTED_TRIANGLE}
_SECONDS_TIMES = 4  # a wave takes longer than a pellet


@dataclass(frozen=True, eq=False, kw_only=True)
class InvertedTriangle(Twins):
    """Both formations are put there at the same moment: the paper's from training is `factual`."""

    kind: ClassVar[str] = "inverted-triangle"
    ships: dict[str, NDArray[np.int64]]  # [T + 1], how many are left
    cannon: dict[str, NDArray[np.int64]]  # [T + 1], its left edge on the screen
    fires: dict[str, NDArray[np.bool_]]  # [T], whether the action pulls the trigger
    replaced: int
    """Ships of the agent's own game that had to come or go for the training formation."""


def inverted_triangle(
    agent: Agent,
    step: int | None = None,
    seed: int = EVALUATION_SEED,
    horizon: int | None = None,
    max_steps: int = 1_000,
    progress: Progress = silent,
) -> InvertedTriangle:
    """Play a game, set either formation, and play on. Without a step, games in which the formations
    never fit, or that are over before the film is, give way to the next seed's."""
    ahead = seconds_ahead(agent, horizon) * (_SECONDS_TIMES if horizon is None else 1)
    env = make_editable(agent.config.env)
    try:
        filmed = env.settle_steps + ahead
        trajectory, place = first_with_place(
            lambda game: _choose(env, game, step, filmed),
            lambda number: record(agent, env, number, max_steps, progress),
            seed,
            step,
        )
        at = place.step
        for _ in walk(env, trajectory, [at]):
            boxes = _boxes(env)
        sides = play_twins(
            agent,
            env,
            trajectory,
            at,
            {side: ("invaders", {"rows": rows}) for side, rows in FORMATIONS.items()},
            filmed,
            max(max_steps - at, filmed),
            _watch,
            progress,
        )
    finally:
        env.close()
    names = agent.action_names
    return InvertedTriangle(
        **compared(agent, sides, progress),
        seed=trajectory.seed,
        step=at,
        game_steps=len(trajectory),
        because=_because(step is not None, place.whole),
        changes={
            FACTUAL: f"the formation from training, {_count(FACTUAL)} ships",
            COUNTERFACTUAL: f"the inverted triangle, {_count(COUNTERFACTUAL)} ships",
        },
        boxes=np.array(boxes, np.int64),
        settle=env.settle_steps,
        filmed=filmed,
        ships={key: _column(side.watched, 0) for key, side in sides.items()},
        cannon={key: _column(side.watched, 1) for key, side in sides.items()},
        fires={
            key: np.array(["FIRE" in names[action] for action in side.action], np.bool_)
            for key, side in sides.items()
        },
        replaced=place.replaced,
    )


def cleared(ships: NDArray[np.int64]) -> int:
    """How many went, from what was left at each step; when a wave is over, a new one comes."""
    return int(np.maximum(ships[:-1] - ships[1:], 0).sum())


class _Place(NamedTuple):
    step: int
    lowered: int
    """How far down the ships have come."""
    replaced: int
    whole: bool


def _choose(env: Game, trajectory: Trajectory, step: int | None, filmed: int) -> _Place:
    check_step(step, trajectory)
    fitting: list[_Place] = []
    refusal = ""
    for at in walk(env, trajectory, None if step is None else [step]):
        try:
            for _ in env.try_edits([[("invaders", {"rows": r})] for r in FORMATIONS.values()], []):
                pass
        except UserError as error:
            refusal = str(error)
            continue
        lowered, whole = _ram(env)[game.FORMATION_Y], goes_on(trajectory, at, filmed)
        fitting.append(_Place(at, lowered, _replaced(env), whole))
    if not fitting:
        where = "at any step" if step is None else f"at step {step}"
        raise UserError(
            f"the two formations do not fit {where} of this game ({refusal}); choose another "
            f"--step or --seed"
        )
    # low down, new ships at the bottom have landed before anybody can shoot them
    return min(fitting, key=lambda p: (not p.whole, p.lowered, p.replaced, p.step))


def _because(given: bool, whole: bool) -> str:
    if given:
        return "the step asked for"
    goes = (
        " and this game goes on for the whole film"
        if whole
        else " (no game that was tried goes on for the whole film)"
    )
    return (
        f"of the steps at which both formations fit{goes}, one with the ships as high as ever; of "
        f"these, the first at which the fewest come or go for the formation from training"
    )


def _boxes(env: Game) -> list[tuple[int, int, int, int]]:
    """Where the two formations differ."""
    ram = _ram(env)
    return [
        game.invader_box(ram, row, col)
        for row, pair in enumerate(zip(*FORMATIONS.values(), strict=True))
        for col in range(game.COLS)
        if (pair[0] ^ pair[1]) >> col & 1
    ]


def _replaced(env: Game) -> int:
    now = [byte & 63 for byte in _ram(env)[game.FIRST_ROW : game.FIRST_ROW + game.ROWS]]
    wanted = FORMATIONS[FACTUAL]
    return sum((old ^ new).bit_count() for old, new in zip(now, wanted, strict=True))


def _watch(env: Game) -> tuple[int, int]:
    ram = _ram(env)
    return ram[game.COUNT], ram[game.PLAYER_X] - 1


def _ram(env: Game) -> list[int]:
    assert isinstance(env, EditableAtari)
    ram: list[int] = env.ram.tolist()
    return ram


def _count(side: str) -> int:
    return sum(bits.bit_count() for bits in FORMATIONS[side])


def _column(watched: Sequence[Any], index: int) -> NDArray[np.int64]:
    return np.array([each[index] for each in watched], np.int64)
