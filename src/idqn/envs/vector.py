"""The environments of a whole population, stepped together, in this process or in workers.

Environment e of run p is number p*E + e everywhere. Workers write into shared memory; the pipes
carry one byte per step. How environments are dealt to workers never changes what they do.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.episodes import EnvGroup, episode_seed, replay_actions
from idqn.envs.registry import describe, make_group
from idqn.errors import UserError
from idqn.types import Step


class RunEnvs(NamedTuple):
    """What one run plays."""

    config: EnvConfig
    seed: int


class EnvPositions(NamedTuple):
    """Where n environments are: enough to rebuild them exactly."""

    episode: NDArray[np.int64]  # [n], how many episodes each has finished
    actions: list[NDArray[np.uint16]]  # n logs of actions since the episode began

    @staticmethod
    def start(count: int) -> EnvPositions:
        return EnvPositions(
            np.zeros(count, np.int64), [np.zeros(0, np.uint16) for _ in range(count)]
        )


class _Seats(NamedTuple):
    """Some environments of one run, stepped as one group."""

    config: EnvConfig
    run_seed: int
    first_env: int  # within the run
    offset: int  # within the population
    size: int


class _Arrays(NamedTuple):
    action: NDArray[np.int64]
    frame: NDArray[np.uint8]
    final_frame: NDArray[np.uint8]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class VectorEnv:
    def __init__(self, runs: Sequence[RunEnvs], envs_per_run: int, workers: int | None) -> None:
        """`workers` processes; 0 for none, None for one per core with Atari and none without."""
        self.count = len(runs) * envs_per_run
        self.frame_shape = describe(runs[0].config).frame_shape
        if workers is None:
            workers = (os.cpu_count() or 1) if runs[0].config.is_atari else 0
        parts = _deal(runs, envs_per_run, max(workers, 1))
        self._positions = EnvPositions.start(self.count)
        self._logs = [array("H") for _ in range(self.count)]
        self._worker_pipes: list[Connection] = []
        self._processes: list[Any] = []
        # Also at exit, and with a priority, so that it comes before multiprocessing sends SIGTERM,
        # which workers ignore, and waits: whoever forgets `close` would wait for ever.
        self._dismiss = Finalize(
            self, _dismiss, (self._worker_pipes, self._processes), exitpriority=0
        )
        self._local: _Crew | None = None
        if workers == 0:
            raw = _allocate(self.count, self.frame_shape)
            self._arrays = _map_arrays(raw, self.count, self.frame_shape)
            self._local = _Crew(parts[0], self._arrays)
        else:
            self._start_workers(parts)

    def start(self, positions: EnvPositions | None = None) -> NDArray[np.uint8]:
        """Go to `positions`, by default the first episodes' starts; returns frames [n, c, h, w]."""
        positions = positions or EnvPositions.start(self.count)
        self._positions = EnvPositions(positions.episode.copy(), positions.actions)
        self._logs = [array("H", log.tolist()) for log in positions.actions]
        if self._local is not None:
            self._local.start(positions)
        self._tell(positions)
        self._wait()
        return self._arrays.frame

    def send(self, actions: NDArray[np.int64]) -> None:
        """Give every environment an action; `recv` has the answer."""
        self._arrays.action[:] = actions
        for log, action in zip(self._logs, actions.tolist(), strict=True):
            log.append(action)
        self._tell(None)

    def recv(self) -> Step:
        """The answer to `send`, in memory that the next `send` overwrites."""
        if self._local is not None:
            self._local.step()
        self._wait()
        arrays = self._arrays
        for i in np.flatnonzero(arrays.terminated | arrays.truncated):
            self._positions.episode[i] += 1
            self._logs[i] = array("H")
        return Step(
            arrays.frame, arrays.reward, arrays.terminated, arrays.truncated, arrays.final_frame
        )

    def step(self, actions: NDArray[np.int64]) -> Step:
        self.send(actions)
        return self.recv()

    def positions(self) -> EnvPositions:
        return EnvPositions(
            self._positions.episode.copy(), [np.array(log, np.uint16) for log in self._logs]
        )

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None
        self._dismiss()

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_workers(self, parts: list[list[_Seats]]) -> None:
        # spawn: a forked child would inherit torch's threads and locks in whatever state they are
        context = multiprocessing.get_context("spawn")
        # anonymous shared memory: nothing to clean up, however the program ends
        raw = _allocate(self.count, self.frame_shape, context)
        self._arrays = _map_arrays(raw, self.count, self.frame_shape)
        for seats in parts:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, seats, raw, self.count, self.frame_shape), daemon=True
            )
            with _clean_birth():
                process.start()
            theirs.close()
            self._worker_pipes.append(ours)
            self._processes.append(process)

    def _tell(self, message: EnvPositions | None) -> None:
        for pipe in self._worker_pipes:
            with suppress(ConnectionError):  # the worker has ended; `_wait` will say why
                pipe.send(message)

    def _wait(self) -> None:
        for pipe in self._worker_pipes:
            try:
                failure = pipe.recv()
            except (EOFError, ConnectionResetError) as error:
                raise RuntimeError("an environment worker process died without a word") from error
            if isinstance(failure, UserError):
                raise failure
            if failure is not None:
                raise RuntimeError(f"an environment failed in its worker process:\n{failure}")


class _Crew:
    """Groups of environments that one process steps, writing into its part of the arrays."""

    def __init__(self, seats: list[_Seats], arrays: _Arrays) -> None:
        self._arrays = arrays
        self._seats = seats
        self._groups: list[EnvGroup] = [make_group(s.config, s.size) for s in seats]
        self._episode = np.zeros(len(arrays.action), np.int64)

    def start(self, positions: EnvPositions) -> None:
        self._episode[:] = positions.episode
        for seats, group in zip(self._seats, self._groups, strict=True):
            part = slice(seats.offset, seats.offset + seats.size)
            seeds = self._seeds(seats, np.ones(seats.size, bool))
            self._arrays.frame[part] = replay_actions(group, seeds, positions.actions[part])

    def step(self) -> None:
        arrays = self._arrays
        for seats, group in zip(self._seats, self._groups, strict=True):
            part = slice(seats.offset, seats.offset + seats.size)
            frame, reward, terminated, truncated = group.step(arrays.action[part])
            arrays.frame[part], arrays.reward[part] = frame, reward
            arrays.terminated[part] = terminated
            arrays.truncated[part] = truncated & ~terminated
            over = terminated | truncated
            if over.any():
                arrays.final_frame[part][over] = frame[over]
                self._episode[part] += over
                arrays.frame[part][over] = group.reset(over, self._seeds(seats, over))[over]

    def close(self) -> None:
        for group in self._groups:
            group.close()

    def _seeds(self, seats: _Seats, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Seeds of the current episodes, where `mask` asks for them."""
        seeds = np.zeros(seats.size, np.int64)
        for i in np.flatnonzero(mask):
            episode = int(self._episode[seats.offset + i])
            seeds[i] = episode_seed(seats.run_seed, seats.first_env + int(i), episode)
        return seeds


@contextmanager
def _clean_birth() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from birth, and that do not run the user's script again,
    as `spawn` would: workers need nothing from it, and few scripts are written to stand it."""
    program = vars(sys.modules["__main__"])
    names: tuple[str, ...] = ("__file__", "__spec__")
    hidden = {name: program[name] for name in names if name in program}
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        program.update(dict.fromkeys(hidden))
        yield
    finally:
        program.update(hidden)
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def _dismiss(pipes: list[Connection], processes: list[Any]) -> None:
    for pipe in pipes:
        pipe.close()  # a worker ends when its pipe does
    for process in processes:
        process.join(timeout=5)
        if process.is_alive():
            process.kill()


def _deal(runs: Sequence[RunEnvs], envs_per_run: int, workers: int) -> list[list[_Seats]]:
    """Deal groups of environments to at most `workers` processes, about as many to each."""
    pieces = min(envs_per_run, -(-workers // len(runs)))  # groups per run
    groups: list[_Seats] = []
    for p, run in enumerate(runs):
        bounds = np.linspace(0, envs_per_run, pieces + 1).astype(int).tolist()
        for first, last in pairwise(bounds):
            offset = p * envs_per_run + first
            groups.append(_Seats(run.config, run.seed, first, offset, last - first))
    workers = min(workers, len(groups))
    return [groups[w::workers] for w in range(workers)]


def _allocate(count: int, frame_shape: tuple[int, int, int], context: Any = None) -> Any:
    frame_bytes = count * int(np.prod(frame_shape))
    size = count * 8 + count * 4 + 2 * count + 2 * frame_bytes
    return bytearray(size) if context is None else context.RawArray("B", size)


def _map_arrays(raw: Any, count: int, frame_shape: tuple[int, int, int]) -> _Arrays:
    """Lay the arrays over one block of memory, widest types first to keep them aligned."""
    offset = 0

    def take(dtype: type[np.generic], *shape: int) -> NDArray[Any]:
        nonlocal offset
        mapped = np.frombuffer(raw, dtype, int(np.prod(shape)), offset).reshape(shape)
        offset += mapped.nbytes
        return mapped

    action, reward = take(np.int64, count), take(np.float32, count)
    terminated, truncated = take(np.bool_, count), take(np.bool_, count)
    frame, final = take(np.uint8, count, *frame_shape), take(np.uint8, count, *frame_shape)
    return _Arrays(action, frame, final, reward, terminated, truncated)


def _work(
    pipe: Connection,
    seats: list[_Seats],
    raw: Any,
    count: int,
    frame_shape: tuple[int, int, int],
) -> None:
    """A worker's life: build, then one step for each message, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the training process's to handle
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it outlives the last step it is asked for
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        crew = _Crew(seats, _map_arrays(raw, count, frame_shape))
        while True:
            positions = pipe.recv()
            if positions is None:
                crew.step()
            else:
                crew.start(positions)
            pipe.send(None)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except UserError as error:
        pipe.send(error)
    except Exception:
        pipe.send(traceback.format_exc())


def _end_with_parent() -> None:
    """A closed pipe is only noticed between steps; building many environments takes longer."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
