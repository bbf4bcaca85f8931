"""Where an agent looks: which places of a frame its values depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.correlation import correlation, ranks
from idqn.explain.gradients import gradient, integrated_gradients
from idqn.explain.perturbation import Perturbed, Scale, perturb, sarfa, squared_changes
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect

METHODS = ("perturbation", "sarfa", "gradient", "integrated-gradients")
Maps = NDArray[np.float32]  # [n, height, width]; never negative


@dataclass(frozen=True, eq=False, repr=False)
class Saliency(Result):
    """S states to show, and numbers from `counted` states, spread evenly over the games. Maps of
    perturbations are on the grid of masks, R x K places; the others are as large as the frame."""

    kind: ClassVar[str] = "saliency"
    frames: NDArray[np.uint8]  # [S, c, h, w], the newest of each observation
    screens: NDArray[np.uint8]  # [S, height, width, 3], what a person saw
    episode: NDArray[np.int64]  # [S]
    step: NDArray[np.int64]  # [S]
    action: NDArray[np.int64]  # [S], chosen
    q: NDArray[np.float32]  # [S, A]
    maps: dict[str, Maps]  # by method, of the chosen action
    action_maps: NDArray[np.float32]  # [S, A, R, K], perturbation's, of every action
    choices: NDArray[np.int64]  # [S, R, K], the action chosen with a place perturbed
    mask_sigma: float
    blur_sigma: float
    counted: int
    flipped: NDArray[np.float64]  # [counted], share of places that change the chosen action
    half_within: float | None
    """Share of places, median over states, that holds half of the perturbation map."""
    agreement: NDArray[np.float64]  # [methods, methods], mean rank correlation; NaN: no map varies


def saliency(
    agent: Agent,
    states: States | None = None,
    shown: int = 8,
    counted: int = 64,
    progress: Progress = silent,
) -> Saliency:
    """Maps of the chosen action by every method, and what other actions there would be."""
    if states is None:
        states = collect(agent, progress=progress)
    if len(states) == 0:
        raise UserError("there are no states to look at; collect at least one step of a game")
    if shown < 1 or counted < shown:
        raise UserError(
            f"saliency shows some of the states it counts, got shown={shown} of counted={counted}; "
            f"show at least 1 and count no fewer"
        )
    index = np.unique(np.linspace(0, len(states) - 1, counted).round().astype(np.int64))
    observations, actions = states.observations(index), states.action[index]
    found = perturb(agent, observations, progress=progress)
    maps = {}
    for done, method in enumerate(METHODS):
        progress("maps of the chosen actions", done, len(METHODS))
        maps[method] = _map(agent, observations, actions, method, found)
    flips = found.perturbed_choice != found.choice[:, None, None]
    few = choose_states(states.q[index], actions, shown)
    at = index[few]
    scale = Scale.of(*observations.shape[-2:])
    return Saliency(
        about(agent),
        frames=observations[few, -agent.spec.frame_shape[0] :],
        screens=np.stack([states.screen(int(i)) for i in at]),
        episode=states.episode[at],
        step=states.step[at],
        action=actions[few],
        q=found.q[few],
        maps={method: each[few] for method, each in maps.items()},
        action_maps=squared_changes(found)[few].transpose(0, 3, 1, 2),
        choices=found.perturbed_choice[few],
        mask_sigma=scale.mask_sigma,
        blur_sigma=scale.blur_sigma,
        counted=len(index),
        flipped=flips.mean((1, 2)),
        half_within=_half_within(maps["perturbation"]),
        agreement=_agreement([maps[method] for method in METHODS], (scale.rows, scale.columns)),
    )


def saliency_maps(
    agent: Agent, observations: NDArray[np.uint8], actions: NDArray[np.int64], method: str
) -> Maps:
    """For each observation [n, C, h, w] and the action that goes with it [n], how much each place
    matters to the action's value: [n, h, w], never negative."""
    found = _map(agent, observations, actions, method)
    height, width = observations.shape[-2:]
    large = [cv2.resize(one, (width, height), interpolation=cv2.INTER_LINEAR) for one in found]
    return np.array(large, np.float32).reshape(len(found), height, width)


def choose_states(
    q: NDArray[np.float32], actions: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Up to `count` of n states in the order of play, one from each part of it: of the half with
    the clearest decision, one whose action was shown least, and of these the clearest. In every
    fourth part it is the closest decision instead: there, something may change it."""
    best = np.sort(q, 1)
    clear = best[:, -1] - best[:, -2] if q.shape[1] > 1 else best[:, -1]
    shown = np.zeros(q.shape[1], np.int64)
    chosen = []
    for number, part in enumerate(np.array_split(np.arange(len(q)), min(count, len(q)))):
        wanted = clear[part] if number % 4 == 3 else -clear[part]
        half = part[np.argsort(wanted, kind="stable")][: -(-len(part) // 2)]
        chosen.append(half[np.argmin(shown[actions[half]])])
        shown[actions[chosen[-1]]] += 1
    return np.array(chosen, np.int64)


def rank_correlation(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Spearman's; NaN if all of one's values are equal."""
    one, other = ranks(a.ravel()), ranks(b.ravel())
    varied = np.ptp(one) > 0 and np.ptp(other) > 0
    return correlation(one, other) if varied else float("nan")


def _map(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    method: str,
    found: Perturbed | None = None,
) -> Maps:
    """As fine as the method gives it; `found` is what perturbations of these states did."""
    if method not in METHODS:
        raise UserError(f"there is no saliency method '{method}'; use {', '.join(METHODS)}")
    if method in ("gradient", "integrated-gradients"):
        explain = gradient if method == "gradient" else integrated_gradients
        over_channels: Maps = np.abs(explain(agent, observations, actions)).sum(1)
        return over_channels
    if found is None:
        found = perturb(agent, observations)
    if method == "sarfa":
        return sarfa(found, actions)
    return squared_changes(found)[np.arange(len(actions)), :, :, actions]


def _half_within(maps: Maps) -> float | None:
    flat = np.sort(maps.reshape(len(maps), -1).astype(np.float64), 1)[:, ::-1]
    flat = flat[flat.sum(1) > 0]
    if len(flat) == 0:
        return None
    reached = np.cumsum(flat, 1) >= flat.sum(1, keepdims=True) / 2
    return float(np.median((reached.argmax(1) + 1) / flat.shape[1]))


def _agreement(maps: list[Maps], grid: tuple[int, int]) -> NDArray[np.float64]:
    """Of places: what is finer than the grid of masks is averaged over its cells."""
    rows, columns = grid
    coarse = [
        [cv2.resize(one, (columns, rows), interpolation=cv2.INTER_AREA) for one in each]
        for each in maps
    ]
    found = np.eye(len(maps))
    for i, j in zip(*np.triu_indices(len(maps), 1), strict=True):
        each = [rank_correlation(a, b) for a, b in zip(coarse[i], coarse[j], strict=True)]
        known = [value for value in each if not np.isnan(value)]
        found[i, j] = found[j, i] = np.mean(known) if known else np.nan
    return found
