"""The tuples that flow through the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # torch takes seconds to import; emulator processes never need it
    from torch import Tensor


class EnvSpec(NamedTuple):
    """What a network must know about an environment."""

    frame_shape: tuple[int, int, int]
    """Channels, height, width of one frame."""
    num_actions: int
    action_names: tuple[str, ...]

    def observation_shape(self, frame_stack: int) -> tuple[int, int, int]:
        """Stacked frames: channels are frames x channels, oldest frame first."""
        channels, height, width = self.frame_shape
        return (frame_stack * channels, height, width)


class Step(NamedTuple):
    """What n environments answer to n actions. Autoreset is already hidden: where an episode
    ended, `frame` is the first of the next one and `final_frame` the last of the ended one."""

    frame: NDArray[np.uint8]  # [n, c, h, w]
    reward: NDArray[np.float32]  # [n], never clipped
    terminated: NDArray[np.bool_]  # [n]
    truncated: NDArray[np.bool_]  # [n], never together with terminated
    final_frame: NDArray[np.uint8]  # [n, c, h, w], valid where truncated or terminated


class Batch(NamedTuple):
    """Transitions drawn from replay, for each of P runs."""

    observation: Tensor  # [P, B, C, H, W] uint8
    action: Tensor  # [P, B] int64
    reward: Tensor  # [P, B] float32: the discounted sum of up to n
    next_observation: Tensor  # [P, B, C, H, W] uint8, after the last of them
    discount: Tensor  # [P, B] float32, of that one's value: γ^m after m rewards, 0 after the end
    place: Tensor  # [P, B] int64, in the replay
    weight: Tensor  # [P, B] float32, of importance: 1 where drawn uniformly


class Seen(NamedTuple):
    """Embeddings of a batch in the networks of P runs; within one run, without the P."""

    embedding: Tensor  # [P, B, E], of s in the online network
    next_choosing: Tensor  # [P, B, E], of s' in the network that chooses a*
    next_valuing: Tensor  # [P, B, E], and in the one that values it


class Decoded(NamedTuple):
    """What the networks of P runs make of s again; within one run, without the P. Images are
    [C, H, W] or, where channels come last, [H, W, C]."""

    observation: Tensor  # [P, B, image] uint8
    mean_image: Tensor  # [P, image]
    reconstruction: Tensor  # [P, B, image], in network units


class QOutput(NamedTuple):
    """All that a Q-network says about a batch of observations; what we explain has a name here.
    Agents differ in what they have besides the first two."""

    embedding: Tensor  # [B, E]
    q: Tensor  # [B, A]
    uncertainty: Tensor | None = None  # [B, A], the return's or the heads' standard deviation
    log_attention: Tensor | None = None  # [B, A, N]
    attention: Tensor | None = None  # [B, A, N], sums to 1 over keys
    log_distribution: Tensor | None = None  # [B, A, N]
    distribution: Tensor | None = None  # [B, A, N], of the return over the head's values
    head_q: Tensor | None = None  # [B, A, K], of each of K heads
    reconstruction: Tensor | None = None  # [B, C, H, W], as (pixels - mean image) / 255
