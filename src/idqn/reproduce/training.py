"""Training what a study lacks: populations of all runs that can share one program, the first seed
of everything before the others; and measuring what was trained."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from idqn import checkpoint
from idqn.config import Config
from idqn.console import TrainingDisplay
from idqn.errors import DivergenceError, UserError
from idqn.population import PER_RUN_FIELDS
from idqn.reproduce.deadline import Deadline, require_frames
from idqn.reproduce.evaluating import (
    checkpoint_at,
    evaluate,
    evaluation_of,
    explain_agreement,
    has_agreement,
)
from idqn.reproduce.matching import Found, find
from idqn.reproduce.scores import rows
from idqn.reproduce.settings import check_same, deciding
from idqn.reproduce.studies import Study
from idqn.run_dir import RunDir
from idqn.train import Outcome, resume, train


@dataclass(frozen=True)
class Work:
    """What to train and measure."""

    study: Study
    seeds: tuple[int, ...]
    folder: Path
    frames: int
    episodes: int = 100
    """Games of each evaluation; 0 leaves it out."""
    at_once: int | None = None
    """Runs of a population at most."""
    device: str | None = None
    quiet: bool = False


class Begin(NamedTuple):
    """A new population."""

    configs: list[Config]
    paths: list[Path]


class GoOn(NamedTuple):
    """A population that was interrupted, or one run of it."""

    runs: list[RunDir]
    alone: bool


def complete(work: Work, deadline: Deadline) -> None:
    """Train and measure all that is missing, and measure before more is trained. What is finished
    is left as it is. A population whose numbers go bad keeps nobody else waiting: it is reported
    when all others are done."""
    discard_unbegun(work)
    check_names(work, find(work.study, work.seeds, work.folder))
    diverged: list[DivergenceError] = []
    measured: set[Path] = set()
    for seeds in (work.seeds[:1], work.seeds[1:]):
        _measure_finished(work, seeds, measured, deadline)
        for job in jobs(work, seeds):
            try:
                _do(job, work, deadline)
            except DivergenceError as error:
                diverged.append(error)
                print(error, file=sys.stderr, flush=True)
                release_memory()
            _measure_finished(work, seeds, measured, deadline)
    if diverged:
        raise diverged[0]


def discard_unbegun(work: Work) -> None:
    """Delete what a command that was killed in its first moments has left: runs without a frame
    of training, of which some may lack even a checkpoint."""
    for (number, seed), run in find(work.study, work.seeds, work.folder).runs.items():
        own = run.path == work.folder / work.study.cells[number].run_of(seed)
        trained = bool(rows(run)) or any(frames > 0 for frames in checkpoint.complete(run))
        if own and not trained and not run.examined:
            with run.lock():
                shutil.rmtree(run.path)
            _say(f"{run.path} had not been trained at all: begun anew", work.quiet)


def check_names(work: Work, found: Found) -> None:
    """Refuse before anything is trained, if a new run would need a directory that is taken."""
    for number, cell in enumerate(work.study.cells):
        for seed in work.seeds:
            path = work.folder / cell.run_of(seed)
            if (number, seed) in found.runs or not path.exists():
                continue
            if RunDir(path).config_file.is_file():
                check_same(RunDir(path), cell.of_seed(seed), "--runs")
            raise UserError(f"'{path}' exists already and is not a run; choose another --runs")


def jobs(work: Work, seeds: Sequence[int]) -> list[Begin | GoOn]:
    """What these seeds lack: interrupted populations first, and colour last, because frames of
    full size take many times as long."""
    found = find(work.study, seeds, work.folder).runs
    unfinished = [run for run in found.values() if not is_finished(run, work.frames)]
    missing = [
        (cell.of_seed(seed), work.folder / cell.run_of(seed))
        for number, cell in enumerate(work.study.cells)
        for seed in seeds
        if (number, seed) not in found
    ]
    begin = _populations(missing, work.at_once)
    begin.sort(key=lambda job: job.configs[0].env.color)
    return [*_interrupted(unfinished, work), *begin]


def is_finished(run: RunDir, frames: int) -> bool:
    saved = checkpoint.complete(run)
    if saved:
        return saved[-1] >= frames
    return any(row["frames"] >= frames for row in rows(run))  # somebody deleted its checkpoints


def _interrupted(runs: Sequence[RunDir], work: Work) -> list[GoOn]:
    found: list[GoOn] = []
    seen: set[Path] = set()
    for run in runs:
        if run.path.resolve() in seen:
            continue
        names, members = _members(run)
        # those that went on alone, or are finished, would be set back to where all were together
        together = all(
            _members(member)[0] == names and not is_finished(member, work.frames)
            for member in members
            if member.config_file.is_file()
        )
        too_many = work.at_once is not None and len(members) > work.at_once
        alone = too_many or not (together and all(m.config_file.is_file() for m in members))
        found.append(GoOn([run] if alone else members, alone))
        seen |= {each.path.resolve() for each in found[-1].runs}
    return found


def _members(run: RunDir) -> tuple[list[str], list[RunDir]]:
    """The population of its newest checkpoint: names, and directories."""
    state = checkpoint.load_state(run, checkpoint.find(run))
    names: list[str] = state["population"]
    own: int = state["member"]
    return names, [
        run if i == own else RunDir(run.path.parent / name) for i, name in enumerate(names)
    ]


def _populations(missing: Sequence[tuple[Config, Path]], at_once: int | None) -> list[Begin]:
    """As few as possible: each run joins the first that it can share a program with."""
    found: list[Begin] = []
    for config, path in missing:
        for population in found:
            room = at_once is None or len(population.configs) < at_once
            if room and can_share(population.configs[0], config):
                population.configs.append(config)
                population.paths.append(path)
                break
        else:
            found.append(Begin([config], [path]))
    return found


def can_share(one: Config, other: Config) -> bool:
    """Whether they can be runs of one population."""
    theirs = deciding(other)
    return all(
        name in PER_RUN_FIELDS or theirs[name] == value for name, value in deciding(one).items()
    )


def _do(job: Begin | GoOn, work: Work, deadline: Deadline) -> None:
    paths = job.paths if isinstance(job, Begin) else [run.path for run in job.runs]
    names = _named(paths)
    deadline.require(f"for {names}")
    if isinstance(job, Begin):
        _say(f"training {names}", work.quiet)
    else:
        _say(f"going on with {names}{' alone' if job.alone else ''}", work.quiet)
    with TrainingDisplay(work.quiet) as display:
        watch = deadline.watching(display)
        outcome: Outcome
        if isinstance(job, Begin):
            outcome = train(job.configs, job.paths, watch)
        else:
            first = job.runs[0].path
            outcome = resume(first, watch, frames=work.frames, device=work.device, alone=job.alone)
    require_frames(names, outcome.frames, work.frames)
    release_memory()


def _measure_finished(
    work: Work, seeds: Sequence[int], measured: set[Path], deadline: Deadline
) -> None:
    """The runs of these seeds that this command has not asked yet."""
    for run in find(work.study, seeds, work.folder).runs.values():
        if run.path not in measured and is_finished(run, work.frames):
            measured.add(run.path)
            _measure(run, work, deadline)


def _measure(run: RunDir, work: Work, deadline: Deadline) -> None:
    """Store in the run what its study needs of it."""
    device = work.device or "auto"
    steps: list[tuple[str, Callable[[int], bool], Callable[[int], None]]] = []
    if work.study.evaluated and work.episodes > 0:
        steps.append(
            (
                f"play {work.episodes} games with {run.path}",
                lambda at: evaluation_of(run, at, work.episodes) is not None,
                lambda at: evaluate(run, at, work.episodes, device, deadline),
            )
        )
    if work.study.measure == "agreement":
        steps.append(
            (
                f"ask {run.path} for its Agreement",
                lambda at: has_agreement(run, at),
                lambda at: explain_agreement(run, at, device),
            )
        )
    if not steps:
        return
    try:
        at = checkpoint_at(run, work.frames)
    except UserError as error:
        _say(str(error), work.quiet)
        return
    for what, is_there, measure in steps:
        if not is_there(at):
            deadline.require(f"to {what}")
            _say(what, work.quiet)
            measure(at)


def _named(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths[:3])
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{len(paths)} run{'s' if len(paths) > 1 else ''} ({names}{more})"


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def release_memory() -> None:
    """What the last population held, for the next."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
