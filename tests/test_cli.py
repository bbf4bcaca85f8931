"""The command line as a user meets it: what works, and what one line says when it does not."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

from idqn import checkpoint, cli
from idqn.config import Config, from_dict, to_dict, to_toml
from idqn.presets import preset
from idqn.run_dir import RunDir

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def short(tiny: Config) -> Config:
    Path("short.toml").write_text(to_toml(tiny.replace(**{"train.frames": 200})))
    return tiny


TRAIN = ["train", "idqn/MiniPacman-v0", "--config", "short.toml", "--quiet"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(arguments))
    return int(exit_.value.code or 0)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line printed for bad input."""
    capsys.readouterr()
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("idqn: error: ")
    assert err.count("\n") == 1, err
    return err


def test_train_eval_play_runs_and_resume(short: Config, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TRAIN, "--seeds", "0", "1") == 0
    out = capsys.readouterr().out
    assert "runs/MiniPacman-idqn-s0" in out
    assert "runs/MiniPacman-idqn-s1" in out
    assert "next: idqn eval runs/MiniPacman-idqn-s0" in out

    assert run("eval", "MiniPacman-idqn-s0", "--episodes", "5", "--random") == 0
    out = capsys.readouterr().out
    for heading in ("mean", "median", "std", "95 % interval", "distinct returns", "random"):
        assert heading in out
    files = list(Path("runs/MiniPacman-idqn-s0/evaluation").glob("*.json"))
    stored = {data["policy"]: data for data in (json.loads(f.read_text()) for f in files)}
    assert stored.keys() == {"idqn", "random"}
    assert stored["idqn"]["episodes"] == len(stored["idqn"]["returns"]) == 5
    assert stored["idqn"]["frames_trained"] == 200

    assert run("play", "runs/MiniPacman-idqn-s0", "--video", "game.mp4") == 0
    assert b"ftyp" in Path("game.mp4").read_bytes()[:12]

    assert run("runs") == 0
    out = capsys.readouterr().out
    assert "idqn/MiniPacman-v0" in out
    assert "200 (100 %)" in out

    assert run("resume", "runs/MiniPacman-idqn-s1", "--frames", "300", "--quiet") == 0
    for seed in (0, 1):  # the population goes on together
        assert checkpoint.complete(RunDir(Path(f"runs/MiniPacman-idqn-s{seed}")))[-1] == 300
    assert RunDir(Path("runs/MiniPacman-idqn-s1")).config().train.frames == 300
    capsys.readouterr()
    assert run("resume", "runs/MiniPacman-idqn-s1", "--quiet") == 0
    assert "already at 300 frames; --frames trains on" in capsys.readouterr().out


def test_config_prints_what_flags_and_files_make(
    capsys: pytest.CaptureFixture[str], short: Config
) -> None:
    flags = ["--agent", "idqn", "--agent.keys", "7", "--loss.reconstruction", "0.5"]
    more = ["--frames", "1_000", "--device", "cpu", "--env.color", "--env.frame-height", "None"]
    assert run("config", "ALE/Pong-v5", "--preset", "authors", *flags, *more) == 0
    config = from_dict(tomllib.loads(capsys.readouterr().out))
    assert config.env.id == "ALE/Pong-v5"
    assert (config.agent.keys, config.loss.reconstruction) == (7, 0.5)
    assert (config.train.frames, config.system.device) == (1000, "cpu")
    assert config.env.color
    assert config.env.frame_height is None
    assert config.loss.diversity_rows == "all"  # from the preset
    assert run("config", "idqn/MiniPacman-v0", "--config", "short.toml", "--json") == 0
    printed = from_dict(json.loads(capsys.readouterr().out))
    assert printed.agent.keys == short.agent.keys
    assert printed.train.frames == 200


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nfrom idqn.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'gymnasium', 'ale_py', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for arguments in (["--help"], ["train", "--help"], ["config", "ALE/Pong-v5"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_help_lists_the_config_under_its_presets_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("train", "--preset", "authors", "--help") == 0
    out = capsys.readouterr().out
    assert "--agent {idqn,ddqn,c51,noisy,bootstrap,ensemble}" in out
    assert "--loss.reconstruction" in out
    assert "(default: 40000000)" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("trian", "unknown command 'trian'; did you mean 'train'?"),
        ("train", "which environment? For example: idqn train idqn/MiniPacman-v0"),
        ("train ALE/MsPackman-v5", "did you mean 'ALE/MsPacman-v5'"),
        ("train MsPacman", "did you mean 'ALE/MsPacman-v5'"),
        ("train idqn/MiniPacmann-v0", "did you mean 'idqn/MiniPacman-v0'"),
        ("train CartPole-v1", "images are needed: HxW or HxWxC, uint8 or bool"),
        ("train Pendulum-v1", "needs discrete actions"),
        ("train ALE/Pong-v5 --agent.kyes 3", "did you mean '--agent.keys'"),
        ("train ALE/Pong-v5 --loss.reconstrution 1", "did you mean '--loss.reconstruction'"),
        ("train ALE/Pong-v5 --agent.keys 1", "agent.keys must be at least 2"),
        ("train ALE/Pong-v5 --agent.value-min 30", "value_min must be below agent.value_max"),
        ("train ALE/Pong-v5 --replay.batch-size 20000", "between 1 and replay.transitions"),
        ("train ALE/Pong-v5 --config none.toml", "'none.toml' cannot be read: No such file"),
        ("train ALE/Pong-v5 --config .", "cannot be read: Is a directory"),
        ("train ALE/Pong-v5 --preset papper", "invalid choice 'papper' for argument '--preset'"),
        ("train ALE/Pong-v5 --preset papper", "Did you mean 'paper'?"),
        ("train ALE/Pong-v5 --agent dqn", "Expected one of ('idqn', 'ddqn', 'c51', 'noisy',"),
        ("train ALE/Pong-v5 --agent dqn", "Did you mean 'idqn' or 'ddqn'?"),
        ("train ALE/Pong-v5 --agent.name bootstrp", "Did you mean 'bootstrap'?"),
        ("train ALE/Pong-v5 --agent c51 --preset authors", "the authors' code has no c51 agent"),
        ("train ALE/Pong-v5 --agent ddqn --agent.decoder ae", "must be 'none' for ddqn"),
        (
            "train ALE/Pong-v5 --agent.mask-probability 0",
            "agent.mask_probability must be in (0, 1]",
        ),
        ("train ALE/Pong-v5 --frames 1e6", "invalid literal for int() with base 10: '1e6'"),
        ("train ALE/Pong-v5 --seed 3", "did you mean '--seeds'"),
        ("train ALE/Pong-v5 --train.seed 3", "did you mean '--seeds'"),
        ("train --env.id ALE/Pong-v5", "environments are given without a flag"),
        ("train ALE/Pong-v5 --seeds", "--seeds needs at least one number"),
        ("train ale_py:ALE/Pong-v5", "'ALE/Pong-v5' instead of 'ale_py:ALE/Pong-v5'"),
        ("config ALE/Pong-v5 ALE/Alien-v5", "config takes one environment"),
        ("train idqn/MiniPacman-v0 --replay.transitions 99999999999", "not enough memory"),
        ("train ALE/Pong-v5 --device tpu", "unknown device 'tpu'; use cpu, cuda"),
        ("train ALE/Pong-v5 idqn/MiniPacman-v0", "Atari (ALE/...) only"),
        ("train ALE/Pong-v5 --env.frame-height 20", "too small for the 'nature' encoder"),
        ("eval nowhere", "there is no run 'nowhere'"),
        ("resume nowhere", "there is no run 'nowhere'"),
        ("play nowhere", "there is no run 'nowhere'"),
        ("runs nowhere", "there is no directory 'nowhere'"),
        ("eval", "RUN"),
    ],
    ids=lambda text: text.replace("/", "_") if text.startswith(("train", "eval")) else "",
)
def test_bad_input_gets_one_line(
    capsys: pytest.CaptureFixture[str], arguments: str, expected: str
) -> None:
    if arguments == "train ALE/Pong-v5 --env.frame-height 20":
        arguments += " --agent.encoder nature"
    assert expected in refusal(capsys, *arguments.split())
    assert not Path("runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu(capsys: pytest.CaptureFixture[str], short: Config) -> None:
    assert "torch sees 0 CUDA devices; use --device cpu" in refusal(
        capsys, *TRAIN, "--device", "cuda"
    )
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[agent]\nkyes = 3", "unknown key 'agent.kyes'; did you mean 'agent.keys'"),
        ("[agent]\nkeys = 'many'", "'agent.keys' must be an integer, got 'many'"),
        ("[agent", "is not valid TOML"),
        ("agent = 3", "'agent' must be a table of fields, got 3"),
        ("[agent]\nname = 'dqn'", "unknown agent 'dqn'; did you mean 'idqn' or 'ddqn'?"),
        ("[agent]\nname = 'ddqn'\ndecoder = 'ae'", "agent.decoder must be 'none' for ddqn"),
        ("[loss]\nbellman_kind = 'huber'", "must be one of 'smooth_l1', 'squared', got 'huber'"),
    ],
)
def test_bad_config_files(capsys: pytest.CaptureFixture[str], text: str, expected: str) -> None:
    Path("bad.toml").write_text(text)
    assert expected in refusal(capsys, "train", "ALE/Pong-v5", "--config", "bad.toml")


def test_an_existing_run_is_never_overwritten(
    short: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*TRAIN, "--name", "mine") == 0
    before = {p: p.stat().st_mtime_ns for p in Path("runs").rglob("*")}
    assert "is a run already; continue it with `idqn resume" in refusal(
        capsys, *TRAIN, "--name", "mine"
    )
    assert {p: p.stat().st_mtime_ns for p in Path("runs").rglob("*")} == before
    Path("game.gif").write_text("precious")
    assert "exists already" in refusal(capsys, "play", "mine", "--video", "game.gif")
    assert "films end in .mp4 or .gif" in refusal(capsys, "play", "mine", "--video", "game.xyz")
    assert "episodes must be at least 1" in refusal(capsys, "eval", "mine", "--episodes", "0")
    assert "sticky_probability works for Atari" in refusal(
        capsys, "eval", "mine", "--sticky", "0.25"
    )
    assert "has no checkpoint '7'" in refusal(capsys, "eval", "mine", "--checkpoint", "7")
    for command in ("eval", "play"):
        assert "a seed is between 0 and" in refusal(capsys, command, "mine", "--seed", "-1")
    assert "at least 1 step" in refusal(capsys, "play", "mine", "--max-steps", "0")
    assert "cannot be trained on to 100" in refusal(capsys, "resume", "mine", "--frames", "100")
    assert RunDir(Path("runs/mine")).config().train.frames == 200


def test_damaged_and_foreign_checkpoints(short: Config, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TRAIN, "--name", "mine") == 0
    folder = RunDir(Path("runs/mine")).checkpoint(200)
    weights = folder / "weights.safetensors"
    good = weights.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 4
    for bad in (good[:-5], bytes(flipped), b""):
        weights.write_bytes(bad)
        for command in ("eval", "resume", "play"):
            assert "is damaged: weights.safetensors" in refusal(capsys, command, "mine")
    weights.write_bytes(good)
    seal = json.loads((folder / "COMPLETE").read_text())
    (folder / "COMPLETE").write_text(json.dumps(seal | {"format": "something"}))
    assert "is not an idqn checkpoint" in refusal(capsys, "resume", "mine")
    (folder / "COMPLETE").write_text(json.dumps(seal))

    # a whole checkpoint of another run, then one that no longer says whose it is
    assert run(*TRAIN, "--name", "other", "--agent.keys", "9") == 0
    theirs = RunDir(Path("runs/other")).checkpoint(200)
    shutil.rmtree(folder)
    shutil.copytree(theirs, folder)
    for command in ("eval", "resume", "play"):
        assert "is a checkpoint of another run" in refusal(capsys, command, "mine")
    Path("runs/mine/system.json").unlink()
    for command in ("eval", "resume"):
        assert "another run" in refusal(capsys, command, "mine")


def test_a_copy_of_a_run_is_a_run_of_its_own(
    short: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*TRAIN, "--name", "mine") == 0
    shutil.copytree("runs/mine", "runs/copy")
    assert run("resume", "runs/copy", "--frames", "300", "--quiet") == 0
    assert checkpoint.complete(RunDir(Path("runs/mine")))[-1] == 200
    assert checkpoint.complete(RunDir(Path("runs/copy")))[-1] == 300
    monkeypatch.chdir("runs/mine")
    assert run("resume", ".", "--frames", "300", "--quiet") == 0
    assert checkpoint.complete(RunDir(Path()))[-1] == 300


def test_presets_follow_the_environment_not_words_like_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("config", "--config", "exp-v3.toml", "ALE/Pong-v5") == 2
    Path("exp-v3.toml").write_text("[agent]\nkeys = 9")
    capsys.readouterr()
    assert run("config", "--config", "exp-v3.toml", "ALE/Pong-v5") == 0
    config = from_dict(tomllib.loads(capsys.readouterr().out))
    assert (config.env.frame_skip, config.env.frame_stack, config.agent.keys) == (4, 4, 9)


def test_the_environment_may_come_from_the_file(
    short: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "--config", "short.toml", "--quiet", "--name", "mine") == 0
    assert RunDir(Path("runs/mine")).config().env.id == "idqn/MiniPacman-v0"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Config:
    capsys.readouterr()
    assert run("config", *arguments) == 0
    return from_dict(tomllib.loads(capsys.readouterr().out))


@pytest.mark.parametrize("agent", ["idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble"])
@pytest.mark.parametrize("flag", ["--agent {}", "--agent.name {}", "--agent={}"])
def test_an_agents_defaults_are_its_own(
    capsys: pytest.CaptureFixture[str], agent: str, flag: str
) -> None:
    flags = flag.format(agent).split()
    assert printed(capsys, "ALE/Pong-v5", *flags) == preset("paper", "ALE/Pong-v5", agent)
    quick = printed(capsys, "--preset", "quick", *flags, "idqn/MiniPacman-v0")
    assert quick == preset("quick", "idqn/MiniPacman-v0", agent)
    more = printed(capsys, "ALE/Pong-v5", *flags, "--optimizer.learning-rate", "0.5")
    assert more.optimizer.learning_rate == 0.5
    assert more.agent == preset("paper", "ALE/Pong-v5", agent).agent


def test_help_shows_the_agents_own_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--agent", "ensemble", "--help") == 0
    out = capsys.readouterr().out
    assert "(default: ensemble)" in out
    assert "(default: 512)" in out


def test_the_files_agent_counts_unless_a_flag_says_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("my.toml").write_text("[agent]\nname = 'c51'\natoms = 21")
    for agent in ("idqn", "ddqn", "c51"):
        expected = preset("paper", "ALE/Pong-v5", agent).replace(**{"agent.atoms": 21})
        flags = ("--agent", agent) if agent != "c51" else ()
        found = printed(capsys, "ALE/Pong-v5", "--config", "my.toml", *flags)
        assert found == expected
    Path("other.toml").write_text("[agent]\natoms = 21")
    expected = preset("paper", "ALE/Pong-v5", "noisy").replace(**{"agent.atoms": 21})
    flags = ("--config", "other.toml", "--agent", "noisy")
    assert printed(capsys, "ALE/Pong-v5", *flags) == expected


def test_errors_are_one_line_where_boxes_can_be_drawn_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminals know them, captured output does not."""
    plain = refusal(capsys, "train", "ALE/Pong-v5", "--agent", "dqn")
    monkeypatch.setattr("tyro._fmtlib._FORCE_UTF8_BOXES", True)
    assert refusal(capsys, "train", "ALE/Pong-v5", "--agent", "dqn") == plain
    assert refusal(capsys, "eval").startswith("idqn: error: Missing from idqn eval: RUN")


def test_training_another_agent(short: Config, capsys: pytest.CaptureFixture[str]) -> None:
    config = preset("quick", "idqn/MiniPacman-v0", "ddqn").replace(
        **{
            **{f"train.{n}": getattr(short.train, n) for n in ("envs", "target_sync_steps")},
            **{f"replay.{n}": v for n, v in to_dict(short)["replay"].items()},
            **{f"system.{n}": v for n, v in to_dict(short)["system"].items()},
            **{f"env.{n}": v for n, v in to_dict(short)["env"].items()},
            "train.frames": 200,
        }
    )
    Path("short.toml").write_text(to_toml(config))
    assert run(*TRAIN) == 0
    assert "runs/MiniPacman-ddqn-s0" in capsys.readouterr().out
    assert RunDir(Path("runs/MiniPacman-ddqn-s0")).config().agent == config.agent
    assert run("eval", "MiniPacman-ddqn-s0", "--episodes", "2") == 0
    stored = next(Path("runs/MiniPacman-ddqn-s0/evaluation").glob("*.json"))
    assert json.loads(stored.read_text())["policy"] == "ddqn"
    assert run("resume", "MiniPacman-ddqn-s0", "--frames", "300", "--quiet") == 0
    capsys.readouterr()
    assert run("runs") == 0
    out = capsys.readouterr().out
    assert " ddqn " in out
    assert "300 (100 %)" in out


def test_going_back_to_an_older_checkpoint(
    short: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*TRAIN, "--name", "mine", "--frames", "400") == 0
    directory = RunDir(Path("runs/mine"))
    (directory.checkpoint(400) / "replay.zst").write_bytes(b"broken")
    assert "use an earlier one with --checkpoint 200" in refusal(capsys, "resume", "mine")
    before = checkpoint.complete(directory), directory.metrics_file.read_bytes()
    refused = refusal(capsys, "resume", "mine", "--checkpoint", "200", "--frames", "100")
    assert "cannot be trained on to 100" in refused
    assert (checkpoint.complete(directory), directory.metrics_file.read_bytes()) == before
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("resume", "mine", "--checkpoint", "200", "--frames", "300", "--quiet") == 0
    moved = "idqn: warning: 1 newer checkpoints of 'mine' were moved to"
    assert capsys.readouterr().err.startswith(moved)
    assert (directory.checkpoints / "abandoned" / "000000000400").is_dir()
    assert checkpoint.complete(directory) == [0, 200, 300]
    assert b"\0" not in directory.metrics_file.read_bytes()
    assert directory.last_metrics()["frames"] == 300
    assert run("resume", "mine", "--frames", "350", "--quiet") == 0
    assert directory.last_metrics()["frames"] == 352  # whole steps of four environments


def test_runs_survives_broken_files(short: Config, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "bad"):
        assert run(*TRAIN, "--name", name) == 0
    Path("runs/bad/config.json").write_text("{")
    Path("runs/good/checkpoints/BEST").write_text("?")
    Path("runs/good/evaluation").mkdir()
    Path("runs/good/evaluation/torn.json").write_text("{")
    capsys.readouterr()
    assert run("runs") == 0
    out = capsys.readouterr().out
    assert "config.json cannot be read" in out
    assert "200 (100 %)" in out
    assert run("eval", "good", "--checkpoint", "best", "--episodes", "1") == 0


def test_a_full_disk_during_training(
    short: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*TRAIN, "--name", "mine") == 0
    honest = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 10_000:  # anything larger than a JSON file
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        message = refusal(capsys, "resume", "mine", "--frames", "400", "--quiet")
    assert "No space left on device; the last good one is at 200 frames" in message
    assert checkpoint.complete(RunDir(Path("runs/mine"))) == [0, 200]
