"""Smaller images in our kernel against OpenCV's, and against what the native environment shows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from idqn import kernels
from idqn.config import EnvConfig
from idqn.envs.atari import SCREEN_SHAPE, AtariGroup
from idqn.envs.screens import ScreenGroup
from tests.kernel_device import DEVICE, MARKS

pytestmark = MARKS


@pytest.mark.parametrize("size", [(84, 84), (42, 50), (210, 84), (64, 159)])
def test_shrinking_is_opencvs(size: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, 1, 1, 210, 160), dtype=np.uint8)
    images[1] = rng.integers(0, 2, images[1].shape) * 200  # flat areas and halves
    shrink = kernels.ShrinkToArea((1, 210, 160), size, DEVICE)
    found = shrink(torch.from_numpy(images).to(DEVICE)).cpu().numpy()
    assert found.shape == (2, 1, 1, *size)
    for image, small in zip(images[:, 0, 0], found[:, 0, 0], strict=True):
        expected = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(small, expected)


@pytest.mark.parametrize("game", ["MsPacman", "Breakout"])
def test_a_shrunk_screen_is_the_native_frame(game: str) -> None:
    config = EnvConfig(f"ALE/{game}-v5")
    count, rng = 2, np.random.default_rng(0)
    ours, native = ScreenGroup(config, count), AtariGroup(config, count)
    shrink = kernels.ShrinkToArea(SCREEN_SHAPE, (84, 84), DEVICE)
    every, seeds = np.ones(count, bool), np.arange(count)
    pairs = [(ours.reset(every, seeds).copy(), native.reset(every, seeds).copy())]
    for step in range(60):
        actions = rng.integers(0, 4, count)
        screens, frames = ours.step(actions)[0], native.step(actions)[0]
        if step % 20 == 19:
            pairs.append((screens.copy(), frames.copy()))
    for screens, frames in pairs:
        found = shrink(torch.from_numpy(screens).to(DEVICE)).cpu().numpy()
        np.testing.assert_array_equal(found, frames)
