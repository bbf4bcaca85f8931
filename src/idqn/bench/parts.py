"""The parts of training alone: emulators, learner, replay."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.capture import Captured
from idqn.config import Config
from idqn.envs import describe
from idqn.population import population_envs
from idqn.replay import Replay
from idqn.system import resolve_device, use_device
from idqn.training import Training
from idqn.types import Step

_WINDOWS = 5
_FILLED_TRANSITIONS = 10_000  # of a larger replay no more: frames enough to fit into no cache


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
    before = len(multiprocessing.active_children())
    with population_envs(list(configs), resolve_device(first.system.device)) as vector:
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
    """Microseconds of an update per run, from a filled replay, with nothing to wait for."""
    # A Training, so that an update is what it is in training; but its environments only idle.
    fewest = {"train.envs": 1, "train.turns": 1, "system.workers": 0}
    with Training([config.replace(**fewest) for config in configs]) as training:
        actions = min(describe(config.env).num_actions for config in configs)
        source = _Noise(len(configs), 1, training.envs.frame_shape, actions)
        training.warm_up()
        _fill(training.replay, source, turns=1)
        spent = _median_us(training.update, training.device, seconds / _WINDOWS)
        return round(spent / len(configs), 2)


class ReplaySpeed(NamedTuple):
    append_us: float  # what all environments of all runs saw in one step
    append_us_per_agent_step: float
    sample_us: float  # one batch for each run
    sample_us_per_run: float


def replay_speed(config: Config, runs: int, seconds: float) -> ReplaySpeed:
    """Storing and drawing, on a filled replay of the shape that `config` gives it."""
    device = resolve_device(config.system.device)
    use_device(device)
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
    for _ in range(-(-min(replay.capacity, _FILLED_TRANSITIONS) // replay.envs)):
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
