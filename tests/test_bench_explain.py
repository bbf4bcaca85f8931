"""`idqn bench explain`: what it measures, and the loop it measures saliency against."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from idqn import cli
from idqn.agent import load
from idqn.bench.explaining import Work, measure, saliency_speed, untrained
from idqn.bench.saliency_loop import saliency_loop
from idqn.config import Config
from idqn.explain import collect
from idqn.explain.perturbation import Scale, perturb, squared_changes
from idqn.explain.saliency import rank_correlation

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(arguments))
    return int(exit_.value.code or 0)


def test_a_run_is_measured_and_left_alone(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(trained.rglob("*"))
    command = ["bench", "explain", str(trained / "own"), "--only", "saliency", "--device", "cpu"]
    small = ["--episodes", "1", "--max-steps", "5", "--repeats", "1", "--json", "speed.json"]
    assert run(*command, *small) == 0
    assert sorted(trained.rglob("*")) == before
    out, err = capsys.readouterr()
    assert "times as long" in out
    assert "making saliency\n" in err
    (result,) = json.loads(Path("speed.json").read_text())
    assert result.keys() >= {"hardware", "versions", "started", "load_average_1_min", "threads"}
    assert result["seconds"].keys() == {"states", "saliency", "page"}
    assert result["total_s"] == pytest.approx(sum(result["seconds"].values()), abs=0.01)
    assert 0 < result["total_cpu_s"] < 100
    assert 0 < result["states"] <= 5
    assert 0 < result["page_mb"] <= result["report_mb"] < 10
    assert result["peak_memory_mb"] > 50
    assert result["peak_gpu_memory_mb"] is None
    saliency = result["saliency"]
    assert saliency["masks"] == 121
    assert saliency["ratio"] == pytest.approx(saliency["loop_s"] / saliency["batched_s"], rel=0.01)
    assert saliency["ratio_with_decoder"] > 0
    edited = result["edited_states"]
    for rate in ("edited_and_stepped_per_s_per_core", "edited_and_settled_per_s_per_core"):
        assert 0 < edited[rate] < float("inf")  # which is larger is for benchmarks to say
    assert edited["scored_per_s"] > 0
    assert "scored by the agent" in out


def test_what_an_agent_lacks_is_told(trained: Path, tmp_path: Path) -> None:
    work = Work(str(trained / "ddqn"), "cpu", ("keys", "saliency"), 1, 4, 1)
    result = measure(work, tmp_path, lambda *_: None)
    assert result["agent"] == "ddqn"
    assert "it has no keys" in result["refused"]["keys"]
    assert result["seconds"].keys() == {"states", "saliency", "page"}
    assert result["saliency"]["ratio_with_decoder"] is None


def test_without_a_run_it_is_the_papers_agent(tiny: Config) -> None:
    agent = untrained()
    assert agent.config.env.id == "ALE/MsPacman-v5"
    assert agent.observation_shape == (4, 84, 84)
    assert agent.origin.run == "untrained"
    small = untrained(tiny)
    assert np.array_equal(small.keys, untrained(tiny).keys)


def test_the_loop_finds_the_same_places(trained: Path) -> None:
    """It rounds to whole pixels, and its masks are a little wider and begin at the corner."""
    agent = load(trained / "own")
    states = collect(agent, episodes=1, max_steps=6)
    observation, action = states.observations(slice(3, 4)), int(states.action[3])
    scale = Scale.of(11, 11)
    found = squared_changes(perturb(agent, observation))[0, :, :, action]
    sigmas = scale.mask_sigma, scale.blur_sigma
    looped = saliency_loop(agent, observation[0], action, 1, *sigmas)
    assert looped.shape == found.shape == (11, 11)
    assert looped.min() >= 0
    assert rank_correlation(looped, found) > 0.8
    decoded = saliency_loop(agent, observation[0], action, 1, *sigmas, decode=True)
    np.testing.assert_allclose(decoded, looped, atol=1e-6)


def test_saliency_is_measured_by_the_state(trained: Path) -> None:
    agent = load(trained / "own")
    found = saliency_speed(agent, collect(agent, episodes=1, max_steps=3), repeats=2)
    assert found["repeats"] == 2
    assert found["states_at_once"] == 3
    assert found["actions"] == 5
    assert found["batched_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--only", "salience"], "unknown explanation 'salience'; did you mean 'saliency'?"),
        (["--json", "nowhere/a.json"], "there is no directory 'nowhere'"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--episode", "3"], "unknown argument '--episode'; did you mean '--episodes'?"),
    ],
)
def test_bad_options_are_explained(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", "explain", *arguments) == 2
    assert complaint in capsys.readouterr().err


def test_a_run_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "explain", "nowhere", "--only", "saliency") == 2
    assert "there is no run 'nowhere'" in capsys.readouterr().err
