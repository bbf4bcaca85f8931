"""benchmarks/gpu.sh and what it brings home: a step that fails or hangs costs no other, time is
kept, and files are small. Steps are played by a program that does what it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import idqn

FOLDER = Path(__file__).parents[1] / "benchmarks"
_STUB = """#!/usr/bin/env bash
echo "$*" >> "{calls}"
while [ $# -gt 0 ]; do
  if [ "$1" = --json ]; then name=$(basename "$2" .json); echo '[]' > "$2"; fi
  if [ "$1" = --seeds ]; then name=table1-$2; fi
  shift
done
case "{what}" in *"$name=hang"*) trap '' TERM; sleep 60 & wait; wait ;; esac
case "{what}" in *"$name=fail"*) echo broken; exit 3 ;; esac
case "{what}" in *"$name=75"*) echo unfinished; exit 75 ;; esac
echo "$name is done"
"""


class Visit:
    def __init__(self, tmp_path: Path) -> None:
        self.folder, self.home, self.calls = tmp_path / "f", tmp_path / "home", tmp_path / "calls"
        self._stub = tmp_path / "idqn"

    def __call__(self, minutes: float, *steps: str, what: str = "") -> tuple[int, str]:
        with self.begin(minutes, *steps, what=what) as process:
            out, _ = process.communicate(timeout=120)
        return process.returncode, out

    def begin(self, minutes: float, *steps: str, what: str = "") -> subprocess.Popen[str]:
        self._stub.write_text(_STUB.format(calls=self.calls, what=what))
        self._stub.chmod(0o755)
        command = ["bash", str(FOLDER / "gpu.sh"), str(self.folder), str(minutes), *steps]
        own = {"IDQN": str(self._stub), "PYTHON": sys.executable, "HOME_TO": str(self.home)}
        environment = {**os.environ, **own, "PACKING_SECONDS": "1", "GRACE_SECONDS": "2"}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def called(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def brought(self) -> list[str]:
        with tarfile.open(self.home / "results.tar.gz") as tar:
            return sorted(tar.getnames())


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    return Visit(tmp_path)


def test_what_fails_is_noted_and_the_rest_goes_on_and_comes_home(visit: Visit) -> None:
    code, out = visit(60, "explain", "speed-1", what="speed-1=fail")
    assert code == 0
    assert "speed-1: exit code 3" in out
    assert (visit.folder / "done" / "speed-1").read_text() == "3\n"
    assert (visit.folder / "done" / "explain").read_text() == "0\n"
    files = ["explain.json", "explain.log", "home.log", "speed-1.json", "speed-1.log"]
    assert visit.brought() == ["done/explain", "done/speed-1", *files]

    assert visit(60, "explain", "speed-1") == (0, "")  # each once


def test_the_most_valuable_steps_come_first(visit: Visit) -> None:
    steps = ("explain", "speed-24-again", "speed-1", "table1-0", "speed-24", "speed-ddqn-24")
    visit(60, *steps)
    order = [call.split() for call in visit.calls.read_text().splitlines()]
    named = [" ".join(call[:4]) for call in order]
    assert [name.split()[:2] for name in named] == [
        ["bench", "train"],
        ["bench", "train"],
        ["bench", "train"],
        ["bench", "explain"],
        ["reproduce", "table1"],
        ["bench", "train"],
    ]
    assert [call[3] for call in order[:3]] == ["24", "1", "24"]


def test_no_step_begins_without_the_time_it_needs(visit: Visit) -> None:
    code, out = visit(1, "speed-24")
    assert code == 75
    assert "needs 120 s" in out
    assert visit.called() == 0
    assert not list((visit.folder / "done").iterdir())


def test_unfinished_work_stops_it_and_the_same_command_goes_on(visit: Visit) -> None:
    code, out = visit(60, "table1-0", "agents", what="table1-0=75")
    assert code == 75
    assert "unfinished" in out
    assert visit.brought() == ["home.log", "table1-0.log"]
    minutes = visit.calls.read_text().split("--minutes ")[1].split()[0]
    assert 59 < float(minutes) < 59.25  # with time left for checkpoints and packing
    assert visit(60, "table1-0")[0] == 0
    assert (visit.folder / "done" / "table1-0").exists()


def test_it_can_be_interrupted_in_the_middle_of_a_step_that_does_not_listen(visit: Visit) -> None:
    with visit.begin(60, "explain", "speed-1", what="explain=hang") as process:
        while visit.called() < 2:
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 40
    assert process.returncode == 75
    assert "interrupted" in out
    assert "speed-1.json" in visit.brought()
    assert not (visit.folder / "done" / "explain").exists()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module("home")


def test_runs_come_home_small_and_playable(home: ModuleType, trained: Path, tmp_path: Path) -> None:
    folder, to = tmp_path / "work", tmp_path / "home"
    for kind, names in {"agents-runs": ["ddqn"], "table1-runs": ["own", "other"]}.items():
        (folder / kind).mkdir(parents=True)
        for name in names:
            (folder / kind / name).symlink_to(trained / name)
    (folder / "explain.json").write_text("[]")
    (folder / "cache").mkdir()
    (folder / "cache" / "large.json").write_text("{}")

    assert home.main([str(folder), str(to), "--results"]) == 0
    assert [file.name for file in to.iterdir()] == ["results.tar.gz"]
    assert home.main([str(folder), str(to)]) == 0
    assert sorted(file.name for file in to.iterdir()) == ["results.tar.gz", "weights-1.tar"]

    with tarfile.open(to / "weights-1.tar") as tar:
        tar.extractall(tmp_path / "back", filter="data")
    back = tmp_path / "back"
    found = sorted(path.parent for path in back.rglob("config.json"))
    names = ["agents-runs/ddqn", "table1-runs/other", "table1-runs/own"]
    assert [str(path.relative_to(back)) for path in found] == names
    agent = idqn.load(found[-1])
    assert agent.origin.run_id == idqn.load(trained / "own").origin.run_id


def test_what_has_no_room_is_left_out_last(
    home: ModuleType, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, to = tmp_path / "work", tmp_path / "home"
    for kind, name in (("agents-runs", "ddqn"), ("table1-runs", "own"), ("table1-runs", "other")):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / name).symlink_to(trained / name)
    assert home.main([str(folder), str(to)]) == 0
    whole = (to / "weights-1.tar").stat().st_size
    third = str(whole * 0.45 / 2**20)
    assert home.main([str(folder), str(to), "--files", "2", "--file-mb", third]) == 0
    assert "no room for ddqn" in capsys.readouterr().err
    assert len(list(to.glob("weights-*.tar"))) == 2
    assert all(file.stat().st_size <= whole * 0.45 for file in to.glob("weights-*.tar"))


def test_versions_of_what_is_not_installed_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    found = import_module("report").versions(("torch", "surely-not-installed"))
    assert found["surely-not-installed"] is None
    assert found["torch"]
    json.dumps(found)
