"""A run killed with SIGKILL at any moment and resumed ends as one that was never stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from idqn import checkpoint
from idqn.config import Config, to_toml
from idqn.run_dir import RunDir
from tests.comparison import assert_same_checkpoint, metrics

IDQN = [sys.executable, "-m", "idqn"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*IDQN, *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition: object, process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Until `condition()` holds or the process ends."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline, "the program takes too long"
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("env", ["idqn/MiniPacman-v0", "ALE/Pong-v5"])
def test_sigkill_then_resume_is_exact(tiny: Config, tmp_path: Path, env: str) -> None:
    changes = {"env.id": env, "train.frames": 3_000, "system.checkpoint_every_frames": 200}
    if env.startswith("ALE/"):
        changes |= {
            "env.frame_skip": 4,
            "env.max_episode_frames": 400,
            "env.noop_max": 10,
            "env.sticky_probability": 0.25,
            "replay.learning_starts_steps": 40,
            "replay.transitions": 100,
            "replay.prioritized": True,
            "train.n_step": 3,
            "agent.epsilon_end": 0.3,
            "system.workers": 2,
        }
    (tmp_path / "config.toml").write_text(to_toml(tiny.replace(**changes)))
    flags = ("train", env, "--config", "config.toml", "--runs-dir", ".", "--name")
    finish(start(*flags, "whole", cwd=tmp_path))

    rng = random.Random(7)
    run = RunDir(tmp_path / "killed")
    process = start(*flags, "killed", cwd=tmp_path)
    wait_for(lambda: checkpoint.complete(run), process)
    kills = 0
    while process.poll() is None and kills < 4:
        time.sleep(rng.uniform(0.0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        before = checkpoint.complete(run)[-1]
        process = start("resume", "killed", cwd=tmp_path)
        wait_for(lambda b=before: checkpoint.complete(run)[-1] > b, process)
    finish(process)
    assert kills >= 2
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "killed")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_write_a_checkpoint_first(
    tiny: Config, tmp_path: Path, number: signal.Signals
) -> None:
    config = tiny.replace(**{"train.frames": 1_600, "system.checkpoint_every_frames": 10_000})
    (tmp_path / "config.toml").write_text(to_toml(config))
    flags = ("train", config.env.id, "--config", "config.toml", "--runs-dir", ".", "--name")
    finish(start(*flags, "whole", cwd=tmp_path))
    process = start(*flags, "stopped", cwd=tmp_path)
    written = tmp_path / "stopped" / "metrics.jsonl"
    wait_for(lambda: written.exists() and written.stat().st_size > 300, process)
    process.send_signal(number)
    out = finish(process)
    assert f"stopped by {number.name}; checkpoint written at" in out
    assert "idqn resume stopped" in out
    finish(start("resume", "stopped", cwd=tmp_path))
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "stopped")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "stopped")
