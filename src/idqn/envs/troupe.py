"""Environments for whole games: each begins whichever episode it is told to, and rests when it is
over.

A `VectorEnv` is for training: all of its environments step at every step, and start anew when an
episode ends. Where games are of different lengths and nobody needs a next one, half of that work is
for nothing. Here only those step that are asked to. The episodes are the same, bit for bit
(`tests/envs/test_troupe.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari import SCREEN_SHAPE, episodes_per_seed
from idqn.envs.episodes import UNSEEDED, episode_seed
from idqn.envs.processes import clean_birth, dismiss
from idqn.envs.registry import describe, make_group, shows_screens
from idqn.envs.worker import Arrays, allocate, end_with_parent, map_arrays
from idqn.errors import UserError

_EVERY = np.ones(1, bool)
_ENV = 0  # of the run whose episodes these are


class Answer(NamedTuple):
    """Of the seats that were asked to step, in that order."""

    frame: NDArray[np.uint8]  # [n, c, h, w]
    reward: NDArray[np.float32]
    over: NDArray[np.bool_]


class Troupe:
    """`count` seats. Worker w has those with number w, w + workers and so on, so that those who
    are still playing are about as many everywhere."""

    def __init__(
        self, config: EnvConfig, count: int, seed: int, workers: int | None = None
    ) -> None:
        """`workers` as for `VectorEnv`."""
        if workers is None:
            workers = (os.cpu_count() or 1) if config.is_atari else 0
        workers = min(workers, count)
        self.count, self.frame_shape = count, describe(config).frame_shape
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._dismiss = Finalize(self, dismiss, (self._pipes, self._processes), exitpriority=0)
        self._local: _Seats | None = None
        memory = (1, count, self.frame_shape)
        if workers == 0:
            (self._arrays,) = map_arrays(allocate(*memory), *memory)
            self._local = _Seats(config, seed, range(count), self._arrays)
            return
        context = multiprocessing.get_context("spawn")
        raw = allocate(*memory, context)
        (self._arrays,) = map_arrays(raw, *memory)
        for worker in range(workers):
            ours, theirs = context.Pipe()
            own = range(worker, count, workers)
            job = (theirs, config, seed, own, raw, memory)
            process = context.Process(target=_work, args=job, daemon=True)
            with clean_birth():
                process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def begin(self, episodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Seat i begins `episodes[i]`; their first frames, [n, c, h, w]."""
        numbers = episodes.tolist()
        self._ask("begin", range(len(numbers)), lambda seats: [numbers[i] for i in seats])
        return self._arrays.frame[: len(numbers)].copy()

    def step(self, seats: NDArray[np.int64], actions: NDArray[np.int64]) -> Answer:
        self._arrays.action[seats] = actions
        self._ask("step", seats.tolist(), lambda seats: seats)
        over = self._arrays.terminated[seats] | self._arrays.truncated[seats]
        return Answer(self._arrays.frame[seats], self._arrays.reward[seats], over)

    def beginnings(self, episodes: NDArray[np.int64]) -> list[object | None]:
        """What tells apart how they begin; None for those of which nobody knows."""
        if self._local is not None:
            return self._local.beginnings(episodes.tolist())
        found: list[list[object | None]] = self._told({0: ("beginnings", episodes.tolist())})
        return found[0]

    def _ask(self, verb: str, seats: Sequence[int], what: Callable[[list[int]], list[int]]) -> None:
        """Each worker of its own seats, all at once."""
        if self._local is not None:
            return self._local.do(verb, list(seats), what(list(seats)))
        asked = {}
        for worker in range(len(self._pipes)):
            own = [seat for seat in seats if seat % len(self._pipes) == worker]
            if own:
                asked[worker] = (verb, own, what(own))
        self._told(asked)
        return None

    def _told(self, asked: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """What each of these workers answers. All are heard before one that failed is told of: an
        answer left in its pipe would be taken for that to the next question."""
        for worker, message in asked.items():
            with suppress(ConnectionError):  # the worker has ended; its last word says why
                self._pipes[worker].send(message)
        answers = [_answer(self._pipes[worker]) for worker in asked]
        for answer in answers:
            if isinstance(answer, UserError):
                raise answer
            if isinstance(answer, _Failure):
                raise RuntimeError(f"an environment failed in its worker process:\n{answer.trace}")
        return answers

    def give_up(self) -> None:
        """From another thread: whoever waits for an answer gets none. Then `close`."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None
        self._dismiss()


class _Failure(NamedTuple):
    trace: str


def _answer(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        return _Failure("it died without a word")


class _Alone(Protocol):
    """One environment."""

    def begin(self, seed: int, resets: int) -> NDArray[np.uint8]: ...

    def beginning(self, seed: int, resets: int) -> object | None: ...

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        """Frame, reward, terminated, truncated."""
        ...

    def close(self) -> None: ...


class _OfAGroup:
    """Any environment, as a group of one."""

    def __init__(self, config: EnvConfig) -> None:
        self._group = make_group(config, 1)

    def begin(self, seed: int, resets: int) -> NDArray[np.uint8]:
        frame = self._group.reset(_EVERY, np.array([seed]))
        for _ in range(resets):
            frame = self._group.reset(_EVERY, np.array([UNSEEDED]))
        first: NDArray[np.uint8] = frame[0]
        return first

    def beginning(self, seed: int, resets: int) -> object | None:
        return None

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        frame, reward, terminated, truncated = self._group.step(np.array([action]))
        return frame[0], float(reward[0]), bool(terminated[0]), bool(truncated[0])

    def close(self) -> None:
        self._group.close()


class _Shrunk:
    """An Atari game whose screens are shrunk here, as the native environment shrinks them."""

    def __init__(self, config: EnvConfig) -> None:
        import cv2

        from idqn.envs.screens import ScreenGame

        self._game = ScreenGame(config, np.zeros(SCREEN_SHAPE[1:], np.uint8))
        _, height, width = describe(config).frame_shape
        self._size, self._resize, self._area = (width, height), cv2.resize, cv2.INTER_AREA

    def begin(self, seed: int, resets: int) -> NDArray[np.uint8]:
        self._game.begin(seed, resets)
        return self._seen()

    def beginning(self, seed: int, resets: int) -> object | None:
        return self._game.beginning(seed, resets)

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        reward, terminated, truncated = self._game.step(action)
        return self._seen(), float(reward), terminated, truncated

    def close(self) -> None:
        """Nothing to release."""

    def _seen(self) -> NDArray[np.uint8]:
        frame = self._resize(self._game.screen, self._size, interpolation=self._area)
        return np.asarray(frame, np.uint8)[None]


class _Seats:
    """Those of one process."""

    def __init__(self, config: EnvConfig, seed: int, seats: Sequence[int], arrays: Arrays) -> None:
        kind: Callable[[EnvConfig], _Alone] = _Shrunk if shows_screens(config) else _OfAGroup
        self._envs = {seat: kind(config) for seat in seats}
        self._season = episodes_per_seed(config) if config.is_atari else 1
        self._seed, self._arrays = seed, arrays

    def do(self, verb: str, seats: list[int], what: list[int]) -> None:
        if verb == "begin":
            for seat, episode in zip(seats, what, strict=True):
                self._arrays.frame[seat] = self._envs[seat].begin(*self._place(episode))
        else:
            for seat in seats:
                action = int(self._arrays.action[seat])
                frame, reward, terminated, truncated = self._envs[seat].step(action)
                self._arrays.frame[seat], self._arrays.reward[seat] = frame, reward
                self._arrays.terminated[seat] = terminated
                self._arrays.truncated[seat] = truncated

    def beginnings(self, episodes: list[int]) -> list[object | None]:
        anyone = next(iter(self._envs.values()))
        return [anyone.beginning(*self._place(episode)) for episode in episodes]

    def close(self) -> None:
        for env in self._envs.values():
            env.close()

    def _place(self, episode: int) -> tuple[int, int]:
        """The seed of its season, and resets since."""
        resets = episode % self._season
        return episode_seed(self._seed, _ENV, episode - resets), resets


def _work(
    pipe: Connection,
    config: EnvConfig,
    seed: int,
    seats: Sequence[int],
    raw: Any,
    memory: tuple[int, int, tuple[int, int, int]],
) -> None:
    """A worker's life: build, then do what each message says, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other side's to handle
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        own = _Seats(config, seed, seats, map_arrays(raw, *memory)[0])
        while True:
            verb, *told = pipe.recv()
            if verb == "beginnings":
                pipe.send(own.beginnings(*told))
            else:
                own.do(verb, *told)
                pipe.send(None)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except UserError as error:
        pipe.send(error)
    except Exception:
        pipe.send(_Failure(traceback.format_exc()))
