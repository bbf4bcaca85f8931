"""`idqn eval` and `play`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from idqn.run_dir import RunDir


@dataclass(frozen=True)
class EvalOptions:
    """Play full games with a trained agent and measure them; stored in the run."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    episodes: int = 100
    """Games to play."""
    sticky: float | None = None
    """Probability of a repeated action (Atari), instead of the one in training."""
    random: bool = False
    """Also measure a random policy."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    seed: int | None = None
    """Seed of the games' starts."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""


@dataclass(frozen=True)
class PlayOptions:
    """Play one game and film it."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    video: Path | None = None
    """The film, .mp4 or .gif; default: videos/ in the run directory."""
    seed: int | None = None
    """Seed of the game's start."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    max_steps: int = 5_000
    """Stop filming after this many agent steps."""


def evaluate(options: EvalOptions) -> int:
    from idqn import checkpoint, console
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED, play_many, random_policy, summarize

    run = RunDir.open(options.run)
    frames = checkpoint.find(run, options.checkpoint)
    agent = load(run.path, frames, options.device)
    env = agent.config.env
    if options.sticky is not None:
        env = dataclasses.replace(env, sticky_probability=options.sticky)
    seed = EVALUATION_SEED if options.seed is None else options.seed
    policies: dict[str, tuple[Any, int]] = {agent.config.agent.name: (agent.act, frames)}
    if options.random:
        policies["random"] = (random_policy(env, seed), 0)
    rows = []
    for name, (policy, trained) in policies.items():
        episodes = play_many(policy, env, options.episodes, seed)
        played = list(console.track(episodes, options.episodes, f"{name} plays {env.id}"))
        result = summarize(played, env, name, trained, seed)
        result.save(run)
        low, high = result.interval
        rows.append(
            [
                name,
                f"{trained:,}",
                str(result.episodes),
                f"{result.mean:,.2f}",
                f"{low:,.2f} to {high:,.2f}",
                f"{result.median:,.2f}",
                f"{result.std:,.2f}",
                str(result.distinct),
            ]
        )
    headings = ["policy", "frames", "episodes", "mean", "95 % interval", "median", "std"]
    console.print_table([*headings, "distinct returns"], rows)
    print(f"stored in {run.path / 'evaluation'}")
    return 0


def play(options: PlayOptions) -> int:
    from idqn import checkpoint
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED
    from idqn.film import film

    run = RunDir.open(options.run)
    frames = checkpoint.find(run, options.checkpoint)
    seed = EVALUATION_SEED if options.seed is None else options.seed
    path = options.video or run.video(f"{frames:012d}-seed{seed}.mp4")
    score, steps = film(load(run.path, frames), path, seed, options.max_steps)
    print(f"return {score:,.1f} in {steps:,} steps; film: {path}")
    return 0
