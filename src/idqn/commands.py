"""What each command takes and does. Heavy imports wait until a command needs them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from idqn.config import Config, to_json, to_toml
from idqn.errors import UserError, nearest
from idqn.run_dir import DEFAULT_ROOT, RunDir

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


@dataclass(frozen=True)
class ExplainOptions:
    """Explain a trained agent: results in the run's folder, and a page to read."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory."""
    only: tuple[str, ...] | None = None
    """Make these explanations alone: performance, keys, attention, saliency, embedding,
    interpolation, agreement, faithfulness, ground-truth, comparison, film; and those that take
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


@dataclass(frozen=True)
class RunsOptions:
    """List run directories with progress and scores."""

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = DEFAULT_ROOT
    """Where to look."""


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
        scores = [_number(row.get(f"return_{kind}_100")) for kind in ("last", "best")]
        rows.append([str(run.path), f"{outcome.frames:,}", str(row.get("episodes", 0)), *scores])
    console.print_table(["run", "frames", "episodes", "last 100", "best 100"], rows)
    print(f"next: idqn eval {outcome.runs[0].path} --random")
    print(f"      idqn play {outcome.runs[0].path} --video game.mp4")
    return 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


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
    return 2 if options.only and refusals else 0


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


def runs(options: RunsOptions) -> int:
    from idqn import checkpoint, console
    from idqn.run_dir import find_runs

    if not options.directory.is_dir():
        raise UserError(f"there is no directory '{options.directory}'; train something first")
    rows = []
    for run in find_runs(options.directory):
        try:
            config = run.config()
        except UserError:
            rows.append([str(run.path), "config.json cannot be read", *[""] * 6])
            continue
        metrics = run.last_metrics()
        frames = max([metrics.get("frames", 0), *checkpoint.complete(run)])
        rows.append(
            [
                str(run.path),
                config.env.id,
                config.agent.name,
                str(config.train.seed),
                f"{frames:,} ({100 * frames / config.train.frames:.0f} %)",
                _number(metrics.get("return_last_100")),
                _number(metrics.get("return_best_100")),
                _number((run.newest_evaluation(config) or {}).get("mean")),
            ]
        )
    headings = ["run", "environment", "agent", "seed", "frames", "last 100", "best 100"]
    console.print_table([*headings, "evaluated"], rows)
    return 0
