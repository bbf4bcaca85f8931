"""Episodes with explicit seeds.

No vector environment here can save its state, but each can be rebuilt: episode k of environment e
of a run always starts from the same seed, so that its seed and the actions since are its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class EnvGroup(Protocol):
    """n environments of one kind, stepped together. Frames are [n, c, h, w]."""

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Start the masked environments anew, one seed for each of all n; returns all n newest
        frames (those of unmasked environments are unspecified)."""
        ...

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Newest frames, raw rewards, terminated, truncated."""
        ...

    def close(self) -> None: ...


def episode_seed(run_seed: int, env: int, episode: int) -> int:
    """The seed of one episode: 31 bits, well mixed."""
    return int(np.random.SeedSequence((run_seed, env, episode)).generate_state(1)[0] >> 1)


def replay_actions(
    group: EnvGroup, seeds: NDArray[np.int64], actions: Sequence[NDArray[np.uint16]]
) -> NDArray[np.uint8]:
    """Bring n environments to where their seeds and the actions since lead; returns their frames.

    A group steps together, so the shorter logs wait: each environment is reset so late that all
    arrive at once, and until then plays action 0 in an episode that is thrown away.
    """
    lengths = np.array([len(log) for log in actions])
    longest = int(lengths.max(initial=0))
    frames = group.reset(np.ones(len(seeds), bool), seeds).copy()
    over = np.zeros(len(seeds), bool)
    for time in range(longest):
        starting = (lengths == longest - time) | over
        if starting.any() and time > 0:
            frames[starting] = group.reset(starting, seeds)[starting]
        playing = time - (longest - lengths)  # how far each log has come; negative: not begun
        chosen = [int(log[t]) if t >= 0 else 0 for log, t in zip(actions, playing, strict=True)]
        stepped, _, terminated, truncated = group.step(np.array(chosen, np.int64))
        over = terminated | truncated
        frames = stepped.copy()
    idle = lengths == 0  # these wait at an episode's start
    if idle.any() and longest > 0:
        frames[idle] = group.reset(idle, seeds)[idle]
    return frames
