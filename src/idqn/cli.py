"""The command line: `idqn COMMAND ...`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from idqn.config import Config, field_names, from_dict, to_json, to_toml
from idqn.errors import DivergenceError, UserError, nearest
from idqn.presets import preset
from idqn.run_dir import DEFAULT_ROOT

T = TypeVar("T")
PresetName = Literal["paper", "authors", "quick"]


@dataclass(frozen=True)
class ConfigOptions:
    """Print the resolved config, as TOML that --config reads back."""

    envs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = ()
    """Environment id."""
    preset: PresetName = "paper"
    """paper: the text, made sound; authors: what their code did; quick: small, for a CPU."""
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
    """paper: the text, made sound; authors: what their code did; quick: small, for a CPU."""
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
class RunsOptions:
    """List run directories with progress and scores."""

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = DEFAULT_ROOT
    """Where to look."""


def main(argv: Sequence[str] | None = None) -> None:
    # Threads that wait by spinning stall each other when cores are shared; sleep instead. Must be
    # set before torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        sys.exit(_dispatch(arguments))
    except UserError as error:
        _fail(error, 2)
    except DivergenceError as error:
        _fail(error, 1)
    except OSError as error:
        _fail(f"{error.strerror or error}: '{error.filename}'" if error.filename else error, 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(message: object, code: int) -> None:
    print(f"idqn: error: {message}", file=sys.stderr)
    sys.exit(code)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from idqn import __version__

        print(f"idqn {__version__}")
        return 0
    command, rest = arguments[0], arguments[1:]
    if command not in _COMMANDS:
        raise UserError(
            f"unknown command '{command}'{nearest(command, _COMMANDS)} "
            f"(commands: {', '.join(_COMMANDS)})"
        )
    options, run = _COMMANDS[command]
    if options in (TrainOptions, ConfigOptions):
        return run(_parse_with_config(options, command, rest))
    return run(_parse(options, command, rest))


def _usage() -> str:
    lines = ["usage: idqn COMMAND ...", ""]
    for name, (options, _) in _COMMANDS.items():
        lines.append(f"  {name:8} {(options.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", "`idqn COMMAND --help` says more about each."])


def _parse(options: type[T], command: str, arguments: list[str], default: T | None = None) -> T:
    """Parse with tyro; what it does not know becomes one line with the nearest right flag."""
    parsed, unknown = tyro.cli(
        options,
        prog=f"idqn {command}",
        args=arguments,
        default=default,
        return_unknown_args=True,
        description=options.__doc__,
    )
    if unknown:
        word = next((u for u in unknown if u.startswith("-")), unknown[0])
        flag = word.split("=")[0]
        own = [name.replace("_", "-") for name in options.__dataclass_fields__]  # type: ignore[attr-defined]
        if options in (TrainOptions, ConfigOptions):
            own += [name.replace("_", "-") for name in field_names()]
        suggestion = nearest(flag.replace("_", "-"), [f"--{name}" for name in own])
        raise UserError(f"unknown argument '{word}'{suggestion} (`idqn {command} --help`)")
    return parsed


def _parse_with_config(options: type[T], command: str, arguments: list[str]) -> T:
    """Preset, then TOML file, then flags: the first two set the flags' defaults."""
    name = _peek(arguments, "--preset") or "paper"
    env_id = next((a for a in _leading(arguments)), "ALE/MsPacman-v5")
    config = preset(name, env_id)
    file = _peek(arguments, "--config")
    if file is not None:
        config = from_dict(_read_toml(Path(file)), base=config)
    return _parse(options, command, arguments, default=options(tree=config))  # type: ignore[call-arg]


def _peek(arguments: list[str], flag: str) -> str | None:
    """The value of a flag before everything is parsed."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == flag:
            return following
        if word.startswith(flag + "="):
            return word.removeprefix(flag + "=")
    return None


def _leading(arguments: list[str]) -> list[str]:
    """Arguments that look like environment ids."""
    return [a for a in arguments if not a.startswith("-") and "-v" in a]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"there is no config file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' is not valid TOML: {error}") from error


def _config(options: ConfigOptions) -> int:
    config = options.tree
    if options.envs:
        config = config.replace(**{"env.id": options.envs[0]})
    print(to_json(config) if options.json else to_toml(config), end="")
    return 0


def _train(options: TrainOptions) -> int:
    if not options.envs:
        raise UserError("which environment? For example: idqn train idqn/MiniPacman-v0")
    from idqn import console
    from idqn.train import train

    seeds = options.seeds or (options.tree.train.seed,)
    pairs = [(env, seed) for env in options.envs for seed in seeds]
    configs = [options.tree.replace(**{"env.id": e, "train.seed": s}) for e, s in pairs]
    paths = [options.runs_dir / _run_name(options, env, seed, len(pairs)) for env, seed in pairs]
    with console.TrainingDisplay(options.quiet) as display:
        outcome = train(configs, paths, display)
    return _report(outcome)


def _run_name(options: TrainOptions, env: str, seed: int, runs: int) -> str:
    game = env.split("/")[-1].split(":")[-1].rsplit("-v", 1)[0]
    if options.name is None:
        return f"{game}-{options.tree.agent.name}-s{seed}"
    return options.name if runs == 1 else f"{options.name}-{game}-s{seed}"


def _resume(options: ResumeOptions) -> int:
    from idqn import console
    from idqn.train import resume

    with console.TrainingDisplay(options.quiet) as display:
        outcome = resume(
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

    for warning in outcome.warnings:
        console.warn(warning)
    if outcome.stopped_by is not None:
        print(f"stopped by {outcome.stopped_by}; checkpoint written at {outcome.frames:,} frames")
        print(f"continue with: idqn resume {outcome.runs[0].path}")
        return 0
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


def _eval(options: EvalOptions) -> int:
    import dataclasses

    from idqn import checkpoint, console
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED, play_many, random_policy, summarize
    from idqn.run_dir import RunDir
    from idqn.system import resolve_device

    run = RunDir.open(options.run)
    frames = checkpoint.find(run, options.checkpoint)
    agent = load(run.path, frames, str(resolve_device(options.device)))
    env = agent.config.env
    if options.sticky is not None:
        env = dataclasses.replace(env, sticky_probability=options.sticky)
    seed = EVALUATION_SEED if options.seed is None else options.seed
    policies = {agent.config.agent.name: (agent.act, frames)}
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


def _play(options: PlayOptions) -> int:
    from idqn import checkpoint
    from idqn.agent import load
    from idqn.evaluate import EVALUATION_SEED
    from idqn.film import film
    from idqn.run_dir import RunDir

    run = RunDir.open(options.run)
    frames = checkpoint.find(run, options.checkpoint)
    seed = EVALUATION_SEED if options.seed is None else options.seed
    path = options.video or run.video(f"{frames:012d}-seed{seed}.mp4")
    score, steps = film(load(run.path, frames), path, seed, options.max_steps)
    print(f"return {score:,.1f} in {steps:,} steps; film: {path}")
    return 0


def _runs(options: RunsOptions) -> int:
    from idqn import console
    from idqn.run_dir import find_runs

    if not options.directory.is_dir():
        raise UserError(f"there is no directory '{options.directory}'; train something first")
    rows = []
    for run in find_runs(options.directory):
        config, metrics = run.config(), run.last_metrics()
        frames = metrics.get("frames", 0)
        scores = {
            data["policy"]: data["mean"] for data in run.evaluations().values() if "mean" in data
        }
        rows.append(
            [
                str(run.path),
                config.env.id,
                config.agent.name,
                str(config.train.seed),
                f"{frames:,} ({100 * frames / config.train.frames:.0f} %)",
                _number(metrics.get("return_last_100")),
                _number(metrics.get("return_best_100")),
                _number(scores.get(config.agent.name)),
            ]
        )
    headings = ["run", "environment", "agent", "seed", "frames", "last 100", "best 100"]
    console.print_table([*headings, "evaluated"], rows)
    return 0


_COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "train": (TrainOptions, _train),
    "resume": (ResumeOptions, _resume),
    "eval": (EvalOptions, _eval),
    "play": (PlayOptions, _play),
    "config": (ConfigOptions, _config),
    "runs": (RunsOptions, _runs),
}
