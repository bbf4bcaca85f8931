"""`idqn explain` and `attack`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from idqn.errors import UserError, nearest
from idqn.run_dir import RunDir


@dataclass(frozen=True)
class ExplainOptions:
    """Explain a trained agent: results in the run's folder, and a page to read."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    only: tuple[str, ...] | None = None
    """Make these explanations alone: performance, film, keys, attention, saliency, embedding,
    interpolation, agreement, faithfulness, ground-truth, comparison; and those that take
    longer: grounding, memorization, surgery, extra-pellet, inverted-triangle, pixel-max,
    search."""
    compare: str | None = None
    """Another run, whose attention and diversity are shown beside this one's."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""
    episodes: int = 5
    """Games the agent plays, whose states are explained."""
    max_steps: int = 1_000
    """Agent steps of each game that are looked at."""
    film_steps: int = 240
    """Agent steps of the first game that are filmed."""
    perplexity: float = 40.0
    """About how many neighbours of a state its place on the map goes by."""
    attention_threshold: float = 0.9
    """States that give more than this to a key of the largest value can be seen alone on the
    map."""
    seed: int | None = None
    """Seed of the games' starts."""
    quiet: bool = False
    """No progress."""


@dataclass(frozen=True)
class AttackOptions:
    """Edit a trained agent's own games: what does it not notice, and what breaks its play?"""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    recipe: Literal["extra-pellet", "inverted-triangle", "pixel-max"] | None = None
    """Make one of the paper's examples."""
    budget: int | None = None
    """Look at so many edited states for what the agent is blind to, or breaks at."""
    step: int | None = None
    """Step of the game at which a recipe changes it; by default, where it fits best."""
    horizon: int | None = None
    """Steps to play on; by default, 3 seconds of the game, and 12 for the inverted triangle."""
    baseline: bool = True
    """Search the same architecture with random weights too, to compare with."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""
    max_steps: int = 1_000
    """Agent steps of each game at most."""
    seed: int | None = None
    """Seed of the games' starts."""
    quiet: bool = False
    """No progress."""


def explain(options: ExplainOptions) -> int:
    from idqn import console
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED
    from idqn.explain.kinds import KINDS, Settings, Subject, usual
    from idqn.explain.kinds import explain as explain_all
    from idqn.explain.states import about
    from idqn.report import write_page

    if options.only == ():
        raise UserError(f"--only needs the name of an explanation ({', '.join(KINDS)})")
    for kind in options.only or ():
        if kind not in KINDS:
            raise UserError(
                f"unknown explanation '{kind}'{nearest(kind, KINDS)} ({', '.join(KINDS)})"
            )
    run = RunDir.open(options.run)
    agent = load(run.path, options.checkpoint, options.device)
    other = load(options.compare, device=options.device) if options.compare else None
    seed = EVALUATION_SEED if options.seed is None else options.seed
    settings = Settings(
        options.episodes,
        options.max_steps,
        seed,
        options.film_steps,
        options.perplexity,
        options.attention_threshold,
    )
    refusals = {}
    with console.Steps(options.quiet) as steps:
        subject = Subject(agent, run, settings, other, steps.show)
        for explained in explain_all(subject, options.only or usual(subject)):
            if explained.result is not None:
                explained.result.save(run)
                steps.done(explained.kind)
            elif explained.refusal is not None:
                refusals[explained.kind] = explained.refusal
                steps.refused(explained.kind, explained.refusal)
        steps.show("drawing the page", 0, 1)
        page = write_page(run, about(agent), refusals)
    print(f"open {page}")
    asked = {*(options.only or ()), *(("comparison",) if options.compare else ())}
    return 2 if asked & refusals.keys() else 0


def attack(options: AttackOptions) -> int:
    from idqn import console
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED
    from idqn.explain import attack, search
    from idqn.explain.results import Result
    from idqn.report import write_page

    if (options.recipe is None) == (options.budget is None):
        raise UserError("attack takes either --recipe NAME or --budget N (`idqn attack --help`)")
    if options.budget is not None and options.step is not None:
        raise UserError("--step is for recipes; a search chooses its moments itself")
    run = RunDir.open(options.run)
    agent = load(run.path, options.checkpoint, options.device)
    seed = EVALUATION_SEED if options.seed is None else options.seed
    ahead, limit = options.horizon, options.max_steps
    with console.Steps(options.quiet) as steps:
        found: Result
        if options.recipe is not None:
            found = attack(
                agent, options.recipe, options.step, seed, ahead, limit, progress=steps.show
            )
        else:
            found = search(
                agent,
                options.budget or 0,
                seed,
                ahead,
                max_steps=limit,
                baseline=options.baseline,
                progress=steps.show,
            )
        found.save(run)
        steps.done(found.kind)
        steps.show("drawing the page", 0, 1)
        page = write_page(run, found.about)
    print(f"open {page}")
    return 0
