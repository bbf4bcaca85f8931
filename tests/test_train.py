from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from idqn import checkpoint
from idqn.agent import load
from idqn.config import Config
from idqn.errors import DivergenceError, UserError
from idqn.evaluate import evaluate, random_policy
from idqn.learner import Learner, Update
from idqn.presets import preset
from idqn.run_dir import RunDir
from idqn.train import Progress, resume, train
from idqn.types import Batch
from tests.comparison import assert_same_checkpoint, metrics


def test_two_runs_from_one_seed_are_identical(tiny: Config, tmp_path: Path) -> None:
    train([tiny], [tmp_path / "a"])
    train([tiny], [tmp_path / "b"])
    assert_same_checkpoint(tmp_path / "a", tmp_path / "b")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    train([tiny.replace(**{"train.seed": 1})], [tmp_path / "c"])
    assert metrics(tmp_path / "a") != metrics(tmp_path / "c")


def test_a_population_equals_its_runs_alone(tiny: Config, tmp_path: Path) -> None:
    configs = [
        tiny,
        tiny.replace(**{"train.seed": 1, "loss.reconstruction": 1.0}),
        tiny.replace(**{"train.seed": 2, "agent.exploration_factor": 0.5}),
    ]
    train(configs, [tmp_path / f"together-{i}" for i in range(3)])
    for i, config in enumerate(configs):
        train([config], [tmp_path / f"alone-{i}"])
        assert_same_checkpoint(tmp_path / f"together-{i}", tmp_path / f"alone-{i}")
        assert metrics(tmp_path / f"together-{i}") == metrics(tmp_path / f"alone-{i}")


def test_worker_processes_do_not_change_results(tiny: Config, tmp_path: Path) -> None:
    train([tiny], [tmp_path / "inside"])
    train([tiny.replace(**{"system.workers": 2})], [tmp_path / "outside"])
    assert_same_checkpoint(tmp_path / "inside", tmp_path / "outside")


def test_resuming_from_any_checkpoint_ends_the_same(tiny: Config, tmp_path: Path) -> None:
    tiny = tiny.replace(**{"system.keep_checkpoints": 10})
    train([tiny], [tmp_path / "whole"])
    train([tiny.replace(**{"train.frames": 400})], [tmp_path / "part"])
    for start in (200, 400):
        with pytest.warns(UserWarning, match=r"newer checkpoints .* were moved to .*abandoned"):
            outcome = resume(tmp_path / "part", frames=600, which=start)
        assert outcome.frames == 600
        assert_same_checkpoint(tmp_path / "whole", tmp_path / "part")
        assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")


@pytest.mark.parametrize("start", [0, 200])
def test_resuming_is_exact_with_chance_priorities_and_sums_of_rewards(
    tiny: Config, tmp_path: Path, start: int
) -> None:
    tiny = tiny.replace(
        **{
            "agent.epsilon_start": 0.8,
            "agent.epsilon_end": 0.1,
            "agent.epsilon_steps": 400,
            "agent.decoder": "vae",
            "replay.prioritized": True,
            "train.n_step": 3,
            "train.turns": 2,
            "train.frames": 400,
        }
    )
    train([tiny], [tmp_path / "whole"])
    train([tiny.replace(**{"train.frames": 200})], [tmp_path / "part"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 newer checkpoints")
        assert resume(tmp_path / "part", frames=400, which=start).frames == 400
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "part")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")


def test_a_population_resumes_together_from_its_last_common_checkpoint(
    tiny: Config, tmp_path: Path
) -> None:
    configs = [tiny, tiny.replace(**{"train.seed": 1})]
    train(configs, [tmp_path / "whole-0", tmp_path / "whole-1"])
    short = [c.replace(**{"train.frames": 400}) for c in configs]
    train(short, [tmp_path / "part-0", tmp_path / "part-1"])
    # as if killed between the two runs' saves
    newest = RunDir(tmp_path / "part-1").checkpoint(400)
    newest.rename(tmp_path / "lost")
    resume(tmp_path / "part-0", frames=600)
    for run in (0, 1):
        assert_same_checkpoint(tmp_path / f"whole-{run}", tmp_path / f"part-{run}")
        assert metrics(tmp_path / f"whole-{run}") == metrics(tmp_path / f"part-{run}")
    (tmp_path / "part-1").rename(tmp_path / "gone")
    with pytest.raises(UserError, match=r"'part-1', which is missing.*--alone"):
        resume(tmp_path / "part-0", frames=700)
    assert resume(tmp_path / "part-0", frames=700, alone=True).frames == 700


class Restless(gym.Env[np.ndarray, int]):
    """Does not care about its seed."""

    observation_space = gym.spaces.Box(0, 255, (11, 11), np.uint8)
    action_space = gym.spaces.Discrete(2)
    frames = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return self.frames.integers(0, 256, (11, 11), dtype=np.uint8), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.reset()[0], 1.0, False, False, {}


def test_environments_that_cannot_be_rebuilt_are_reported(tiny: Config, tmp_path: Path) -> None:
    gym.register("tests/Restless-v0", Restless)
    config = tiny.replace(**{"env.id": "tests/Restless-v0", "train.frames": 200})
    train([config], [tmp_path / "run"])
    with pytest.warns(UserWarning, match="not deterministic given their seed"):
        outcome = resume(tmp_path / "run", frames=300)
    assert outcome.frames == 300


def test_metrics_have_everything(tiny: Config, tmp_path: Path) -> None:
    seen: list[Progress] = []
    train([tiny], [tmp_path / "run"], seen.append)
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["frames"] == row["agent_steps"] == 600
    assert row["updates"] == (600 - 4 - 100) // 4  # due after the last step, they would come next
    losses = {f"loss/{n}" for n in ("bellman", "distributional", "reconstruction", "diversity")}
    others = {"loss/total", "q_mean", "uncertainty_mean", "attention_entropy", "keys_in_use"}
    more = {"gradient_norm", "return_last_100", "return_best_100", "time/frames_per_s"}
    assert losses | others | more <= row.keys()
    assert 1 <= row["keys_in_use"] <= 25
    assert 0 < row["attention_entropy"] <= np.log(5) + 1e-6
    assert [p.frames for p in seen if p.new_rows] == [100, 200, 300, 400, 500, 600]
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


def test_the_mean_image_is_that_of_the_first_states(tiny: Config, tmp_path: Path) -> None:
    train([tiny.replace(**{"train.frames": 100})], [tmp_path / "run"])
    agent = load(tmp_path / "run")
    saved = checkpoint.load(RunDir(tmp_path / "run"), 100).replay
    slots = saved["slots"][:100, :-1].long()
    states = saved["frames"][slots].flatten(1, 2).double()  # [100, C, H, W]
    torch.testing.assert_close(agent.network.mean_image.double(), states.mean(0))
    train(
        [tiny.replace(**{"train.frames": 100, "agent.subtract_mean_image": False})],
        [tmp_path / "none"],
    )
    assert not load(tmp_path / "none").network.mean_image.any()


def test_truncation_bootstraps_unless_asked_not_to(tiny: Config, tmp_path: Path) -> None:
    """Episodes here are cut after 15 frames, so most of them are truncated."""
    train([tiny], [tmp_path / "bootstrap"])
    train(
        [tiny.replace(**{"train.bootstrap_on_truncation": False, "train.frames": 100})],
        [tmp_path / "terminal"],
    )
    saved = checkpoint.load(RunDir(tmp_path / "terminal"), 100)
    episodes = saved.state["statistics"]["episodes"]
    assert int(saved.replay["terminated"].sum()) == episodes > 4
    both = checkpoint.load(RunDir(tmp_path / "bootstrap"), 600)
    assert int(both.replay["terminated"].sum()) < both.state["statistics"]["episodes"]


class Generous(Restless):
    """Pays 3 for each of an episode's seven steps."""

    steps = 0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps = self.steps % 7 + 1
        return self.reset()[0], 3.0, self.steps == 7, False, {}


def test_discount_steps_and_clipping_reach_the_batches(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gym.register("tests/Generous-v0", Generous)
    batches: list[Batch] = []
    honest = Learner.update

    def watched(self: Learner, batch: Batch) -> Update:
        batches.append(batch)
        return honest(self, batch)

    monkeypatch.setattr(Learner, "update", watched)
    base = tiny.replace(**{"env.id": "tests/Generous-v0", "train.n_step": 2, "train.frames": 200})
    own = [{"train.discount": 0.9}, {"train.discount": 0.5, "train.clip_rewards": True}]
    train([base.replace(**changes) for changes in own], [tmp_path / "raw", tmp_path / "clipped"])
    assert len(batches) == 24
    reward, discount = (
        torch.cat([getattr(batch, name) for batch in batches], 1) for name in ("reward", "discount")
    )
    # the last step has one reward, the step before the last two, and no value after either
    assert reward[0].unique().tolist() == pytest.approx([3, 3 + 0.9 * 3])
    assert reward[1].unique().tolist() == [1, 1 + 0.5 * 1]
    assert discount[0].unique().tolist() == pytest.approx([0, 0.9**2])
    assert discount[1].unique().tolist() == [0, 0.5**2]
    assert all(bool((batch.weight == 1).all()) for batch in batches)


def test_a_nan_stops_the_run_and_keeps_the_last_good_checkpoint(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Learner.update

    def poisoned(self: Learner, *arguments: Any) -> Update:
        if int(self.updates) == 80:
            self.online[0, 5] = float("nan")
        return honest(self, *arguments)

    monkeypatch.setattr(Learner, "update", poisoned)
    with pytest.raises(DivergenceError, match=r"last good checkpoint is at 400.*learning-rate"):
        train([tiny], [tmp_path / "run"])
    run = RunDir(tmp_path / "run")
    assert checkpoint.complete(run)[-1] == 400
    assert all(t.isfinite().all() for t in checkpoint.load_weights(run, 400).values())


def test_weights_gone_bad_are_never_saved(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the losses of the last update before a checkpoint were still fine."""
    honest = Learner.update

    def poisoned(self: Learner, batch: Batch) -> Update:
        update = honest(self, batch)
        if int(self.updates) == 74:  # the last one before 400 frames
            self.online[0, 5] = float("inf")
        return update

    monkeypatch.setattr(Learner, "update", poisoned)
    with pytest.raises(DivergenceError, match=r"a weight of .* became not finite"):
        train([tiny], [tmp_path / "run"])
    assert checkpoint.complete(RunDir(tmp_path / "run"))[-1] == 200


def test_the_best_checkpoint_outlives_pruning(tiny: Config, tmp_path: Path) -> None:
    tiny = tiny.replace(
        **{
            "env.max_episode_frames": 2,
            "train.frames": 1200,
            "system.keep_checkpoints": 2,
            "replay.learning_starts_steps": 1200,
        }
    )
    train([tiny], [tmp_path / "run"])
    run = RunDir(tmp_path / "run")
    best = checkpoint.best(run)
    assert best is not None
    assert checkpoint.complete(run) == sorted({best, 1000, 1200})
    assert checkpoint.find(run, "best") == best


def test_populations_must_agree_in_what_they_share(tiny: Config, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"agree in agent.keys, got 5 and 7"):
        train([tiny, tiny.replace(**{"agent.keys": 7})], [tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "a").exists()


def test_it_learns_mini_pacman(tmp_path: Path) -> None:
    """At least three times a random policy's return, after a minute on one core."""
    config = preset("quick", "idqn/MiniPacman-v0").replace(
        **{"train.frames": 7_000, "system.threads": 1, "system.device": "cpu"}
    )
    train([config], [tmp_path / "run"])
    agent = load(tmp_path / "run")
    trained = evaluate(agent.act, config.env, episodes=50)
    random = evaluate(random_policy(config.env), config.env, episodes=50)
    assert trained.mean >= 3 * random.mean
