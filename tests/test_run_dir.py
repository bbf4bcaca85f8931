from __future__ import annotations

from pathlib import Path

import pytest

from idqn.config import Config
from idqn.errors import UserError
from idqn.run_dir import RunDir, find_runs, write_atomically


def test_create_then_open(tmp_path: Path) -> None:
    config = Config().replace(**{"train.seed": 5, "agent.keys": 7})
    RunDir.create_all([tmp_path / "deep" / "run"], [config], {"cpu": "x"})
    assert RunDir.open(tmp_path / "deep" / "run").config() == config


def test_all_or_none_are_created(tmp_path: Path) -> None:
    RunDir.create_all([tmp_path / "b"], [Config()], {})
    with pytest.raises(UserError, match="stopped before its first checkpoint; delete it"):
        RunDir.create_all([tmp_path / "b"], [Config()], {})
    (tmp_path / "b" / "checkpoints" / "000000000000" / "COMPLETE").mkdir(parents=True)
    before = (tmp_path / "b" / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"is a run already.*idqn resume.*--name"):
        RunDir.create_all([tmp_path / "a", tmp_path / "b"], [Config(), Config()], {})
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b" / "config.json").read_bytes() == before
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UserError, match="not a run"):
        RunDir.create_all([tmp_path / "c"], [Config()], {})
    with pytest.raises(UserError, match="share the directory"):
        RunDir.create_all([tmp_path / "d", tmp_path / "d"], [Config(), Config()], {})
    assert not (tmp_path / "d").exists()


def test_opening_what_is_no_run(tmp_path: Path) -> None:
    RunDir.create_all([tmp_path / "pong"], [Config()], {})
    with pytest.raises(UserError, match=r"no run '.*pnog'.*pong"):
        RunDir.open(tmp_path / "pnog")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="not a run directory"):
        RunDir.open(tmp_path / "empty")
    (tmp_path / "pong" / "config.json").write_text('{"agent": {"kyes": 3}}')
    with pytest.raises(UserError, match=r"unknown key 'agent.kyes'; did you mean 'agent.keys'"):
        RunDir.open(tmp_path / "pong").config()


def test_a_bare_name_is_looked_up_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RunDir.create_all([Path("runs/pong")], [Config()], {})
    assert RunDir.open("pong").path == Path("runs/pong")


def test_only_one_process_trains_a_run(tmp_path: Path) -> None:
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    first = run.lock()
    with pytest.raises(UserError, match="another process is training"):
        run.lock()
    first.close()
    run.lock().close()


def test_last_metrics_skips_a_torn_line(tmp_path: Path) -> None:
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    assert run.last_metrics() == {}
    run.metrics_file.write_text('{"frames": 1}\n{"frames": 2}\n{"fra')
    assert run.last_metrics() == {"frames": 2}


def test_find_runs_looks_below_but_not_inside(tmp_path: Path) -> None:
    for name in ("x/one", "two"):
        RunDir.create_all([tmp_path / name], [Config()], {})
    assert [run.name for run in find_runs(tmp_path)] == ["two", "one"]
    assert list(find_runs(tmp_path / "nowhere")) == []


def test_write_atomically_leaves_the_old_file_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
