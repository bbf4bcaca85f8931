"""What `idqn export` and `idqn zoo` take and do: trained agents to give away, and given ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from idqn import zoo
from idqn.errors import UserError
from idqn.run_dir import DEFAULT_ROOT, RunDir


@dataclass(frozen=True)
class ExportOptions:
    """Write trained agents as small run directories, to send or to keep."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ()
    """Run directories."""
    to: Path = Path("exported")
    """Folder that the small run directories are made in."""
    name: str | None = None
    """What to call it, if there is one; the others keep their names."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    episodes: int = 100
    """Games that it is measured by, with its weights as exported; 0 plays none, and keeps the
    evaluations that are stored."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""


@dataclass(frozen=True)
class ZooOptions:
    """List the trained agents that come with idqn."""


def export(options: ExportOptions) -> int:
    if not options.runs:
        raise UserError("which run? For example: idqn export runs/MsPacman-idqn-s0 --to exported")
    if options.name is not None and len(options.runs) > 1:
        raise UserError(f"--name names one run, got {len(options.runs)}: {', '.join(options.runs)}")
    if options.episodes < 0:
        raise UserError(f"--episodes must be at least 0, got {options.episodes}")
    from idqn import checkpoint, console
    from idqn.export import export as write

    runs = [RunDir.open(run, only_reading=True) for run in options.runs]
    targets = [options.to / (options.name or run.name) for run in runs]
    for target in targets:
        if target.exists() or targets.count(target) > 1:
            taken = "exists already" if target.exists() else "would be two of these runs"
            raise UserError(f"'{target}' {taken}; choose another --to, or a --name")
    rows = []
    for run, target in zip(runs, targets, strict=True):
        small = write(run, checkpoint.find(run, options.checkpoint), target, not options.episodes)
        if options.episodes:
            _measure(small, options.episodes, options.device)
        rows.append([str(target), *_about(small)])
    console.print_table(["exported", *_HEADINGS], rows)
    print(f"use it like any run: idqn explain {targets[0]}")
    return 0


def zoo_(options: ZooOptions) -> int:
    from idqn import console

    names = zoo.names()
    if not names:
        raise UserError("no agents came with this idqn; install it from a complete source")
    rows = [[zoo.PREFIX + name, *_about(RunDir(zoo.shipped(name)))] for name in names]
    console.print_table(["agent", *_HEADINGS], rows)
    first = f"{zoo.PREFIX}{names[0]}"
    print(f"use them like runs: idqn eval {first}, idqn play {first}, idqn explain {first}")
    print(f"what is written about them goes to {DEFAULT_ROOT / 'zoo'}")
    return 0


def _measure(run: RunDir, episodes: int, device: str) -> None:
    from idqn import console
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED, play_many, summarize

    agent = load(run.path, device=device)
    env, frames = agent.config.env, agent.origin.frames
    games = play_many(agent.act, env, episodes)
    played = list(console.track(games, episodes, f"{run.name} plays {env.id}"))
    summarize(played, env, agent.name, frames, EVALUATION_SEED).save(run)


_HEADINGS = (
    "environment",
    "kind",
    "frames",
    "MB",
    "games",
    "mean",
    "95 % interval",
    "distinct returns",
)


def _about(run: RunDir) -> list[str]:
    from idqn import checkpoint
    from idqn.export import size_mb

    config = run.config()
    score: Any = run.newest_evaluation(config)
    measured = ["-"] * 4
    if score is not None:
        low, high = score["interval"]
        measured = [
            str(score["episodes"]),
            f"{score['mean']:,.2f}",
            f"{low:,.2f} to {high:,.2f}",
            str(score["distinct"]),
        ]
    frames = f"{checkpoint.find(run):,}"
    return [config.env.id, config.agent.name, frames, f"{size_mb(run):.1f}", *measured]
