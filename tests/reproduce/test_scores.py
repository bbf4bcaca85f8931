"""What a run scored by so many frames, and not later."""

from __future__ import annotations

from pathlib import Path

import pytest

from idqn import checkpoint
from idqn.config import Config
from idqn.presets import preset
from idqn.reproduce.scores import score
from tests.reproduce.made import make_run, metrics_row, played

ROWS = [
    metrics_row(990_016, 80.0, 70.0),
    metrics_row(1_000_032, 90.0, 60.0),
    metrics_row(1_010_016, 95.0, 95.0),
]


@pytest.fixture
def config() -> Config:
    """16 environments, 4 frames a step: training goes by 64 frames."""
    return preset("paper", "ALE/MsPacman-v5")


def test_the_row_at_so_many_frames(tmp_path: Path, config: Config) -> None:
    run = make_run(tmp_path / "run", config, ROWS)
    found = score(run, 1_000_000, "best_100")  # the first row after it is of the same step
    assert (found.frames, found.reached) == (1_000_032, True)
    assert found.values["best_100"] == 90
    assert found.values["final_100"] == 60
    assert score(run, 999_900, "best_100").values["best_100"] == 80  # that row is later
    assert score(run, 1_005_000, "best_100").values["best_100"] == 90
    assert score(run, 1_010_016, "best_100").values["final_100"] == 95


def test_a_run_that_is_not_there_yet_counts_for_nothing(tmp_path: Path, config: Config) -> None:
    run = make_run(tmp_path / "run", config, ROWS, [played(config, 1_000_000, 50.0)])
    found = score(run, 2_000_000, "best_100")
    assert not found.reached
    assert set(found.values.values()) == {None}
    (remark,) = found.remarks
    assert "is at 1,010,016 of 2,000,000 frames, best-100 so far 95.00: not counted" in remark
    assert "--frames 1_010_016 would count it" in remark
    new = score(make_run(tmp_path / "new", config, []), 1_000, "best_100")
    assert "is at 0 of 1,000 frames: not counted" in new.remarks[0]


def test_fewer_than_a_hundred_episodes_have_no_mean(tmp_path: Path, config: Config) -> None:
    few = metrics_row(1_000_000, 90.0, episodes=99) | {"return_best_100": None}
    found = score(make_run(tmp_path / "run", config, [few]), 1_000_000, "best_100")
    assert found.reached
    assert found.values["best_100"] is None
    assert found.values["final_100"] is None
    assert "by 1,000,000 frames it had finished 99" in found.remarks[0]


def test_half_a_row_is_none(tmp_path: Path, config: Config) -> None:
    run = make_run(tmp_path / "run", config, ROWS[:2])
    with run.metrics_file.open("a") as file:
        file.write('{"frames": 1010')
    assert score(run, 1_000_000, "best_100").values["best_100"] == 90


def test_a_checkpoint_may_be_newer_than_all_rows(tmp_path: Path, config: Config) -> None:
    run = make_run(tmp_path / "run", config, ROWS[:1])
    checkpoint.save_weights(run, 995_008, {})
    (remark,) = score(run, 1_000_000, "best_100").remarks
    assert "is at 995,008 of 1,000,000 frames" in remark
    assert "--frames 990_016 would count it" in remark
    run = make_run(tmp_path / "new", config, [])
    checkpoint.save_weights(run, 640, {})
    assert score(run, 1_000, "best_100").remarks == (
        f"{run.path} is at 640 of 1,000 frames: not counted",
    )


def test_a_row_from_long_before_is_told(tmp_path: Path, config: Config) -> None:
    run = make_run(tmp_path / "run", config, [ROWS[0], ROWS[2]])
    assert score(run, 995_000, "best_100").remarks == ()  # rows are 10,000 frames apart
    found = score(run, 1_005_000, "best_100")
    assert found.values["best_100"] == 80
    assert "is shown as it was at 990,016 frames: of its rows" in found.remarks[0]


def test_the_newest_evaluation_that_is_not_later(tmp_path: Path, config: Config) -> None:
    evaluations = [
        played(config, 500_000, 40.0),
        played(config, 1_000_000, 50.0, episodes=10),
        played(config, 1_000_000, 55.0, episodes=100),
        played(config, 1_010_016, 60.0),
        played(config, 1_000_000, 70.0, episodes=200) | {"policy": "random"},
        played(config, 1_000_000, 80.0, episodes=200) | {"sticky_probability": 0.25},
    ]
    run = make_run(tmp_path / "run", config, ROWS, evaluations)
    assert score(run, 1_000_000, "best_100").values["evaluation"] == 55
    older = score(run, 999_000, "best_100")
    assert older.values["evaluation"] == 40
    assert "was evaluated at 500,000 frames, before 999,000" in older.remarks[0]
    assert score(run, 1_010_000, "best_100").values["evaluation"] == 60
