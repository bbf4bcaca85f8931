"""Every agent learns MiniPacman, as the quick preset has it, on one core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from idqn.evaluate import evaluate, random_policy
from idqn.presets import preset
from idqn.train import train
from tests.comparison import metrics

GAME = "idqn/MiniPacman-v0"
CHANGES: dict[str, dict[str, Any]] = {
    "idqn": {},
    "ddqn": {},
    "c51": {},
    "noisy": {},
    "bootstrap": {},
    "ensemble": {"agent.heads": 3},
}


@pytest.fixture(scope="module")
def random_return() -> float:
    env = preset("quick", GAME).env
    found = evaluate(random_policy(env), env, episodes=1_000).mean
    assert 3.9 < found < 4.6
    return found


@pytest.mark.parametrize("agent", CHANGES)
def test_the_last_100_games_of_training_pay_three_times_as_much_as_random_ones(
    agent: str, random_return: float, tmp_path: Path
) -> None:
    config = preset("quick", GAME, agent).replace(
        **{"train.seed": 0, "system.threads": 1, "system.device": "cpu"}, **CHANGES[agent]
    )
    train([config], [tmp_path / "run"])

    last = metrics(tmp_path / "run")[-1]

    assert last["frames"] == config.train.frames
    assert last["episodes"] > 200  # the last 100 are not the first ones
    assert last["return_last_100"] >= 3 * random_return
