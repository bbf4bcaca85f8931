"""What an agent says when one place after another of a frame is blurred: Greydanus et al. (2018),
"Visualizing and Understanding Atari Agents".

A perturbed state is phi(s, i, j) = s·(1 - M) + blur(s)·M, where M is a Gaussian around (i, j) that
is 1 in its middle; all in float pixels, without rounding. Sizes are those of 84-pixel frames, and
grow and shrink with the frame: see `Scale`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.explain.many_masks import Masks, Said, joined, say_under_masks
from idqn.explain.progress import Progress, silent
from idqn.look import Look
from idqn.networks import members

_REACH = 4.0  # sigmas
_PIXELS_AT_ONCE = 2**24  # of a row of masks, on a GPU
_PIXELS_IN_CACHE = 2**21  # the same on a CPU


class Scale(NamedTuple):
    """For frames of 84 pixels, a mask of sigma 3 every 3 pixels and a blur of sigma 5. Other
    frames: times their shorter side / 84, but never below a third, so that a mask's sigma is at
    least 1 pixel. In MiniPacman's 33x33, with things of 3 pixels, that is a mask of sigma 1.2 at
    each pixel."""

    mask_sigma: float
    blur_sigma: float
    rows: int  # of the grid of masks, which are spread evenly over the frame
    columns: int

    @staticmethod
    def of(height: int, width: int) -> Scale:
        scale = max(min(height, width) / 84, 1 / 3)
        stride = round(3 * scale)
        return Scale(3 * scale, 5 * scale, -(-height // stride), -(-width // stride))


class Perturbed(NamedTuple):
    """What an agent says of n states, and of each perturbed at R x K places."""

    q: NDArray[np.float32]  # [n, A]
    choice: NDArray[np.int64]  # [n]
    perturbed_q: NDArray[np.float32]  # [n, R, K, A]
    perturbed_choice: NDArray[np.int64]  # [n, R, K]


def perturb(
    agent: Agent,
    observations: NDArray[np.uint8],
    scale: Scale | None = None,
    progress: Progress = silent,
) -> Perturbed:
    """Every state under every mask, and every action from the same pass."""
    height, width = observations.shape[-2:]
    scale = scale or Scale.of(height, width)
    masks = make_masks(height, width, scale, agent.device)
    pixels = scale.columns * height * width
    most = _PIXELS_IN_CACHE if agent.device.type == "cpu" else _PIXELS_AT_ONCE
    at_once = max(1, most // pixels)
    plain, perturbed = [], []
    with torch.no_grad(), _exact():
        for begin in range(0, len(observations), at_once):
            some = torch.as_tensor(observations[begin : begin + at_once], device=agent.device)
            states = some.float()
            changes = blurred(states, scale.blur_sigma) - states
            out = agent.network(states, False)
            plain.append(Said(out.q, out.head_q))
            each = [say_under_masks(m, states, changes, masks) for m in members(agent.network)]
            perturbed.append(each[0] if len(each) == 1 else _together(each))
            progress("perturbing states", begin + len(some), len(observations))
    grid = (len(observations), scale.rows, scale.columns)
    q, choice = _answers(agent, joined(plain, 0))
    perturbed_q, perturbed_choice = _answers(agent, joined(perturbed, 0))
    return Perturbed(
        q, choice, perturbed_q.reshape(*grid, q.shape[1]), perturbed_choice.reshape(grid)
    )


def make_masks(height: int, width: int, scale: Scale, device: torch.device) -> Masks:
    """For frames of this size; cut off at 4 sigma, where scipy ends its Gaussians too."""
    down = _bumps(height, scale.rows, scale.mask_sigma)
    return Masks(down.to(device), _bumps(width, scale.columns, scale.mask_sigma).to(device))


def blurred(images: Tensor, sigma: float) -> Tensor:
    """Gaussian blur of each plane [..., h, w], by itself; beyond its edges a plane is mirrored."""
    height, width = images.shape[-2:]
    down, across = (_blur(size, sigma).to(images.device) for size in (height, width))
    return down @ images @ across.T


def _answers(agent: Agent, said: Said) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Q [..., A] and the choice [...]."""
    leading = said.q.shape[:-1]
    parts = {"q": said.q.reshape(-1, said.q.shape[-1])}
    if said.head_q is not None:
        parts["head_q"] = said.head_q.reshape(-1, *said.head_q.shape[-2:])
    return said.q.cpu().numpy(), agent.choose(Look(agent.name, parts)).reshape(leading)


def _together(each: list[Said]) -> Said:
    """Of networks that share nothing."""
    head_q = torch.stack([said.q for said in each], -1)
    return Said(head_q.mean(-1), head_q)


def _exact() -> AbstractContextManager[None]:
    """Squares of small differences: convolutions on a GPU must not round to TF32."""
    return torch.backends.cudnn.flags(enabled=True, allow_tf32=False)


def _bumps(size: int, count: int, sigma: float) -> Tensor:
    """Gaussians spread evenly over a line, [count, size]; 1 in their middle."""
    middle = (torch.arange(count, dtype=torch.float64) + 0.5) * size / count - 0.5
    distance = (torch.arange(size, dtype=torch.float64) - middle[:, None]).abs() / sigma
    return torch.where(distance <= _REACH, (-0.5 * distance.square()).exp(), 0).float()


def _blur(size: int, sigma: float) -> Tensor:
    """The blur of a line as a matrix [size, size]."""
    reach = int(_REACH * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    weights = (-0.5 * (offsets.double() / sigma).square()).exp()
    folded = (torch.arange(size)[:, None] + offsets) % (2 * size)  # [size, taps]
    source = torch.where(folded < size, folded, 2 * size - 1 - folded)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_add_(1, source, (weights / weights.sum()).expand(size, -1))
    return matrix.float()


def squared_changes(found: Perturbed) -> NDArray[np.float32]:
    """S = ½ (Q(phi, a) - Q(s, a))² of Greydanus et al., [n, R, K, A]."""
    change = found.perturbed_q - found.q[:, None, None]
    return np.float32(0.5) * change * change


def sarfa(found: Perturbed, actions: NDArray[np.int64]) -> NDArray[np.float32]:
    """What matters to one action and not to the others [n, R, K]: Puri et al. (2020), "Explain
    Your Move: Understanding Agent Actions Using Specific and Relevant Feature Attribution".

    Specific: Δp, by how much the perturbation lowers the action's share in softmax(Q). Relevant:
    1 / (1 + KL) of the others' softmax after and before it. Their harmonic mean; 0 where the share
    does not fall.
    """
    n, actions_count = found.q.shape
    here = np.arange(n)
    before, after = found.q.astype(np.float64), found.perturbed_q.astype(np.float64)
    share = _log_softmax(before)[here, actions]  # [n]
    perturbed_share = _log_softmax(after)[here, :, :, actions]  # [n, R, K]
    fall = np.maximum(np.exp(share)[:, None, None] - np.exp(perturbed_share), 0)
    others = np.stack([np.delete(np.arange(actions_count), a) for a in actions])  # [n, A-1]
    rest = _log_softmax(np.take_along_axis(before, others, 1))[:, None, None]
    rest_after = _log_softmax(np.take_along_axis(after, others[:, None, None], 3))
    divergence = (np.exp(rest_after) * (rest_after - rest)).sum(-1)  # [n, R, K]
    relevance = 1 / (1 + divergence)
    mean: NDArray[np.float32] = (2 * relevance * fall / (relevance + fall)).astype(np.float32)
    return mean


def _log_softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = values - values.max(-1, keepdims=True)
    found: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
