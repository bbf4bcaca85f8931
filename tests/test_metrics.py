from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from idqn.config import Config
from idqn.metrics import EpisodeStatistics, MetricsWriter, UpdateMeans, record_step
from idqn.run_dir import RunDir
from idqn.types import Step


def test_returns_and_lengths_by_hand() -> None:
    statistics = EpisodeStatistics(envs=2)
    no = np.array([False, False])
    assert statistics.row()["return_last_100"] is None
    statistics.record(np.array([1.0, 10.0], np.float32), no)
    statistics.record(np.array([2.0, 0.0], np.float32), np.array([True, False]))  # 3 in 2 steps
    statistics.record(np.array([5.0, -4.0], np.float32), np.array([True, True]))  # 5 in 1, 6 in 3
    assert statistics.returns == [3.0, 5.0, 6.0]
    assert statistics.lengths == [2, 1, 3]
    row = statistics.row()
    assert row["episodes"] == 3
    assert row["return_last_100"] == pytest.approx(14 / 3)
    assert row["length_last_100"] == 2
    assert row["return_best_100"] is None  # needs a hundred


def test_best_100_is_the_best_running_mean() -> None:
    statistics = EpisodeStatistics(envs=1)
    over = np.array([True])
    scores = [0.0] * 50 + [10.0] * 100 + [4.0] * 100
    for score in scores:
        statistics.record(np.array([score], np.float32), over)
    assert statistics.best == 10.0
    assert statistics.last_mean == 4.0
    assert len(statistics.returns) == 100


def test_statistics_survive_json() -> None:
    first, second = EpisodeStatistics(2), EpisodeStatistics(2)
    rng = np.random.default_rng(0)
    for _ in range(150):
        first.record(rng.normal(size=2).astype(np.float32), rng.random(2) < 0.9)
    second.load_state(json.loads(json.dumps(first.state())))
    for statistics in (first, second):
        statistics.record(np.ones(2, np.float32), np.array([True, True]))
    assert first.state() == second.state()


def test_record_step_gives_each_run_its_part() -> None:
    statistics = [EpisodeStatistics(2), EpisodeStatistics(2)]
    frames = np.zeros((4, 1, 2, 2), np.uint8)
    step = Step(
        frames,
        np.array([1, 2, 3, 4], np.float32),
        np.array([True, False, False, False]),
        np.array([False, False, False, True]),
        frames,
    )
    record_step(statistics, step)
    assert [s.returns for s in statistics] == [[1.0], [4.0]]


def test_update_means_by_hand() -> None:
    means = UpdateMeans()
    hits = torch.zeros(2, 2, 3)
    hits[1, 0, 0] = 1
    means.add({"loss": torch.tensor([1.0, 3.0]), "key_hits": hits})
    hits = hits.clone()
    hits[1, 1, 2] = 4
    means.add({"loss": torch.tensor([2.0, 5.0]), "key_hits": hits})
    rows = means.rows(2, count=2)
    assert rows == [{"loss": 1.5, "keys_in_use": 0}, {"loss": 4.0, "keys_in_use": 2}]
    means.clear()
    assert means.rows(2, count=0) == [{}, {}]
    means.add({"loss": torch.tensor([7.0, 9.0]), "key_hits": torch.zeros(2, 2, 3)})
    assert means.rows(2, count=1)[1] == {"loss": 9.0, "keys_in_use": 0}


def test_the_writer_continues_where_a_checkpoint_was(tmp_path: Path) -> None:
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    writer = MetricsWriter(run)
    writer.write({"frames": 10, "x": 0.1, "y": None})
    length = writer.length
    writer.write({"frames": 20, "x": 0.2})
    writer.close()
    writer = MetricsWriter(run, length, 10)
    writer.write({"frames": 20, "x": 0.3})
    writer.close()
    rows = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert rows == [{"frames": 10, "x": 0.1, "y": None}, {"frames": 20, "x": 0.3}]
