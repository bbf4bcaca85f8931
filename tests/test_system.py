from __future__ import annotations

import pytest
import torch

from idqn import training
from idqn.config import Config
from idqn.system import use_device
from idqn.training import Training


def test_a_numbered_gpu_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)

    for name in ("cpu", "cuda", "cuda:1"):
        use_device(torch.device(name))

    assert current == [torch.device("cuda:1")]


def test_training_uses_its_device_before_anything_is_put_there(
    tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs, events and our kernels go to the current device, wherever tensors are."""
    second = torch.device("cuda:1")
    used: list[torch.device] = []

    class UsedFirst(Exception):
        pass

    def make_learner(*arguments: object) -> None:
        assert used == [second]
        raise UsedFirst

    config = tiny.replace(**{"train.turns": 1, "system.workers": 0})
    monkeypatch.setattr(training, "resolve_device", lambda _: second)
    monkeypatch.setattr(training, "use_device", used.append)
    monkeypatch.setattr(training, "Learner", make_learner)
    precision = torch.get_float32_matmul_precision()
    try:
        with pytest.raises(UsedFirst):
            Training([config])
    finally:
        torch.set_float32_matmul_precision(precision)


def test_precision_of_training_is_not_that_of_what_comes_after(
    tiny: Config, full_precision: None
) -> None:
    """It belongs to the whole process, and evaluations may follow in it."""
    with Training([tiny.replace(**{"train.turns": 1, "system.workers": 0})]):
        torch.set_float32_matmul_precision("medium")  # as training does on a GPU
    assert torch.get_float32_matmul_precision() == "highest"
