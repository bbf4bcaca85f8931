"""A population is really trained, by `train` itself, and measured between two rows of metrics,
where the device has caught up with the host."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from idqn.bench.parts import EmulatorSpeed, emulator_speed, learner_us
from idqn.bench.process import Say, alone, tidy_when_terminated
from idqn.config import Config
from idqn.errors import UserError
from idqn.run_dir import RunDir
from idqn.system import resolve_device
from idqn.train import Progress, train

_ENDLESS_FRAMES = 10**12
_LEARNING_STARTS_STEPS = 200  # enough to sample from; filling replay is no part of the speed
_WARM_UP_UPDATES = {"cuda": 200, "cpu": 10}  # on a GPU, updates are first compiled and recorded
_UPDATES_BETWEEN_ROWS = 16  # on a CPU, where the usual rows may be minutes apart
_MAX_PART_S = 10.0  # what emulators and learner alone are measured for, at most


@dataclass(frozen=True)
class PopulationSpeed:
    """Frames are emulator frames, of all runs together where nothing else is said."""

    runs: int
    end_to_end_frames_per_s: float
    frames_per_s_per_run: float
    learner_us_per_run_update: float  # the learner alone; median of several windows
    emulator_frames_per_s: float  # the emulators alone, random play
    share_waiting_for_envs: float  # of the training process's time
    share_waiting_for_device: float
    updates_per_agent_step: float  # the replay ratio, as trained
    gpu_memory_mb_per_run: float | None  # the most that tensors took; MB are 2**20 bytes
    gpu_memory_reserved_mb_per_run: float | None  # the same with torch's cache
    startup_s: float  # from calling `train` to the first update, to within 0.2 s
    command_startup_s: float  # the same from the start of a Python process
    measured_s: float
    measured_frames: int
    learning_starts_steps: int
    envs: int  # of each run
    turns: int
    workers: int  # emulator processes
    threads: int  # of torch
    system: dict[str, Any]  # hardware and versions


def population_speed(
    configs: Sequence[Config], overridden: frozenset[str], seconds: float, say: Say
) -> PopulationSpeed:
    """Train a population for `seconds` once it learns; then its emulators and learner alone.

    Learning starts early and rows of metrics come often enough, unless `overridden` says that
    these fields were meant.
    """
    configs = [_measurable(config, overridden) for config in configs]
    with tidy_when_terminated():
        with tempfile.TemporaryDirectory(prefix="idqn-bench-") as folder:
            began = time.monotonic()
            whole = alone(_train, list(configs), Path(folder), seconds, began, say=say)
        parts = alone(_measure_parts, whole.configs, min(seconds, _MAX_PART_S), say=say)
    first = whole.configs[0]
    assert first.train.turns is not None
    assert first.system.threads is not None
    return PopulationSpeed(
        runs=len(configs),
        learner_us_per_run_update=parts.learner_us,
        emulator_frames_per_s=parts.emulators.frames_per_s,
        learning_starts_steps=first.replay.learning_starts_steps,
        envs=first.train.envs,
        turns=first.train.turns,
        workers=parts.emulators.workers,
        threads=first.system.threads,
        system=whole.system,
        **whole.measured,
    )


def _measurable(config: Config, overridden: frozenset[str]) -> Config:
    """`config`, never finished, soon learning, with a row of metrics every few seconds."""
    starts = min(
        config.replay.learning_starts_steps,
        max(config.replay.batch_size, _LEARNING_STARTS_STEPS),
    )
    changes = {"replay.learning_starts_steps": starts}
    if resolve_device(config.system.device).type == "cpu":
        often = _UPDATES_BETWEEN_ROWS * config.train.train_every_steps * config.env.frame_skip
        changes["system.log_every_frames"] = min(config.system.log_every_frames, often)
    changes = {name: value for name, value in changes.items() if name not in overridden}
    return config.replace(**changes, **{"train.frames": _ENDLESS_FRAMES})


class _Whole(NamedTuple):
    configs: list[Config]  # as trained: with what `train` filled in
    measured: dict[str, Any]
    system: dict[str, Any]  # as training found it


def _train(
    configs: list[Config], folder: Path, seconds: float, process_began: float, say: Say
) -> _Whole:
    device = resolve_device(configs[0].system.device)
    paths = [folder / f"{number:04d}" for number in range(len(configs))]
    window = _Window(configs[0], seconds, _WARM_UP_UPDATES[device.type], say)
    say("starting to train", "")
    began = time.monotonic()
    try:
        train(configs, paths, window)
    except _EnoughError:
        pass
    else:
        raise UserError("training was stopped before its speed was known")
    assert window.first_update is not None
    memory = {"": torch.cuda.max_memory_allocated, "reserved_": torch.cuda.max_memory_reserved}
    measured = window.measured(len(configs)) | {
        "startup_s": round(window.first_update - began, 2),
        "command_startup_s": round(window.first_update - process_began, 2),
        **{
            f"gpu_memory_{kind}mb_per_run": (
                round(most(device) / 2**20 / len(configs), 1) if device.type == "cuda" else None
            )
            for kind, most in memory.items()
        },
    }
    runs = [RunDir(path) for path in paths]
    system = json.loads(runs[0].system_file.read_text())
    return _Whole([run.config() for run in runs], measured, system)


class _EnoughError(Exception):
    """Ends training from within its observer: emulators are closed, no last checkpoint written."""


class _Window:
    """Observes a training until it has been measured for so many seconds."""

    def __init__(self, config: Config, seconds: float, warm_up_updates: int, say: Say) -> None:
        self._seconds, self._warm_up_updates, self._say = seconds, warm_up_updates, say
        # the update is done before the step in which all environments are seen to be past it
        steps = config.replay.learning_starts_steps + config.train.train_every_steps
        self._first_update_frames = (steps + config.train.envs) * config.env.frame_skip
        self.first_update: float | None = None
        self._rows: list[dict[str, Any]] = []  # of one run: the window's first moment, then it

    def __call__(self, progress: Progress) -> None:
        if self.first_update is None:
            if progress.frames < self._first_update_frames:
                self._say("starting to train", f"{progress.frames:,} frames of each run")
                return
            self.first_update = time.monotonic()
            self._say("training, not yet measured", "")
        if not progress.new_rows or progress.rows[0]["updates"] < self._warm_up_updates:
            return
        if not self._rows and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()  # compilers try things out with memory to spare
        self._rows.append(progress.rows[0])
        elapsed = self._elapsed(self._rows[0], self._rows[-1])
        self._say("measuring training", f"{elapsed:.0f} of {self._seconds:g} s")
        if len(self._rows) > 1 and elapsed >= self._seconds:
            raise _EnoughError

    def measured(self, runs: int) -> dict[str, Any]:
        first, last = self._rows[0], self._rows[-1]
        elapsed = self._elapsed(first, last)
        frames = last["frames"] - first["frames"]
        steps, updates = (last[name] - first[name] for name in ("agent_steps", "updates"))
        waited = dict.fromkeys(("envs", "device"), 0.0)
        for before, row in zip(self._rows, self._rows[1:], strict=False):
            for what in waited:
                waited[what] += row[f"time/waiting_for_{what}"] * self._elapsed(before, row)
        return {
            "end_to_end_frames_per_s": round(runs * frames / elapsed, 1),
            "frames_per_s_per_run": round(frames / elapsed, 1),
            **{f"share_waiting_for_{w}": round(spent / elapsed, 4) for w, spent in waited.items()},
            "updates_per_agent_step": round(updates / steps, 4),
            "measured_s": round(elapsed, 3),
            "measured_frames": runs * frames,
        }

    @staticmethod
    def _elapsed(before: dict[str, Any], row: dict[str, Any]) -> float:
        return float(row["time/elapsed_s"] - before["time/elapsed_s"])


class _Parts(NamedTuple):
    emulators: EmulatorSpeed
    learner_us: float


def _measure_parts(configs: list[Config], seconds: float, say: Say) -> _Parts:
    say("measuring the emulators alone", "")
    emulators = emulator_speed(configs, seconds)
    say("measuring the learner alone", "")
    return _Parts(emulators, learner_us(configs, seconds))
