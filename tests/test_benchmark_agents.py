"""benchmarks/agents.py: it stops and goes on, and what it writes is small and can be loaded."""

from __future__ import annotations

import json
import signal
import tarfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import idqn
from idqn.console import TrainingDisplay
from idqn.run_dir import RunDir

pytestmark = pytest.mark.usefixtures("in_tmp_path")
FOLDER = Path(__file__).parents[1] / "benchmarks"
TINY = [
    "agent.embedding_size=16",
    "env.frame_height=11",
    "env.frame_width=11",
    "env.max_episode_frames=15",
    "replay.batch_size=8",
    "replay.transitions=300",
    "replay.learning_starts_steps=100",
    "train.train_every_steps=16",
    "system.log_every_frames=80",
    "system.checkpoint_every_frames=100_000",
    "agent.subtract_mean_image=false",
    "agent.encoder=tiny",
]


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module("agents")


def run(agents: ModuleType, *extra: str, settings: tuple[str, ...] = ()) -> int:
    common = "--preset quick --games idqn/MiniPacman-v0 --seeds 0 1 --frames 400 --device cpu"
    few = "--episodes 0 --learner-seconds 0 --runs-dir runs --out out"
    flags = [*common.split(), *few.split(), "--set", *TINY, *settings, *extra]
    code: int = agents.main(flags)
    return code


def results(out: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(out, "agents.json").read_text())
    return found


def scores(found: dict[str, Any], agent: str) -> list[Any]:
    names = ("seed", "frames", "episodes", "final_100", "best_100", "evaluation", "curve")
    return [[own[name] for name in names] for own in found["agents"][agent]["runs"]]


class Impatient(TrainingDisplay):
    """Stops the second training it sees, halfway."""

    seen = 0

    def __enter__(self) -> TrainingDisplay:
        Impatient.seen += 1
        return super().__enter__()

    def __call__(self, progress: Any) -> None:
        if Impatient.seen == 2 and progress.frames == 240:
            signal.raise_signal(signal.SIGTERM)


def test_it_goes_on_where_it_was_stopped(
    agents: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = ("--runs-dir", "whole", "--out", "whole-out", "--agents", "ddqn", "c51")
    assert run(agents, *whole) == 0
    monkeypatch.setattr(agents, "TrainingDisplay", Impatient)
    capsys.readouterr()

    assert run(agents, "--agents", "ddqn", "c51", "--minutes", "0") == 75
    assert "no time left for ddqn; the same command goes on" in capsys.readouterr().out
    assert not Path("out/agents.json").exists()
    assert run(agents, "--agents", "ddqn", "c51") == 75
    assert "c51: stopped at 240 of 400 frames; the same command" in capsys.readouterr().out
    assert list(results()["agents"]) == ["ddqn"]
    assert run(agents, "--agents", "ddqn", "c51") == 0
    out = capsys.readouterr().out
    assert "ddqn: in out/agents.json already" in out
    assert "c51: going on with 2 runs" in out

    found = results()
    assert list(found["agents"]) == ["ddqn", "c51"]
    for agent in ("ddqn", "c51"):
        assert scores(found, agent) == scores(results("whole-out"), agent)
    # a lost or emptied --out is written again from the runs
    Path("out/agents.json").unlink()
    assert run(agents, "--agents", "ddqn", "c51") == 0
    assert Impatient.seen == 3
    assert scores(results(), "c51") == scores(found, "c51")


def test_what_it_says_of_an_agent(agents: ModuleType) -> None:
    extra = ("--agents", "ddqn", "noisy", "--episodes", "2", "--learner-seconds", "0.1")
    assert run(agents, *extra) == 0

    found = results()
    ddqn, noisy = found["agents"]["ddqn"], found["agents"]["noisy"]
    assert (ddqn["time_ratio"], ddqn["learner_time_ratio"]) == (1, 1)
    assert noisy["time_ratio"] == round(ddqn["frames_per_s"] / noisy["frames_per_s"], 2)
    alone = [own["learner_us_per_run_update"] for own in (noisy, ddqn)]
    assert noisy["learner_time_ratio"] == round(alone[0] / alone[1], 2)
    assert noisy["updates"] == 18  # the last step is followed by none
    for seed, own in enumerate(noisy["runs"]):
        assert (own["game"], own["seed"], own["frames"]) == ("idqn/MiniPacman-v0", seed, 400)
        assert own["curve"]["frames"] == [80, 160, 240, 320, 400]
        assert own["curve"]["return_last_100"][-1] == round(own["final_100"], 2)
        assert own["evaluation"]["episodes"] == 2
    assert found["settings"]["set"] == TINY
    config = RunDir(Path("runs/MiniPacman-noisy-s0")).config()
    assert config.system.checkpoint_every_frames == 100_000
    assert config.agent.subtract_mean_image is False
    assert config.agent.encoder == "tiny"


def test_packed_runs_are_small_and_can_be_loaded(agents: ModuleType) -> None:
    assert run(agents, "--agents", "ddqn", settings=("agent.embedding_size=64",)) == 0

    with tarfile.open("out/ddqn.tar") as tar:
        tar.extractall("unpacked", filter="data")
    original, packed = (idqn.load(f"{where}/MiniPacman-ddqn-s1") for where in ("runs", "unpacked"))
    # 64 x 3136 weights of the linear layer take half of their bytes, and lose as much precision
    large = original.network.state_dict()["encoder.linear.weight"]
    assert large.numel() == 64 * 64 * 7 * 7
    for name, tensor in packed.network.state_dict().items():
        own = original.network.state_dict()[name]
        assert torch.equal(tensor, own.half().float() if tensor.numel() > 100_000 else own), name
    frames = original.origin.frames
    size = [
        Path(where, "MiniPacman-ddqn-s1/checkpoints", f"{frames:012d}/weights.safetensors").stat()
        for where in ("runs", "unpacked")
    ]
    assert size[0].st_size - size[1].st_size == pytest.approx(2 * large.numel(), abs=100)


def test_large_weights_are_left_out(agents: ModuleType) -> None:
    assert run(agents, "--agents", "ddqn", "--weights-mb", "0.1") == 0

    for own in results()["agents"]["ddqn"]["runs"]:
        assert own["weights"] is None
        assert own["weights_mb"] > 0.1
    assert not list(Path("out").glob("*.tar"))


def test_other_settings_are_refused_not_mixed(
    agents: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--agents", "ddqn", "--frames", "120")
    assert run(agents, *few) == 0

    def complaint(*extra: str) -> str:
        code = run(agents, *few, *extra)
        said = capsys.readouterr().err
        assert code == (1 if "error" in said else 0)
        return said

    other = ("--out", "other")
    assert "error" not in complaint(*other, "--seeds", "0")
    more = complaint("--out", "third", "--seeds", "0", "1", "2")
    assert "of ddqn's runs only MiniPacman-ddqn-s0, MiniPacman-ddqn-s1 exist in 'runs'" in more
    fewer = complaint("--out", "third", "--set", *TINY, "train.envs=4")
    assert "'runs/MiniPacman-ddqn-s0' was trained with train.envs = 8, not 4" in fewer
    assert "'out/agents.json' has other settings" in complaint("--set", "train.envs=4")
    assert "did you mean 'train.envs'" in complaint("--out", "third", "--set", "train.env=4")
    assert "FIELD=VALUE, got 'train.envs'" in complaint("--out", "third", "--set", "train.envs")
    authors = ("--preset", "authors", "--agents", "c51")
    assert "no c51 agent" in complaint("--out", "third", *authors)
    assert "unknown device 'tpu'" in complaint("--device", "tpu")


def test_a_curve_has_evenly_spaced_points_and_the_last(agents: ModuleType) -> None:
    rows = [{"frames": n, "return_last_100": n / 2} for n in range(1, 301)]
    empty = [{"frames": 0, "return_last_100": None}]

    curve = agents.curve(empty + rows)

    assert curve["frames"] == list(range(5, 301, 5))
    assert curve["return_last_100"] == [n / 2 for n in range(5, 301, 5)]
    assert agents.curve(rows[:7])["frames"] == [1, 2, 3, 4, 5, 6, 7]
    assert agents.curve(empty) == {"frames": [], "return_last_100": []}


def test_speed_is_that_of_learning(agents: ModuleType) -> None:
    """Two runs; the rows without losses, and the first with them, do not count."""
    rows = [
        {"time/frames_per_s": rate, "time/waiting_for_envs": waiting, **loss}
        for rate, waiting, loss in [
            (900.0, 0.9, {}),
            (10.0, 0.0, {"loss/total": 1.0}),
            (100.0, 0.1, {"loss/total": 1.0}),
            (40.0, 0.2, {"loss/total": 1.0}),
            (120.0, 0.6, {"loss/total": 1.0}),
        ]
    ]
    rows[-1] |= {"time/elapsed_s": 12.5, "updates": 7}

    found = agents.speed([rows, rows])

    expected = {"frames_per_s": 200.0, "share_waiting_for_envs": 0.3}
    assert found == expected | {"seconds": 12.5, "updates": 7}
