"""Keys are removed or exchanged, and the agent plays on: what does it lose?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.arena import Arena
from idqn.explain.intervals import Number, mean_of
from idqn.explain.operations import CONTROL, OPERATIONS, Operation, operated_q, scores
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect
from idqn.policy import best_action

MAX_STEPS = 400
_KEYS, _VALUES, _ACTIONS, _CONTROLS = 12, 4, 4, 2
_AT_ONCE = 96  # games
_CHUNK = 4096  # states


@dataclass(frozen=True, eq=False, repr=False)
class Surgery(Result):
    """V operations, the most harmful one first. Returns are of the first `max_steps` steps of E
    games, which begin alike for all."""

    kind: ClassVar[str] = "surgery"
    episodes: int
    max_steps: int
    states: int
    values: NDArray[np.float32]  # [N]
    what: tuple[str, ...]
    """As `operations` names them."""
    action: NDArray[np.int64]  # [V]; -1 where it is not about one
    value: NDArray[np.int64]  # [V], place among the values; -1 likewise
    partner: NDArray[np.int64]  # [V], the other action of an exchange; -1
    used: NDArray[np.float64]  # [V], share of states whose action attends most to what was changed
    attention: NDArray[np.float64]  # [V], mean attention to it, over its actions and all states
    changed: NDArray[np.float64]  # [V], share of the agent's states in which it now acts otherwise
    effect: NDArray[np.float64]  # [V, 3], on the return: mean and 95 % interval, over pairs
    returns: NDArray[np.float64]  # [V, E]
    unchanged: NDArray[np.float64]  # [E], the agent's own returns
    use: NDArray[np.int64]  # [A, N], states that attend most to this key of the action taken

    def __post_init__(self) -> None:
        if not set(self.what) <= set(OPERATIONS):
            raise ValueError(f"its changes are {set(self.what)}, which are not today's")


def surgery(
    agent: Agent,
    states: States | None = None,
    episodes: int | None = None,
    max_steps: int = MAX_STEPS,
    seed: int = EVALUATION_SEED,
    workers: int | None = None,
    progress: Progress = silent,
) -> Surgery:
    """Without a wish, 8 games of Atari, and 32 of others."""
    _ = agent.keys  # asked first: who has none need not play
    if episodes is None:
        episodes = 8 if agent.config.env.is_atari else 32
    if episodes < 1 or max_steps < 1:
        raise UserError(
            f"nothing can be lost in {episodes} games of {max_steps} steps; play at least 1 of each"
        )
    if states is None:
        states = collect(agent, seed=seed, progress=progress)
    if len(states) == 0:
        raise UserError("there are no states to explain: the rollout is empty; play some first")
    use, attention = key_use(states)
    operations = choose_operations(states, use, attention)
    returns = _play(agent, operations, episodes, max_steps, seed, workers, progress)
    own, others = returns[0], returns[1:]
    effect = np.stack([effect_on(own, its) for its in others])
    order = np.argsort(effect[:, 0], kind="stable")
    concerned = [_concerned(operations[i]) for i in order]

    def places(name: str) -> NDArray[np.int64]:
        found = [getattr(operations[i], name) for i in order]
        return np.array([-1 if place is None else place for place in found], np.int64)

    return Surgery(
        about(agent),
        episodes=episodes,
        max_steps=max_steps,
        states=len(states),
        values=agent.values.cpu().numpy(),
        what=tuple(operations[i].what for i in order),
        action=places("action"),
        value=places("value"),
        partner=places("partner"),
        used=np.array([use[mask].sum() / len(states) for mask in concerned]),
        attention=np.array(
            [attention[mask].sum() / max(1, mask.any(1).sum()) for mask in concerned]
        ),
        changed=changed_actions(agent, states, operations)[order],
        effect=effect[order],
        returns=others[order],
        unchanged=own,
        use=use,
    )


def effect_on(own: NDArray[np.float64], its: NDArray[np.float64]) -> Number:
    """Of returns [E], with an interval in which games of the same return, unchanged, are one:
    agents of few different games play most of them alike."""
    _, same = np.unique(own, return_inverse=True)
    return mean_of(its - own, cluster=same)


def key_use(states: States) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """[A, N]: states whose action attends most to this key; and the mean attention to it."""
    assert states.attention is not None  # whoever has keys has it
    use = np.zeros(states.attention.shape[1:], np.int64)
    np.add.at(use, (states.action, _top(states)), 1)
    return use, states.attention.mean(0, dtype=np.float64)


def choose_operations(
    states: States, use: NDArray[np.int64], attention: NDArray[np.float64]
) -> list[Operation]:
    """What is used most, first; and the keys that get the least attention: a key can be on top
    nowhere and yet have its share everywhere."""
    actions, keys = use.shape
    none = Operation.none(actions, keys)
    most = [i for i in np.argsort(-use, axis=None, kind="stable")[:_KEYS] if use.flat[i] > 0]
    top = [(int(i) // keys, int(i) % keys) for i in most]
    found: list[Operation] = []
    if keys > 1:
        found += [none.without_key(action, value) for action, value in top]
        by_value = use.sum(0)
        for value in np.argsort(-by_value, kind="stable")[:_VALUES].tolist():
            if by_value[value] > 0:
                found.append(none.without_value(value))
    if actions > 1:
        swapped = set()  # of two rivals, both may be on top elsewhere
        for action, value in top:
            rival = _rival(states, action, value)
            pair = frozenset((action, rival)), value
            if pair not in swapped:
                found.append(none.with_keys_swapped(action, rival, value))
            swapped.add(pair)
        by_action = np.argsort(-use.sum(1), kind="stable")
        taken = [a for a in by_action.tolist() if use[a].sum() > 0]
        found += [none.without_action(action) for action in taken[:_ACTIONS]]
        found.append(none.with_actions_swapped(int(by_action[0]), int(by_action[1])))
    if keys > 1:
        least = np.lexsort((attention.ravel(), use.ravel()))[:_CONTROLS].tolist()
        found += [none.without_key(i // keys, i % keys, CONTROL) for i in least]
    return found


def changed_actions(
    agent: Agent, states: States, operations: Sequence[Operation]
) -> NDArray[np.float64]:
    """[V], the share of states in which the action is another one."""
    changed = np.zeros(len(operations))
    values = agent.values
    for first in range(0, len(states), _CHUNK):
        embedding = torch.from_numpy(states.embedding[first : first + _CHUNK]).to(agent.device)
        score = scores(embedding, agent.keys)
        none = Operation.none(*score.shape[1:])
        own = best_action(_q(score, none, values))
        for i, operation in enumerate(operations):
            its = best_action(_q(score, operation, values))
            changed[i] += int((its != own).sum())
    return changed / len(states)


def _q(score: Tensor, operation: Operation, values: Tensor) -> Tensor:
    device = score.device
    return operated_q(score, operation.order.to(device), operation.removed.to(device), values)


def _play(
    agent: Agent,
    operations: Sequence[Operation],
    episodes: int,
    max_steps: int,
    seed: int,
    workers: int | None,
    progress: Progress,
) -> NDArray[np.float64]:
    """Returns [1 + V, E], of the agent as it is first: all in lock-step, one pass of the encoder
    for all."""
    keys, values = agent.keys, agent.values
    variants = [Operation.none(*keys.shape[:2]), *operations]
    order = torch.stack([variant.order for variant in variants]).to(agent.device)
    removed = torch.stack([variant.removed for variant in variants]).to(agent.device)

    def choose(
        observation: NDArray[np.uint8], games: NDArray[np.int64], steps: int
    ) -> NDArray[np.int64]:
        variant = torch.from_numpy(games // episodes).to(agent.device)
        score = scores(agent.look(observation, decode=False).embedding, keys)
        q = operated_q(score, order[variant], removed[variant], values)
        chosen: NDArray[np.int64] = best_action(q).cpu().numpy()
        return chosen

    count = len(variants) * episodes
    with Arena(agent.config.env, min(_AT_ONCE, count), seed, workers) as arena:
        games = arena.play(
            choose,
            np.tile(np.arange(episodes), len(variants)),
            max_steps,
            "playing on after surgery",
            progress,
        )
    return games.returns.reshape(len(variants), episodes)


def _top(states: States) -> NDArray[np.int64]:
    """[T], the key that the action taken attends to most."""
    assert states.attention is not None
    most: NDArray[np.int64] = states.attention[np.arange(len(states)), states.action].argmax(-1)
    return most


def _rival(states: States, action: int, value: int) -> int:
    """The action that is most often second where this key is the top one."""
    own = (states.action == action) & (_top(states) == value)
    q = states.q[own].copy()
    q[:, action] = -np.inf
    return int(np.bincount(q.argmax(1), minlength=q.shape[1]).argmax())


def _concerned(operation: Operation) -> NDArray[np.bool_]:
    """[A, N], the keys that were removed or put elsewhere."""
    moved = operation.order != Operation.none(*operation.order.shape).order
    found: NDArray[np.bool_] = (operation.removed | moved).numpy()
    return found
