"""Do decoded keys decide as keys do? The paper's Agreement (section "Evaluating the
reconstructions", Table 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.evaluate import bootstrap_interval
from idqn.explain.attention import entropy
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect

_SHARPER = (0.1, 0.01, 0.001)
_FLOATS = 2**26  # of images held at once: 256 MiB
_STATES = 256  # compared at once

Interval = tuple[float, float] | None  # 95 %; None of a single rollout


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Result):
    """Shares are in percent; their means and intervals are over rollouts."""

    kind: ClassVar[str] = "agreement"
    temperature: float
    exploration_factor: float
    """λ: both the agent's action and that of the images are argmax Q + λ·U."""
    states: int
    rollouts: NDArray[np.float64]  # [R], agreement
    lengths: NDArray[np.int64]  # [R], states
    mean: float
    interval: Interval
    random: float
    """Of uniformly random actions."""
    most_frequent: NDArray[np.float64]  # [R], of always taking the rollout's most frequent action
    most_frequent_mean: float
    most_frequent_interval: Interval
    advantage: float
    """Agreement less that of the most frequent action."""
    advantage_interval: Interval
    confusion: NDArray[np.int64]  # [A, A], states; the agent's action by that of the images
    cosine_range: float
    """Between the most and the least similar key image of an action, on average."""
    cosine_median: float
    flatness: float
    """Entropy of w' as a share of that of even weights, on average."""
    temperatures: tuple[float, ...]
    """The one asked for, and sharper ones."""
    temperature_means: tuple[float, ...]
    temperature_flatness: tuple[float, ...]


def agreement(
    agent: Agent,
    states: States | None = None,
    temperature: float = 1.0,
    exploration_factor: float | None = None,
    progress: Progress = silent,
) -> Agreement:
    """How often the agent's action is the one that its decoded keys suggest, by their cosine
    similarity to the state in pixels, over the whole stack of frames."""
    if not temperature > 0:
        raise UserError(f"the temperature of a softmax is above 0, got {temperature}")
    agent.decode(agent.keys[:1, :1])  # asked first: who has no keys or decoder need not play
    if states is None:
        states = collect(agent, progress=progress)
    if len(states) == 0:
        raise UserError("there are no states to explain: the rollout is empty; play some first")
    factor = exploration_factor
    if factor is None:
        factor = agent.config.agent.exploration_factor
    said = states.uncertainty
    assert said is not None  # whoever has keys has it
    own = (states.q + factor * said).argmax(1)  # [T]
    rollout = np.unique(states.episode, return_inverse=True)[1]  # [T], none of them empty
    cosine = similarity(agent, states, progress)  # [T, A, N]
    values = agent.values.cpu().numpy().astype(np.float64)
    temperatures = (temperature, *(t for t in _SHARPER if t < temperature))
    suggested, flatness = [], []
    for each in temperatures:
        weights = softmax(cosine / each)
        suggested.append(decide(weights, values, factor))
        flatness.append(float(entropy(weights).mean() / np.log(len(values))))
    shares = [by_rollout(own == action, rollout) for action in suggested]
    frequent = _most_frequent(own, rollout, cosine.shape[1])
    return Agreement(
        about(agent),
        temperature=temperature,
        exploration_factor=factor,
        states=len(states),
        rollouts=shares[0],
        lengths=np.bincount(rollout),
        mean=float(shares[0].mean()),
        interval=_interval(shares[0]),
        random=100 / cosine.shape[1],
        most_frequent=frequent,
        most_frequent_mean=float(frequent.mean()),
        most_frequent_interval=_interval(frequent),
        advantage=float((shares[0] - frequent).mean()),
        advantage_interval=_interval(shares[0] - frequent),
        confusion=_confusion(own, suggested[0], cosine.shape[1]),
        cosine_range=float(np.ptp(cosine, axis=2).mean()),
        cosine_median=float(np.median(cosine)),
        flatness=flatness[0],
        temperatures=temperatures,
        temperature_means=tuple(float(share.mean()) for share in shares),
        temperature_flatness=tuple(flatness),
    )


def similarity(agent: Agent, states: States, progress: Progress = silent) -> NDArray[np.float32]:
    """Cosine between each state and the image of each key, in pixels, [T, A, N]."""
    keys = agent.keys.flatten(0, 1)  # [A*N, E]
    size = int(np.prod(agent.observation_shape))
    group = max(1, _FLOATS // size)  # keys whose images are held at once
    found = np.zeros((len(states), len(keys)), np.float32)
    done, total = 0, len(states) * -(-len(keys) // group)
    for first in range(0, len(keys), group):
        images = _decoded(agent, keys[first : first + group])  # [group, D]
        for start in range(0, len(states), _STATES):
            part = slice(start, start + _STATES)
            observations = torch.from_numpy(states.observations(part)).to(agent.device)
            cosine = _unit(observations.flatten(1).float()) @ images.T
            found[part, first : first + group] = cosine.cpu().numpy()
            done += len(observations)
            progress("comparing states with decoded keys", done, total)
    return found.reshape(len(states), *agent.keys.shape[:2])


def softmax(score: NDArray[np.floating]) -> NDArray[np.float64]:
    """Over the last dimension."""
    raised = np.exp(score.astype(np.float64) - score.max(-1, keepdims=True))
    found: NDArray[np.float64] = raised / raised.sum(-1, keepdims=True)
    return found


def decide(
    weights: NDArray[np.float64], values: NDArray[np.float64], factor: float
) -> NDArray[np.int64]:
    """argmax Q' + λ·U' of weights [T, A, N] over keys, as the memory has it."""
    q = weights @ values  # [T, A]
    uncertainty = np.sqrt((weights * (values - q[..., None]) ** 2).sum(-1))
    return np.asarray((q + factor * uncertainty).argmax(-1), np.int64)


def by_rollout(agree: NDArray[np.bool_], rollout: NDArray[np.int64]) -> NDArray[np.float64]:
    """Percent of each."""
    return 100 * np.bincount(rollout, weights=agree) / np.bincount(rollout)


def _decoded(agent: Agent, keys: Tensor) -> Tensor:
    """Unit images [n, D]; few at a time, for decoders need many times their room."""
    parts = (keys[first : first + 32] for first in range(0, len(keys), 32))
    return torch.cat([_unit(agent.decode(part).flatten(1)) for part in parts])


def _unit(images: Tensor) -> Tensor:
    """Of length 1; black ones stay black, and like nothing."""
    length: Tensor = torch.linalg.vector_norm(images, dim=1, keepdim=True)
    return images / length.clamp(min=1e-12)


def _most_frequent(
    own: NDArray[np.int64], rollout: NDArray[np.int64], actions: int
) -> NDArray[np.float64]:
    counts = np.zeros((int(rollout.max()) + 1, actions), np.int64)
    np.add.at(counts, (rollout, own), 1)
    found: NDArray[np.float64] = 100 * counts.max(1) / counts.sum(1)
    return found


def _confusion(
    own: NDArray[np.int64], suggested: NDArray[np.int64], actions: int
) -> NDArray[np.int64]:
    counts = np.zeros((actions, actions), np.int64)
    np.add.at(counts, (own, suggested), 1)
    return counts


def _interval(samples: NDArray[np.float64]) -> Interval:
    return bootstrap_interval(samples) if len(samples) > 1 else None
