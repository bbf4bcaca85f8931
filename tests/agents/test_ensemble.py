"""Q-ensembles: members that learn apart, and choose together by what they agree on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from idqn.config import Config
from idqn.learner import Learner
from tests.agents.plain import (
    CPU,
    SHAPE,
    Named,
    agent_of,
    assert_gradient,
    best_of,
    ddqn_q,
    each_head_q,
    features,
    head_of_many,
    learner_of,
    make_batch,
    of_member,
    online,
    pixels,
    smooth_l1,
    target,
    variant,
)

MEMBERS = 4


def ensemble(tiny: Config, changes: dict[str, Any] | None = None) -> Config:
    own = {"agent.heads": MEMBERS, "agent.exploration_factor": 2.0}
    return variant(tiny, "ensemble", own | (changes or {}))


def opinions(weights: Named, observation: Tensor, shared: bool) -> list[Tensor]:
    """What each of the Q-functions says, [B, A] each."""
    if shared:
        return [q.detach() for q in each_head_q(weights, observation)]
    return [ddqn_q(of_member(weights, k), observation).detach() for k in range(MEMBERS)]


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
def test_training_chooses_by_mean_plus_deviation(tiny: Config, shared: bool, factor: float) -> None:
    changes = {"agent.shared_torso": shared, "agent.exploration_factor": factor}
    learner = learner_of(ensemble(tiny, changes))
    observation = pixels(500)

    action = learner.act(observation)[0].tolist()

    each = opinions(online(learner), observation[0], shared)
    expected, greedy, of_a_sample = [], [], []
    for i in range(500):
        pairs = [mean_and_deviation([float(q[i, a]) for q in each]) for a in range(3)]
        expected.append(best_of(torch.tensor([mean + factor * dev for mean, dev in pairs])))
        greedy.append(best_of(torch.tensor([mean for mean, _ in pairs])))
        wider = (MEMBERS / (MEMBERS - 1)) ** 0.5
        of_a_sample.append(
            best_of(torch.tensor([mean + factor * dev * wider for mean, dev in pairs]))
        )
    assert action == expected
    if factor > 0:
        assert expected != greedy
        assert expected != of_a_sample  # the deviation is that of the population
    assert agent_of(learner).act(observation[0]).tolist() == greedy  # evaluation has no bonus


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_a_look_has_every_members_values(tiny: Config, shared: bool) -> None:
    learner = learner_of(ensemble(tiny, {"agent.shared_torso": shared}))
    observation = pixels(20)[0]
    look = agent_of(learner).look(observation)

    each = opinions(online(learner), observation, shared)

    assert look.embedding.shape == (20, MEMBERS * 16)
    for i in range(20):
        for action in range(3):
            values = [float(q[i, action]) for q in each]
            mean, deviation = mean_and_deviation(values)
            assert look.head_q[i, action].tolist() == pytest.approx(values, abs=1e-5)
            assert float(look.q[i, action]) == pytest.approx(mean, abs=1e-5)
            assert float(look.uncertainty[i, action]) == pytest.approx(deviation, abs=1e-5)


def test_members_begin_different(tiny: Config) -> None:
    learner = Learner([ensemble(tiny)], SHAPE, [3], CPU)
    weights = learner.weights(0)
    assert len({name.split(".")[1] for name in weights}) == MEMBERS
    for name in of_member(weights, 0):
        own = [of_member(weights, k)[name] for k in range(MEMBERS)]
        if name.endswith("bias") or name == "mean_image":
            continue  # zeros at first
        for k in range(MEMBERS):
            for other in range(k):
                assert not torch.equal(own[k], own[other]), name


def test_each_member_learns_what_a_double_dqn_would(tiny: Config) -> None:
    """To the bit: weights, target network and optimiser, through updates and a synchronisation."""
    changes = {"optimizer.clip_norm": 0.5}  # each is clipped by its own norm
    learner = learner_of(ensemble(tiny, changes))
    weights, state = learner.weights(0), learner.state(0)
    alone = []
    for k in range(MEMBERS):
        single = Learner([variant(tiny, "ddqn", changes)], SHAPE, [3], CPU)
        single.load(
            0,
            of_member(weights, k),
            {
                name.replace(f"members.{k}.", ""): tensor
                for name, tensor in state.items()
                if f".members.{k}." in name
            },
        )
        alone.append(single)

    for update in range(6):
        batch = make_batch(seed=update)
        found = learner.update(batch)
        each = [single.update(batch) for single in alone]
        for name, value in found.measured.items():
            mean = sum(float(own.measured[name][0]) for own in each) / MEMBERS
            assert float(value[0]) == pytest.approx(mean, rel=1e-5), name
        surprise = sum(own.surprise[0] for own in each) / MEMBERS
        torch.testing.assert_close(found.surprise[0], surprise)
        if update == 3:
            for one in (learner, *alone):
                one.sync_target()

    weights, state = learner.weights(0), learner.state(0)
    moved = 0
    for k, single in enumerate(alone):
        for name, tensor in single.weights(0).items():
            assert torch.equal(weights[f"members.{k}.{name}"], tensor), (k, name)
        for name, tensor in single.state(0).items():
            kind, _, rest = name.partition(".")
            assert torch.equal(state[f"{kind}.members.{k}.{rest}"], tensor), (k, name)
            moved += kind == "adam_mean" and bool(tensor.any())
    assert moved == MEMBERS * len(learner.rows.shapes)
    assert len({float(single.online.norm()) for single in alone}) == MEMBERS


def test_members_do_not_touch_each_other(tiny: Config) -> None:
    """Another member 0 changes nothing about what the others learn."""
    first, second = learner_of(ensemble(tiny)), learner_of(ensemble(tiny))
    weights = second.weights(0)
    for name in weights:
        if name.startswith("members.0.head"):
            weights[name] = weights[name] + 1
    second.load(0, weights, second.state(0))
    batch = make_batch()
    one, other = first.gradient(batch)[0], second.gradient(batch)[0]
    assert not torch.equal(one[0], other[0])
    assert torch.equal(one[1:], other[1:])


def test_shared_convolutions_are_stored_once_and_learn_from_all(tiny: Config) -> None:
    """Like bootstrap's, but every Q-function learns from every sample."""
    learner = learner_of(ensemble(tiny, {"agent.shared_torso": True}))
    names = learner.weights(0).keys()
    assert not any(name.startswith("members.") for name in names)
    assert learner.weights(0)["head.weight"].shape == (3, MEMBERS, 16)
    batch = make_batch(10)

    gradient, found = learner.gradient(batch)

    w, other = online(learner), target(learner)
    by_online = [q.detach() for q in each_head_q(w, batch.next_observation[0])]
    by_target = each_head_q(other, batch.next_observation[0])
    flat = features(w, batch.observation[0])
    shared = flat.detach().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for k in range(MEMBERS):
        q = head_of_many(w, shared, k)
        for i, action in enumerate(batch.action[0].tolist()):
            next_q = by_target[k][i, best_of(by_online[k][i])]
            difference = q[i, action] - (batch.reward[0, i] + batch.discount[0, i] * next_q)
            total = total + batch.weight[0, i] * smooth_l1(difference) / 10
    total.backward()
    assert shared.grad is not None
    flat.backward(shared.grad / MEMBERS)
    assert_gradient(learner, gradient, w)
    assert float(found.measured["loss/total"][0]) == pytest.approx(total.item() / MEMBERS, rel=1e-5)
