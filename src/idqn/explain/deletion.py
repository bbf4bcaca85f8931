"""Does a saliency map know what matters? Deletion and insertion, after Petsiuk et al. (2018),
"RISE: Randomized Input Sampling for Explanation of Black-box Models".

Pixels are ranked by a map. Deletion puts the blurred frame in place of the first 5, 10, ... 100 %
of them, insertion begins with the blurred frame and puts the first of them back. Of a map that
knows, a little deletion changes much, and a little insertion brings much back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.explain.perturbation import Scale, blurred
from idqn.explain.progress import Progress, silent
from idqn.look import Look

CURVES = ("deletion", "insertion")
FRACTIONS = np.linspace(0, 1, 21)
_PIXELS_AT_ONCE = 2**22  # of changed frames, so that memory stays bounded


class Kept(NamedTuple):
    """What is left of an agent's say of n states, at each of the F fractions."""

    change: NDArray[np.float64]  # [2 curves, n, F], |Q(changed, a) - Q(state, a)|
    same: NDArray[np.bool_]  # [2 curves, n, F], a is still the greedy action


def delete_and_insert(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    maps: Mapping[str, NDArray[np.floating]],
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Kept]:
    """By the name of the map [n, h, w]. Which of equal pixels comes first is drawn."""
    n, channels, height, width = observations.shape
    states = torch.as_tensor(observations, device=agent.device).float()
    blur = blurred(states, Scale.of(height, width).blur_sigma)
    chosen = torch.as_tensor(actions, device=agent.device)
    counts = torch.from_numpy(np.rint(FRACTIONS * height * width)).to(agent.device)  # [F]
    at_once = max(1, _PIXELS_AT_ONCE // (channels * height * width))
    rng = np.random.default_rng(seed)
    q = _say(agent, states)[0].gather(1, chosen[:, None])  # [n, 1]
    kept = {}
    for number, (name, map_) in enumerate(maps.items()):
        rank = torch.from_numpy(ranks(map_.reshape(n, -1), rng)).to(agent.device)
        first = rank.view(n, 1, height, width) < counts[:, None, None]  # [n, F, h, w]
        first = torch.stack([first, ~first]).flatten(0, 2)  # [2*n*F, h, w], where to blur
        which = torch.arange(n, device=agent.device).repeat_interleave(len(FRACTIONS)).repeat(2)
        said = []
        for mask, i in zip(torch.split(first, at_once), torch.split(which, at_once), strict=True):
            found, greedy = _say(agent, torch.where(mask[:, None], blur[i], states[i]))
            value = found.gather(1, chosen[i, None])
            said.append(torch.cat([(value - q[i]).abs(), (greedy == chosen[i])[:, None]], 1))
        change, same = torch.cat(said).T.reshape(2, 2, n, -1).double().cpu().numpy()
        kept[name] = Kept(change, same > 0)
        progress("deleting and inserting", number + 1, len(maps))
    return kept


def ranks(values: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.int64]:
    """The place of each of the last axis, from 0 for the largest; of equal ones, by lot."""
    lot = rng.random(values.shape)
    order = np.lexsort((lot, -values), axis=-1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(values.shape[-1]), -1)
    return place


def area(curve: NDArray[np.floating]) -> NDArray[np.float64]:
    """Under curves [..., F] over the fractions: 1 for a curve that is 1 everywhere."""
    found: NDArray[np.float64] = np.trapezoid(curve, FRACTIONS, axis=-1)
    return found


def random_pixels(n: int, height: int, width: int, seed: int) -> NDArray[np.float32]:
    """Maps that know nothing, pixel by pixel."""
    return np.random.default_rng(seed).random((n, height, width), np.float32)


def random_places(n: int, height: int, width: int, seed: int) -> NDArray[np.float32]:
    """Maps that know nothing, in spots as wide as the perturbation's masks."""
    noise = np.random.default_rng(seed).normal(size=(n, height, width)).astype(np.float32)
    spots = blurred(torch.from_numpy(noise), Scale.of(height, width).mask_sigma)
    found: NDArray[np.float32] = (spots - spots.amin((1, 2), keepdim=True)).numpy()
    return found


def detail(observations: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Maps that know the frames and nothing of the agent: how much blurring changes each pixel."""
    states = torch.from_numpy(observations).float()
    change = blurred(states, Scale.of(*observations.shape[-2:]).blur_sigma) - states
    found: NDArray[np.float32] = change.abs().sum(1).numpy()
    return found


def _say(agent: Agent, states: Tensor) -> tuple[Tensor, Tensor]:
    """Of states in float pixels [B, C, h, w]: Q [B, A] and the greedy action [B]."""
    with torch.no_grad():
        out = agent.network(states, False)
    parts = {"q": out.q} if out.head_q is None else {"q": out.q, "head_q": out.head_q}
    return out.q, torch.from_numpy(agent.choose(Look(agent.name, parts))).to(agent.device)
