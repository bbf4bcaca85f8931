"""Double DQN: targets, gradients and choices, against a network written out and loops."""

from __future__ import annotations

import pytest
import torch

from idqn.config import Config
from tests.agents.plain import (
    agent_of,
    aim_of,
    assert_gradient,
    best_of,
    ddqn_q,
    learner_of,
    make_batch,
    online,
    pixels,
    smooth_l1,
    target,
    variant,
)

KINDS = ["double", "target", "online"]


@pytest.mark.parametrize("bootstrap", KINDS)
def test_targets_by_hand(tiny: Config, bootstrap: str) -> None:
    learner = learner_of(variant(tiny, "ddqn", {"train.bootstrap": bootstrap}))
    batch = make_batch(24)

    aim = aim_of(learner, batch).q

    by_online = ddqn_q(online(learner), batch.next_observation[0]).detach()
    by_target = ddqn_q(target(learner), batch.next_observation[0])
    disagreements = 0
    for i in range(24):
        ours, theirs = best_of(by_online[i]), best_of(by_target[i])
        next_q = {
            "double": by_target[i, ours],
            "target": by_target[i, theirs],
            "online": by_online[i, ours],
        }[bootstrap]
        expected = float(batch.reward[0, i]) + float(batch.discount[0, i]) * float(next_q)
        assert float(aim[i]) == pytest.approx(expected, abs=1e-5)
        disagreements += ours != theirs and float(batch.discount[0, i]) > 0
    assert disagreements >= 3  # where it matters who chooses


@pytest.mark.parametrize("bootstrap", KINDS)
@pytest.mark.parametrize("kind", ["smooth_l1", "squared"])
def test_the_gradient_is_autograds_through_a_plain_network(
    tiny: Config, bootstrap: str, kind: str
) -> None:
    changes = {"train.bootstrap": bootstrap, "loss.bellman_kind": kind}
    learner = learner_of(variant(tiny, "ddqn", changes))
    batch = make_batch()
    batch = batch._replace(reward=3 * batch.reward)

    gradient, found = learner.gradient(batch)

    w, other = online(learner), target(learner)
    q = ddqn_q(w, batch.observation[0])
    choosing = ddqn_q(other if bootstrap == "target" else w, batch.next_observation[0]).detach()
    valuing = ddqn_q(w if bootstrap == "online" else other, batch.next_observation[0]).detach()
    losses, errors = [], []
    for i, action in enumerate(batch.action[0].tolist()):
        next_q = valuing[i, best_of(choosing[i])]
        difference = q[i, action] - (batch.reward[0, i] + batch.discount[0, i] * next_q)
        each = smooth_l1(difference) if kind == "smooth_l1" else difference * difference
        losses.append(batch.weight[0, i] * each)
        errors.append(abs(difference.item()))
    assert min(errors) < 1 < max(errors)  # both branches of the loss
    loss = sum(losses[1:], start=losses[0]) / len(losses)
    loss.backward()
    assert_gradient(learner, gradient, w)
    assert found.surprise[0].tolist() == pytest.approx(errors, abs=1e-5)
    for name in ("loss/bellman", "loss/total"):
        assert float(found.measured[name][0]) == pytest.approx(loss.item(), rel=1e-5)
    chosen = [q[i, a].item() for i, a in enumerate(batch.action[0].tolist())]
    assert float(found.measured["q_mean"][0]) == pytest.approx(sum(chosen) / 12, abs=1e-5)


def test_nothing_is_valued_after_the_end(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "ddqn"))
    batch = make_batch()
    over = batch.discount[0] == 0
    assert 0 < int(over.sum()) < 12
    other_end = batch.next_observation.clone()
    other_end[0, over] = 255 - other_end[0, over]

    aim = aim_of(learner, batch).q

    assert torch.equal(aim[over], batch.reward[0, over])
    assert torch.equal(aim, aim_of(learner, batch._replace(next_observation=other_end)).q)
    other_rest = batch.next_observation.clone()
    other_rest[0, ~over] = 255 - other_rest[0, ~over]
    changed = aim_of(learner, batch._replace(next_observation=other_rest)).q
    assert bool((changed != aim)[~over].all())


def test_sample_weights_scale_the_loss(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "ddqn"))
    batch = make_batch(4)
    full, found = learner.gradient(batch._replace(weight=torch.ones(1, 4)))
    full, whole = full.clone(), float(found.measured["loss/total"][0])

    third, found = learner.gradient(batch._replace(weight=torch.full((1, 4), 0.3)))

    torch.testing.assert_close(third, 0.3 * full, rtol=1e-4, atol=1e-7)
    assert float(found.measured["loss/total"][0]) == pytest.approx(0.3 * whole, rel=1e-5)
    # a weight of 4 on one of 4 samples is that sample alone
    lone, found = learner.gradient(batch._replace(weight=torch.tensor([[0.0, 4.0, 0.0, 0.0]])))
    lone, one_of_four = lone.clone(), found
    alone, found = learner.gradient(
        type(batch)(*(part[:, 1:2] for part in batch))._replace(weight=torch.ones(1, 1))
    )
    torch.testing.assert_close(lone, alone, rtol=1e-4, atol=1e-6)
    assert float(one_of_four.measured["loss/total"][0]) == pytest.approx(
        float(found.measured["loss/total"][0]), rel=1e-5
    )
    assert one_of_four.surprise[0, 0] > 0  # weights are no part of what replay goes by


def test_actions_are_random_at_first_and_greedy_in_the_end(tiny: Config) -> None:
    """With ε from 1 to 0 over 50 steps of 100 environments."""
    changes = {"agent.epsilon_start": 1.0, "agent.epsilon_end": 0.0, "agent.epsilon_steps": 5_000}
    learner = learner_of(variant(tiny, "ddqn", changes))
    observation = pixels(100)
    greedy = ddqn_q(online(learner), observation[0]).argmax(-1)

    steps = torch.stack([learner.act(observation)[0] for _ in range(60)])  # [60, 100]

    as_greedy = (steps == greedy).double().mean(1)
    # a random action is the greedy one in a third of all cases; 4 standard errors
    for at in range(50):
        expected = 1 - (1 - at / 50) * 2 / 3
        assert float(as_greedy[at]) == pytest.approx(expected, abs=0.2)
    assert float(as_greedy[:50].mean()) == pytest.approx(1 - 0.51 * 2 / 3, abs=0.03)
    assert bool((as_greedy[50:] == 1).all())
    counts = steps[:5].flatten().bincount(minlength=3)
    assert all(120 < int(count) < 230 for count in counts)  # of 500


def test_evaluation_is_greedy(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "ddqn", {"agent.epsilon_start": 1.0}))
    agent, observation = agent_of(learner), pixels(40)[0]
    q = ddqn_q(online(learner), observation)

    action = agent.act(observation)

    assert action.tolist() == [best_of(own) for own in q]
    assert len(set(action.tolist())) > 1
    torch.testing.assert_close(agent.look(observation).q.double(), q.detach(), atol=1e-5, rtol=0)
