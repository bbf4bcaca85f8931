"""How fast this machine trains: a population as a whole, and its parts alone.

A population is really trained, by `train` itself, and measured between two rows of metrics, where
the device has caught up with the host. Each measurement of `population_speed` has a process of its
own: memory and start-up are then what they would be without the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.capture import Captured
from idqn.config import Config
from idqn.envs import RunEnvs, VectorEnv, describe
from idqn.errors import UserError
from idqn.replay import Replay
from idqn.run_dir import RunDir
from idqn.system import resolve_device, system_info
from idqn.train import Progress, train
from idqn.training import Training
from idqn.types import Step

T = TypeVar("T")
Say = Callable[[str, str], None]
"""Told what is being done, and how far it is."""

_ENDLESS_FRAMES = 10**12
_LEARNING_STARTS_STEPS = 200  # enough to sample from; filling replay is no part of the speed
_WARM_UP_UPDATES = {"cuda": 200, "cpu": 10}  # on a GPU, updates are first compiled and recorded
_UPDATES_BETWEEN_ROWS = 32  # on a CPU, where the usual rows may be minutes apart
_WINDOWS = 5
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
    with tempfile.TemporaryDirectory(prefix="idqn-bench-", ignore_cleanup_errors=True) as folder:
        began = time.monotonic()
        whole = _alone(_train, list(configs), Path(folder), seconds, began, say=say)
    parts = _alone(_measure_parts, whole.configs, min(seconds, _MAX_PART_S), say=say)
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
    system: dict[str, Any]


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
    return _Whole([RunDir(path).config() for path in paths], measured, system_info(device))


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


class EmulatorSpeed(NamedTuple):
    frames_per_s: float
    workers: int


def emulator_speed(configs: Sequence[Config], seconds: float) -> EmulatorSpeed:
    """A population's environments under random play, all of its turns always under way."""
    first = configs[0]
    envs, turns = first.train.envs, first.train.turns
    assert turns is not None
    actions = np.repeat([describe(config.env).num_actions for config in configs], envs // turns)
    rng = np.random.default_rng(first.train.seed)
    runs = [RunEnvs(config.env, config.train.seed) for config in configs]
    before = len(multiprocessing.active_children())
    with VectorEnv(runs, envs, first.system.workers, turns) as vector:
        workers = len(multiprocessing.active_children()) - before
        vector.start()
        for turn in range(turns):
            vector.send(rng.integers(actions), turn)

        def play(seconds: float) -> float:
            began, steps = time.perf_counter(), 0
            while (elapsed := time.perf_counter() - began) < seconds:
                for turn in range(turns):
                    vector.recv(turn)
                    vector.send(rng.integers(actions), turn)
                    steps += len(actions)
            return steps * first.env.frame_skip / elapsed

        play(seconds / 5)  # until episodes no longer start together
        return EmulatorSpeed(round(play(seconds), 1), workers)


def learner_us(configs: Sequence[Config], seconds: float) -> float:
    """Microseconds of an update per run, from a full replay, with nothing to wait for."""
    # A Training, so that an update is what it is in training; but its environments only idle.
    fewest = {"train.envs": 1, "train.turns": 1, "system.workers": 0}
    with Training([config.replace(**fewest) for config in configs]) as training:
        specs = [describe(config.env) for config in configs]
        source = _Noise(len(configs), 1, specs[0].frame_shape, min(s.num_actions for s in specs))
        _fill(training.replay, source, turns=1)
        spent = _median_us(training.update, training.device, seconds / _WINDOWS)
        return round(spent / len(configs), 2)


class ReplaySpeed(NamedTuple):
    append_us: float  # what all environments of all runs saw in one step
    append_us_per_agent_step: float
    sample_us: float  # one batch for each run
    sample_us_per_run: float


def replay_speed(config: Config, runs: int, seconds: float) -> ReplaySpeed:
    """Storing and drawing, on a full replay of the shape that `config` gives it."""
    device = resolve_device(config.system.device)
    envs, turns = config.train.envs, config.train.turns or 1
    shape = describe(config.env).frame_shape
    replay = Replay(
        config.replay.transitions,
        shape,
        config.env.frame_stack,
        envs,
        list(range(runs)),
        device,
        turns,
    )
    source = _Noise(runs, envs // turns, shape, num_actions=4)
    _fill(replay, source, turns)
    draws = torch.zeros((), dtype=torch.int64, device=device)

    def append() -> None:
        _append_all(replay, source.step(), turns)

    def sample() -> object:
        draws.add_(1)
        return replay.sample(config.replay.batch_size, draws)

    append_us = _median_us(append, device, seconds / _WINDOWS)
    sample_us = _median_us(Captured(sample, device), device, seconds / _WINDOWS)
    return ReplaySpeed(
        append_us=round(append_us, 2),
        append_us_per_agent_step=round(append_us / (runs * envs), 3),
        sample_us=round(sample_us, 2),
        sample_us_per_run=round(sample_us / runs, 2),
    )


class _Noise:
    """Actions and steps that nobody played: pixels of noise, an episode's end now and then."""

    _VARIETY = 16

    def __init__(
        self, runs: int, envs: int, frame_shape: tuple[int, int, int], num_actions: int
    ) -> None:
        rng = np.random.default_rng(0)
        count = runs * envs
        self._given = 0
        self._steps = [
            (
                rng.integers(num_actions, size=count),
                Step(
                    frame=(frame := rng.integers(256, size=(count, *frame_shape), dtype=np.uint8)),
                    reward=rng.normal(size=count).astype(np.float32),
                    terminated=rng.random(count) < 0.01,
                    truncated=np.zeros(count, np.bool_),
                    final_frame=frame,
                ),
            )
            for _ in range(self._VARIETY)
        ]

    def step(self) -> tuple[NDArray[np.int64], Step]:
        self._given += 1
        return self._steps[self._given % self._VARIETY]


def _fill(replay: Replay, source: _Noise, turns: int) -> None:
    _, step = source.step()
    replay.start(np.concatenate([step.frame] * turns))
    for _ in range(-(-replay.capacity // replay.envs)):
        _append_all(replay, source.step(), turns)


def _append_all(replay: Replay, noise: tuple[NDArray[np.int64], Step], turns: int) -> None:
    """A step of all environments. Its memory is free to be filled again once the device is done,
    which in training is known from the actions it chose since."""
    for turn in range(turns):
        replay.append(*noise, turn)
    _synchronize(replay.device)


def _median_us(call: Callable[[], object], device: torch.device, window_s: float) -> float:
    """Microseconds of a call: the median over windows of about `window_s`."""

    def window(calls: int) -> float:
        _synchronize(device)
        began = time.perf_counter()
        for _ in range(calls):
            call()
        _synchronize(device)
        return (time.perf_counter() - began) / calls

    few = 10 if device.type == "cuda" else 1
    window(few)  # compiles and records
    calls = max(1, round(window_s / window(few)))
    return 1e6 * statistics.median(window(calls) for _ in range(_WINDOWS))


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _alone(function: Callable[..., T], *arguments: Any, say: Say) -> T:
    """What `function` returns in a process of its own; it ends with this one's patience."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    # not a daemon, which could have no emulator processes
    process = context.Process(target=_work, args=(theirs, function, arguments))
    with _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    try:
        while isinstance(message := ours.recv(), _News):
            say(*message)
    except EOFError:
        process.join()
        raise UserError(
            f"a measuring process ended early, with exit code {process.exitcode}; if a signal "
            f"killed it (-9), there may not have been enough memory"
        ) from None
    except BaseException:
        process.terminate()
        raise
    finally:
        ours.close()
        process.join()
    if isinstance(message, Exception):
        raise message
    result: T = message
    return result


class _News(NamedTuple):
    doing: str
    how_far: str


def _work(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(doing: str, how_far: str) -> None:
        pipe.send(_News(doing, how_far))

    try:
        pipe.send(function(*arguments, say=say))
    except Exception as error:
        error.add_note(f"In the measuring process:\n{traceback.format_exc()}")
        pipe.send(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes born meanwhile ignore Ctrl-C: whoever started them decides when they end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
