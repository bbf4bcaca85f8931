"""The fused torso against torch's own layers, run by run.

On a GPU as it runs there; without one in Triton's interpreter, if Triton is installed.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports it
pytest.importorskip("triton")

from torch.nn import functional

from idqn import kernels, learner
from idqn.config import Config, EnvConfig
from idqn.envs.atari import SCREEN_SHAPE, AtariGroup
from idqn.envs.screens import ScreenGroup
from idqn.learner import Learner
from idqn.presets import preset
from idqn.types import Batch

# compilers and cuBLAS warn of their own affairs
pytestmark = pytest.mark.filterwarnings("ignore")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS, SAMPLES = 2, 3
# the interpreter computes nonsense with bfloat16
TYPES = [torch.float32, torch.bfloat16] if torch.cuda.is_available() else [torch.float32]

# image height, width, channels, filters, kernel, stride: every layer there is, and borders
CASES = [
    (84, 84, 4, 32, 8, 4),
    (20, 20, 32, 64, 4, 2),
    (9, 9, 64, 64, 3, 1),
    (21, 17, 2, 32, 4, 2),
    (15, 15, 3, 32, 3, 1),
]
LEARNERS: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
    ("idqn", (4, 84, 84), {"env.id": "ALE/Pong-v5"}),
    ("idqn", (12, 210, 160), {"agent.embedding_size": 64}),
    ("idqn", (4, 84, 84), {"agent.decoder": "dense-vae"}),
    ("idqn", (2, 40, 37), {"train.bootstrap": "target"}),
    ("idqn", (6, 11, 13), {"train.bootstrap": "online"}),
    ("noisy", (4, 84, 84), {}),
    ("bootstrap", (4, 84, 84), {}),
    ("idqn", (2, 11, 11), {"optimizer.clip_scope": "layer"}),
    ("idqn", (2, 11, 11), {"agent.decoder": "vae", "agent.beta": 0.5}),
    ("idqn", (2, 7, 7), {"agent.decoder": "dense-vae", "agent.embedding_size": 16}),
    ("idqn", (2, 11, 11), {"agent.decoder": "none"}),
    ("ddqn", (2, 11, 11), {"agent.embedding_size": 32}),
    ("c51", (2, 11, 11), {"agent.embedding_size": 32}),
    ("noisy", (2, 11, 11), {"agent.embedding_size": 32}),
    ("bootstrap", (2, 11, 11), {"agent.embedding_size": 32, "agent.heads": 3}),
    ("ensemble", (2, 7, 7), {"agent.embedding_size": 16, "agent.heads": 2}),
]
if not torch.cuda.is_available():  # the interpreter is slow
    CASES, LEARNERS = [(20, 21, 4, 32, 8, 4), *CASES[3:]], LEARNERS[7:]


@pytest.fixture(autouse=True)
def full_precision() -> Any:
    before = torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision(before)


class World:
    """Random images and weights of one layer, in and around the memory they are views of."""

    def __init__(self, case: tuple[int, ...], dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.height, self.width, channels, filters, self.kernel, self.stride = case
        small = [(side - self.kernel) // self.stride + 1 for side in case[:2]]

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(DEVICE, dtype)

        taps = self.kernel * self.kernel * channels * filters
        shape = (RUNS, self.kernel, self.kernel, channels, filters)
        self.weight = normal(RUNS, taps + 16)[:, :taps].view(shape)
        self.big = normal(RUNS, 2 * SAMPLES, self.height, self.width, channels)[:, :SAMPLES]
        self.small = normal(RUNS, 2 * SAMPLES, *small, filters)[:, :SAMPLES]
        self.big_bias, self.small_bias = normal(RUNS, channels), normal(RUNS, filters)
        self.big_bias, self.small_bias = self.big_bias.float(), self.small_bias.float()
        self.tolerance = 1e-5 if dtype == torch.float32 else 8e-3

    def convolved(self, bias: torch.Tensor | None = None) -> torch.Tensor:
        return torch.stack(
            [
                functional.conv2d(
                    self.big[run].float().permute(0, 3, 1, 2),
                    self.weight[run].float().permute(3, 2, 0, 1),
                    None if bias is None else bias[run],
                    self.stride,
                ).permute(0, 2, 3, 1)
                for run in range(RUNS)
            ]
        )

    def spread(self, bias: torch.Tensor | None = None) -> torch.Tensor:
        border = [(side - self.kernel) % self.stride for side in (self.height, self.width)]
        return torch.stack(
            [
                functional.conv_transpose2d(
                    self.small[run].float().permute(0, 3, 1, 2),
                    self.weight[run].float().permute(3, 2, 0, 1),
                    None if bias is None else bias[run],
                    self.stride,
                    output_padding=border,
                ).permute(0, 2, 3, 1)
                for run in range(RUNS)
            ]
        )

    def check(self, found: torch.Tensor, expected: torch.Tensor) -> None:
        assert found.shape == expected.shape
        error = (found.float() - expected).abs().max() / expected.abs().max()
        assert float(error) < self.tolerance


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_convolve(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    found = kernels.convolve(w.big, w.weight, w.small_bias, w.stride, relu=True)
    w.check(found, torch.relu(w.convolved(w.small_bias)))
    found, parts = kernels.convolve_and_sum(w.big, w.weight, w.stride, gate=w.small)
    expected = w.convolved() * (w.small > 0)
    w.check(found, expected)
    w.check(parts.sum(0), expected.sum((1, 2, 3)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_spread(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    size = (w.height, w.width)
    found = kernels.spread(w.small, w.weight, w.big_bias, w.stride, size, relu=True)
    w.check(found, torch.relu(w.spread(w.big_bias)))
    found = kernels.spread(w.small, w.weight, None, w.stride, size, gate=w.big)
    w.check(found, w.spread() * (w.big > 0))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_correlate(case: tuple[int, ...], dtype: torch.dtype) -> None:
    w = World(case, dtype)
    weight, bias = w.weight.float().requires_grad_(), w.small_bias.requires_grad_()
    w.weight = weight
    expected = torch.autograd.grad(w.convolved(bias), (weight, bias), w.small.float())
    taps, filters = weight[0].numel(), bias.shape[1]
    out = torch.full((RUNS, taps + filters + 5), 7.0, device=DEVICE)
    kernel = (w.kernel, w.kernel)
    kernels.correlate(w.big, w.small, kernel, w.stride, out, bias=True)
    w.check(out[:, :taps], expected[0].flatten(1))
    w.check(out[:, taps : taps + filters], expected[1])
    assert bool((out[:, taps + filters :] == 7).all())
    out.fill_(7.0)
    kernels.correlate(w.big, w.small, kernel, w.stride, out, bias=False)
    w.check(out[:, :taps], expected[0].flatten(1))
    assert bool((out[:, taps:] == 7).all())


@pytest.mark.parametrize("dtype", TYPES)
def test_outer(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(RUNS, 40, n, generator=generator).to(DEVICE, dtype) for n in (70, 150)
    )
    rows = torch.full((RUNS, 70 * 150 + 70 + 3), 7.0, device=DEVICE)
    kernels.outer(left, right, rows[:, : 70 * 150].unflatten(1, (70, 150)), rows[:, 70 * 150 :])
    expected = left.float().mT @ right.float()
    torch.testing.assert_close(rows[:, : 70 * 150], expected.flatten(1), rtol=1e-4, atol=1e-4)
    sums = left.float().sum(1)
    torch.testing.assert_close(rows[:, 70 * 150 : -3], sums, rtol=1e-4, atol=1e-4)
    assert bool((rows[:, -3:] == 7).all())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [4, 3, 32])
def test_sum_pixels(channels: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(RUNS, 5, 31, 47, channels, generator=generator).to(DEVICE, dtype)
    found = kernels.sum_pixels(image).sum(0)
    expected = image.float().sum((1, 2, 3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("half", [True, False])
def test_adam_is_torchs(half: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    rows, mean, square = (torch.zeros(2, 3001, device=DEVICE) for _ in range(3))
    rows.copy_(torch.randn(rows.shape, generator=generator))
    copied = rows.bfloat16() if half else None
    parameter = torch.nn.Parameter(rows.clone())
    adam = torch.optim.Adam([{"params": [parameter]}], lr=1e-2, eps=1e-6)
    count = torch.zeros((), dtype=torch.int64, device=DEVICE)
    norm, rate = (torch.full((2,), value, device=DEVICE) for value in (20.0, 1e-2))
    for _ in range(4):
        gradient = torch.randn(rows.shape, generator=generator).to(DEVICE)
        parameter.grad = gradient * 0.5
        adam.step()
        count += 1
        kernels.adam(
            rows, mean, square, gradient, half=copied, norm=norm, limit=10.0, rate=rate,
            count=count, betas=(0.9, 0.999), epsilon=1e-6,
        )  # fmt: skip
    torch.testing.assert_close(rows, parameter.detach(), rtol=1e-5, atol=1e-6)
    if copied is not None and DEVICE.type == "cuda":
        assert torch.equal(copied, rows.bfloat16())


def make_batch(shape: tuple[int, int, int], seed: int, size: int = 4) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def pixels() -> torch.Tensor:
        full = (RUNS, size, *shape)
        return torch.randint(0, 256, full, dtype=torch.uint8, generator=generator)

    return Batch(
        observation=pixels(),
        action=torch.randint(0, 3, (RUNS, size), generator=generator),
        reward=torch.randn(RUNS, size, generator=generator),
        next_observation=pixels(),
        discount=0.99 * (torch.rand(RUNS, size, generator=generator) < 0.7),
        place=torch.randint(0, 100, (RUNS, size), generator=generator),
        weight=0.5 + torch.rand(RUNS, size, generator=generator),
    )


@pytest.mark.parametrize(("agent", "shape", "changes"), LEARNERS)
def test_the_fused_learner_learns_what_the_plain_one_does(
    agent: str, shape: tuple[int, int, int], changes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    base = preset("paper", "idqn/MiniPacman-v0", agent).replace(**changes)
    configs: list[Config] = [
        base.replace(**{"train.seed": s, "loss.diversity": 0.1 * s}) for s in range(RUNS)
    ]
    actions = [6, 3]
    plain = Learner(configs, shape, actions, torch.device("cpu"))
    monkeypatch.setattr(learner, "has_kernels", lambda _: True)
    fused = Learner(configs, shape, actions, DEVICE)
    assert fused._fused is not None
    # drawn from a seed: where an activation is 0 but for rounding, gradients may rightly differ
    mean = torch.rand(RUNS, *shape, generator=torch.Generator().manual_seed(0)) * 100
    other = Learner(
        [c.replace(**{"train.seed": 9}) for c in configs], shape, actions, torch.device("cpu")
    )
    for run in range(RUNS):  # a target network of its own
        state = plain.state(run)
        own = other.weights(run)
        state |= {name: own[name.removeprefix("target.")] for name in state if "target." in name}
        for one in (plain, fused):
            one.load(run, plain.weights(run), state)
    for one in (plain, fused):
        one.set_mean_image(mean)
    for update in range(2):
        batch = make_batch(shape, update)
        there = Batch(*(tensor.to(DEVICE) for tensor in batch))
        assert torch.equal(plain.act(batch.observation), fused.act(there.observation).cpu())
        expected, _ = plain.gradient(batch)
        found, _ = fused.gradient(there)
        for row in range(len(expected)):
            for name, want in plain.rows.unpack(row, expected).items():
                got = fused.rows.unpack(row, found)[name]
                limit = 1e-3 * float(want.abs().max())
                torch.testing.assert_close(got, want, rtol=1e-3, atol=limit, msg=name)
        ours, theirs = plain.update(batch), fused.update(there)
        for name, value in ours.measured.items():
            close = torch.testing.assert_close
            close(theirs.measured[name].cpu(), value, rtol=1e-3, atol=1e-4, msg=name)
        torch.testing.assert_close(theirs.surprise.cpu(), ours.surprise, rtol=1e-3, atol=1e-3)
        plain.sync_target()
        fused.sync_target()


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
