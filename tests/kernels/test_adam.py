"""Adam in our kernel against torch's."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from idqn import kernels
from tests.kernel_device import DEVICE, MARKS

pytestmark = MARKS


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
        kernels.adam_step(
            rows, mean, square, gradient, half=copied, norm=norm, limit=10.0, rate=rate,
            count=count, betas=(0.9, 0.999), epsilon=1e-6,
        )  # fmt: skip
    torch.testing.assert_close(rows, parameter.detach(), rtol=1e-5, atol=1e-6)
    if copied is not None and DEVICE.type == "cuda":
        assert torch.equal(copied, rows.bfloat16())
