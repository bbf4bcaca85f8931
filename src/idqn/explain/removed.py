"""States of the agent's own games with one object less: taken away in the game itself or, where
that cannot be, moved; and where it was to be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.edits import Box, Params
from idqn.errors import UserError
from idqn.explain.faithfulness import spread
from idqn.explain.progress import Progress, silent
from idqn.explain.twins import Game, Trajectory, walk

DESTINATIONS = 3  # places to which what cannot be taken away is moved


def _off(params: Params) -> bool:
    return params["on"] is False


def _any(params: Params) -> bool:
    return True


KINDS: dict[str, Callable[[Params], bool]] = {
    **dict.fromkeys(("pellet", "power_pill", "egg", "invader", "shield"), _off),
    **dict.fromkeys(("tile", "floe_visited"), _any),
    **dict.fromkeys(("ghost", "alien", "car", "floe", "bear", "ball", "enemy", "sprite"), _any),
}
"""Edits that take an object away, mark it as done with, or move it; the agent's own figure is no
object."""


class Removed(NamedTuple):
    kind: str
    cover: NDArray[np.float32]  # [h, w], share of each pixel that it covers in some frame
    edited: NDArray[np.uint8]  # [destinations, C, h, w]


class Removals(NamedTuple):
    observation: NDArray[np.uint8]  # [C, h, w], unedited
    objects: tuple[Removed, ...]


def without_objects(
    agent: Agent,
    env: Game,
    played: list[Trajectory],
    kinds: list[str],
    count: int,
    objects: int,
    seed: int,
    progress: Progress = silent,
) -> list[Removals]:
    """Moments at even distances, with their objects; those without any are left out."""
    settle = env.settle_steps
    moments = [(g, t) for g, game in enumerate(played) for t in range(len(game) - settle)]
    chosen = [moments[i] for i in spread(len(moments), count)] if moments else []
    rng = np.random.default_rng(seed)
    made = []
    for number, game in enumerate(played):
        for step in walk(env, game, [t for g, t in chosen if g == number]):
            given = game.actions[step : step + settle].tolist()
            state = _at_moment(agent, env, given, _draw(env, kinds, objects, rng))
            if state.objects:
                made.append(state)
            progress("taking objects away", len(made), len(chosen))
    if len(made) < 2:
        raise UserError(
            f"in {len(chosen)} moments of the agent's {len(played)} games, {len(made)} have an "
            f"object that can be taken away or moved; let it play more steps, or choose another "
            f"seed"
        )
    return made


def _draw(
    env: Game, kinds: list[str], count: int, rng: np.random.Generator
) -> list[tuple[str, list[Params]]]:
    """So many objects of the present moment, of each kind in turn, and edits of each."""
    found: list[Iterator[tuple[str, list[Params]]]] = []
    for name in kinds:
        by_place: dict[Box, list[Params]] = {}
        for params in env.choices(name):
            boxes = env.region(name, **params) if KINDS[name](params) else ()
            if boxes:  # the first is where it is now
                by_place.setdefault(boxes[0], []).append(params)
        each = list(by_place.values())
        order = rng.permutation(len(each))
        picked = [[each[i][j] for j in rng.permutation(len(each[i]))] for i in order]
        found.append(iter([(name, params[:DESTINATIONS]) for params in picked]))
    drawn: list[tuple[str, list[Params]]] = []
    while found and len(drawn) < count:
        for kind in list(found):
            one = next(kind, None)
            if one is None:
                found.remove(kind)
            elif len(drawn) < count:
                drawn.append(one)
    return drawn


def _at_moment(
    agent: Agent, env: Game, given: list[int], drawn: list[tuple[str, list[Params]]]
) -> Removals:
    channels, height, width = agent.spec.frame_shape
    scale = height / env.screen_size[0], width / env.screen_size[1]
    here = env.objects()
    at = [env.region(name, **choices[0])[0] for name, choices in drawn]
    snapshot = env.save()
    seen: list[dict[str, Box]] = []
    for action in given:
        env.step(action)
        seen.append(env.objects())
    plain = env.observation
    env.restore(snapshot)
    seen = seen[-agent.config.env.frame_stack :]
    trials = [[(name, params)] for name, choices in drawn for params in choices]
    tried = iter(list(env.try_edits(trials, given)))
    found = []
    for (name, choices), box in zip(drawn, at, strict=True):
        settled = [next(tried) for _ in choices]
        edited = [
            each.observation
            for each in settled
            # what the game has removed by itself is not to be seen
            if not each.terminated | each.truncated
            and (each.observation[-channels:] != plain[-channels:]).any()
        ]
        moving = next((who for who, place in here.items() if place == box), None)
        boxes = [box] if moving is None else [each[moving] for each in seen if moving in each]
        cover = covered(boxes, scale, (height, width))
        if edited and cover.any():
            found.append(Removed(name, cover, np.stack(edited)))
    return Removals(plain, tuple(found))


def covered(
    boxes: list[Box], scale: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Of each pixel [h, w], the share that is within a box of the screen."""

    def along(first: int, end: int, times: float, size: int) -> NDArray[np.float32]:
        pixels = np.arange(size)
        overlap = np.minimum(end * times, pixels + 1) - np.maximum(first * times, pixels)
        share: NDArray[np.float32] = np.clip(overlap, 0, 1).astype(np.float32)
        return share

    cover = np.zeros(shape, np.float32)
    for top, left, bottom, right in boxes:
        rows = along(top, bottom, scale[0], shape[0])
        columns = along(left, right, scale[1], shape[1])
        cover = np.maximum(cover, rows[:, None] * columns)
    return cover
