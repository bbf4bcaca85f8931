"""Agents that come with idqn: found by name, copied before anything is written, and as good as it
says there."""

from __future__ import annotations

from pathlib import Path

import pytest

import idqn
from idqn import checkpoint, zoo
from idqn.cli import main
from idqn.config import Config
from idqn.errors import UserError
from idqn.evaluate import play_many
from idqn.export import export, size_mb
from idqn.run_dir import RunDir

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def own_zoo(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of one, `Tiny`."""
    folder = tmp_path / "installed"
    folder.mkdir()
    export(RunDir(trained / "own"), 600, folder / "Tiny")
    monkeypatch.setattr(zoo, "_AGENTS", folder)
    return folder


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def files(folder: Path) -> dict[str, bytes]:
    found = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


def test_reading_copies_nothing(own_zoo: Path) -> None:
    assert idqn.load("zoo:Tiny").origin.run == "Tiny"
    assert not Path("runs").exists()


def test_what_is_written_goes_to_a_copy(own_zoo: Path) -> None:
    installed = files(own_zoo)
    assert exit_code("eval", "zoo:Tiny", "--episodes", "2", "--device", "cpu") == 0
    assert files(own_zoo) == installed
    copy = files(Path("runs/zoo/Tiny"))
    assert installed.items() <= {f"Tiny/{name}": data for name, data in copy.items()}.items()
    assert any(name.startswith("evaluation/") for name in copy)

    assert RunDir.open("zoo:Tiny").path == Path("runs/zoo/Tiny")  # the same copy again
    assert files(Path("runs/zoo/Tiny")) == copy


def test_another_agent_in_its_place_is_not_taken_for_it(own_zoo: Path, trained: Path) -> None:
    export(RunDir(trained / "other"), 600, Path("runs/zoo/Tiny"))
    before = files(Path("runs/zoo/Tiny"))
    with pytest.raises(UserError, match="is not the agent that this idqn calls 'zoo:Tiny'"):
        RunDir.open("zoo:Tiny")
    assert files(Path("runs/zoo/Tiny")) == before


def test_unknown_names_get_a_suggestion(own_zoo: Path) -> None:
    with pytest.raises(UserError, match=r"no 'Tinny' in the zoo; did you mean 'Tiny'\?.*has Tiny"):
        RunDir.open("zoo:Tinny")
    with pytest.raises(UserError, match=r"no '\.\./own' in the zoo"):
        idqn.load("zoo:../own")
    assert not Path("runs").exists()


def test_an_installation_without_agents_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "_AGENTS", tmp_path / "nothing")
    assert exit_code("zoo") == 2
    assert "no agents came with this idqn" in capsys.readouterr().err
    with pytest.raises(UserError, match="it is empty"):
        idqn.load("zoo:Tiny")


def test_the_list_says_how_good_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("zoo") == 0
    listed = capsys.readouterr().out
    for name in zoo.names():
        score = RunDir(zoo.shipped(name)).newest_evaluation(shipped_config(name))
        assert score is not None
        assert f"zoo:{name} " in listed
        assert f"{score['mean']:,.2f}" in listed


def shipped_config(name: str) -> Config:
    return RunDir(zoo.shipped(name)).config()


@pytest.mark.parametrize("name", zoo.names())
def test_shipped_agents_are_whole_small_and_measured(name: str) -> None:
    run = RunDir(zoo.shipped(name))
    config = run.config()
    agent = idqn.load(f"zoo:{name}")  # checks the sum of its weights
    assert agent.origin.frames == checkpoint.find(run)
    assert size_mb(run) < 8
    score = run.newest_evaluation(config)
    assert score is not None
    assert score["episodes"] >= 100
    assert score["frames_trained"] == checkpoint.find(run)
    assert score["interval"][0] <= score["mean"] <= score["interval"][1]


def test_a_shipped_agent_still_scores_what_it_did() -> None:
    """In games that it was not measured by, so that remembering the number is not enough."""
    agent = idqn.load("zoo:MiniPacman")
    score = RunDir(zoo.shipped("MiniPacman")).newest_evaluation(agent.config)
    assert score is not None
    played = list(play_many(agent.act, agent.config.env, 200, seed=77))
    low, high = score["interval"]
    assert low <= sum(episode.score for episode in played) / len(played) <= high
