"""What is lost from an embedding to its picture and back, and what pictures of keys depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.explain.correlation import unit
from idqn.explain.sanity import first_agent, redraw
from idqn.networks import members

Floats = NDArray[np.float64]

_PIXELS_AT_ONCE = 2**22  # of pictures, so that memory stays bounded


class KeyPictures(NamedTuple):
    """How pictures of K keys correlate with others, each as a departure from the mean image."""

    as_it_began: Floats  # [K], of the same key before training
    random_keys: Floats  # [K], of keys drawn anew, as widely spread; mean of K
    other_keys: Floats  # [K], of the other keys of the agent; mean of K - 1
    random_decoder: Floats  # [K], of the same key by a new decoder


def key_pictures(agent: Agent, seed: int) -> KeyPictures:
    """Of all keys, actions first. The decoder is the trained one but for `random_decoder`."""
    keys = agent.keys.flatten(0, 1)  # [K, E]
    drawn = np.random.default_rng(seed).normal(0, float(keys.std()), keys.shape)
    own = departures(agent, keys)
    random = departures(agent, torch.from_numpy(drawn).float())
    began = departures(agent, first_agent(agent).keys.flatten(0, 1))
    elsewhere = departures(redraw(agent, ("decoder.",), seed), keys)
    count = len(keys)
    among = own @ own.T
    np.fill_diagonal(among, 0)
    return KeyPictures(
        as_it_began=(own * began).sum(1),
        random_keys=(own @ random.T).mean(1),
        other_keys=among.sum(1) / max(1, count - 1),
        random_decoder=(own * elsewhere).sum(1),
    )


def departures(agent: Agent, embeddings: Tensor) -> Floats:
    """Decoded [K, pixels], minus the mean image, such that products are correlations."""
    pictures = _in_chunks(agent, agent.decode, embeddings)
    return unit((pictures - _mean_image(agent)).flatten(1).double().cpu().numpy())


def seen_by_attention(keys: Tensor, length: float) -> Tensor:
    """What attention can tell of keys [A, N, E]. It stays as it is when one vector is added to all
    keys of an action, so only what sets a key apart from their mean is left; at the length of
    states' embeddings, which is what the decoder knows."""
    apart = keys - keys.mean(1, keepdim=True)
    return length * torch.nn.functional.normalize(apart, dim=-1)


def key_moves(agent: Agent) -> Floats:
    """How far each key [A*N] is from where training began, in lengths of the key there."""
    began = first_agent(agent).keys
    moves: Floats = ((agent.keys - began).norm(dim=-1) / began.norm(dim=-1)).double().cpu().numpy()
    return moves.ravel()


def has_decoder(agent: Agent) -> bool:
    return members(agent.network)[0].decoder is not None


def decoding_error(agent: Agent, observations: NDArray[np.uint8]) -> dict[str, Floats]:
    """Mean |picture - state| over the pixels of each state [n], in grey levels: for what the agent
    decodes, and for pictures that are the same of every state."""
    states = torch.as_tensor(observations, device=agent.device).float()
    decoded = _in_chunks(agent, lambda some: agent.decode(_encode(agent, some)), states)
    pictures = {
        "decoded state": decoded,
        "mean image": _mean_image(agent),
        "mean of these states": states.mean(0),
    }
    return {
        name: (picture - states).abs().flatten(1).mean(1).double().cpu().numpy()
        for name, picture in pictures.items()
    }


class Cycle(NamedTuple):
    """From K embeddings to their pictures, and back."""

    error: Floats  # [K], ||Enc(Dec(x)) - x|| over the mean distance of x to their mean
    returned: NDArray[np.bool_]  # [K], the nearest of them to Enc(Dec(x)) is x


def cycle(agent: Agent, embeddings: Tensor) -> Cycle:
    """Of embeddings [K, E]; pictures are clamped to pixels, but not rounded."""
    x = embeddings.to(agent.device)
    back = _in_chunks(agent, lambda some: _encode(agent, agent.decode(some)), x)
    wide = (x - x.mean(0)).norm(dim=-1).mean().clamp(min=1e-12)
    error = (back - x).norm(dim=-1) / wide
    nearest = torch.cdist(back, x).argmin(-1)
    here = torch.arange(len(x), device=x.device)
    return Cycle(error.double().cpu().numpy(), (nearest == here).cpu().numpy())


def _encode(agent: Agent, images: Tensor) -> Tensor:
    """Embeddings [n, E] of pictures [n, C, h, w] in float pixels."""
    with torch.no_grad():
        embedding: Tensor = agent.network(images, False).embedding
    return embedding


def _in_chunks(agent: Agent, make: Callable[[Tensor], Tensor], items: Tensor) -> Tensor:
    at_once = max(1, _PIXELS_AT_ONCE // _mean_image(agent).numel())
    return torch.cat([make(some) for some in torch.split(items, at_once)])


def _mean_image(agent: Agent) -> Tensor:
    return members(agent.network)[0].mean_image
