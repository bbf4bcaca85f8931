"""Two cores are shared by many tests: one torch thread each, so that they do not fight."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from idqn.config import Config
from idqn.presets import preset
from idqn.train import train

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # where kernels are tested; before anything imports them


@pytest.fixture(scope="session")
def tiny() -> Config:
    """A MiniPacman run that trains for a second or two and touches everything."""
    return preset("quick", "idqn/MiniPacman-v0").replace(
        **{
            "train.frames": 600,
            "train.envs": 4,
            "train.target_sync_steps": 100,
            "agent.embedding_size": 16,
            "agent.keys": 5,
            "agent.key_init_std": 0.1,  # with shorter keys it does not learn to differ so soon
            "env.frame_height": 11,
            "env.frame_width": 11,
            "env.max_episode_frames": 15,
            "replay.transitions": 300,
            "replay.batch_size": 8,
            "replay.learning_starts_steps": 100,
            "system.threads": 1,
            "system.device": "cpu",
            "system.log_every_frames": 100,
            "system.checkpoint_every_frames": 200,
        }
    )


@pytest.fixture(scope="module")
def trained(tiny: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny runs `own`, `other` (of another seed) and `ddqn`, for reading."""
    folder = tmp_path_factory.mktemp("trained")
    other = tiny.replace(**{"train.seed": tiny.train.seed + 1})
    train([tiny, other], [folder / "own", folder / "other"])
    without_keys = {"agent.name": "ddqn", "agent.decoder": "none", "train.frames": 200}
    train([tiny.replace(**without_keys)], [folder / "ddqn"])
    return folder


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the command line: what `main` sets must not leak out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000")


@pytest.fixture
def full_precision() -> Iterator[None]:
    """Where results are compared with those of a CPU."""
    before = torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision(before)
