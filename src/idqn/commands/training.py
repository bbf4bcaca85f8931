"""`idqn config`, `train` and `resume`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from idqn.config import Config, to_json, to_toml
from idqn.errors import UserError
from idqn.run_dir import DEFAULT_ROOT

PresetName = Literal["paper", "authors", "tuned", "quick"]


@dataclass(frozen=True)
class ConfigOptions:
    """Print the resolved config, as TOML that --config reads back."""

    envs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = ()
    """Environment id."""
    preset: PresetName = "paper"
    """paper: the text, made sound; authors: what their code did; tuned: with what others have
    found to work better since; quick: small, for a CPU."""
    config: Path | None = None
    """TOML file laid over the preset; flags are laid over both."""
    json: bool = False
    """Print JSON, as saved in a run directory."""
    tree: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@dataclass(frozen=True)
class TrainOptions:
    """Train every ENV x seed as one population, each run in its own directory."""

    envs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = ()
    """Environment ids: ALE/MsPacman-v5, idqn/MiniPacman-v0, or any Gymnasium id with image
    observations and discrete actions."""
    seeds: tuple[int, ...] | None = None
    """One run per seed; default: the config's."""
    preset: PresetName = "paper"
    """paper: the text, made sound; authors: what their code did; tuned: with what others have
    found to work better since; quick: small, for a CPU."""
    config: Path | None = None
    """TOML file laid over the preset; flags are laid over both."""
    name: str | None = None
    """Name of the run directory; with several runs, what their names begin with."""
    runs_dir: Path = DEFAULT_ROOT
    """Where run directories are made."""
    quiet: bool = False
    """No progress."""
    tree: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@dataclass(frozen=True)
class ResumeOptions:
    """Continue a run exactly where its checkpoint left it, with the population it belongs to."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    frames: int | None = None
    """Train on to this many frames instead of the config's."""
    checkpoint: str = "latest"
    """latest, best, or a checkpoint's frames."""
    device: str | None = None
    """Change the device; the result is then no longer exact."""
    alone: bool = False
    """Leave the rest of the population behind."""
    quiet: bool = False
    """No progress."""


def config(options: ConfigOptions) -> int:
    config = options.tree
    if len(options.envs) > 1:
        raise UserError(f"config takes one environment, got {', '.join(options.envs)}")
    if options.envs:
        config = config.replace(**{"env.id": options.envs[0]})
    print(to_json(config) if options.json else to_toml(config), end="")
    return 0


def train(options: TrainOptions) -> int:
    if not options.envs:
        raise UserError("which environment? For example: idqn train idqn/MiniPacman-v0")
    from idqn import console
    from idqn import train as training

    if options.seeds == ():
        raise UserError("--seeds needs at least one number, for example: --seeds 0 1 2")
    seeds = options.seeds or (options.tree.train.seed,)
    pairs = [(env, seed) for env in options.envs for seed in seeds]
    configs = [options.tree.replace(**{"env.id": e, "train.seed": s}) for e, s in pairs]
    paths = [options.runs_dir / _run_name(options, env, seed, len(pairs)) for env, seed in pairs]
    with console.TrainingDisplay(options.quiet) as display:
        outcome = training.train(configs, paths, display)
    return _report(outcome)


def _run_name(options: TrainOptions, env: str, seed: int, runs: int) -> str:
    game = env.split("/")[-1].split(":")[-1].rsplit("-v", 1)[0]
    if options.name is None:
        return f"{game}-{options.tree.agent.name}-s{seed}"
    return options.name if runs == 1 else f"{options.name}-{game}-s{seed}"


def resume(options: ResumeOptions) -> int:
    from idqn import console
    from idqn import train as training

    with console.TrainingDisplay(options.quiet) as display:
        outcome = training.resume(
            options.run,
            display,
            frames=options.frames,
            which=options.checkpoint,
            device=options.device,
            alone=options.alone,
        )
    return _report(outcome)


def _report(outcome: Any) -> int:
    from idqn import console

    if outcome.stopped_by is not None:
        print(f"stopped by {outcome.stopped_by}; checkpoint written at {outcome.frames:,} frames")
        print(f"continue with: idqn resume {outcome.runs[0].path}")
        return 0
    if outcome.first_frame == outcome.frames:
        print(f"already at {outcome.frames:,} frames; --frames trains on to more")
    rows = []
    for run in outcome.runs:
        row = run.last_metrics()
        scores = [console.number(row.get(f"return_{kind}_100")) for kind in ("last", "best")]
        rows.append([str(run.path), f"{outcome.frames:,}", str(row.get("episodes", 0)), *scores])
    console.print_table(["run", "frames", "episodes", "last 100", "best 100"], rows)
    print(f"next: idqn eval {outcome.runs[0].path} --random")
    print(f"      idqn play {outcome.runs[0].path} --video game.mp4")
    return 0
