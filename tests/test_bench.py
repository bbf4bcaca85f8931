"""`idqn bench`: what it promises to measure, what it leaves behind, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
import torch

from idqn import cli
from idqn.bench.options import ATARI_GAMES
from idqn.bench.population import PopulationSpeed, _EnoughError, _Window
from idqn.bench.process import alone
from idqn.config import Config, to_toml
from idqn.errors import UserError
from idqn.presets import preset
from idqn.system import system_info
from idqn.train import Progress
from tests.bench_jobs import add, complain, die

MACHINE = {"hardware", "versions", "started", "load_average_1_min"}


pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def small(tiny: Config) -> Config:
    """A population that trains fast, with one emulator process."""
    changes = {"train.frames": 14_000, "system.workers": 1, "system.checkpoint_every_frames": 8_000}
    config = tiny.replace(**changes)
    Path("small.toml").write_text(to_toml(config))
    return config


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go meanwhile."""
    Path("temporary").mkdir()
    path = Path("temporary").absolute()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Found in the environment of every process started from now on."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("IDQN_TEST_MARK", mark)
    return mark.encode()


def marked_processes(mark: bytes) -> list[str]:
    """Command lines of those who are still there a moment later."""
    for _ in range(50):
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:  # it has ended, or is not ours
                continue
        # multiprocessing's own helper lives as long as the program
        found = [line for line in found if "resource_tracker" not in line]
        if not found:
            return []
        time.sleep(0.1)
    return found


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(arguments))
    return int(exit_.value.code or 0)


SMALL = ["bench", "train", "--config", "small.toml", "--preset", "quick"]


def test_train_measures_a_population(
    small: Config, temporary: Path, mark: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*SMALL, "--runs", "2", "--seconds", "0.2", "--json", "speed.json") == 0
    out, err = capsys.readouterr()
    assert "learner µs/run-update" in out
    assert len(out.splitlines()) == 2
    for doing in ("starting to train", "measuring training", "measuring the learner alone"):
        assert f"2 runs: {doing}\n" in err

    (result,) = json.loads(Path("speed.json").read_text())
    assert result["runs"] == 2
    assert result.keys() >= MACHINE
    for name in (
        "end_to_end_frames_per_s",
        "frames_per_s_per_run",
        "learner_us_per_run_update",
        "emulator_frames_per_s",
        "startup_s",
    ):
        assert result[name] > 0, name
    total = result["frames_per_s_per_run"] * result["runs"]
    assert result["end_to_end_frames_per_s"] == pytest.approx(total, rel=0.01)
    # learning cannot be faster than updates, nor playing than emulators
    most = 1e6 / result["learner_us_per_run_update"] * small.train.train_every_steps
    assert result["end_to_end_frames_per_s"] < 5 * most  # another process may use the core
    assert result["end_to_end_frames_per_s"] < 5 * result["emulator_frames_per_s"]
    shares = [result[f"share_waiting_for_{what}"] for what in ("envs", "device")]
    assert all(0 <= share <= 1 for share in shares)
    assert 0 < sum(shares) <= 1
    ratio = 1 / small.train.train_every_steps
    assert result["updates_per_agent_step"] == pytest.approx(ratio, rel=0.05)
    assert result["gpu_memory_mb_per_run"] is None
    assert result["command_startup_s"] > result["startup_s"]
    assert result["measured_s"] >= 0.2
    assert (result["envs"], result["turns"], result["workers"]) == (4, 1, 1)
    assert result["learning_starts_steps"] == 100
    assert result["games"] == ["idqn/MiniPacman-v0"]
    assert (result["agent"], result["preset"]) == ("idqn", "quick")
    assert result["overrides"]["train.envs"] == 4
    assert "env.id" not in result["overrides"]
    assert result["hardware"]["device"] == "cpu"
    assert result["hardware"]["cores"] == os.cpu_count()
    assert result["versions"].keys() >= {"python", "torch", "idqn"}
    assert list(temporary.glob("idqn*")) == []
    assert not Path("runs").exists()
    assert marked_processes(mark) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_benchmark_leaves_nothing(
    small: Config, temporary: Path, mark: bytes, number: signal.Signals, code: int
) -> None:
    program = [sys.executable, "-m", "idqn", *SMALL, "--runs", "1", "--seconds", "600"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "measuring training" in line:
                assert list(temporary.glob("idqn-bench-*/0000/metrics.jsonl"))
                process.send_signal(number)
                break
        rest = process.stderr.read()
    assert process.returncode == code
    assert "Traceback" not in rest
    assert list(temporary.glob("idqn*")) == []
    assert marked_processes(mark) == []


def test_the_window_is_between_rows() -> None:
    said: list[str] = []
    window = _Window(Config(), 10.0, 100, lambda doing, how_far: said.append(doing))

    def observe(frames: int, updates: int, elapsed: float, envs: float, device: float) -> None:
        row = {
            "frames": frames,
            "agent_steps": frames // 4,
            "updates": updates,
            "time/elapsed_s": elapsed,
            "time/waiting_for_envs": envs,
            "time/waiting_for_device": device,
        }
        window(Progress(frames, 10**9, [row, {}], True))

    observe(40_000, 0, 1.0, 0.9, 0.9)
    assert window.first_update is None
    observe(41_000, 50, 2.0, 0.9, 0.9)  # learns, and is not warm yet
    assert window.first_update is not None
    observe(42_000, 100, 4.0, 0.9, 0.9)  # the window opens
    window(Progress(43_000, 10**9, [{}, {}], False))
    observe(44_000, 225, 6.0, 0.5, 0.1)
    with pytest.raises(_EnoughError):
        observe(52_000, 725, 14.0, 0.0, 0.2)
    assert window.measured(runs=2) == {
        "end_to_end_frames_per_s": 2000.0,
        "frames_per_s_per_run": 1000.0,
        "share_waiting_for_envs": 0.1,  # (0.5 * 2 + 0 * 8) / 10
        "share_waiting_for_device": 0.18,  # (0.1 * 2 + 0.2 * 8) / 10
        "updates_per_agent_step": 0.25,
        "measured_s": 10.0,
        "measured_frames": 20_000,
    }
    assert said == ["starting to train", "training, not yet measured", *["measuring training"] * 3]


def test_alone_hands_back_results_and_errors() -> None:
    said: list[tuple[str, str]] = []

    def say(doing: str, how_far: str) -> None:
        said.append((doing, how_far))

    assert alone(add, 1, 2, say=say) == 3
    assert said == [("adding", "all of them")]
    with pytest.raises(UserError, match="no such thing"):
        alone(complain, say=say)
    with pytest.raises(UserError, match="ended early, with exit code 3"):
        alone(die, say=say)


def test_runs_take_games_in_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[list[Config]] = []

    def stop(configs: list[Config], *_: Any) -> None:
        given.append(configs)
        raise UserError("enough")

    monkeypatch.setattr("idqn.bench.population.population_speed", stop)
    for runs in ("1", "10"):
        assert run("bench", "train", "--runs", runs, "--train.envs", "6", "--device", "cpu") == 2
    one, ten = given
    assert [config.env.id for config in one] == ["ALE/Alien-v5"]
    assert [c.env.id for c in ten] == [*ATARI_GAMES, "ALE/Alien-v5", "ALE/Freeway-v5"]
    assert [c.train.seed for c in ten] == [0] * 8 + [1, 1]
    assert {c.train.envs for c in ten} == {6}


def test_other_agents_are_measured_as_their_preset_has_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[tuple[list[Config], frozenset[str]]] = []

    def stop(configs: list[Config], overrides: frozenset[str], *_: Any) -> None:
        given.append((configs, overrides))
        raise UserError("enough")

    monkeypatch.setattr("idqn.bench.population.population_speed", stop)
    flags = ("--runs", "2", "--agent.atoms", "9", "--device", "cpu")
    assert run("bench", "train", "--agent", "c51", *flags) == 2
    ((configs, overrides),) = given
    own = preset("paper", "ALE/Alien-v5", "c51").agent
    assert [config.agent for config in configs] == [dataclasses.replace(own, atoms=9)] * 2
    assert overrides == {"agent.atoms", "system.device"}


def test_what_was_measured_before_an_error_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = system_info(torch.device("cpu"))
    numbers = {f.name: 7 for f in dataclasses.fields(PopulationSpeed) if f.name != "system"}

    def measure(configs: list[Config], *_: Any) -> PopulationSpeed:
        if len(configs) > 2:
            raise RuntimeError("CUDA out of memory")
        return PopulationSpeed(**(numbers | {"runs": len(configs)}), system=system)

    monkeypatch.setattr("idqn.bench.population.population_speed", measure)
    assert run("bench", "train", "--runs", "1,2,3,1", "--json", "speed.json") == 2
    out, err = capsys.readouterr()
    assert err.startswith("idqn: error: not enough memory (CUDA out of memory)")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["1", "7"], ["2", "7"]]
    results = json.loads(Path("speed.json").read_text())
    assert [result["runs"] for result in results] == [1, 2]
    assert results[0]["hardware"] == {n: system[n] for n in ("device", "cpu", "cores", "platform")}
    assert "system" not in results[0]


def test_env_measures_each_game_and_the_mix(
    mark: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--envs", "5", "--workers", "1", "--seconds", "0.1", "--json", "env.json", "--quiet"]
    assert run("bench", "env", "--games", "ALE/Pong-v5", "ALE/Breakout-v5", *flags) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "ALE/Pong-v5",
        "ALE/Breakout-v5",
        "mix",
    ]
    results = json.loads(Path("env.json").read_text())
    assert [result["games"] for result in results] == [
        ["ALE/Pong-v5"],
        ["ALE/Breakout-v5"],
        ["ALE/Pong-v5", "ALE/Breakout-v5"],
    ]
    assert [(result["envs"], result["turns"]) for result in results] == [(5, 1), (5, 1), (4, 2)]
    for result in results:
        assert result["emulator_frames_per_s"] > 0
        assert result["workers"] == 1
        assert result.keys() >= MACHINE
    assert marked_processes(mark) == []


def test_replay_measures_each_population(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--runs", "1,2", "--envs", "4", "--transitions", "50", "--batch-size", "8"]
    flags = ["--device", "cpu", "--seconds", "0.05", "--json", "replay.json"]
    assert run("bench", "replay", *sizes, *flags) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    results = json.loads(Path("replay.json").read_text())
    assert [result["runs"] for result in results] == [1, 2]
    for result in results:
        assert result.keys() >= MACHINE
        steps = result["runs"] * 4
        assert result["append_us"] > 0
        assert result["append_us_per_agent_step"] == pytest.approx(
            result["append_us"] / steps, abs=0.01
        )
        assert result["sample_us"] > 0
        assert result["sample_us_per_run"] == pytest.approx(
            result["sample_us"] / result["runs"], abs=0.01
        )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("tran", "unknown command 'bench tran'; did you mean 'bench train'"),
        ("train --runs 0", "--runs must be at least 1 each, got '0'"),
        ("train --runs x", "--runs takes whole numbers, got 'x'; for example: --runs 1,8,24"),
        ("train --runs 1,", "--runs takes whole numbers, got '1,'"),
        ("train --games ALE/MsPackman-v5", "did you mean 'ALE/MsPacman-v5'"),
        ("train --games CartPole-v1", "images are needed"),
        ("train --game ALE/Pong-v5", "did you mean '--games'"),
        ("train --env.id ALE/Pong-v5", "environments are given as --games ENV"),
        ("train --json nowhere/speed.json", "there is no directory 'nowhere' for --json"),
        ("train --json old.json", "'old.json' exists already"),
        ("train --json .", "'.' exists already"),
        ("train --seconds 0", "--seconds must be a positive number, got 0.0"),
        ("train --seconds nan", "--seconds must be a positive number, got nan"),
        ("train --device tpu", "unknown device 'tpu'; use cpu, cuda"),
        ("train --agent.kyes 3", "did you mean '--agent.keys'"),
        ("train --train.envs 0", "train.envs must be at least 1"),
        ("env --games", "--games needs at least one environment"),
        ("env --games ALE/Pong-v5 --envs 0", "--envs must be at least the number of games (1)"),
        ("env --games ALE/Pongg-v5", "did you mean 'ALE/Pong-v5'"),
        ("env --workers -1", "system.workers must be at least 0"),
        ("env --json old.json", "'old.json' exists already"),
        ("replay --runs 0", "--runs must be at least 1 each"),
        ("replay --batch-size 0", "replay.batch_size must be between 1 and"),
        ("replay --device tpu", "unknown device 'tpu'; use cpu, cuda"),
        ("replay --json nowhere/speed.json", "there is no directory 'nowhere' for --json"),
    ],
)
def test_bad_input_gets_one_line(
    capsys: pytest.CaptureFixture[str], arguments: str, expected: str
) -> None:
    Path("old.json").write_text("precious")
    assert run("bench", *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("idqn: error: ")
    assert expected in err
    assert err.count("\n") == 1, err
    assert Path("old.json").read_text() == "precious"


def test_help_lists_the_benchmarks_and_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nfrom idqn.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'gymnasium', 'ale_py', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for arguments, expected in (
        (["bench", "--help"], "replay       Measure how fast replay stores"),
        (["bench", "train", "--help"], "--train.envs INT"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
