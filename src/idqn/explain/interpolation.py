"""From a key to a state that attends to it, in steps: what is decoded, and what the agent thinks.

h(λ) = (1 - λ)·key + λ·embedding of the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.keys import attention_of
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect
from idqn.networks import QNetwork
from idqn.networks.memory import KeyValueMemory

Pair = tuple[int, int, int]  # action, key, state


@dataclass(frozen=True, eq=False, repr=False)
class Interpolation(Result):
    """Of P pairs of a key and a state, in L steps."""

    kind: ClassVar[str] = "interpolation"
    mix: NDArray[np.float64]  # [L], λ from 0, the key, to 1, the state
    action: NDArray[np.int64]  # [P], of the key; the state chose it
    key: NDArray[np.int64]  # [P], its place among the action's keys
    value: NDArray[np.float32]  # [P], what the key stands for
    state: NDArray[np.int64]  # [P]
    episode: NDArray[np.int64]  # [P], of the state
    step: NDArray[np.int64]  # [P]
    images: NDArray[np.uint8]  # [P, L, C, h, w], decoded
    observations: NDArray[np.uint8]  # [P, C, h, w], what the state really was
    error: NDArray[np.float32]  # [P, L], mean |decoded - real|, in grey levels
    attention: NDArray[np.float32]  # [P, L], to the key
    q: NDArray[np.float32]  # [P, L, A]
    frame_channels: int
    """1 or, in colour, 3: a picture [C, h, w] is stacked frames of so many."""


def interpolation(
    agent: Agent,
    states: States | None = None,
    pairs: int = 6,
    steps: int = 9,
    progress: Progress = silent,
) -> Interpolation:
    """Walk from keys to states that attend to them, at first of different actions."""
    if pairs < 1 or steps < 2:
        raise UserError(f"interpolation needs 1 pair and 2 steps or more, got {pairs} and {steps}")
    keys = agent.keys  # [A, N, E]
    agent.decode(keys[0, 0])  # without a decoder, an error before any game is played
    states = collect(agent, progress=progress) if states is None else states
    found = choose_pairs(attention_of(agent, states), states.action, pairs)
    action, key, state = (np.array(part, np.int64) for part in zip(*found, strict=True))
    mix = np.linspace(0, 1, steps)
    share = torch.as_tensor(mix, dtype=keys.dtype, device=agent.device)[:, None]  # [L, 1]
    observations = states.observations(state)
    parts: dict[str, list[NDArray[np.float32]]] = {"error": [], "attention": [], "q": []}
    images = []
    assert isinstance(agent.network, QNetwork)
    head = agent.network.head
    assert isinstance(head, KeyValueMemory)
    for i, (a, n, t) in enumerate(found):
        embedding = torch.as_tensor(states.embedding[t], device=agent.device)
        walk = (1 - share) * keys[a, n] + share * embedding  # [L, E]
        decoded = agent.decode(walk)  # [L, C, h, w]
        with torch.no_grad():
            recall = head(walk)
        real = torch.as_tensor(observations[i], device=agent.device).float()
        images.append(decoded.round().byte().cpu().numpy())
        parts["error"].append((decoded - real).abs().mean((1, 2, 3)).cpu().numpy())
        parts["attention"].append(recall.attention[:, a, n].cpu().numpy())
        parts["q"].append(recall.q.cpu().numpy())
        progress("walking from keys to states", i + 1, len(found))
    return Interpolation(
        about(agent),
        mix=mix,
        action=action,
        key=key,
        value=agent.values.cpu().numpy()[key],
        state=state,
        episode=states.episode[state],
        step=states.step[state],
        images=np.stack(images),
        observations=observations,
        **{name: np.stack(part) for name, part in parts.items()},
        frame_channels=agent.spec.frame_shape[0],
    )


def choose_pairs(
    attention: NDArray[np.float32], chosen: NDArray[np.int64], count: int
) -> list[Pair]:
    """Keys that are the most attended of the chosen action, each with the state that attends to
    it most: first the one key of each action that is so most often, then the second ones, ...;
    among these, actions chosen more often come first."""
    moments = np.arange(len(chosen))
    best = attention[moments, chosen].argmax(-1)  # [T]
    pairs = []
    for a in np.unique(chosen):
        own = chosen == a
        often = np.bincount(best[own], minlength=attention.shape[2])  # [N]
        for rank, n in enumerate(np.argsort(-often, kind="stable")[: np.count_nonzero(often)]):
            of_key = moments[own & (best == n)]
            state = of_key[attention[of_key, a, n].argmax()]
            pairs.append((rank, -np.count_nonzero(own), int(a), int(n), int(state)))
    return [(a, n, t) for _, _, a, n, t in sorted(pairs)[:count]]
