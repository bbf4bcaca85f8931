"""The side that steps environments: in a worker process, or in the training process itself.

Environments and the training process meet in arrays of shared memory, one set for each turn.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.envs.dealing import Seats
from idqn.envs.episodes import UNSEEDED, EnvPositions, episode_seed, replay_actions
from idqn.envs.registry import make_group
from idqn.errors import UserError

_AWAKE_S = 0.002
_READS_BETWEEN_LOOKS = 500  # at how busy the machine is
DONE = b"\0"  # a worker's answer if nothing went wrong; else it is a pickle, always longer


class Listener:
    """Reads messages from a pipe. With `watchful` it stays awake for a moment before it sleeps,
    because being woken up can take as long as a step; but only while there are cores to spare."""

    def __init__(self, pipe: Connection, watchful: bool) -> None:
        self._pipe = pipe
        self._poll: Any = None
        self._reads = 0
        self._awake = False
        if watchful and hasattr(select, "poll") and hasattr(os, "getloadavg"):  # not on Windows
            self._poll = select.poll()
            self._poll.register(pipe.fileno(), select.POLLIN)

    def read(self) -> bytes:
        if self._poll is not None:
            if self._reads % _READS_BETWEEN_LOOKS == 0:
                self._awake = os.getloadavg()[0] < (os.cpu_count() or 1)
            self._reads += 1
            asleep_at = time.perf_counter() + _AWAKE_S * self._awake
            while not self._poll.poll(0) and time.perf_counter() < asleep_at:
                os.sched_yield()
        return self._pipe.recv_bytes()


class Arrays(NamedTuple):
    """The n environments of one turn, ordered by (run, environment)."""

    action: NDArray[np.int64]
    frame: NDArray[np.uint8]
    final_frame: NDArray[np.uint8]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


def allocate(turns: int, count: int, frame_shape: tuple[int, int, int], context: Any = None) -> Any:
    """Memory for the arrays of all turns; given a `context`, its processes can share it."""
    size = turns * _turn_bytes(count, frame_shape)
    return bytearray(size) if context is None else context.RawArray("B", size)


def map_arrays(raw: Any, turns: int, count: int, frame_shape: tuple[int, int, int]) -> list[Arrays]:
    """Lay the turns' arrays over that memory."""
    size = _turn_bytes(count, frame_shape)
    return [_map_turn(raw, turn * size, count, frame_shape) for turn in range(turns)]


def _turn_bytes(count: int, frame_shape: tuple[int, int, int]) -> int:
    size = count * (8 + 4 + 1 + 1 + 2 * int(np.prod(frame_shape)))
    return -(-size // 64) * 64  # the next turn begins aligned


def _map_turn(raw: Any, offset: int, count: int, frame_shape: tuple[int, int, int]) -> Arrays:
    def take(dtype: type[np.generic], *shape: int) -> NDArray[Any]:
        nonlocal offset
        mapped = np.frombuffer(raw, dtype, int(np.prod(shape)), offset).reshape(shape)
        offset += mapped.nbytes
        return mapped

    # widest types first, to keep them aligned
    action, reward = take(np.int64, count), take(np.float32, count)
    terminated, truncated = take(np.bool_, count), take(np.bool_, count)
    frame, final = take(np.uint8, count, *frame_shape), take(np.uint8, count, *frame_shape)
    return Arrays(action, frame, final, reward, terminated, truncated)


class Crew:
    """All environments that one process steps."""

    def __init__(self, seats: list[Seats], arrays: list[Arrays], screens: bool) -> None:
        self._teams = [_Team(own, arrays[own.turn], screens) for own in seats]
        self._by_turn: list[list[_Team]] = [
            [team for team in self._teams if team.turn == turn] for turn in range(len(arrays))
        ]

    def start(self, positions: list[EnvPositions]) -> None:
        """Bring the environments of each of the seats to their positions."""
        for team, own in zip(self._teams, positions, strict=True):
            team.start(own)

    def step(self, turn: int) -> None:
        # all begin before the first is waited for: handing over to a group's thread takes time
        for team in self._by_turn[turn]:
            team.send()
        for team in self._by_turn[turn]:
            team.recv()

    def close(self) -> None:
        for team in self._teams:
            team.close()


class _Team:
    """A group of environments, their episodes, and their part of the arrays."""

    def __init__(self, seats: Seats, arrays: Arrays, screens: bool) -> None:
        self.turn = seats.turn
        self._seats, self._arrays = seats, arrays
        self._group = make_group(seats.config, len(seats.place), screens)
        self._episode = np.zeros(len(seats.place), np.int64)

    def start(self, positions: EnvPositions) -> None:
        self._episode = positions.episode.copy()
        resets = self._episode % self._group.episodes_per_seed
        seeds = np.array([self._seed(i, int(k)) for i, k in enumerate(self._episode - resets)])
        frame = replay_actions(self._group, seeds, resets, positions.actions)
        self._arrays.frame[self._seats.place] = frame

    def send(self) -> None:
        self._group.send(self._arrays.action[self._seats.place])

    def recv(self) -> None:
        place, arrays = self._seats.place, self._arrays
        frame, reward, terminated, truncated = self._group.recv()
        arrays.frame[place], arrays.reward[place] = frame, reward
        arrays.terminated[place] = terminated
        arrays.truncated[place] = truncated & ~terminated
        over = terminated | truncated
        if over.any():
            ended = place[over]
            arrays.final_frame[ended] = frame[over]
            self._episode += over
            arrays.frame[ended] = self._group.reset(over, self._next_seeds(over))[over]

    def close(self) -> None:
        self._group.close()

    def _next_seeds(self, over: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Seeds where a season begins; within one, the environments' own random numbers."""
        seeds = np.full(len(over), UNSEEDED, np.int64)
        for i in np.flatnonzero(over & (self._episode % self._group.episodes_per_seed == 0)):
            seeds[i] = self._seed(int(i), int(self._episode[i]))
        return seeds

    def _seed(self, i: int, episode: int) -> int:
        return episode_seed(self._seats.run_seed[i], self._seats.env[i], episode)


def work(
    pipe: Connection,
    seats: list[Seats],
    screens: bool,
    watchful: bool,
    raw: Any,
    turns: int,
    count: int,
    frame_shape: tuple[int, int, int],
) -> None:
    """A worker's life: build, then do what each message says, until the pipe closes. One byte is a
    turn to step; a pickle, always longer, the positions to go to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the training process's to handle
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it outlives the last step it is asked for
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        crew = Crew(seats, map_arrays(raw, turns, count, frame_shape), screens)
        listener = Listener(pipe, watchful)
        while True:
            message = listener.read()
            if len(message) == 1:
                crew.step(message[0])
            else:
                crew.start(pickle.loads(message))
            pipe.send_bytes(DONE)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except UserError as error:
        pipe.send(error)
    except Exception:
        pipe.send(traceback.format_exc())


def end_with_parent() -> None:
    """A closed pipe is only noticed between steps; building many environments takes longer."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
