"""C51: against Algorithm 1 of Bellemare et al. (2017) in loops, and a network written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from idqn.config import Config
from tests.agents.plain import (
    agent_of,
    aim_of,
    assert_gradient,
    best_of,
    c51_distribution,
    learner_of,
    make_batch,
    online,
    pixels,
    project_slowly,
    target,
    variant,
)

LOW, HIGH, COUNT = -2.0, 3.0, 11  # so narrow that rewards lead beyond both ends
ATOMS = [LOW + i * (HIGH - LOW) / (COUNT - 1) for i in range(COUNT)]


def c51(tiny: Config, changes: dict[str, Any] | None = None) -> Config:
    own = {"agent.atoms": COUNT, "agent.value_min": LOW, "agent.value_max": HIGH}
    return variant(tiny, "c51", own | (changes or {}))


def mean_of(probability: list[float]) -> float:
    return sum(p * z for p, z in zip(probability, ATOMS, strict=True))


def slow_targets(learner: Any, batch: Any, bootstrap: str) -> tuple[list[list[float]], int]:
    """Projected distributions, and how often the two networks disagree about a*."""
    by_online = c51_distribution(online(learner), batch.next_observation[0]).tolist()
    by_target = c51_distribution(target(learner), batch.next_observation[0]).tolist()
    choosing = by_target if bootstrap == "target" else by_online
    valuing = by_online if bootstrap == "online" else by_target
    found, disagreements = [], 0
    for i in range(len(choosing)):
        best = {
            id(net): best_of(torch.tensor([mean_of(p) for p in net[i]]))
            for net in (by_online, by_target)
        }
        reward, discount = float(batch.reward[0, i]), float(batch.discount[0, i])
        probability = valuing[i][best[id(choosing)]]
        found.append(project_slowly(probability, reward, discount, ATOMS))
        disagreements += best[id(by_online)] != best[id(by_target)] and discount > 0
    return found, disagreements


def test_the_slow_projection_by_hand() -> None:
    """What these tests rely on: 0.6 at -1 and 0.4 at 1 become 0.1 + 0.5·z, at -0.4 and 0.6."""
    atoms = [-1.0, 0.0, 1.0]
    assert project_slowly([0.6, 0.0, 0.4], 0.1, 0.5, atoms) == pytest.approx(
        [0.6 * 0.4, 0.6 * 0.6 + 0.4 * 0.4, 0.4 * 0.6]
    )
    assert project_slowly([0.2, 0.3, 0.5], 0.0, 0.0, atoms) == pytest.approx([0, 1, 0])
    assert project_slowly([0.2, 0.3, 0.5], 7.0, 0.9, atoms) == pytest.approx([0, 0, 1])


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
def test_targets_are_those_of_the_slow_projection(tiny: Config, bootstrap: str) -> None:
    learner = learner_of(c51(tiny, {"train.bootstrap": bootstrap}))
    batch = make_batch(40)
    batch = batch._replace(reward=2 * batch.reward)
    assert float(batch.reward.min()) < LOW - 0.5
    assert float(batch.reward.max()) > HIGH + 0.5

    aim = aim_of(learner, batch).distribution

    expected, disagreements = slow_targets(learner, batch, bootstrap)
    assert disagreements >= 3
    torch.testing.assert_close(aim.double(), torch.tensor(expected).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(aim.sum(-1), torch.ones(40))


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
def test_the_gradient_is_autograds_through_a_plain_network(tiny: Config, bootstrap: str) -> None:
    learner = learner_of(c51(tiny, {"train.bootstrap": bootstrap}))
    batch = make_batch()

    gradient, found = learner.gradient(batch)

    targets, _ = slow_targets(learner, batch, bootstrap)
    w = online(learner)
    probability = c51_distribution(w, batch.observation[0])
    losses, each = [], []
    for i, action in enumerate(batch.action[0].tolist()):
        entropy = torch.zeros((), dtype=torch.float64)
        for n in range(COUNT):
            entropy = entropy - targets[i][n] * probability[i, action, n].log()
        losses.append(batch.weight[0, i] * entropy)
        each.append(entropy.item())
    loss = sum(losses[1:], start=losses[0]) / len(losses)
    loss.backward()
    assert_gradient(learner, gradient, w)
    assert found.surprise[0].tolist() == pytest.approx(each, abs=1e-5)
    for name in ("loss/distributional", "loss/total"):
        assert float(found.measured[name][0]) == pytest.approx(loss.item(), rel=1e-5)
    assert "loss/bellman" not in found.measured


def test_q_is_the_mean_of_the_distribution_and_uncertainty_its_deviation(tiny: Config) -> None:
    learner = learner_of(c51(tiny))
    observation = pixels(30)[0]
    look = agent_of(learner).look(observation)

    distribution = c51_distribution(online(learner), observation).tolist()

    for i in range(30):
        for action in range(3):
            own = distribution[i][action]
            mean = mean_of(own)
            spread = math.sqrt(
                sum(p * (z - mean) ** 2 for p, z in zip(own, ATOMS, strict=True)),
            )
            assert look.distribution[i, action].tolist() == pytest.approx(own, abs=1e-5)
            assert look.log_distribution[i, action].exp().tolist() == pytest.approx(own, abs=1e-5)
            assert float(look.q[i, action]) == pytest.approx(mean, abs=1e-5)
            assert float(look.uncertainty[i, action]) == pytest.approx(spread, abs=1e-4)


def test_evaluation_and_training_without_dithering_go_by_the_mean(tiny: Config) -> None:
    learner = learner_of(c51(tiny))
    observation = pixels(40)
    distribution = c51_distribution(online(learner), observation[0]).tolist()
    expected = [best_of(torch.tensor([mean_of(p) for p in own])) for own in distribution]
    modes = [best_of(torch.tensor([ATOMS[p.index(max(p))] for p in own])) for own in distribution]
    assert expected != modes

    assert learner.act(observation)[0].tolist() == expected
    assert agent_of(learner).act(observation[0]).tolist() == expected


def test_atoms_are_evenly_spaced(tiny: Config) -> None:
    agent = agent_of(learner_of(c51(tiny)))
    assert agent.values.tolist() == pytest.approx(ATOMS)
