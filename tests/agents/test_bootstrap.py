"""Bootstrapped DQN: heads, masks, leaders and votes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from idqn.config import Config
from idqn.learner import Learner
from idqn.policy import majority_vote
from idqn.types import Batch
from tests.agents.plain import (
    Named,
    agent_of,
    aim_of,
    assert_gradient,
    best_of,
    each_head_q,
    features,
    head_of_many,
    learner_of,
    make_batch,
    online,
    pixels,
    smooth_l1,
    target,
    variant,
)

HEADS = 5


def bootstrap(tiny: Config, changes: dict[str, Any] | None = None) -> Config:
    return variant(tiny, "bootstrap", {"agent.heads": HEADS} | (changes or {}))


def sample(batch: Batch, i: int) -> Batch:
    return Batch(*(part[:, i : i + 1] for part in batch))


def learning_heads(learner: Learner, batch: Batch) -> list[bool]:
    """Which heads get any gradient from a batch."""
    gradient, _ = learner.gradient(batch)
    named = learner.rows.named(gradient)
    found = []
    for k in range(learner.config.agent.heads):
        parts = [
            named["head.hidden_weight"][0, k],
            named["head.hidden_bias"][0, k],
            named["head.weight"][0, :, k],
            named["head.bias"][0, :, k],
        ]
        assert len({bool(part.any()) for part in parts}) == 1  # all of a head or nothing
        found.append(bool(parts[0].any()))
    return found


def test_masks_belong_to_transitions(tiny: Config) -> None:
    learner = learner_of(bootstrap(tiny))
    batch = make_batch(12)
    alone = [learning_heads(learner, sample(batch, i)) for i in range(12)]
    assert len({tuple(mask) for mask in alone}) > 4

    for update in range(3):  # drawn again, later, with other pixels and weights
        learner.update(make_batch(6, seed=update))
    again = make_batch(12, seed=9)._replace(place=batch.place)

    assert [learning_heads(learner, sample(again, i)) for i in range(12)] == alone
    # and the place in the batch does not matter
    turned = Batch(*(part.flip(1) for part in again))
    assert [learning_heads(learner, sample(turned, 11 - i)) for i in range(12)] == alone


@pytest.mark.parametrize("probability", [0.25, 0.5, 1.0])
def test_masks_differ_by_head_and_have_their_probability(tiny: Config, probability: float) -> None:
    learner = learner_of(bootstrap(tiny, {"agent.mask_probability": probability}))
    batch = make_batch(200)._replace(place=torch.arange(200)[None])
    batch = batch._replace(reward=batch.reward + 20)  # an error for everyone

    masks = torch.tensor([learning_heads(learner, sample(batch, i)) for i in range(200)])

    assert masks.shape == (200, HEADS)
    spread = (probability * (1 - probability)) ** 0.5
    assert float(masks.double().mean()) == pytest.approx(probability, abs=4 * spread / 1000**0.5)
    for k in range(HEADS):
        own = float(masks[:, k].double().mean())
        assert own == pytest.approx(probability, abs=4 * spread / 200**0.5)
        for other in range(k):
            agree = float((masks[:, k] == masks[:, other]).double().mean())
            expected = probability**2 + (1 - probability) ** 2
            assert agree == pytest.approx(expected, abs=4 * spread / 200**0.5)
    if probability < 1:
        assert not torch.equal(masks[:-1], masks[1:])


def test_other_seeds_have_other_masks(tiny: Config) -> None:
    batch = make_batch(30)
    first, second = (
        [
            learning_heads(learner, sample(batch, i))
            for learner in [learner_of(bootstrap(tiny, {"train.seed": seed}))]
            for i in range(30)
        ]
        for seed in (0, 1)
    )
    assert first != second


def targets_by_hand(w: Named, other: Named, batch: Batch, kind: str) -> Tensor:
    """Each head's own target, [B, K]."""
    size = batch.action.shape[1]
    by_online = [q.detach() for q in each_head_q(w, batch.next_observation[0])]
    by_target = each_head_q(other, batch.next_observation[0])
    found = torch.zeros(size, HEADS, dtype=torch.float64)
    for k in range(HEADS):
        choosing = (by_target if kind == "target" else by_online)[k]
        valuing = (by_online if kind == "online" else by_target)[k]
        for i in range(size):
            next_q = valuing[i, best_of(choosing[i])]
            found[i, k] = batch.reward[0, i] + batch.discount[0, i] * next_q
    return found


@pytest.mark.parametrize("kind", ["double", "target", "online"])
def test_each_head_has_its_own_target(tiny: Config, kind: str) -> None:
    learner = learner_of(bootstrap(tiny, {"train.bootstrap": kind}))
    batch = make_batch(20)

    aim = aim_of(learner, batch).q

    w, other = online(learner), target(learner)
    expected = targets_by_hand(w, other, batch, kind)
    torch.testing.assert_close(aim.double(), expected, atol=1e-5, rtol=1e-5)
    alive = batch.discount[0] > 0
    assert float(expected[alive].std(1).min()) > 0.01  # they differ
    assert bool((expected[~alive] == batch.reward[0, ~alive, None]).all())
    preferred = torch.stack([q.argmax(-1) for q in each_head_q(w, batch.next_observation[0])], -1)
    theirs = torch.stack([q.argmax(-1) for q in each_head_q(other, batch.next_observation[0])], -1)
    assert int((preferred != theirs)[alive].sum()) > 5
    assert int((preferred != preferred[:, :1])[alive].sum()) > 5


@pytest.mark.parametrize("probability", [0.5, 1.0])
@pytest.mark.parametrize("kind", ["smooth_l1", "squared"])
def test_heads_learn_at_full_speed_and_the_convolutions_at_a_fraction(
    tiny: Config, probability: float, kind: str
) -> None:
    """Heads' gradients are those of K separate networks; that of the convolutions is the mean of
    those networks'."""
    changes = {"agent.mask_probability": probability, "loss.bellman_kind": kind}
    learner = learner_of(bootstrap(tiny, changes))
    batch = make_batch(10)
    masks = [learning_heads(learner, sample(batch, i)) for i in range(10)]
    assert all(any(mask) for mask in masks)
    assert all(all(mask) for mask in masks) == (probability == 1)

    gradient, found = learner.gradient(batch)

    w, other = online(learner), target(learner)
    targets = targets_by_hand(w, other, batch, "double")
    flat = features(w, batch.observation[0])
    shared = flat.detach().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    errors = torch.zeros(10, HEADS, dtype=torch.float64)
    for k in range(HEADS):
        q = head_of_many(w, shared, k)
        for i, action in enumerate(batch.action[0].tolist()):
            difference = q[i, action] - targets[i, k]
            each = smooth_l1(difference) if kind == "smooth_l1" else difference * difference
            if masks[i][k]:
                total = total + batch.weight[0, i] * each / 10
            errors[i, k] = difference.detach().abs()
    total.backward()
    assert shared.grad is not None
    flat.backward(shared.grad / HEADS)
    assert_gradient(learner, gradient, w)
    assert float(found.measured["loss/bellman"][0]) == pytest.approx(total.item() / HEADS, rel=1e-5)
    torch.testing.assert_close(found.surprise[0].double(), errors.mean(1), atol=1e-5, rtol=1e-5)


def test_a_masked_head_gets_nothing_from_a_sample(tiny: Config) -> None:
    learner = learner_of(bootstrap(tiny))
    batch = make_batch(12)
    masks = [learning_heads(learner, sample(batch, i)) for i in range(12)]
    i = next(i for i in range(12) if 0 < sum(masks[i]) < HEADS)
    gradient, _ = learner.gradient(batch)
    before = learner.rows.named(gradient.clone())
    changed = batch.reward.clone()
    changed[0, i] += 5

    gradient, _ = learner.gradient(batch._replace(reward=changed))

    after = learner.rows.named(gradient)
    for k in range(HEADS):
        same = torch.equal(before["head.bias"][0, :, k], after["head.bias"][0, :, k])
        assert same != masks[i][k]


def test_one_head_leads_through_an_episode(tiny: Config) -> None:
    learner = learner_of(bootstrap(tiny))
    preferred = torch.stack(each_head_q(online(learner), pixels(300)[0]), -1).argmax(1)  # [300, K]
    # observations about which the heads agree least, enough to tell any two apart
    telling = (preferred[:, :, None] != preferred[:, None]).sum((1, 2)).argsort(descending=True)
    telling = telling[:20]
    votes = preferred[telling]  # [20, K]
    assert len(votes.unique(dim=1).T) == HEADS
    envs, leaders = 8, []
    for number in range(25):
        possible = torch.ones(envs, HEADS, dtype=torch.bool)
        for which, vote in zip(telling.tolist(), votes, strict=True):
            observation = pixels(300)[:, which : which + 1].expand(1, envs, -1, -1, -1)
            action = learner.act(observation, torch.full((1, envs), number))[0]
            possible &= vote == action[:, None]
        assert bool((possible.sum(1) == 1).all())  # one head explains all steps, and only one
        leaders.append(possible.int().argmax(1))
    found = torch.stack(leaders)  # [25 episodes, 8 envs]
    assert all(len(row.unique()) > 1 for row in found)  # environments follow different heads
    assert all(len(column.unique()) > 1 for column in found.T)  # and episodes do
    changes = float((found[1:] != found[:-1]).double().mean())
    assert changes == pytest.approx(1 - 1 / HEADS, abs=0.12)
    for count in found.flatten().bincount(minlength=HEADS):
        assert 20 <= int(count) <= 60  # of 200, 40 expected


def test_environments_of_a_later_turn_have_leaders_of_their_own(tiny: Config) -> None:
    """Those with numbers from 4 on, asked alone, follow whom they follow among all 8."""
    learner = learner_of(bootstrap(tiny))
    episode = torch.arange(8)[None]
    observation = pixels(8, seed=1)
    for seed in range(10):
        observation = pixels(8, seed=seed)
        together = learner.act(observation, episode)
        later = learner.act(observation[:, 4:], episode[:, 4:], first_env=4)
        assert torch.equal(together[:, 4:], later)
    wrong = [
        torch.equal(
            learner.act(pixels(8, seed=s), episode)[:, 4:],
            learner.act(pixels(8, seed=s)[:, 4:], episode[:, 4:], first_env=0),
        )
        for s in range(10)
    ]
    assert not all(wrong)


def test_the_vote_by_hand() -> None:
    three = torch.tensor(
        [  # three actions, three heads
            [[9.0, 1.0, 1.0], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0]],  # two for 1, though 0 is higher
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.9, 5.0]],  # one each, 2 has the best mean
            [[1.0, 5.0, 0.0], [0.0, 0.0, 2.0], [0.9, 4.9, 1.9]],  # two for 0, none for 2
        ]
    )
    assert majority_vote(three).tolist() == [1, 2, 0]
    four = torch.tensor([[[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.2, 1.2], [0.9, 0.9, 0.9, 0.9]]])
    # two for 0 and two for 1, which has the better mean; 2 has the best, but nobody's vote
    assert majority_vote(four).tolist() == [1]


def test_evaluation_takes_a_vote(tiny: Config) -> None:
    learner = learner_of(bootstrap(tiny))
    observation = pixels(200)[0]
    action = agent_of(learner).act(observation).tolist()

    head_q = torch.stack(each_head_q(online(learner), observation), -1).detach()  # [B, A, K]

    against_the_mean = 0
    for i in range(200):
        votes = [0, 0, 0]
        for k in range(HEADS):
            votes[best_of(head_q[i, :, k])] += 1
        mean = head_q[i].mean(-1).tolist()
        expected = max(range(3), key=lambda a, v=votes, m=mean: (v[a], m[a]))
        assert action[i] == expected
        against_the_mean += expected != best_of(head_q[i].mean(-1))
    assert against_the_mean > 3


def test_a_look_has_every_heads_values(tiny: Config) -> None:
    learner = learner_of(bootstrap(tiny))
    observation = pixels(20)[0]
    look = agent_of(learner).look(observation)

    head_q = torch.stack(each_head_q(online(learner), observation), -1).detach()

    torch.testing.assert_close(look.head_q.double(), head_q, atol=1e-5, rtol=0)
    mean = sum(head_q[..., k] for k in range(HEADS)) / HEADS
    variance = sum((head_q[..., k] - mean) ** 2 for k in range(HEADS)) / HEADS
    torch.testing.assert_close(look.q.double(), mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(look.uncertainty.double(), variance.sqrt(), atol=1e-5, rtol=0)


def test_heads_begin_different(tiny: Config) -> None:
    weights = Learner([bootstrap(tiny)], (2, 11, 11), [3], torch.device("cpu")).weights(0)
    for k in range(HEADS):
        for other in range(k):
            assert not torch.equal(weights["head.weight"][:, k], weights["head.weight"][:, other])
            hidden = weights["head.hidden_weight"]
            assert not torch.equal(hidden[k], hidden[other])
