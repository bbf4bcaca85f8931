"""Saliency as the paper's authors made it (`plot_saliency` in their notebooks): a mask at a time,
each drawn anew, the frame blurred anew for each, and one forward pass for each."""

from __future__ import annotations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from idqn.agent import Agent


def saliency_loop(
    agent: Agent,
    observation: NDArray[np.uint8],  # [C, h, w]
    action: int,
    stride: int = 3,
    mask_sigma: float = 3.0,
    blur_sigma: float = 5.0,
    decode: bool = False,
) -> NDArray[np.float64]:
    """S = ½ (Q(phi, a) - Q(s, a))² of one action, [R, K]. Theirs, but that OpenCV stands for
    scipy, that a blur does not mix the stacked frames, and that their network always decoded,
    which happens here with `decode`."""
    image = observation.transpose(1, 2, 0).astype(np.float64)  # [h, w, C]
    height, width = image.shape[:2]
    before = _value(agent, observation, action, decode)
    scores = np.zeros((-(-height // stride), -(-width // stride)))
    for i in range(0, height, stride):
        for j in range(0, width, stride):
            mask = _mask(i, j, height, width, mask_sigma)[..., None]
            mixed = image * (1 - mask) + _gaussian(image, blur_sigma).reshape(image.shape) * mask
            pixels = np.clip(mixed, 0, 255).astype(np.uint8).transpose(2, 0, 1)
            after = _value(agent, np.ascontiguousarray(pixels), action, decode)
            scores[i // stride, j // stride] = 0.5 * (before - after) ** 2
    return scores


def _value(agent: Agent, observation: NDArray[np.uint8], action: int, decode: bool) -> float:
    batch = torch.from_numpy(observation)[None].to(agent.device)
    with torch.no_grad():
        return float(agent.network(batch, decode).q[0, action])


def _mask(i: int, j: int, height: int, width: int, sigma: float) -> NDArray[np.float64]:
    y, x = np.ogrid[-i : height - i, -j : width - j]
    mask = np.zeros((height, width))
    mask[x * x + y * y <= 1] = 1
    bump = _gaussian(mask, sigma)
    bump /= bump.max()
    return bump


def _gaussian(image: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Cut off at 4 sigma and mirrored at the edges, as scipy's."""
    size = 2 * int(4 * sigma + 0.5) + 1
    blurred = cv2.GaussianBlur(image, (size, size), sigma, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, np.float64)
