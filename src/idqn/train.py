"""Training: the loop, top to bottom, and how it starts, stops and goes on."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from idqn import checkpoint
from idqn.config import Config, to_json
from idqn.errors import UserError
from idqn.run_dir import RunDir, write_atomically
from idqn.system import default_threads, resolve_device
from idqn.training import Training


class Progress(NamedTuple):
    """What an observer is told, a few times a second."""

    frames: int  # of each run
    total_frames: int
    rows: list[dict[str, Any]]  # the newest row of metrics of each run, or empty ones
    new_rows: bool  # whether they are newer than last time


_MANY_ENVS = 64  # some for each core of a machine that has a GPU
Observer = Callable[[Progress], None]


class Outcome(NamedTuple):
    runs: list[RunDir]
    first_frame: int  # where training began: 0, or a checkpoint
    frames: int
    stopped_by: str | None  # name of the signal that ended training early


def train(
    configs: Sequence[Config],
    paths: Sequence[str | os.PathLike[str]],
    observer: Observer | None = None,
) -> Outcome:
    """Train one population, each run into its own new directory."""
    directories = [Path(path) for path in paths]
    RunDir.require_new(directories)  # before anything slow
    with _StopSignal() as stop, Training(_resolved(configs)) as training:
        training.create(directories)
        return _run(training, stop, observer)


def resume(
    run: str | os.PathLike[str],
    observer: Observer | None = None,
    *,
    frames: int | None = None,
    which: str | int = "latest",
    device: str | None = None,
    alone: bool = False,
) -> Outcome:
    """Continue a run, with the population it belongs to, exactly where its checkpoint left it.

    `frames` trains on to a new total. `alone` leaves the rest of the population behind.
    """
    first = RunDir.open(run)
    state = checkpoint.load_state(first, checkpoint.find(first, which))
    names = [first.name] if alone else state["population"]
    own = 0 if alone else state["member"]
    # whatever its directory is called now, this run is itself
    runs = [first if i == own else _member(first, name) for i, name in enumerate(names)]
    start = _common_checkpoint(runs, which)
    if frames is not None and frames < start:
        raise UserError(
            f"'{run}' has been trained for {start:,} frames already, so it cannot be trained on to "
            f"{frames:,}"
        )
    configs = [member.config() for member in runs]
    changes = {"train.frames": frames, "system.device": device}
    changes = {name: value for name, value in changes.items() if value is not None}
    configs = _resolved([config.replace(**changes) for config in configs])
    with _StopSignal() as stop, Training(configs) as training:
        newer = [f for f in checkpoint.complete(first) if f > start]
        training.restore(runs, start)
        if newer and which != "latest":
            warnings.warn(
                f"{len(newer)} newer checkpoints of '{run}' were moved to "
                f"'{first.checkpoints / 'abandoned'}'",
                stacklevel=2,
            )
        for member, config in zip(runs, configs, strict=True):
            write_atomically(member.config_file, to_json(config).encode())
        return _run(training, stop, observer)


def _run(training: Training, stop: _StopSignal, observer: Observer | None) -> Outcome:
    """The training loop."""
    config = training.config
    learner, replay = training.learner, training.replay
    sync, every = config.train.target_sync_steps, config.train.train_every_steps
    starts, skip = config.replay.learning_starts_steps, config.env.frame_skip
    rows: list[dict[str, Any]] = [run.last_metrics() for run in training.runs]
    first_frame, shown = training.frames, 0.0
    while training.frames < config.train.frames and stop.received is None:
        training.choose()
        while training.updates < (training.steps - starts) // every:
            training.update()  # while the environments of other turns step
        training.send()
        before = training.steps
        training.receive()
        if training.steps == before:
            continue  # at first, all turns must be sent off

        if before < starts <= training.steps and config.agent.subtract_mean_image:
            learner.set_mean_image(replay.mean_observation())
        if training.steps // sync != before // sync:
            learner.sync_target()

        def passed(every_frames: int, since: int = before) -> bool:
            return training.frames // every_frames != since * skip // every_frames

        done = training.frames >= config.train.frames
        logged = done or passed(config.system.log_every_frames)
        if logged:
            rows = training.log()
        if passed(config.system.checkpoint_every_frames):
            training.save()
        if observer is not None and (logged or time.monotonic() - shown > 0.2):
            shown = time.monotonic()
            observer(Progress(training.frames, config.train.frames, rows, logged))
    training.finish()
    return Outcome(training.runs, first_frame, training.frames, stop.received)


class _StopSignal:
    """SIGINT and SIGTERM end the loop after the current step; a second one ends the program."""

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _StopSignal:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        except ValueError:  # not the main thread: the caller keeps its own handling
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _resolved(configs: Sequence[Config]) -> list[Config]:
    """Fill in what the machine decides and results depend on, so that it is saved."""
    if not configs:
        raise UserError("a population needs at least one run")
    device = resolve_device(configs[0].system.device)
    threads = configs[0].system.threads or default_threads(device)
    turns = configs[0].train.turns or _default_turns(configs, device)
    return [c.replace(**{"system.threads": threads, "train.turns": turns}) for c in configs]


def _default_turns(configs: Sequence[Config], device: torch.device) -> int:
    """More turns, where many emulators would all wait for one that begins a new episode."""
    envs = configs[0].train.envs
    if not configs[0].env.is_atari:
        return 1
    wanted = 4 if device.type == "cuda" and len(configs) * envs >= _MANY_ENVS else 2
    return next(turns for turns in (wanted, 2, 1) if envs % turns == 0)


def _member(first: RunDir, name: str) -> RunDir:
    try:
        return RunDir.open(first.path.parent / name)
    except UserError as error:
        raise UserError(
            f"'{first.path}' was trained in one population with '{name}', which is missing; put "
            f"it back beside it, or continue this run only with --alone"
        ) from error


def _common_checkpoint(runs: list[RunDir], which: str | int) -> int:
    """The newest checkpoint that all runs have: a crash may fall between two runs' saves."""
    if which != "latest":
        frames = checkpoint.find(runs[0], which)
        for run in runs:
            checkpoint.find(run, frames)
        return frames
    shared = set(checkpoint.complete(runs[0]))
    for run in runs[1:]:
        shared &= set(checkpoint.complete(run))
    if not shared:
        raise UserError(
            f"the runs of this population share no checkpoint: {', '.join(r.name for r in runs)}; "
            f"continue one of them with --alone"
        )
    return max(shared)
