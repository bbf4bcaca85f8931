"""The paper's third adversarial example: the pixel-wise maximum of several states, which is no
state of the game. Does the agent see in it each of the states it is made of?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.perturbation import Scale, perturb, squared_changes
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.saliency import rank_correlation
from idqn.explain.states import States, about, collect

SOURCES = 4


@dataclass(frozen=True, eq=False, repr=False)
class PixelMax(Result):
    """K states with different chosen actions and their maximum; and the same of `groups` groups,
    drawn at random. Of maps, `correlation[g, i, j]` is between the map of source i's action in the
    maximum and that of source j's action in source j; of the first groups alone."""

    kind: ClassVar[str] = "pixel-max"
    frames: NDArray[np.uint8]  # [K + 1, c, h, w], the newest of each; the maximum is last
    screens: NDArray[np.uint8]  # [K, height, width, 3]
    episode: NDArray[np.int64]  # [K]
    step: NDArray[np.int64]  # [K]
    action: NDArray[np.int64]  # [K + 1], chosen
    q: NDArray[np.float32]  # [K + 1, A]
    attention: NDArray[np.float32] | None  # [K + 1, A, N]
    values: NDArray[np.float32] | None  # [N]
    maps: NDArray[np.float32]  # [2, K, R, C], of each source's action: in it, in the maximum
    groups: int
    ranks: NDArray[np.int64]  # [G, K], of the sources' actions by Q in the maximum; 0 is the best
    source_ranks: NDArray[np.int64]  # [G, K, K], of all these actions in source i: the control
    kept: NDArray[np.float64] | None  # [G, K, K], 1 - distance of attention to action i: maximum, j
    correlation: NDArray[np.float64]  # [g, K, K], NaN where a map does not vary


def pixel_max(
    agent: Agent,
    states: States | None = None,
    sources: int = SOURCES,
    groups: int = 64,
    mapped: int = 8,
    seed: int = 0,
    progress: Progress = silent,
) -> PixelMax:
    """The first group is of the states with the clearest decisions; maps are made of `mapped`
    groups."""
    if states is None:
        states = collect(agent, progress=progress)
    members = _groups(states, sources, groups, seed)  # [G, K]
    count = members.shape[1]
    maxima = np.stack([maximum(states.observations(group)) for group in members])
    out = agent.look(maxima, decode=False)
    q, chosen = out.q.cpu().numpy(), agent.choose(out)
    actions = states.action[members]  # [G, K]
    attention = out.attention.cpu().numpy() if "attention" in out else None
    kept, shown_attention = None, None
    if attention is not None and states.attention is not None:
        kept = np.stack(
            [
                _overlaps(attention[g], states.attention[group], actions[g])
                for g, group in enumerate(members)
            ]
        )
        shown_attention = np.concatenate([states.attention[members[0]], attention[:1]])
    maps = []
    for g, group in enumerate(members[:mapped]):
        maps.append(_maps(agent, states.observations(group), maxima[g], actions[g]))
        progress("maps of maxima", g + 1, min(mapped, len(members)))
    channels = agent.spec.frame_shape[0]
    first = members[0]
    return PixelMax(
        about(agent),
        frames=np.concatenate([states.observations(first), maxima[:1]])[:, -channels:],
        screens=np.stack([states.screen(int(i)) for i in first]),
        episode=states.episode[first],
        step=states.step[first],
        action=np.append(states.action[first], chosen[0]),
        q=np.concatenate([states.q[first], q[:1]]),
        attention=shown_attention,
        values=None if shown_attention is None else agent.values.cpu().numpy(),
        maps=maps[0],
        groups=len(members),
        ranks=_ranks(q, actions),
        source_ranks=_ranks(states.q[members], actions[:, None]),
        kept=kept,
        correlation=np.array(
            [
                [
                    [rank_correlation(each[1, i], each[0, j]) for j in range(count)]
                    for i in range(count)
                ]
                for each in maps
            ]
        ),
    )


def _ranks(q: NDArray[np.float32], actions: NDArray[np.int64]) -> NDArray[np.int64]:
    """[..., K], places of actions [..., K] when all are sorted by Q [..., A]; 0 is the best."""
    order = np.argsort(np.argsort(-q, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.take_along_axis(order, actions, -1)


def maximum(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of each pixel of each frame, over observations [n, C, h, w]."""
    found: NDArray[np.uint8] = observations.max(0)
    return found


def _groups(states: States, sources: int, groups: int, seed: int) -> NDArray[np.int64]:
    """[G, K], places of states with different actions; the first of the clearest decisions."""
    if sources < 2 or groups < 1:
        raise UserError(f"a maximum is of at least 2 states, got {sources} in {groups} groups")
    taken, counts = np.unique(states.action, return_counts=True)
    if len(taken) < 2:
        raise UserError(
            f"pixel-max needs states with different actions, but this agent takes "
            f"{len(taken)} in {len(states)} states of its games; choose an agent that plays, or "
            f"another --seed"
        )
    rng = np.random.default_rng(seed)
    count = min(sources, len(taken))
    usual = taken[np.argsort(-counts, kind="stable")][:count]
    best = np.sort(states.q, 1)
    clear = best[:, -1] - best[:, -2]
    where = {action: np.flatnonzero(states.action == action) for action in taken}
    found = [[where[a][np.argmax(clear[where[a]])] for a in usual]]
    for _ in range(groups - 1):
        found.append([rng.choice(where[a]) for a in rng.choice(taken, count, replace=False)])
    return np.array(found, np.int64)


def _overlaps(
    maximum: NDArray[np.float32], sources: NDArray[np.float32], actions: NDArray[np.int64]
) -> NDArray[np.float64]:
    """[K, K], 1 - total variation between the attention to action i in the maximum [A, N] and in
    source j [K, A, N]."""
    of = maximum[actions][:, None].astype(np.float64)  # [K, 1, N]
    found: NDArray[np.float64] = 1 - 0.5 * np.abs(of - sources[:, actions].swapaxes(0, 1)).sum(-1)
    return found


def _maps(
    agent: Agent,
    sources: NDArray[np.uint8],
    maximum: NDArray[np.uint8],
    actions: NDArray[np.int64],
) -> NDArray[np.float32]:
    """[2, K, R, C]: of each source's action, in the source and in the maximum."""
    scale = Scale.of(*agent.observation_shape[1:])
    changes = squared_changes(perturb(agent, np.concatenate([sources, maximum[None]]), scale))
    own = changes[np.arange(len(sources)), :, :, actions]
    return np.stack([own, changes[-1][:, :, actions].transpose(2, 0, 1)])
