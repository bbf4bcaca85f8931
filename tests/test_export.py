"""Exported runs: small, playable, and not to be trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import idqn
from idqn import checkpoint
from idqn.cli import main
from idqn.config import Config
from idqn.explain.agreement import Agreement
from idqn.export import export, thinned
from idqn.reproduce.evaluating import evaluate, explain_agreement
from idqn.reproduce.results import gather
from idqn.reproduce.studies import Cell, Study
from idqn.run_dir import RunDir, find_runs
from idqn.train import train
from tests.reproduce.made import metrics_row


@pytest.fixture(scope="module")
def run(tiny: Config, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Wide enough that some of its weights are worth halving."""
    path = tmp_path_factory.mktemp("runs") / "wide"
    train([tiny.replace(**{"agent.embedding_size": 600})], [path])
    return RunDir(path)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def test_large_weights_are_halved_and_the_agent_is_nearly_the_same(
    run: RunDir, tmp_path: Path
) -> None:
    frames = checkpoint.find(run)
    small = export(run, frames, tmp_path / "small")
    before, after = checkpoint.load_weights(run, frames), checkpoint.load_weights(small, frames)
    halved = {name for name, w in after.items() if w.dtype == torch.float16}
    assert halved == {name for name, w in before.items() if w.numel() >= 100_000}
    assert halved
    kept = before.keys() - halved
    assert "mean_image" in kept
    assert all(torch.equal(before[name], after[name]) for name in kept)

    agent, own = idqn.load(run.path), idqn.load(small.path)
    seen = np.random.default_rng(0).integers(256, size=agent.observation_shape, dtype=np.uint8)
    q, again = agent.look(seen).q, own.look(seen).q
    assert not torch.equal(q, again)
    torch.testing.assert_close(q, again, rtol=0, atol=0.05)
    assert own.origin.run_id == agent.origin.run_id


def test_what_only_training_needs_stays_behind(run: RunDir, tmp_path: Path) -> None:
    small = export(run, 400, tmp_path / "small")
    files = {str(f.relative_to(small.path)) for f in small.path.rglob("*") if f.is_file()}
    folder = "checkpoints/000000000400"
    assert files == {
        "config.json",
        "system.json",
        "metrics.jsonl",
        f"{folder}/weights.safetensors",
        f"{folder}/COMPLETE",
    }
    assert small.metrics() == run.metrics()[:4]  # the rows up to that checkpoint
    assert [found.path for found in find_runs(tmp_path)] == [small.path]


def test_what_tables_are_made_of_comes_with_it(run: RunDir, tmp_path: Path) -> None:
    """The Agreement and evaluations up to its checkpoint, but nothing of later ones."""
    whole = RunDir(shutil.copytree(run.path, tmp_path / "whole"))
    frames = checkpoint.find(whole)
    explain_agreement(whole, frames, "cpu")
    for at in (400, frames):
        evaluate(whole, at, 2, "cpu")
    small = export(whole, frames, tmp_path / "small")
    found, kept = Agreement.load(whole), Agreement.load(small)
    assert (kept.about, kept.mean) == (found.about, found.mean)
    assert np.array_equal(kept.rollouts, found.rollouts)
    assert small.evaluations() == whole.evaluations()
    assert len(small.evaluations()) == 2

    early = export(whole, 400, tmp_path / "early")
    assert [own["frames_trained"] for own in early.evaluations().values()] == [400]
    assert not early.explanation("agreement").exists()
    assert not export(whole, frames, tmp_path / "bare", evaluations=False).evaluations()


def test_a_study_reads_exported_runs_as_it_reads_whole_ones(run: RunDir, tmp_path: Path) -> None:
    """With 1,000 rows of metrics, of which 200 are left."""
    whole = RunDir(shutil.copytree(run.path, tmp_path / "whole" / "run"))
    rows = [metrics_row(40 * n, n, -n) | {"time/elapsed_s": n} for n in range(1, 1001)]
    whole.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frames = 40_000
    checkpoint.save_weights(whole, frames, checkpoint.load_weights(whole, checkpoint.find(whole)))
    evaluate(whole, frames, 2, "cpu")
    export(whole, frames, tmp_path / "small" / "run")
    config = whole.config()
    study = Study("table1", "Stand-in", ("cell",), (Cell(("plain",), "plain", config),))
    for folder in ("whole", "small"):
        (cell,) = gather(study, (config.train.seed,), tmp_path / folder, frames).cells
        (score,) = cell.scores
        assert (score.reached, score.frames, score.remarks) == (True, frames, ())
        assert (score.values["best_100"], score.values["final_100"]) == (1000, -1000)
        assert score.values["evaluation"] is not None
        # of fewer frames: the last row by then, which the exported run may not have
        (cell,) = gather(study, (config.train.seed,), tmp_path / folder, 20_160).cells
        (score,) = cell.scores
        assert (score.frames, score.values["best_100"]) == (
            (20_160, 504) if folder == "whole" else (20_000, 500)
        )


def test_rows_are_thinned_evenly_up_to_the_last() -> None:
    rows = [{"frames": n} for n in range(10)]
    assert [row["frames"] for row in thinned(rows, 4)] == [1, 4, 6, 9]
    assert thinned(rows, 10) == rows
    assert thinned(rows, 99) == rows
    assert thinned([], 4) == []


@pytest.mark.usefixtures("in_tmp_path")
def test_the_command_exports_and_measures(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("export", str(run.path), "--name", "mine", "--episodes", "3", "--device", "cpu")
    assert exit_code(*command) == 0
    assert "exported/mine" in capsys.readouterr().out
    (stored,) = RunDir.open("exported/mine").evaluations().values()
    assert stored["episodes"] == 3
    assert stored["frames_trained"] == checkpoint.find(run)
    assert exit_code("eval", "exported/mine", "--episodes", "3", "--device", "cpu") == 0
    (again,) = RunDir.open("exported/mine").evaluations().values()
    assert again == stored  # the same weights play the same games


@pytest.mark.usefixtures("in_tmp_path")
def test_what_cannot_be_exported_is_refused(
    run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(run.path)
    for arguments, message in (
        ((), "which run? For example: idqn export"),
        ((path, path), "would be two of these runs"),
        ((path, "elsewhere", "--name", "x"), "--name names one run, got 2"),
        ((path, "--episodes", "-1"), "--episodes must be at least 0, got -1"),
        ((path, "--checkpoint", "7"), "has no checkpoint '7'"),
        (("nothing",), "there is no run 'nothing'"),
    ):
        assert exit_code("export", *arguments) == 2
        assert message in capsys.readouterr().err
        assert not Path("exported").exists()

    assert exit_code("export", path, "--episodes", "0") == 0
    assert exit_code("export", path, "--episodes", "0") == 2
    assert "'exported/wide' exists already" in capsys.readouterr().err
    assert exit_code("resume", "exported/wide") == 2
    assert "exported to be played and explained, and cannot be trained on" in (
        capsys.readouterr().err
    )


def test_half_precision_is_inside_the_seal(run: RunDir, tmp_path: Path) -> None:
    small = export(run, checkpoint.find(run), tmp_path / "small")
    folder = small.checkpoint(checkpoint.find(small))
    seal = json.loads((folder / "COMPLETE").read_text())
    assert list(seal["sha256"]) == ["weights.safetensors"]
    data = bytearray((folder / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "weights.safetensors").write_bytes(data)
    with pytest.raises(idqn.UserError, match="damaged"):
        idqn.load(small.path)
