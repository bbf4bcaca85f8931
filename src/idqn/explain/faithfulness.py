"""What to believe: are saliency maps and decoded keys about this agent, and are they right?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import decoding, deletion, sanity
from idqn.explain.deletion import FRACTIONS, Kept
from idqn.explain.perturbation import Scale
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.saliency import METHODS, saliency_maps
from idqn.explain.states import States, about, collect

Floats = NDArray[np.float64]

RANDOM = ("random pixels", "random spots")
RIVALS = (*RANDOM, "picture detail")
MEASURES = ("Q", "action")
DRAWS = 4  # of each kind of random map, for each state
SANITY_STATES = 6
DECODED_STATES = 128
RESAMPLES = 2_000
SAME_BELOW = 0.5
"""A correlation with the explanation of a redrawn network that is no less means: failed."""


@dataclass(frozen=True, eq=False, repr=False)
class Faithfulness(Result):
    """Numbers with an interval are [..., 3]: mean, and ends of its 95 % bootstrap interval over
    states or keys. Without keys, or a decoder, what needs them is None."""

    kind: ClassVar[str] = "faithfulness"
    states: int
    blur_sigma: float
    """Of the frame that deletion puts in place of the state, in pixels."""
    methods: tuple[str, ...]
    rivals: tuple[str, ...]
    fractions: Floats  # [F], of pixels deleted or inserted
    largest_change: float
    """Of Q, the largest of any map and fraction; mean over states: the unit of what is kept."""
    kept: Floats
    """[2 measures, 2 curves, methods then rivals, F, 3]: 1 - |Q(changed) - Q(state)| in that unit,
    for the action taken; and the share of states in which it is still the greedy action."""
    areas: Floats  # [2 measures, 2 curves, methods then rivals, 3], under those curves
    gains: Floats
    """[2 measures, 2 curves, methods, rivals, 3]: how much better the area is, of the same states:
    for deletion smaller, for insertion larger."""
    sanity_states: int
    depths: tuple[str, ...]
    """What was drawn anew."""
    map_correlation: Floats  # [depths, methods, 3], Spearman's, of maps before and after
    decoding_error: dict[str, Floats] | None
    """In grey levels, mean over pixels, [3]; of decoded states and of what knows no state."""
    keys: int | None = None
    attended_keys: int | None = None
    """Those that are the most attended of the action taken, in any state."""
    key_moves: Floats | None = None
    """[2 all and attended, 3]: the way from where training began, in lengths of the key there."""
    picture_correlation: dict[str, Floats] | None = None
    """By what they are compared with, [2 all and attended, 3]; pictures minus the mean image."""
    cycle_error: dict[str, Floats] | None = None
    """||Enc(Dec(x)) - x|| over the mean distance of x to their mean, [3]."""
    cycle_returns: float | None = None
    """Share of keys that are the nearest key to their own Enc(Dec(key))."""

    def beats(self, method: str, rivals: tuple[str, ...] = RANDOM, measure: str = "Q") -> bool:
        """Every rival, in deletion and in insertion, with intervals that leave out 0."""
        against = [self.rivals.index(rival) for rival in rivals]
        low = self.gains[MEASURES.index(measure), :, self.methods.index(method), against, 1]
        return bool((low > 0).all())

    def verdict(self, method: str) -> str:
        """Whether its map is another one when all layers are drawn anew."""
        _, low, high = self.map_correlation[-1, self.methods.index(method)]
        if high < SAME_BELOW:
            return "passes"
        return "fails" if low >= SAME_BELOW else "unclear"


def faithfulness(
    agent: Agent,
    states: States | None = None,
    count: int = 24,
    seed: int = 0,
    progress: Progress = silent,
) -> Faithfulness:
    """Curves of `count` states, spread evenly over the games, and checks of all there is."""
    if count < 2:
        raise UserError(f"intervals over states need at least 2 of them, got count = {count}")
    states = collect(agent, progress=progress) if states is None else states
    index = spread(len(states), count)
    observations, actions = states.observations(index), states.action[index]
    maps = _maps(agent, observations, actions, "mapping states", progress)
    kept, unit = _kept(agent, observations, actions, maps, seed, progress)
    areas = deletion.area(kept)  # [2, 2, M, n]
    better = np.array([-1, 1])[:, None, None, None]  # of the 2 curves
    count_methods = len(METHODS)
    gains = areas[:, :, :count_methods, None] - areas[:, :, None, count_methods:]
    few = spread(len(index), SANITY_STATES)
    few_maps = {method: map_[few] for method, map_ in maps.items()}
    depths, map_correlation = _map_correlation(
        agent, observations[few], actions[few], few_maps, seed, progress
    )
    progress("decoding", 0, 1)
    return Faithfulness(
        about(agent),
        states=len(index),
        blur_sigma=Scale.of(*observations.shape[-2:]).blur_sigma,
        methods=METHODS,
        rivals=RIVALS,
        fractions=FRACTIONS,
        largest_change=unit,
        kept=with_interval(np.moveaxis(kept, 3, -1)),
        areas=with_interval(areas),
        gains=with_interval(gains * better),
        sanity_states=len(few),
        depths=depths,
        map_correlation=map_correlation,
        decoding_error=_decoding_error(agent, states),
        **_key_checks(agent, states, seed),
    )


def spread(total: int, count: int) -> NDArray[np.int64]:
    """So many of them, or all, at even distances."""
    if total == 0:
        raise UserError("there are no states to explain; let the agent play at least one step")
    return np.unique(np.linspace(0, total - 1, count).round().astype(np.int64))


def with_interval(samples: NDArray[Any]) -> Floats:
    """Of samples [..., n], the mean and its 95 % percentile bootstrap interval [..., 3]; all of
    them are resampled alike."""
    n = samples.shape[-1]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES)  # [R, n]
    means = samples @ drawn.T / n
    return np.stack([samples.mean(-1), *np.quantile(means, [0.025, 0.975], axis=-1)], -1)


def _maps(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    doing: str,
    progress: Progress,
) -> dict[str, NDArray[np.float32]]:
    maps = {}
    for number, method in enumerate(METHODS):
        progress(doing, number, len(METHODS))
        maps[method] = saliency_maps(agent, observations, actions, method)
    return maps


def _kept(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    maps: Mapping[str, NDArray[np.floating]],
    seed: int,
    progress: Progress,
) -> tuple[Floats, float]:
    """[2 measures, 2 curves, methods then rivals, n, F], and the unit of the first measure."""
    n, _, height, width = observations.shape
    tried: dict[str, NDArray[np.floating]] = dict(maps)
    for draw in range(DRAWS):
        own = seed * DRAWS + draw
        tried[f"random pixels {draw}"] = deletion.random_pixels(n, height, width, own)
        tried[f"random spots {draw}"] = deletion.random_places(n, height, width, own)
    tried["picture detail"] = deletion.detail(observations)
    found = deletion.delete_and_insert(agent, observations, actions, tried, seed, progress)
    for name in RANDOM:
        draws = [found.pop(f"{name} {draw}") for draw in range(DRAWS)]
        found[name] = Kept(
            np.mean([kept.change for kept in draws], 0), np.mean([kept.same for kept in draws], 0)
        )
    ordered = [found[name] for name in (*METHODS, *RIVALS)]
    change = np.stack([kept.change for kept in ordered], 1)  # [2 curves, M, n, F]
    unit = float(change.max((0, 1, 3)).mean())
    same = np.stack([kept.same for kept in ordered], 1)
    # an agent that says the same of every picture keeps everything
    return np.stack([1 - change / (unit or 1.0), same]), unit


def _map_correlation(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    maps: Mapping[str, NDArray[np.float32]],
    seed: int,
    progress: Progress,
) -> tuple[tuple[str, ...], Floats]:
    depths, found = [], []
    for depth, other in sanity.redrawn(agent, seed):
        redrawn = _maps(other, observations, actions, f"drawing {depth} anew", progress)
        depths.append(depth)
        found.append([sanity.rank_correlation(maps[m], redrawn[m]) for m in METHODS])
    return tuple(depths), with_interval(np.array(found))


def _key_checks(agent: Agent, states: States, seed: int) -> dict[str, Any]:
    """Of an agent with keys."""
    if states.attention is None:
        return {}
    here = np.arange(len(states))
    most = states.attention[here, states.action].argmax(-1)
    attended = np.unique(states.action * states.attention.shape[2] + most)  # places in A*N keys

    def of_all_and_attended(samples: Floats) -> Floats:
        return np.stack([with_interval(samples), with_interval(samples[attended])])

    checks: dict[str, Any] = {
        "keys": int(np.prod(states.attention.shape[1:])),
        "attended_keys": len(attended),
        "key_moves": of_all_and_attended(decoding.key_moves(agent)),
    }
    if decoding.has_decoder(agent):
        pictures = decoding.key_pictures(agent, seed)._asdict()
        keys = decoding.cycle(agent, agent.keys.flatten(0, 1))
        some = states.embedding[spread(len(states), DECODED_STATES)]
        of_keys = of_all_and_attended(keys.error)
        checks |= {
            "picture_correlation": {
                name.replace("_", " "): of_all_and_attended(found)
                for name, found in pictures.items()
            },
            "cycle_error": {
                "states": with_interval(decoding.cycle(agent, torch.from_numpy(some)).error),
                "all keys": of_keys[0],
                "attended keys": of_keys[1],
            },
            "cycle_returns": float(keys.returned.mean()),
        }
    return checks


def _decoding_error(agent: Agent, states: States) -> dict[str, Floats] | None:
    if not decoding.has_decoder(agent):
        return None
    some = states.observations(spread(len(states), DECODED_STATES))
    errors = decoding.decoding_error(agent, some)
    return {name: with_interval(error) for name, error in errors.items()}
