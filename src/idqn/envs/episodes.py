"""Episodes with explicit seeds, and where environments are in them.

No vector environment here can save its state, but each can be rebuilt: episode k of environment e
of a run always starts the same, so that its number and the actions since are its state.

Seeding an Atari emulator takes as long as a few hundred steps. So a seed serves a season of
`episodes_per_seed` episodes: the first starts from it, each later one from one more reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

GroupStep = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]
"""Newest frames, raw rewards, terminated, truncated."""

UNSEEDED = -1
"""In place of a seed: go on with the environment's own random numbers."""


class EnvGroup(Protocol):
    """n environments of one kind, stepped together. Frames are [n, c, h, w]."""

    episodes_per_seed: int
    """More than 1 only if an episode after an unseeded reset depends on nothing but the seed before
    and how many resets came since, whatever was played in between."""

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Start the masked environments anew, one seed for each of all n (or UNSEEDED, where
        `episodes_per_seed` is more than 1); returns all n newest frames (those of unmasked
        environments are unspecified)."""
        ...

    def send(self, actions: NDArray[np.int64]) -> None:
        """Begin a step, perhaps in a thread of the group's own; `recv` must follow."""
        ...

    def recv(self) -> GroupStep: ...

    def step(self, actions: NDArray[np.int64]) -> GroupStep:
        """Both at once."""
        ...

    def close(self) -> None: ...


class EnvPositions(NamedTuple):
    """Where n environments are: enough to rebuild them exactly."""

    episode: NDArray[np.int64]  # [n], how many episodes each has finished
    actions: list[NDArray[np.uint16]]  # n logs of actions since the episode began

    @staticmethod
    def start(count: int) -> EnvPositions:
        return EnvPositions(
            np.zeros(count, np.int64), [np.zeros(0, np.uint16) for _ in range(count)]
        )

    def take(self, index: NDArray[np.int64]) -> EnvPositions:
        return EnvPositions(self.episode[index], [self.actions[i] for i in index.tolist()])


def episode_seed(run_seed: int, env: int, episode: int) -> int:
    """The seed of one episode: 31 bits, well mixed."""
    return int(np.random.SeedSequence((run_seed, env, episode)).generate_state(1)[0] >> 1)


def replay_actions(
    group: EnvGroup,
    seeds: NDArray[np.int64],
    resets: NDArray[np.int64],
    actions: Sequence[NDArray[np.uint16]],
) -> NDArray[np.uint8]:
    """Bring n environments to where their seeds, so many further resets, and the actions since the
    last one lead; returns their frames.

    A group steps together, so the shorter logs wait: each environment is seeded so late that all
    arrive at once, and until then plays action 0 in an episode that is thrown away.
    """
    lengths = np.array([len(log) for log in actions])
    longest = int(lengths.max(initial=0))
    # how to start episodes that are thrown away: as fast as can be
    anyhow = np.full_like(seeds, UNSEEDED) if group.episodes_per_seed > 1 else seeds
    waiting = lengths < longest
    frames = group.reset(np.ones(len(seeds), bool), np.where(waiting, anyhow, seeds)).copy()
    _reset_further(group, ~waiting, resets, frames)
    over = np.zeros(len(seeds), bool)
    for time in range(longest):
        starting = lengths == longest - time
        if time > 0 and (starting | over).any():
            group.reset(starting | over, np.where(starting, seeds, anyhow))
            _reset_further(group, starting, resets, frames)
        playing = time - (longest - lengths)  # how far each log has come; negative: not begun
        chosen = [int(log[t]) if t >= 0 else 0 for log, t in zip(actions, playing, strict=True)]
        stepped, _, terminated, truncated = group.step(np.array(chosen, np.int64))
        over = terminated | truncated
        frames = stepped.copy()
    idle = lengths == 0  # these wait at an episode's start
    if idle.any() and longest > 0:
        frames[idle] = group.reset(idle, seeds)[idle]
        _reset_further(group, idle, resets, frames)
    return frames


def _reset_further(
    group: EnvGroup,
    mask: NDArray[np.bool_],
    resets: NDArray[np.int64],
    frames: NDArray[np.uint8],
) -> None:
    """Reset the masked environments so many times each, and show the last time's frames."""
    unseeded = np.full_like(resets, UNSEEDED)
    for done in range(int(resets[mask].max(initial=0))):
        due = mask & (resets > done)
        frames[due] = group.reset(due, unseeded)[due]
