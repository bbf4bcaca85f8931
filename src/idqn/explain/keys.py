"""What the keys of an i-DQN look like, and which states of its games each of them stands for.

Keys are drawn by the decoder, which has only ever learned to draw states. So each picture comes
with where it is from: how often the key is attended to, by which states, and how far from the
nearest of them it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.decoding import seen_by_attention
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect
from idqn.networks import QNetwork

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

_SAMPLE = 512
"""States that are enough to measure a median or a mean of states."""
_CHUNK_PIXELS = 2**22
"""Decoded at once: the decoder's own layers take ten times as much."""


@dataclass(frozen=True, eq=False, repr=False)
class Keys(Result):
    """Of A actions and N values; pictures are [C, h, w], stacked frames, oldest first."""

    kind: ClassVar[str] = "keys"
    values: Floats  # [N]
    images: NDArray[np.uint8]  # [A, N, C, h, w], decoded keys
    contrast: NDArray[np.float16]
    """[A, N, C, h, w], in grey levels: a decoded key minus the mean of those of its value."""
    common: NDArray[np.float16]
    """[N, C, h, w], in grey levels: the mean of a value's decoded keys minus the mean picture."""
    seen: NDArray[np.float16]
    """[A, N, C, h, w], in grey levels: what attention can tell of a key, which is how it differs
    from the mean key of its action, as long as a state and decoded, minus the mean picture."""
    mean_picture: Floats
    """[C, h, w], in grey levels: the network's mean image, or without one what the decoder draws
    from nothing."""
    states: int
    """How many were looked at: T."""
    attended: Ints  # [A, N], states in which it is the most attended key of its action
    chosen: Ints  # [A, N], of those, the ones in which that action was chosen
    mean_attention: Floats  # [A, N]
    top: Ints  # [A, N, K], the states that attend to it most, away from each other; -1 is none
    top_attention: Floats  # [A, N, K], theirs; 0 where there is none
    nearest: Ints  # [A, N], the state with the nearest embedding
    distance: Floats  # [A, N], to it
    cosine: Floats  # [A, N], the largest with any state
    state_gap: float | None
    """Median distance of a state to its nearest other, if there is another."""
    state_spread: float | None
    """Median distance of two states."""
    state_norm: float
    key_norm: float
    departure: Floats  # [A, N], mean |decoded key - mean picture|, in grey levels
    state_departure: float
    """The same of decoded states: their mean."""
    alike: float | None
    """Mean correlation of two decoded keys of one value (minus the mean picture), of different
    actions, both in use; None if there are no two."""
    alike_otherwise: float | None
    """The same where not only the action differs, but the value too."""
    shown: Ints  # [S], states in `top` and `nearest`, ascending
    shown_frames: NDArray[np.uint8]  # [S, c, h, w], their newest frames
    shown_episode: Ints  # [S]
    shown_step: Ints  # [S]

    @property
    def unused(self) -> NDArray[np.bool_]:
        """[A, N]: never the most attended key of its action, chosen or not."""
        return np.equal(self.attended, 0)

    def place(self, states: Ints) -> Ints:
        """Where those states are in `shown`; -1 stays -1."""
        return np.where(states < 0, -1, np.searchsorted(self.shown, states))


def keys(
    agent: Agent,
    states: States | None = None,
    top: int = 3,
    apart: int = 10,
    progress: Progress = silent,
) -> Keys:
    """Decode every key, and find the states it stands for: the `top` that attend to it most, no
    two of them within `apart` steps of one game, because neighbours look alike."""
    vectors = agent.keys  # [A, N, E]
    agent.decode(vectors[0, 0])  # without a decoder, an error before any game is played
    states = collect(agent, progress=progress) if states is None else states
    attention = attention_of(agent, states)
    near = _near(vectors, torch.as_tensor(states.embedding, device=agent.device))
    pictures = _pictures(agent, vectors, near["state_norm"], progress)
    best = attention.argmax(-1)  # [T, A]
    attended = np.stack([np.bincount(b, minlength=vectors.shape[1]) for b in best.T])
    own = best[np.arange(len(states)), states.action]  # [T]
    chosen = np.zeros_like(attended)
    np.add.at(chosen, (states.action, own), 1)
    most = _most_attending(attention, states, top, apart)
    found = np.maximum(most, 0).transpose(2, 0, 1)  # [K, A, N]
    top_attention = np.take_along_axis(attention, found, 0).transpose(1, 2, 0)
    progress("comparing keys with states", 0, 1)
    shown = np.unique(np.concatenate([most[most >= 0], near["nearest"].ravel()]))
    alike, alike_otherwise = _alikeness(pictures.departing, attended > 0)
    state_departure = _state_departure(agent, states, pictures.mean)
    progress("comparing keys with states", 1, 1)
    return Keys(
        about(agent),
        values=agent.values.cpu().numpy(),
        images=pictures.images,
        contrast=pictures.departing - pictures.common,
        common=pictures.common,
        seen=pictures.seen,
        mean_picture=pictures.mean.cpu().numpy(),
        states=len(states),
        attended=attended,
        chosen=chosen,
        mean_attention=attention.mean(0),
        top=most,
        top_attention=np.where(most >= 0, top_attention, 0).astype(np.float32),
        **near,
        departure=np.abs(pictures.departing, dtype=np.float32).mean((2, 3, 4)),
        state_departure=state_departure,
        alike=alike,
        alike_otherwise=alike_otherwise,
        shown=shown,
        shown_frames=states.observations(shown)[:, -agent.spec.frame_shape[0] :],
        shown_episode=states.episode[shown],
        shown_step=states.step[shown],
    )


def attention_of(agent: Agent, states: States) -> Floats:
    """[T, A, N], if these states are this agent's, and there are any."""
    if len(states) == 0:
        raise UserError("there are no states to compare keys with; collect at least one")
    expected = tuple(agent.keys.shape)
    has = () if states.attention is None else states.attention.shape[1:]
    if states.attention is None or (*has, states.embedding.shape[1]) != expected:
        raise UserError(
            f"these states were not collected from this agent: it attends to keys "
            f"{list(expected[:2])} with embeddings of {expected[2]}, they have attention "
            f"{list(has)} and embeddings of {states.embedding.shape[1]}; "
            "collect(agent) plays its own games"
        )
    return states.attention


class _Pictures(NamedTuple):
    images: NDArray[np.uint8]  # [A, N, C, h, w]
    departing: NDArray[np.float16]  # [A, N, C, h, w], from the mean picture
    common: NDArray[np.float16]  # [N, C, h, w], its mean over actions
    seen: NDArray[np.float16]  # [A, N, C, h, w], from the mean picture
    mean: Tensor  # [C, h, w]


def _pictures(agent: Agent, vectors: Tensor, length: float, progress: Progress) -> _Pictures:
    """One value after another: all keys of a large colour agent at once take gigabytes."""
    assert isinstance(agent.network, QNetwork)
    mean = agent.network.mean_image  # [C, h, w]
    if not agent.config.agent.subtract_mean_image:  # it is black then
        mean = agent.decode(vectors.new_zeros(vectors.shape[-1]))
    actions, count = vectors.shape[:2]
    shape = agent.observation_shape
    images = np.empty((actions, count, *shape), np.uint8)
    departing = np.empty((actions, count, *shape), np.float16)
    seen = np.empty((actions, count, *shape), np.float16)
    common = np.empty((count, *shape), np.float16)
    alone = seen_by_attention(vectors, length)
    for n in range(count):
        for part in _chunks(actions, shape):
            decoded = agent.decode(vectors[part, n])  # [<=A, C, h, w]
            images[part, n] = decoded.round().byte().cpu().numpy()
            departing[part, n] = (decoded - mean).half().cpu().numpy()
            seen[part, n] = (agent.decode(alone[part, n]) - mean).half().cpu().numpy()
        common[n] = departing[:, n].mean(0, dtype=np.float32)
        progress("decoding keys", n + 1, count)
    return _Pictures(images, departing, common, seen, mean)


def _chunks(count: int, shape: tuple[int, int, int]) -> Iterator[slice]:
    size = max(1, _CHUNK_PIXELS // int(np.prod(shape)))
    for start in range(0, count, size):
        yield slice(start, start + size)


def _most_attending(attention: Floats, states: States, count: int, apart: int) -> Ints:
    """[A, N, K]"""
    actions, keys = attention.shape[1:]
    order = np.argsort(-attention, axis=0, kind="stable")  # [T, A, N]
    found = np.full((actions, keys, count), -1, np.int64)
    for a, n in np.ndindex(actions, keys):
        taken: list[int] = []
        for t in order[:, a, n].tolist():
            if len(taken) == count:
                break
            near = [
                states.episode[t] == states.episode[s]
                and abs(states.step[t] - states.step[s]) < apart
                for s in taken
            ]
            if not any(near):
                taken.append(t)
        found[a, n, : len(taken)] = taken
    return found


def _near(vectors: Tensor, embedding: Tensor) -> dict[str, Any]:
    """Where keys lie among state embeddings [T, E], and how far apart those are themselves."""
    # the fast way of computing distances is off by more than near states are apart
    exact = "donot_use_mm_for_euclid_dist"
    flat = vectors.flatten(0, 1)
    distance, nearest = torch.cdist(flat, embedding, compute_mode=exact).min(1)  # [A*N]
    unit = torch.nn.functional.normalize
    cosine = (unit(flat, dim=-1) @ unit(embedding, dim=-1).T).amax(1)
    gap = spread = None
    if len(embedding) > 1:
        sample = _sample(len(embedding))
        place = torch.as_tensor(sample, device=embedding.device)
        between = torch.cdist(embedding[place], embedding, compute_mode=exact)  # [n, T]
        itself = torch.zeros_like(between, dtype=torch.bool)
        itself[torch.arange(len(sample), device=place.device), place] = True
        gap = float(between.masked_fill(itself, torch.inf).amin(1).median())
        spread = float(between[~itself].median())
    shape = vectors.shape[:2]
    return {
        "nearest": nearest.reshape(shape).cpu().numpy(),
        "distance": distance.reshape(shape).cpu().numpy(),
        "cosine": cosine.reshape(shape).cpu().numpy(),
        "state_gap": gap,
        "state_spread": spread,
        "state_norm": float(embedding.norm(dim=-1).mean()),
        "key_norm": float(flat.norm(dim=-1).mean()),
    }


def _sample(count: int) -> Ints:
    """Evenly spread places among so many."""
    return np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64))


def _alikeness(
    departing: NDArray[np.float16], used: NDArray[np.bool_]
) -> tuple[float | None, float | None]:
    """Mean correlations of used keys of different actions: of one value, and of two."""
    action, value = np.nonzero(used)
    rows = departing.reshape(*used.shape, -1)
    pixels, step = rows.shape[-1], 2**15
    products = np.zeros((len(action), len(action)))
    sums = np.zeros(len(action))
    for start in range(0, pixels, step):
        part = rows[action, value, start : start + step].astype(np.float32)  # [used, <=step]
        products += part @ part.T
        sums += part.sum(1)
    covariance = products / pixels - np.outer(sums, sums) / pixels**2
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0))
    scale = np.outer(deviation, deviation)
    known = (action[:, None] != action) & (scale > 0)
    same = value[:, None] == value
    correlation = covariance / np.where(scale > 0, scale, 1)
    one, two = correlation[known & same], correlation[known & ~same]
    return (float(one.mean()) if one.size else None), (float(two.mean()) if two.size else None)


def _state_departure(agent: Agent, states: States, mean: Tensor) -> float:
    sample = _sample(len(states))
    total = 0.0
    for part in _chunks(len(sample), agent.observation_shape):
        decoded = agent.decode(states.embedding[sample[part]])
        total += float((decoded - mean).abs().mean((1, 2, 3)).sum())
    return total / len(sample)
