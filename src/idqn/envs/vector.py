"""The environments of a whole population, stepped together, in this process or in workers.

Environment e of run p is number p*E + e. They may take turns: while those of one turn step in the
workers, the caller handles another's answers. Workers write into shared memory; the pipes carry one
byte per step. Neither turns nor workers change what an environment does.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.envs.atari import SCREEN_SHAPE
from idqn.envs.dealing import RunEnvs, Seats, deal
from idqn.envs.episodes import EnvPositions
from idqn.envs.processes import clean_birth, dismiss
from idqn.envs.registry import describe
from idqn.envs.worker import DONE, Crew, Listener, allocate, map_arrays, work
from idqn.errors import UserError
from idqn.types import Step


class VectorEnv:
    def __init__(
        self,
        runs: Sequence[RunEnvs],
        envs_per_run: int,
        workers: int | None,
        turns: int = 1,
        screens: bool = False,
        watchful: bool = False,
    ) -> None:
        """`workers` processes; 0 for none, None for one per core with Atari and none without.

        Turn t holds environments t*E/turns .. (t+1)*E/turns - 1 of every run. With `screens`,
        frames are whole screens of Atari, for the caller to shrink. `watchful` workers answer
        faster, if nobody else needs their cores; one core is left to this process then.
        """
        assert envs_per_run % turns == 0, f"{envs_per_run} environments in {turns} turns"
        self.count = len(runs) * envs_per_run
        self.frame_shape = SCREEN_SHAPE if screens else describe(runs[0].config).frame_shape
        if workers is None:
            cores = max((os.cpu_count() or 1) - watchful, 1)
            workers = cores if runs[0].config.is_atari else 0
        # [turns, P*E/turns], the numbers of each turn's environments
        self._members = (
            np.arange(self.count).reshape(len(runs), turns, -1).swapaxes(0, 1).reshape(turns, -1)
        )
        self._logs = [_Log(EnvPositions.start(self.count // turns)) for _ in range(turns)]
        self._in_flight: deque[int] = deque()  # turns sent and not received
        self._pipes: list[Connection] = []
        self._listeners: list[Listener] = []
        self._watchful = watchful
        self._processes: list[Any] = []
        # Also at exit, and with a priority, so that it comes before multiprocessing sends SIGTERM,
        # which workers ignore, and waits: whoever forgets `close` would wait for ever.
        self._dismiss = Finalize(self, dismiss, (self._pipes, self._processes), exitpriority=0)
        self._dealt = deal(runs, envs_per_run, turns, max(workers, 1))
        self._local: Crew | None = None
        memory = (turns, self.count // turns, self.frame_shape)
        if workers == 0:
            self._arrays = map_arrays(allocate(*memory), *memory)
            self._local = Crew(self._dealt[0], self._arrays, screens)
        else:
            # spawn: a forked child would inherit torch's threads and locks in whatever state
            context = multiprocessing.get_context("spawn")
            # anonymous shared memory: nothing to clean up, however the program ends
            raw = allocate(*memory, context)
            self._arrays = map_arrays(raw, *memory)
            for seats in self._dealt:
                self._start_worker(context, (seats, screens, watchful, raw, *memory))
        # the workers that step environments of a turn
        self._turn_workers = [
            [
                worker
                for worker in range(len(self._pipes))
                if any(seats.turn == turn for seats in self._dealt[worker])
            ]
            for turn in range(turns)
        ]

    def start(self, positions: EnvPositions | None = None) -> NDArray[np.uint8]:
        """Go to `positions`, by default the first episodes' starts; returns frames [n, c, h, w]."""
        self.begin(positions)
        return self.started()

    def begin(self, positions: EnvPositions | None = None) -> None:
        """The first half of `start`: workers are on their way, which takes them seconds."""
        while self._in_flight:
            self.recv(self._in_flight[0])  # nobody will
        positions = positions or EnvPositions.start(self.count)
        self._logs = [_Log(positions.take(own)) for own in self._members]
        parts = [[self._part(positions, s) for s in seats] for seats in self._dealt]
        if self._local is not None:
            self._local.start(parts[0])
        else:
            for pipe, part in zip(self._pipes, parts, strict=True):
                self._tell(pipe, pickle.dumps(part))

    def started(self) -> NDArray[np.uint8]:
        """The second half of `start`."""
        self._wait(range(len(self._pipes)))
        frames = np.empty((self.count, *self.frame_shape), np.uint8)
        for own, arrays in zip(self._members, self._arrays, strict=True):
            frames[own] = arrays.frame
        return frames

    def send(self, actions: NDArray[np.int64], turn: int = 0) -> None:
        """Give every environment of a turn an action; `recv` has the answer."""
        assert turn not in self._in_flight, f"turn {turn} was sent and not received"
        self._in_flight.append(turn)
        self._arrays[turn].action[:] = actions
        for worker in self._turn_workers[turn]:
            self._tell(self._pipes[worker], bytes([turn]))

    def recv(self, turn: int = 0) -> Step:
        """The answer to `send`, in memory that the turn's next `send` overwrites. Turns are
        received in the order they were sent in."""
        first = self._in_flight.popleft()
        assert turn == first, f"turn {first} was sent before turn {turn}"
        if self._local is not None:
            self._local.step(turn)
        self._wait(self._turn_workers[turn])
        arrays = self._arrays[turn]
        self._logs[turn].append(arrays.action, arrays.terminated | arrays.truncated)
        return Step(
            arrays.frame, arrays.reward, arrays.terminated, arrays.truncated, arrays.final_frame
        )

    def step(self, actions: NDArray[np.int64]) -> Step:
        """All environments at once, where they take no turns."""
        assert len(self._arrays) == 1, "with several turns, use send and recv"
        self.send(actions)
        return self.recv()

    def positions(self) -> EnvPositions:
        """Where all environments are; those of a turn in flight, where they were before `send`."""
        positions = EnvPositions.start(self.count)
        for own, log in zip(self._members, self._logs, strict=True):
            positions.episode[own] = log.episode
            for number, actions in zip(own.tolist(), log.actions(), strict=True):
                positions.actions[number] = actions
        return positions

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None
        self._dismiss()

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _part(self, positions: EnvPositions, seats: Seats) -> EnvPositions:
        return positions.take(self._members[seats.turn][seats.place])

    def _start_worker(self, context: Any, job: tuple[Any, ...]) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, *job), daemon=True)
        with clean_birth():
            process.start()
        theirs.close()
        self._pipes.append(ours)
        self._listeners.append(Listener(ours, self._watchful))
        self._processes.append(process)

    @staticmethod
    def _tell(pipe: Connection, message: bytes) -> None:
        with suppress(ConnectionError):  # the worker has ended; `_wait` will say why
            pipe.send_bytes(message)

    def _wait(self, workers: Iterable[int]) -> None:
        """For one answer of each: they answer in the order they are told."""
        for worker in workers:
            try:
                answer = self._listeners[worker].read()
            except (EOFError, ConnectionResetError) as error:
                raise RuntimeError("an environment worker process died without a word") from error
            if answer == DONE:
                continue
            failure = pickle.loads(answer)
            if isinstance(failure, UserError):
                raise failure
            raise RuntimeError(f"an environment failed in its worker process:\n{failure}")


class _Log:
    """What n environments did since their episodes began."""

    def __init__(self, positions: EnvPositions) -> None:
        self.episode = positions.episode.copy()
        self._length = np.array([len(log) for log in positions.actions])
        self._actions = np.zeros((len(self._length), 2 * max(self._length.max(), 128)), np.uint16)
        for own, log in zip(self._actions, positions.actions, strict=True):
            own[: len(log)] = log

    def append(self, actions: NDArray[np.int64], over: NDArray[np.bool_]) -> None:
        if self._length.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[np.arange(len(actions)), self._length] = actions
        self._length += 1
        self._length[over] = 0
        self.episode += over

    def actions(self) -> list[NDArray[np.uint16]]:
        ends = zip(self._actions, self._length.tolist(), strict=True)
        return [own[:length].copy() for own, length in ends]
