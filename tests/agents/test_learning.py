"""Every agent learns MiniPacman, as the quick preset has it, on one core."""

from __future__ import annotations

from pathlib import Path

import pytest

from idqn.evaluate import evaluate, random_policy
from idqn.presets import preset
from idqn.train import Progress, train

GAME = "idqn/MiniPacman-v0"
MOST_FRAMES = 30_000
AGENTS = ["idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble"]


class _EnoughError(Exception):
    """Has learnt enough; ends training."""


@pytest.fixture(scope="module")
def random_return() -> float:
    env = preset("quick", GAME).env
    found = evaluate(random_policy(env), env, episodes=1_000).mean
    assert 3.9 < found < 4.6
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_100_games_in_a_row_pay_three_times_as_much_as_random_ones(
    agent: str, random_return: float, tmp_path: Path
) -> None:
    own = {"train.seed": 0, "train.frames": MOST_FRAMES, "system.device": "cpu"}
    config = preset("quick", GAME, agent).replace(**own)

    def watch(progress: Progress) -> None:
        best = progress.rows[0].get("return_best_100")
        if best is not None and best >= 3 * random_return:
            raise _EnoughError

    with pytest.raises(_EnoughError):
        train([config], [tmp_path / "run"], watch)
