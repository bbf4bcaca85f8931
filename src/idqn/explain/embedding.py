"""Where states and keys lie in the space in which the agent compares them: maps, and how well
the actions keep apart there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import clusters
from idqn.explain.keys import attention_of
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect
from idqn.explain.tsne import pca, tsne

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

_FRAME = 84
"""No frame is kept larger than this: it is for a glance."""


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Result):
    """A map of M of the states and, of agents with keys, of all K = A x N keys."""

    kind: ClassVar[str] = "embedding"
    states: int
    """How many there were to choose from."""
    tsne: Floats  # [M, 2]
    pca: Floats  # [M, 2]
    pca_share: tuple[float, ...]
    """Of the variance of states and keys, that of each principal component."""
    perplexity: float
    """About how many neighbours t-SNE looks at; fewer than asked for if there are few points."""
    perplexity_asked: float
    divergence: float
    """What t-SNE could not draw right, in nats."""
    action: Ints  # [M], chosen
    q: Floats  # [M], of the chosen action
    episode: Ints  # [M]
    step: Ints  # [M]
    frames: NDArray[np.uint8]  # [M, h, w] or [M, h, w, 3], the newest, reduced
    value: float | None
    """The one at whose keys attention is looked at, and `threshold` how much is high."""
    threshold: float | None
    above_only: bool
    """States with less were left out."""
    attention: Floats | None  # [M], the most that a key of `value` gets
    attending: Ints | None  # [M], whose key it is: an action
    key_tsne: Floats | None  # [K, 2]
    key_pca: Floats | None  # [K, 2]
    key_action: Ints | None  # [K]
    key_value: Floats | None  # [K]
    key_used: NDArray[np.bool_] | None  # [K], in some state the most attended of its action
    silhouettes: Floats  # [M], of the states' embeddings, by chosen action; 0 is no clusters
    most_frequent: float
    """The share of states in which the most frequent action was chosen. What follows is to be
    compared with it: how often the chosen action is that of a key."""
    nearest_key: float | None
    strongest_key: float | None
    """By the product with the state's embedding, as in attention."""
    nearest_key_of_value: float | None
    """Among the keys of the largest value alone."""
    strongest_key_of_value: float | None
    centroid: float | None
    """How often the chosen action is the one whose mean embedding is nearest, in halves of the
    states that the means are not of; None if there is but one state."""
    centroid_most_frequent: float | None
    """The same of those halves' most frequent action."""
    keys_beside_states: float | None
    """The share of keys whose nearest neighbour is a state, not a key; `mixed` is what it would
    be if there were no difference between them."""

    @property
    def above(self) -> NDArray[np.bool_] | None:
        """[M]: the states with high attention to a key of `value`."""
        if self.attention is None or self.threshold is None:
            return None
        return self.attention > self.threshold

    @property
    def mixed(self) -> float | None:
        if self.key_action is None:
            return None
        return len(self.action) / (len(self.action) + len(self.key_action) - 1)

    @property
    def silhouette(self) -> float | None:
        """Their mean, if more than one action was chosen."""
        return float(self.silhouettes.mean()) if len(np.unique(self.action)) > 1 else None


def embedding(
    agent: Agent,
    states: States | None = None,
    value: float | None = None,
    threshold: float = 0.9,
    above_only: bool = False,
    perplexity: float = 40.0,
    max_states: int = 1_500,
    seed: int = 0,
    progress: Progress = silent,
) -> Embedding:
    """Map states and keys by t-SNE and by their principal components. Of i-DQN agents, states
    are marked that give more attention than `threshold` to a key of `value` (the nearest there is;
    default: the largest), or with `above_only` no others are taken; then at most `max_states`,
    evenly from all games."""
    if max_states < 1:
        raise UserError(f"there is nothing to map in {max_states} states; take at least 1")
    check_threshold(threshold)
    memory = None
    if agent.name == "idqn" or value is not None or above_only:
        memory = _Memory.of(agent, value)  # without keys, an error before any game is played
    states = collect(agent, progress=progress) if states is None else states
    if len(states) == 0:
        raise UserError("there are no states to map; collect at least one")
    high = None if memory is None else memory.attention(agent, states)
    place = np.arange(len(states))
    if above_only and memory is not None and high is not None:
        place = np.flatnonzero(high.weight > threshold)
        if len(place) == 0:
            raise UserError(
                f"no state gives more than {threshold:g} of an action's attention to the key of "
                f"value {memory.value:.3g}; the most is {high.weight.max():.2g}"
            )
    place = place[np.linspace(0, len(place) - 1, min(max_states, len(place))).round().astype(int)]
    points = torch.as_tensor(states.embedding[place], device=agent.device)  # [M, E]
    action = states.action[place]
    maps = _maps(points, memory, perplexity, seed, progress)
    return Embedding(
        about(agent),
        states=len(states),
        **maps,
        perplexity_asked=perplexity,
        action=action,
        q=states.q[place, action],
        episode=states.episode[place],
        step=states.step[place],
        frames=_frames(states, place),
        value=None if memory is None else memory.value,
        threshold=None if memory is None else threshold,
        above_only=above_only,
        attention=None if high is None else high.weight[place],
        attending=None if high is None else high.action[place],
        key_action=None if memory is None else memory.action.cpu().numpy(),
        key_value=None if memory is None else memory.values.cpu().numpy(),
        key_used=None if high is None else high.used,
        **_separation(points, torch.as_tensor(action, device=agent.device), memory),
    )


def check_threshold(threshold: float) -> None:
    if threshold < 0:
        raise UserError(f"attention is a share from 0 to 1, so a threshold is not {threshold:g}")
    if not threshold < 1:
        raise UserError(f"attention is a share from 0 to 1, so it cannot exceed {threshold:g}")


class _High(NamedTuple):
    weight: Floats  # [T], the most that a key of the value gets
    action: Ints  # [T], whose key it is
    used: NDArray[np.bool_]  # [K]


class _Memory(NamedTuple):
    keys: Tensor  # [K, E]
    action: Tensor  # [K]
    values: Tensor  # [K]
    value: float

    @staticmethod
    def of(agent: Agent, value: float | None) -> _Memory:
        actions, count, size = agent.keys.shape
        values = agent.values
        wanted = values.max() if value is None else values[(values - value).abs().argmin()]
        action = torch.arange(actions, device=agent.device).repeat_interleave(count)
        return _Memory(agent.keys.reshape(-1, size), action, values.repeat(actions), float(wanted))

    def attention(self, agent: Agent, states: States) -> _High:
        attention = attention_of(agent, states)  # [T, A, N]
        at = int((agent.values == self.value).nonzero()[0])
        best = attention.argmax(-1)  # [T, A]
        used = (best[..., None] == np.arange(attention.shape[2])).any(0)
        return _High(attention[..., at].max(1), attention[..., at].argmax(1), used.ravel())


def _maps(
    points: Tensor, memory: _Memory | None, perplexity: float, seed: int, progress: Progress
) -> dict[str, Any]:
    together = points if memory is None else torch.cat([points, memory.keys])
    flat, share = pca(together)
    drawn = tsne(
        together, perplexity, seed, progress=lambda done, all_: progress("mapping", done, all_)
    )
    m, found = len(points), {"tsne": drawn.position.cpu().numpy(), "pca": flat.cpu().numpy()}
    return {
        **{name: position[:m] for name, position in found.items()},
        **{f"key_{name}": None if memory is None else p[m:] for name, p in found.items()},
        "pca_share": tuple(share.tolist()),
        "perplexity": drawn.perplexity,
        "divergence": drawn.divergence,
    }


def _separation(points: Tensor, action: Tensor, memory: _Memory | None) -> dict[str, Any]:
    found: dict[str, float | None] = dict.fromkeys(
        (
            *("nearest_key", "strongest_key", "nearest_key_of_value", "strongest_key_of_value"),
            *("keys_beside_states", "centroid", "centroid_most_frequent"),
        )
    )
    if memory is not None:
        largest = memory.values == memory.values.max()
        for some, name in ((torch.ones_like(largest), "key"), (largest, "key_of_value")):
            keys, of = memory.keys[some], memory.action[some]
            for way in (clusters.nearest, clusters.strongest):
                found[f"{way.__name__}_{name}"] = clusters.share(of[way(points, keys)], action)
        found["keys_beside_states"] = clusters.beside(memory.keys, points)
    if len(points) > 1:
        found["centroid"], found["centroid_most_frequent"] = clusters.centroids(points, action)
    return {
        **found,
        "silhouettes": clusters.silhouettes(points, action).cpu().numpy(),
        "most_frequent": clusters.most_frequent(action),
    }


def _frames(states: States, place: Ints) -> NDArray[np.uint8]:
    newest = states.frames[states.stacks[place, -1]].transpose(0, 2, 3, 1)  # [M, h, w, c]
    height, width = newest.shape[1:3]
    scale = min(1.0, _FRAME / max(height, width))
    size = (round(width * scale), round(height * scale))
    small = [cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in newest]
    found: NDArray[np.uint8] = np.stack(small)
    return found
