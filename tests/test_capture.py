from __future__ import annotations

from pathlib import Path

import pytest
import torch

from idqn import checkpoint, training
from idqn.capture import Captured
from idqn.config import Config
from idqn.run_dir import RunDir
from idqn.train import train

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_a_cpu_the_function_is_just_called() -> None:
    calls: list[int] = []

    def function() -> int:
        calls.append(1)
        return len(calls)

    captured = Captured(function, torch.device("cpu"))
    assert [captured() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


@needs_gpu
def test_a_graph_reads_its_tensors_anew() -> None:
    device = torch.device("cuda")
    x, total = torch.zeros(3, device=device), torch.zeros(3, device=device)

    def function() -> torch.Tensor:
        total.add_(x)
        return total * 2

    captured = Captured(function, device)
    for i in range(8):
        x.fill_(i)
        result = captured()
        assert result.tolist() == [2.0 * sum(range(i + 1))] * 3


@needs_gpu
def test_training_with_graphs_equals_training_without(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the order of additions, which some kernels do not promise: the difference must be a
    small part of what was learnt."""
    changes = {"system.device": "cuda", "train.frames": 200}
    configs = [tiny.replace(**changes, **{"train.seed": seed}) for seed in (0, 1)]
    train(configs, [tmp_path / "graph-0", tmp_path / "graph-1"])
    monkeypatch.setattr(
        training, "Captured", lambda function, _: Captured(function, torch.device("cpu"))
    )
    train(configs, [tmp_path / "plain-0", tmp_path / "plain-1"])
    for run in (0, 1):
        graph, plain = (
            checkpoint.load(RunDir(tmp_path / f"{kind}-{run}"), 200) for kind in ("graph", "plain")
        )
        assert graph.state["updates"] == plain.state["updates"] == 25
        before = checkpoint.load_weights(RunDir(tmp_path / f"plain-{run}"), 0)
        for name in ("encoder.linear.weight", "head.keys", "decoder.linear.weight"):
            learnt = (plain.weights[name] - before[name]).norm()
            assert (graph.weights[name] - plain.weights[name]).norm() < 0.02 * learnt, name
            assert learnt > 0
