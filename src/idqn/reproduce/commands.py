"""What `idqn reproduce ...` takes and prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import tyro

from idqn.commands import PresetName
from idqn.config import AgentName
from idqn.errors import DivergenceError, UserError
from idqn.reproduce.settings import changes
from idqn.reproduce.studies import STUDIES, Choices, Study
from idqn.run_dir import DEFAULT_ROOT, write_atomically


@dataclass(frozen=True)
class ReproduceOptions:
    """Build a table of the paper from run directories, beside the published numbers."""

    study: ClassVar[str]
    runs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = DEFAULT_ROOT
    """Where the runs are, and where --train makes them."""
    frames: int = 10_000_000
    """Emulator frames of training by which runs are compared. The paper's "10M frames" are
    40_000_000 of them."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds that are wanted; the paper has three. --train begins with the first of everything."""
    preset: PresetName = "paper"
    """What runs are trained with, and must have been trained with to be counted."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIELD=VALUE")] = ()
    """Changes to the config of all runs, for example train.envs=32."""
    train: bool = False
    """Train and measure what is missing or unfinished first."""
    minutes: float | None = None
    """With --train: stop after so many, with checkpoints written and exit code 75; the same
    command goes on."""
    episodes: int = 100
    """With --train: games of each evaluation; 0 leaves it out."""
    at_once: int | None = None
    """With --train: train no more runs together than this; default: all that can be."""
    device: str | None = None
    """With --train: cpu, cuda, cuda:N or auto; default: the config's."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write NAME.md and NAME.json here, and for curves NAME.svg."""
    quiet: bool = False
    """No progress."""


@dataclass(frozen=True)
class GamesOptions(ReproduceOptions):
    """For several games and agents."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="GAME")] = ()
    """Some of the games, for example MsPacman Qbert; default: the paper's eight."""
    agents: tuple[AgentName, ...] = ("idqn", "ddqn")
    """Agents whose runs are shown."""


@dataclass(frozen=True)
class Table1Options(GamesOptions):
    """Scores in the paper's eight games, beside its Table 1."""

    study: ClassVar[str] = "table1"


@dataclass(frozen=True)
class Table2Options(ReproduceOptions):
    """Agreement of keys and their pictures for each decoder, beside the paper's Table 2."""

    study: ClassVar[str] = "table2"


@dataclass(frozen=True)
class SensitivityOptions(ReproduceOptions):
    """Scores in MsPacman for other weights of the losses."""

    study: ClassVar[str] = "sensitivity"


@dataclass(frozen=True)
class AblationOptions(ReproduceOptions):
    """Scores in Pong, loss by loss."""

    study: ClassVar[str] = "ablation"


@dataclass(frozen=True)
class CurvesOptions(GamesOptions):
    """Curves of training, one small chart for each game."""

    study: ClassVar[str] = "curves"


def reproduce(options: ReproduceOptions) -> int:
    _check(options)
    study = STUDIES[options.study](_choices(options))
    stopped = _train(study, options) if options.train else None

    from idqn.reproduce.document import show
    from idqn.reproduce.results import gather
    from idqn.reproduce.tables import document

    results = gather(study, options.seeds, options.runs, options.frames)
    title = f"{study.title} (preset {options.preset})"
    blocks = document(results)
    show(title, blocks)
    if options.out is not None:
        from idqn.reproduce.document import markdown
        from idqn.reproduce.record import record

        place = options.out / study.name
        about = record(results, options.preset, changes(options.set))
        _write(place.with_suffix(".json"), json.dumps(about, indent=1, ensure_ascii=False) + "\n")
        text = markdown(title, blocks)
        if study.name == "curves":
            from idqn.reproduce.charts import chart_sheet
            from idqn.reproduce.curves import panels

            drawn = chart_sheet(panels(results), title, options.frames)
            _write(place.with_suffix(".svg"), drawn)
            text += f"\n![{title}]({study.name}.svg)\n"
        _write(place.with_suffix(".md"), text)
    return _end(results.incomplete, options, stopped)


class Stopped(NamedTuple):
    """Why not all is done."""

    reason: str
    code: int


def _train(study: Study, options: ReproduceOptions) -> Stopped | None:
    """Train what is missing."""
    from idqn.reproduce.deadline import UNFINISHED, Deadline, OutOfTimeError

    deadline = Deadline(math.inf if options.minutes is None else options.minutes)
    from idqn.reproduce.training import Work, complete  # which takes seconds
    from idqn.system import resolve_device

    if options.device is not None:
        resolve_device(options.device)
    work = Work(
        study,
        options.seeds,
        options.runs,
        options.frames,
        options.episodes,
        options.at_once,
        options.device,
        options.quiet,
    )
    try:
        complete(work, deadline)
    except OutOfTimeError as error:
        return Stopped(f"{error}; the same command goes on", UNFINISHED)
    except DivergenceError as error:
        return Stopped(f"idqn: error: {error}", 1)
    return None


def _end(incomplete: bool, options: ReproduceOptions, stopped: Stopped | None) -> int:
    """The last lines, and the exit code."""
    if options.out is not None:
        print(f"\nwritten to {options.out}")
    if stopped is not None:
        print(stopped.reason, file=sys.stderr)
        return stopped.code
    if incomplete and not options.train:
        print("\nThe same command with --train trains and measures what is missing.")
    return 0


def _check(options: ReproduceOptions) -> None:
    """What would otherwise be found out late."""
    if options.frames < 1:
        raise UserError(f"--frames must be at least 1, got {options.frames}")
    if not options.seeds:
        raise UserError("--seeds needs at least one number, for example: --seeds 0 1 2")
    if len(set(options.seeds)) < len(options.seeds):
        raise UserError(f"--seeds names a seed twice: {' '.join(map(str, options.seeds))}")
    for seed in options.seeds:
        if not 0 <= seed < 2**31:
            raise UserError(f"--seeds are between 0 and 2**31 - 1, got {seed}")
    if options.minutes is not None and not options.minutes >= 0:
        raise UserError(f"--minutes must not be negative, got {options.minutes}")
    if options.episodes < 0:
        raise UserError(f"--episodes must not be negative, got {options.episodes}")
    if options.at_once is not None and options.at_once < 1:
        raise UserError(f"--at-once must be at least 1, got {options.at_once}")
    if options.runs != DEFAULT_ROOT and not options.train and not options.runs.is_dir():
        raise UserError(
            f"there is no directory '{options.runs}'; --runs is where the runs are, and --train "
            f"makes them"
        )
    for option, path in (("runs", options.runs), ("out", options.out)):
        if path is not None and path.exists() and not path.is_dir():
            raise UserError(f"--{option} takes a directory, and '{path}' is a file")


def _choices(options: ReproduceOptions) -> Choices:
    own = {}
    if isinstance(options, GamesOptions):
        own = {"games": options.games, "agents": options.agents}
    return Choices(
        frames=options.frames,
        preset=options.preset,
        changes=changes(options.set),
        device=options.device,
        **own,
    )


def _write(path: Path, text: str) -> None:
    write_atomically(path, text.encode())
