"""The paper's adversarial examples, each a recipe that makes and measures one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from idqn.agent import Agent
from idqn.errors import UserError, nearest
from idqn.evaluate import EVALUATION_SEED
from idqn.explain import extra_pellet as pellet
from idqn.explain import inverted_triangle as triangle
from idqn.explain.extra_pellet import ExtraPellet, extra_pellet
from idqn.explain.inverted_triangle import InvertedTriangle, inverted_triangle
from idqn.explain.pixel_max import PixelMax, pixel_max
from idqn.explain.progress import Progress, silent
from idqn.explain.states import States, collect

Attack = ExtraPellet | InvertedTriangle | PixelMax


class _Recipe(NamedTuple):
    games: tuple[str, ...] | None
    """None: any."""
    play: Callable[..., ExtraPellet | InvertedTriangle] | None
    """None: nothing is played on from the state it makes."""


RECIPES = {
    "extra-pellet": _Recipe(pellet.GAMES, extra_pellet),
    "inverted-triangle": _Recipe(triangle.GAMES, inverted_triangle),
    "pixel-max": _Recipe(None, None),
}


def attack(
    agent: Agent,
    recipe: str,
    step: int | None = None,
    seed: int = EVALUATION_SEED,
    horizon: int | None = None,
    max_steps: int = 1_000,
    states: States | None = None,
    progress: Progress = silent,
) -> Attack:
    """Make the state that a recipe describes from one of the agent's own games, and see what the
    agent does. `step` and `horizon` (steps to play on) are for recipes that play; `states` spares
    pixel-max from collecting its own."""
    if recipe not in RECIPES:
        raise UserError(
            f"there is no recipe '{recipe}'{nearest(recipe, RECIPES)} ({', '.join(RECIPES)})"
        )
    games, play = RECIPES[recipe]
    if games is not None and agent.config.env.id not in games:
        raise UserError(
            f"the recipe '{recipe}' is for {' and '.join(games)}, but this agent plays "
            f"{agent.config.env.id}; pixel-max is for any game"
        )
    if play is not None:
        return play(agent, step, seed, horizon, max_steps, progress)
    if step is not None or horizon is not None:
        raise UserError(
            f"{recipe} makes a state that is none of the game, so there is no step to begin with "
            f"and nothing to play on; leave out --step and --horizon"
        )
    if states is None:
        states = collect(agent, max_steps=max_steps, seed=seed, progress=progress)
    return pixel_max(agent, states, progress=progress)
