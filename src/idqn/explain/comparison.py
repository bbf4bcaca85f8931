"""What two agents of one game attend to, side by side: with diversity loss and without, say."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.config import Config, field_names, to_dict
from idqn.errors import UserError
from idqn.explain.attention import (
    CERTAIN,
    attention_in,
    entropy,
    key_use,
    keys_carrying,
    of_chosen,
)
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect

ROWS = 200  # at most, of states shown


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """In dicts and pairs, "a" and the first are the agent, "b" and the second the other."""

    kind: ClassVar[str] = "comparison"
    other: dict[str, Any]
    """What `about` says, of the other."""
    differences: tuple[tuple[str, str, str], ...]
    """Fields of the config that differ, but how it was run; as JSON."""
    values: NDArray[np.float32]  # [N], what the keys stand for
    rows_action: NDArray[np.int64]  # [S], that both took, each in a state of its own
    rows: dict[str, NDArray[np.float32]]  # [S, N], attention of that action
    mean: dict[str, NDArray[np.float32]]  # [A, N], attention of all actions in all own states
    use: dict[str, NDArray[np.int64]]  # [A, N], states in which it was the chosen action's top key
    numbers: dict[str, dict[str, float]]
    """What `measured` says of each."""


def comparison(
    agent: Agent,
    other: Agent,
    states: States | None = None,
    other_states: States | None = None,
    progress: Progress = silent,
) -> Comparison:
    """How two agents of one game attend to their keys, each in games of its own."""
    check_comparable(agent, other)
    met = {
        "a": collect(agent, progress=progress) if states is None else states,
        "b": collect(other, progress=progress) if other_states is None else other_states,
    }
    weights = {name: attention_in(each) for name, each in met.items()}
    chosen = {name: of_chosen(weights[name], each.action) for name, each in met.items()}
    actions = len(agent.action_names)
    places = paired(met["a"].action, met["b"].action, ROWS)
    use = {name: key_use(chosen[name], each.action, actions) for name, each in met.items()}
    return Comparison(
        about(agent),
        other=dataclasses.asdict(about(other)),
        differences=differences(agent.config, other.config),
        values=agent.values.cpu().numpy(),
        rows_action=met["a"].action[places[0]],
        rows={name: chosen[name][at] for name, at in zip(("a", "b"), places, strict=True)},
        mean={name: each.mean(0) for name, each in weights.items()},
        use=use,
        numbers={name: measured(chosen[name], use[name]) for name in met},
    )


def measured(chosen: NDArray[np.float32], use: NDArray[np.int64]) -> dict[str, float]:
    """Of the attention of chosen actions [T, N] and the use of keys [A, N]."""
    overlap, norm = row_products(chosen)
    share = use[use > 0] / use.sum()
    return {
        "states": len(chosen),
        "overlap": overlap,
        "norm": norm,
        "entropy": float(entropy(chosen).mean()),
        "relative_entropy": float(entropy(chosen).mean() / np.log(chosen.shape[1])),
        "certain_share": float((chosen.max(1) > CERTAIN).mean()),
        "keys_used": int((use > 0).sum()),
        "keys_for_95": keys_carrying(use),
        "use_entropy": float(entropy(share)),
    }


def row_products(rows: NDArray[np.floating]) -> tuple[float, float]:
    """Of AAᵀ, which the diversity loss wants to be the identity: the mean beside the diagonal (of
    one row alone, nothing: 0) and on it; without making it."""
    rows = rows.astype(np.float64)
    count, diagonal = len(rows), float((rows**2).sum())
    everything = float((rows.sum(0) ** 2).sum())
    beside = (everything - diagonal) / (count * (count - 1)) if count > 1 else 0.0
    return beside, diagonal / count


def paired(
    first: NDArray[np.int64], second: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places with the same actions in both, action by action and evenly spread in time: of each
    action as many as the one who took it less often has, all shortened alike to `most`."""
    groups = []
    for action in np.intersect1d(first, second):
        own = [np.flatnonzero(taken == action) for taken in (first, second)]
        groups.append((own, min(len(places) for places in own)))
    total = sum(count for _, count in groups)
    found: tuple[list[Any], list[Any]] = ([], [])
    for own, count in groups:
        kept = count if total <= most else max(1, count * most // total)
        for places, into in zip(own, found, strict=True):
            into.append(places[np.linspace(0, len(places) - 1, kept).round().astype(np.int64)])
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *found[0]]), np.concatenate([empty, *found[1]])


def differences(first: Config, second: Config) -> tuple[tuple[str, str, str], ...]:
    """Fields that differ, and both values as JSON; not `system`, which is how a run is run."""
    a, b = to_dict(first), to_dict(second)
    found = []
    for dotted in field_names():
        group, name = dotted.split(".")
        if group != "system" and a[group][name] != b[group][name]:
            found.append((dotted, json.dumps(a[group][name]), json.dumps(b[group][name])))
    return tuple(found)


def check_comparable(agent: Agent, other: Agent) -> None:
    """That there is anything to compare."""
    said = []
    for name, each in (("first", agent), ("second", other)):
        try:
            _, keys, _ = each.keys.shape
        except UserError as error:
            raise UserError(f"there is nothing to compare with the {name} run: {error}") from error
        values = each.values.cpu().numpy()
        said.append(
            f"{each.config.env.id}, actions {', '.join(each.action_names)}, {keys} keys for each, "
            f"with values from {values[0]:g} to {values[-1]:g}"
        )
    same = (
        agent.config.env.id == other.config.env.id
        and agent.action_names == other.action_names
        and agent.values.shape == other.values.shape
        and bool(np.allclose(agent.values.cpu().numpy(), other.values.cpu().numpy()))
    )
    if not same:
        raise UserError(
            "attention can be compared between runs of the same game, with the same actions and "
            f"the same keys and values; the first has {said[0]}; the second has {said[1]}"
        )
