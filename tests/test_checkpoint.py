from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from idqn import checkpoint
from idqn.checkpoint import COMPLETE, REPLAY, STATE, TRAINING, WEIGHTS, Checkpoint
from idqn.config import Config
from idqn.errors import UserError
from idqn.run_dir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create_all([tmp_path / "run"], [Config()], {})[0]


def make(seed: int = 0) -> Checkpoint:
    g = torch.Generator().manual_seed(seed)
    return Checkpoint(
        weights={"a.weight": torch.randn(3, 4, generator=g), "values": torch.arange(5.0)},
        training={"adam_mean.a.weight": torch.randn(3, 4, generator=g), "empty": torch.zeros(0)},
        replay={
            "frames": torch.randint(0, 256, (50, 1, 7, 7), dtype=torch.uint8, generator=g),
            "terminated": torch.rand(50, generator=g) < 0.5,
            "reward": torch.randn(50, generator=g),
            "written": torch.tensor([2**40]),
        },
        state={"steps": 7, "score": 0.1 + 0.2, "best": None, "returns": [1.5, -2.0]},
    )


def test_round_trip_is_exact(run: RunDir) -> None:
    saved = make()
    checkpoint.save(run, 800, saved)
    loaded = checkpoint.load(run, 800)
    for kind in ("weights", "training", "replay"):
        before, after = getattr(saved, kind), getattr(loaded, kind)
        assert before.keys() == after.keys()
        for name in before:
            assert before[name].dtype == after[name].dtype
            assert torch.equal(before[name], after[name]), name
    assert {k: loaded.state[k] for k in saved.state} == saved.state
    assert checkpoint.load_weights(run, 800).keys() == saved.weights.keys()


def test_files_are_what_the_format_says(run: RunDir) -> None:
    folder = checkpoint.save(run, 800, make())
    assert {p.name for p in folder.iterdir()} == {WEIGHTS, TRAINING, REPLAY, STATE, COMPLETE}
    seal = json.loads((folder / COMPLETE).read_text())
    assert seal["format"] == "idqn-checkpoint"
    assert seal["sha256"].keys() == {WEIGHTS, TRAINING, REPLAY, STATE}
    assert b"pickle" not in b"".join(p.read_bytes() for p in folder.iterdir())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("name", [WEIGHTS, TRAINING, REPLAY, STATE])
@pytest.mark.parametrize("harm", [flip, truncate, Path.unlink])
def test_damage_is_noticed_and_the_way_out_named(run: RunDir, name: str, harm: Any) -> None:
    checkpoint.save(run, 400, make())
    harm(checkpoint.save(run, 800, make()) / name)
    with pytest.raises(UserError, match=rf"damaged: {name}.*--checkpoint 400"):
        checkpoint.load(run, 800)
    assert checkpoint.load(run, 400).state["steps"] == 7


def test_a_broken_seal_is_noticed(run: RunDir) -> None:
    folder = checkpoint.save(run, 800, make())
    (folder / COMPLETE).write_text("{")
    with pytest.raises(UserError, match=r"damaged: COMPLETE.*no other"):
        checkpoint.load(run, 800)


def test_foreign_and_future_checkpoints_are_refused(run: RunDir) -> None:
    folder = checkpoint.save(run, 800, make())
    seal = json.loads((folder / COMPLETE).read_text())
    (folder / COMPLETE).write_text(json.dumps(seal | {"format": "other-thing"}))
    with pytest.raises(UserError, match="not an idqn checkpoint but a 'other-thing'"):
        checkpoint.load(run, 800)
    (folder / COMPLETE).write_text(json.dumps(seal | {"version": 99}))
    with pytest.raises(UserError, match="version 99"):
        checkpoint.load(run, 800)


def test_a_full_disk_loses_nothing(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(run, 400, make())
    honest, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left.*last good one is at 400.*idqn resume"):
        checkpoint.save(run, 800, make())
    monkeypatch.undo()
    assert checkpoint.complete(run) == [400]
    assert [p.name for p in run.checkpoints.iterdir()] == ["000000000400"]
    assert checkpoint.load(run, 400).state["steps"] == 7


def test_half_written_checkpoints_do_not_count(run: RunDir) -> None:
    checkpoint.save(run, 400, make())
    folder = checkpoint.save(run, 800, make())
    (folder / COMPLETE).unlink()
    (run.checkpoints / ".000000001200.77").mkdir()
    assert checkpoint.complete(run) == [400]
    assert checkpoint.find(run) == 400
    checkpoint.prune(run, keep=3)
    assert not (run.checkpoints / ".000000001200.77").exists()


def test_saving_again_replaces(run: RunDir) -> None:
    checkpoint.save(run, 400, make(seed=0))
    checkpoint.save(run, 400, make(seed=1))
    expected = make(seed=1).weights["a.weight"]
    assert torch.equal(checkpoint.load_weights(run, 400)["a.weight"], expected)


def test_prune_keeps_the_newest_and_the_best(run: RunDir) -> None:
    for frames in (100, 200, 300, 400, 500):
        checkpoint.save(run, frames, make())
    checkpoint.mark_best(run, 200)
    checkpoint.prune(run, keep=2)
    assert checkpoint.complete(run) == [200, 400, 500]
    assert checkpoint.find(run, "best") == 200
    assert checkpoint.find(run, "latest") == 500
    assert checkpoint.find(run, "400") == checkpoint.find(run, 400) == 400


def test_asking_for_what_is_not_there(run: RunDir) -> None:
    with pytest.raises(UserError, match="stopped before its first checkpoint"):
        checkpoint.find(run)
    checkpoint.save(run, 400, make())
    for which in ("300", 300, "newest"):
        with pytest.raises(UserError, match=r"latest, best or one of 400"):
            checkpoint.find(run, which)
