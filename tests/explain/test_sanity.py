from __future__ import annotations

import numpy as np
import pytest
import torch

from idqn.explain.correlation import correlation, ranks
from idqn.explain.sanity import first_agent, rank_correlation, redraw, redrawn
from idqn.networks import build_network
from tests.explain.untrained import untrained


def test_ranks_share_what_is_equal() -> None:
    assert ranks(np.array([10.0, 30.0, 20.0])).tolist() == [1, 3, 2]
    assert ranks(np.array([5.0, 1.0, 5.0, 5.0, 0.0])).tolist() == [4, 2, 4, 4, 1]


def test_rank_correlation_by_hand() -> None:
    one = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, 9.0]])
    other = np.array([[10.0, 30.0, 20.0, 40.0], [4.0, 3.0, 2.0, 1.0], [1.0, 5.0, 5.0, 6.0]])
    # 1 - 6·Σd²/(n(n²-1)) without equal values: 1 - 6·2/60; with: ranks 1.5 1.5 3 4, 1 2.5 2.5 4
    third = (-1 * -1.5 + 0.5 * 0 + 1.5 * 1.5) / 4.5
    found = rank_correlation(one.reshape(3, 2, 2), other.reshape(3, 2, 2))
    np.testing.assert_allclose(found, [0.8, -1, third])


def test_what_is_the_same_everywhere_resembles_nothing() -> None:
    flat, other = np.full(9, 0.1), np.arange(9.0)
    assert correlation(flat, other) == 0
    assert correlation(other, flat) == 0
    assert correlation(flat, flat) == 0
    assert correlation(other, 3 + 2 * other) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("idqn", ["head", "head and linear layer", "all layers"]),
        ("ddqn", ["head", "head and linear layer", "all layers"]),
        ("noisy", ["head", "all layers"]),
        ("bootstrap", ["head", "all layers"]),
        ("ensemble", ["head", "head and linear layer", "all layers"]),
    ],
)
def test_depths_draw_ever_more(name: str, expected: list[str]) -> None:
    agent = untrained(name, agent__shared_torso=False)
    before = {key: weight.clone() for key, weight in agent.network.named_parameters()}
    steps = list(redrawn(agent, seed=7))
    assert [step.depth for step in steps] == expected
    shared = {
        "head": ("head.",),
        "head and linear layer": ("head.", "encoder.linear."),
        "all layers": ("head.", "encoder."),
    }
    for depth, other in steps:
        for key, weight in other.network.named_parameters():
            own = key.split(".", 2)[2] if key.startswith("members.") else key
            fixed = torch.equal(weight, before[key])
            # what every network begins with, zeros and constants, is the same of two
            same_in_all = not bool(before[key].std() > 0)
            assert fixed == (not own.startswith(shared[depth]) or same_in_all), key
    for key, weight in agent.network.named_parameters():
        assert torch.equal(weight, before[key])  # the agent itself is as it was


def test_what_is_redrawn_is_what_a_new_network_has() -> None:
    agent = untrained()
    agent.network.get_buffer("mean_image").fill_(31.0)
    other = redraw(agent, ("head.",), seed=7)
    fresh = build_network(agent.config.agent, agent.observation_shape, 5, seed=0 + 1 + 7)
    assert torch.equal(other.keys, fresh.get_parameter("head.keys"))
    assert torch.equal(other.values, agent.values)
    assert torch.equal(other.network.get_buffer("mean_image"), torch.full((2, 33, 33), 31.0))


@pytest.mark.parametrize("train_seed", [0, 7])
def test_what_is_redrawn_is_never_what_training_began_with(train_seed: int) -> None:
    agent = untrained(train__seed=train_seed)
    for seed in (0, 7):
        assert not torch.equal(redraw(agent, ("head.",), seed).keys, first_agent(agent).keys)


def test_training_began_with_the_runs_own_seed() -> None:
    agent = untrained(train__seed=5)  # its weights are of seed 0
    began = first_agent(agent)
    fresh = build_network(agent.config.agent, agent.observation_shape, 5, seed=5)
    assert torch.equal(began.keys, fresh.get_parameter("head.keys"))
    assert not torch.equal(began.keys, agent.keys)
