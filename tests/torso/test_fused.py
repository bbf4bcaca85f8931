"""The fused torso against torch's own layers, run by run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import vmap

pytest.importorskip("triton")

from idqn import learner
from idqn.config import Config
from idqn.learner import Learner
from idqn.presets import preset
from idqn.types import Batch
from tests.kernel_device import DEVICE, MARKS, RUNS

pytestmark = MARKS

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
    LEARNERS = LEARNERS[7:]


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
    if DEVICE.type == "cpu":
        fused.map_with(vmap)  # as on a GPU
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
