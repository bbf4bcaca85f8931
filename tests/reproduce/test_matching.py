"""Which run directories are a study's cells, and what is said of those that nearly are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from idqn.errors import UserError
from idqn.presets import preset
from idqn.reproduce.matching import Found, find
from idqn.reproduce.settings import changes, check_same
from idqn.reproduce.studies import Choices, Study, sensitivity, table1
from idqn.run_dir import RunDir
from tests.reproduce.made import make_run, metrics_row

PACMAN = preset("paper", "ALE/MsPacman-v5")


def study(**choices: object) -> Study:
    return table1(Choices(games=("MsPacman",), agents=("idqn",), **choices))  # type: ignore[arg-type]


def found(folder: Path, **choices: object) -> Found:
    return find(study(**choices), (0, 1), folder)


def test_what_does_not_decide_what_is_learnt_is_ignored(tmp_path: Path) -> None:
    machine = {"system.device": "cuda", "system.keep_checkpoints": 1, "train.turns": 4}
    run = make_run(tmp_path / "a" / "b", PACMAN.replace(**{"train.frames": 7, **machine}), [])
    make_run(tmp_path / "c", PACMAN.replace(**{"train.seed": 1}), [])
    make_run(tmp_path / "d", preset("paper", "ALE/Qbert-v5"), [])  # of another study
    make_run(tmp_path / "e", preset("paper", "ALE/MsPacman-v5", "ddqn"), [])
    runs, remarks = found(tmp_path)
    assert {place: each.name for place, each in runs.items()} == {(0, 0): "b", (0, 1): "c"}
    assert runs[0, 0].path == run.path
    assert remarks == ()


def test_a_run_that_differs_is_named_with_the_field(tmp_path: Path) -> None:
    make_run(tmp_path / "near", PACMAN.replace(**{"loss.reconstruction": 0.5}), [])
    make_run(
        tmp_path / "nearer", PACMAN.replace(**{"train.n_step": 3, "loss.reconstruction": 0.5}), []
    )
    make_run(tmp_path / "far", preset("authors", "ALE/MsPacman-v5"), [])
    runs, remarks = found(tmp_path)
    assert runs == {}
    far, near, nearer = remarks
    assert near == f"{tmp_path / 'near'} is not counted: loss.reconstruction is 0.5, not 0.05"
    assert nearer.endswith("loss.reconstruction is 0.5, not 0.05 (and one more field differs)")
    assert "is not counted: agent.key_init_std is 1.0, not 0.1 (and " in far
    # the same run is a cell of a study that varies the field
    assert [n for n, _ in find(sensitivity(Choices()), (0,), tmp_path).runs] == [1]
    # and of this one, if all shall be so
    same = found(tmp_path, changes=changes(["loss.reconstruction=0.5"]))
    assert [run.name for run in same.runs.values()] == ["near"]


def test_a_difference_is_told_from_the_nearest_cell(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PACMAN.replace(**{"loss.bellman": 10.0, "train.n_step": 3}), [])
    (remark,) = find(sensitivity(Choices()), (0,), tmp_path).remarks
    assert "train.n_step is 3, not 1" in remark
    assert "more" not in remark


def test_seeds_that_nobody_wants_and_runs_twice(tmp_path: Path) -> None:
    make_run(tmp_path / "other-seed", PACMAN.replace(**{"train.seed": 5}), [])
    make_run(tmp_path / "short", PACMAN, [metrics_row(10, 1.0)])
    long = make_run(tmp_path / "long", PACMAN, [metrics_row(20, 1.0)])
    shutil.copytree(long.path, tmp_path / "same")
    runs, remarks = found(tmp_path)
    assert [run.name for run in runs.values()] == ["long"]
    assert remarks == (
        f"{tmp_path / 'other-seed'} is not counted: its seed is 5, not of 0 1",
        f"{tmp_path / 'same'} is not counted: it is a copy of {long.path}",
        f"{tmp_path / 'short'} is not counted: {long.path} has the same settings and the same seed",
    )


def test_a_config_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PACMAN, []).config_file.write_text("{")
    runs, remarks = found(tmp_path)
    assert runs == {}
    assert remarks == (f"{tmp_path / 'run'} is not counted: its config.json cannot be read",)


def test_no_folder_has_no_runs(tmp_path: Path) -> None:
    assert found(tmp_path / "nowhere") == ({}, ())


def test_other_settings_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PACMAN, [])
    run = RunDir(tmp_path / "run")
    check_same(run, PACMAN.replace(**{"train.frames": 1, "system.threads": 2}), "--runs")
    with pytest.raises(UserError, match=r"train.seed = 0, not 3; choose another --runs"):
        check_same(run, PACMAN.replace(**{"train.seed": 3}), "--runs")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("train.envs=32", 32),
        ("a.b=250_000", 250_000),
        ("a.b=false", False),
        ("a.b=tiny", "tiny"),
        ("a.b=0.5", 0.5),
        ("a.b=x=y", "x=y"),
        ("a.b=null", None),
    ],
)
def test_changes_are_read_as_what_they_look_like(text: str, value: object) -> None:
    (found,) = changes([text]).values()
    assert found == value
    assert type(found) is type(value)


def test_a_change_without_a_value_is_refused() -> None:
    with pytest.raises(UserError, match=r"--set takes FIELD=VALUE, got 'train.envs'"):
        changes(["train.envs"])
