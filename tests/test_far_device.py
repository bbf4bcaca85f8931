"""Training and explaining on a device that is not the CPU, without a GPU: that tensors meet on one
device, and that what is recorded as a CUDA graph does not wait. See `far_device.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot be given a device of Python's",
)


def far(*arguments: str) -> None:
    """In a process of its own: torch takes one such device, and keeps it."""
    command = [sys.executable, "-m", "tests.far_jobs", *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_refuses_what_a_gpu_refuses() -> None:
    far("refuse")


@pytest.mark.parametrize("agent", ["idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble"])
def test_agents_train(agent: str) -> None:
    far("train", agent)


@pytest.mark.parametrize("agent", ["idqn", "bootstrap"])
def test_agents_are_explained(agent: str) -> None:
    far("explain", agent)
