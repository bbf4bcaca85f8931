"""`idqn reproduce ...` as it is typed: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from idqn.cli import main
from idqn.errors import DivergenceError
from idqn.presets import preset
from idqn.reproduce import training
from idqn.reproduce.deadline import Deadline, OutOfTimeError
from idqn.reproduce.studies import STUDIES
from idqn.reproduce.training import Work
from tests.reproduce.made import make_run, metrics_row, played

pytestmark = pytest.mark.usefixtures("in_tmp_path")
FRAMES = 10_000_000


def reproduce(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    return int(stopped.value.code or 0)


@pytest.fixture
def pacman(in_tmp_path: None) -> None:
    """A finished run, and one that is half way."""
    for seed, frames in ((0, FRAMES), (1, FRAMES // 2)):
        config = preset("paper", "ALE/MsPacman-v5").replace(**{"train.seed": seed})
        rows = [metrics_row(at, at / 5_000) for at in range(1_000_000, frames + 1, 1_000_000)]
        path = Path(f"runs/MsPacman-idqn-s{seed}")
        make_run(path, config, rows, [played(config, FRAMES, 1_500.0)])


def test_help_names_all_studies(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("--help") == 0
    said = capsys.readouterr().out
    assert all(name in said for name in STUDIES)
    assert reproduce() == 2


@pytest.mark.usefixtures("pacman")
def test_a_table_of_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("table1", "--agents", "idqn", "--games", "MsPacman", "Qbert") == 0
    said = capsys.readouterr().out
    assert "MsPacman, idqn: 2,000 (one seed) is 33 % of the paper's 6,132.21: not met." in said
    assert "It is of 1 of 3 seeds." in said
    assert "Qbert, idqn: missing (no run of seeds 0, 1 and 2)." in said
    assert "runs/MsPacman-idqn-s1 is at 5,000,000 of 10,000,000 frames" in said
    assert "The same command with --train trains and measures what is missing." in said


@pytest.mark.usefixtures("pacman")
@pytest.mark.parametrize("name", STUDIES)
def test_documents_are_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(name, "--seeds", "0", "--out", "found") == 0
    assert "written to found" in capsys.readouterr().out
    files = {path.name for path in Path("found").iterdir()}
    assert files == {f"{name}.md", f"{name}.json"} | ({"curves.svg"} if name == "curves" else set())
    record = json.loads(Path("found", f"{name}.json").read_text())
    assert (record["study"], record["frames"], record["seeds"]) == (name, FRAMES, [0])
    text = Path("found", f"{name}.md").read_text()
    assert text.startswith(f"# {record['title']} (preset paper)\n")
    assert ("![Training curves (preset paper)](curves.svg)" in text) == (name == "curves")


@pytest.mark.usefixtures("pacman")
def test_fewer_frames_count_what_was_trained_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    games = ("--games", "MsPacman", "--agents", "idqn")
    assert reproduce("table1", *games, "--seeds", "0", "1", "--frames", "5_000_000") == 0
    said = capsys.readouterr().out
    assert "MsPacman, idqn: 1,000 (mean of 2 seeds" in said
    assert "12.5 % of the paper's training" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("table3",), "unknown command 'reproduce table3'; did you mean 'reproduce table2'"),
        (("table1", "--games", "MsPackman"), "no game 'MsPackman'; did you mean 'MsPacman'?"),
        (("table1", "--games", "Pong"), "no game 'Pong'; `idqn reproduce curves` has it"),
        (("table1", "--agents", "idqm"), "invalid choice 'idqm'"),
        (("table1", "--agents"), "--agents needs at least one agent"),
        (("ablation", "--games", "Pong"), "unknown argument '--games'"),
        (("table1", "--seeds", "0", "1", "0"), "--seeds names a seed twice: 0 1 0"),
        (("table1", "--seeds"), "--seeds needs at least one number"),
        (("table1", "--seeds", "-1"), "--seeds are between 0 and 2**31 - 1, got -1"),
        (("table1", "--frames", "0"), "--frames must be at least 1, got 0"),
        (("table1", "--frames", "many"), "invalid literal for int() with base 10: 'many'"),
        (("table1", "--minutes", "-1"), "--minutes must not be negative, got -1.0"),
        (("table1", "--minutes", "nan"), "--minutes must not be negative, got nan"),
        (("table1", "--episodes", "-1"), "--episodes must not be negative, got -1"),
        (("table1", "--at-once", "0"), "--at-once must be at least 1, got 0"),
        (("table1", "--set", "train.envs"), "--set takes FIELD=VALUE, got 'train.envs'"),
        (("table1", "--set", "train.env=3"), "unknown key 'train.env'; did you mean 'train.envs'"),
        (("table1", "--set", "train.envs=0"), "train.envs must be at least 1, got 0"),
        (("table1", "--set", "train.envs=all"), "'train.envs' must be an integer, got 'all'"),
        (("table1", "--set", "train.seed=3"), "--set cannot change train.seed, which is for"),
        (("table2", "--set", "agent.decoder=ae"), "agent.decoder: it is what the study is about"),
        (("table1", "--preset", "papers"), "invalid choice 'papers'"),
        (("table1", "--preset", "authors", "--agents", "c51"), "have no c51 agent"),
        (("table1", "--runs", "nowhere"), "there is no directory 'nowhere'; --runs is where"),
        (("table1", "--runs", "file"), "there is no directory 'file'; --runs is where"),
        (("table1", "--runs", "file", "--train"), "--runs takes a directory, and 'file' is a file"),
        (("table1", "--out", "file"), "--out takes a directory, and 'file' is a file"),
        (("table1", "--train", "--device", "gpu"), "device 'gpu'"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    assert reproduce(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said.replace("have no", "has no") in err
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_without_time_nothing_is_begun(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("table1", "--games", "Qbert", "--train", "--minutes", "0") == 75
    out, err = capsys.readouterr()
    assert "Qbert, idqn: missing" in out  # the table comes all the same
    assert err == "no time left for 1 run (Qbert-idqn-s0); the same command goes on\n"
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OutOfTimeError("stopped"), 75, "stopped; the same command goes on\n"),
        (DivergenceError("a weight became nan"), 1, "idqn: error: a weight became nan\n"),
    ],
)
def test_the_table_comes_also_when_training_fails(
    error: Exception,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(work: Work, deadline: Deadline) -> None:
        assert work.seeds == (0,)
        raise error

    monkeypatch.setattr(training, "complete", fail)
    assert reproduce("ablation", "--train", "--seeds", "0", "--out", "found") == code
    out, err = capsys.readouterr()
    assert "+ distributional: missing" in out
    assert err == said
    assert Path("found/ablation.json").exists()
