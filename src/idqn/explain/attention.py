"""Attention maps: which values the agent expects of each action, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect

CERTAIN = 0.9  # a top weight above it


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Result):
    """Numbers over all states; maps along one whole episode, the longest."""

    kind: ClassVar[str] = "attention"
    values: NDArray[np.float32]  # [N], what the keys stand for
    states: int
    entropy: float
    """Of the chosen action's attention, in nats, on average."""
    relative_entropy: float
    """The same as a share of that of even attention, log N."""
    certain_share: float
    """Of states in which the chosen action's top weight is above `CERTAIN`."""
    use: NDArray[np.int64]  # [A, N], states in which it was the chosen action's top key
    keys_for_95: int
    """How few keys were the top one in 95 % of states."""
    episode: int
    finished: bool
    attention: NDArray[np.float16]  # [T, A, N]
    q: NDArray[np.float32]  # [T, A]
    uncertainty: NDArray[np.float32]  # [T, A]
    action: NDArray[np.int64]  # [T], the one taken
    reward: NDArray[np.float64]  # [T]
    moments: NDArray[np.int64]  # [S], places in T: some spread evenly, and these two
    most_uncertain: int
    """Where in T the chosen action's uncertainty is highest."""
    least_uncertain: int
    screens: NDArray[np.uint8]  # [S, height, width, 3], of the moments


def attention(
    agent: Agent,
    states: States | None = None,
    moments: int = 12,
    progress: Progress = silent,
) -> Attention:
    """How the agent attends to its keys in its own games; `moments` of the longest get a screen,
    besides the most and the least uncertain one."""
    actions, keys, _ = agent.keys.shape  # asked first: who has none need not play
    if moments < 1:
        raise UserError(f"attention is shown at 1 moment or more, got {moments}")
    if states is None:
        states = collect(agent, progress=progress)
    weights = attention_in(states)
    chosen = of_chosen(weights, states.action)
    use = key_use(chosen, states.action, actions)
    spread = float(entropy(chosen).mean())
    episode = int(np.bincount(states.episode).argmax())
    place = np.flatnonzero(states.episode == episode)
    action = states.action[place]
    said = states.uncertainty
    assert said is not None  # whoever has attention has it
    own = said[place, action]
    most, least = int(own.argmax()), int(own.argmin())
    spaced = np.linspace(0, len(place) - 1, min(moments, len(place))).round().astype(np.int64)
    shown = np.union1d(spaced, [most, least])
    return Attention(
        about(agent),
        values=agent.values.cpu().numpy(),
        states=len(states),
        entropy=spread,
        relative_entropy=spread / float(np.log(keys)),
        certain_share=float((chosen.max(1) > CERTAIN).mean()),
        use=use,
        keys_for_95=keys_carrying(use),
        episode=episode,
        finished=states.finished[episode],
        attention=weights[place].astype(np.float16),
        q=states.q[place],
        uncertainty=said[place],
        action=action,
        reward=states.reward[place],
        moments=shown,
        most_uncertain=most,
        least_uncertain=least,
        screens=np.stack([states.screen(int(i)) for i in place[shown]]),
    )


def attention_in(states: States) -> NDArray[np.float32]:
    """What the agent attended to in these states, [T, A, N]."""
    if len(states) == 0:
        raise UserError("there are no states to explain: the rollout is empty; play some first")
    if states.attention is None:
        raise UserError("these states have no attention: an agent without keys met them")
    return states.attention


def of_chosen(weights: NDArray[np.float32], action: NDArray[np.int64]) -> NDArray[np.float32]:
    """The chosen action's part of [T, A, N], [T, N]."""
    found: NDArray[np.float32] = weights[np.arange(len(action)), action]
    return found


def entropy(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """In nats, over the last dimension; what has no weight adds nothing."""
    weights = weights.astype(np.float64)
    logs = np.log(np.where(weights > 0, weights, 1))
    found: NDArray[np.float64] = -(weights * logs).sum(-1)
    return found


def key_use(
    chosen: NDArray[np.floating], action: NDArray[np.int64], actions: int
) -> NDArray[np.int64]:
    """How often each key was the chosen action's top one, [A, N]."""
    use = np.zeros((actions, chosen.shape[1]), np.int64)
    np.add.at(use, (action, chosen.argmax(1)), 1)
    return use


def keys_carrying(use: NDArray[np.int64], share: float = 0.95) -> int:
    """How few keys make up this share of all use."""
    most_used_first = np.sort(use, axis=None)[::-1].cumsum()
    # in whole numbers of uses: a share of a sum in floats may miss it by rounding
    wanted = np.ceil(round(share * float(use.sum()), 9))
    return int(np.searchsorted(most_used_first, wanted)) + 1
