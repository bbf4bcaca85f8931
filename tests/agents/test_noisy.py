"""Noisy DQN: what its noise is like, and where it is."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from idqn.config import Config
from idqn.networks import build_network
from idqn.networks.heads import NoisyHead, NoisyLinear
from tests.agents.plain import (
    Recorder,
    agent_of,
    assert_gradient,
    best_of,
    first_run,
    learner_of,
    make_batch,
    noisy_q,
    online,
    pixels,
    smooth_l1,
    target,
    variant,
)

DRAWS = 40_000


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed))


def seeing_input(wanted: int) -> NoisyHead:
    """A head whose last layer reads 1 at one of its 4 inputs and 0 at the others, always."""
    head = NoisyHead(3, 5, 4, 0.8, Generator().manual_seed(1)).requires_grad_(False)
    head.hidden.weight.zero_()
    head.hidden.weight_sigma.zero_()
    head.hidden.bias_sigma.zero_()
    head.hidden.bias.zero_()
    head.hidden.bias[wanted] = 1.0
    return head


def test_outputs_are_the_noiseless_ones_on_average() -> None:
    layer = NoisyLinear(6, 4, 0.5, Generator().manual_seed(0)).requires_grad_(False)
    x = normal(6, seed=3)
    noise_in, noise_out = normal(DRAWS, 6, seed=4), normal(DRAWS, 4, seed=5)

    y = layer(x, noise_in, noise_out)

    plain = layer.weight @ x + layer.bias
    torch.testing.assert_close(layer(x, None, None), plain)
    error = y.std(0) / math.sqrt(DRAWS)
    assert bool((error > 1e-4).all())
    assert bool(((y.mean(0) - plain).abs() < 4 * error).all())


def test_a_weights_noise_has_the_variance_of_the_product_of_two_square_roots() -> None:
    """f(x) = sgn(x)·√|x| has E f² = E|x| = √(2/π), and a weight has two of them."""
    head = seeing_input(2)
    head.out.bias_sigma.zero_()
    head.out.weight_sigma.copy_(torch.rand(3, 4, generator=Generator().manual_seed(2)) + 0.5)

    q = head(torch.zeros(DRAWS, 5), normal(DRAWS, head.noise_size)).q

    plain = head.out.weight[:, 2] + head.out.bias
    deviation = (q - plain).double()
    sigma = head.out.weight_sigma[:, 2].double()
    torch.testing.assert_close(deviation.var(0), sigma**2 * 2 / math.pi, rtol=0.04, atol=0)
    error = deviation.std(0) / math.sqrt(DRAWS)
    assert bool((deviation.mean(0).abs() < 4 * error).all())
    # two weights of one input share a factor, so that their squares go together, not their signs
    correlation = torch.corrcoef(deviation.T)
    squares = torch.corrcoef(deviation.square().T)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(float(correlation[a, b])) < 0.03
        # (E f⁴ (E f²)² - (E f²)⁴) / ((E f⁴)² - (E f²)⁴), with E f⁴ = E x² = 1
        f2 = math.sqrt(2 / math.pi)
        expected = (f2**2 - f2**4) / (1 - f2**4)
        assert float(squares[a, b]) == pytest.approx(expected, abs=0.05)


def test_a_biass_noise_has_one_factor() -> None:
    head = seeing_input(0)
    head.out.weight_sigma.zero_()
    head.out.bias_sigma.copy_(torch.tensor([0.5, 1.0, 2.0]))

    q = head(torch.zeros(DRAWS, 5), normal(DRAWS, head.noise_size)).q

    expected = torch.tensor([0.5, 1.0, 2.0]).double() ** 2 * math.sqrt(2 / math.pi)
    torch.testing.assert_close(q.double().var(0), expected, rtol=0.04, atol=0)


def test_noise_begins_at_sigma_over_the_root_of_the_inputs(tiny: Config) -> None:
    agent = variant(tiny, "noisy", {"agent.noise_sigma": 0.4}).agent
    weights = dict(build_network(agent, (2, 11, 11), 3, seed=0).named_parameters())

    inputs = 64 * 7 * 7  # what two convolutions of 3x3 leave of 11x11
    for kind, shape in (("weight", (16, inputs)), ("bias", (16,))):
        sigma = weights[f"head.hidden.{kind}_sigma"]
        assert sigma.shape == shape
        torch.testing.assert_close(sigma, torch.full(shape, 0.4 / 56))  # 56² = 3136
    for kind, shape in (("weight", (3, 16)), ("bias", (3,))):
        sigma = weights[f"head.out.{kind}_sigma"]
        assert sigma.shape == shape
        torch.testing.assert_close(sigma, torch.full(shape, 0.1))
    for name, bound in (("head.hidden", 1 / 56), ("head.out", 1 / 4)):
        largest = float(weights[f"{name}.weight"].detach().abs().max())
        assert 0.8 * bound < largest <= bound


def test_evaluation_is_without_noise(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "noisy"))
    agent, observation = agent_of(learner), pixels(50)[0]
    expected = noisy_q(online(learner), observation, None).detach()

    first, second = agent.look(observation), agent.look(observation)

    torch.testing.assert_close(first.q.double(), expected, atol=1e-5, rtol=0)
    assert torch.equal(first.q, second.q)
    assert torch.equal(first.embedding, second.embedding)
    assert agent.act(observation).tolist() == [best_of(own) for own in expected]
    assert agent.act(observation).tolist() == agent.act(observation).tolist()


def test_each_environment_acts_with_its_own_noise_new_at_every_step(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "noisy"))
    calls = Recorder()
    learner.map_with(calls)
    observation = pixels(1).expand(1, 20, -1, -1, -1)  # the same everywhere

    actions = torch.stack([learner.act(observation)[0] for _ in range(5)])

    w, seen = online(learner), []
    for step in range(5):
        chance = first_run(calls.arguments("act", step)[2])
        for env in range(20):
            noise = chance.normal[env]
            expected = best_of(noisy_q(w, observation[0, :1], noise)[0])
            assert int(actions[step, env]) == expected
            seen.append(noise)
    drawn = torch.stack(seen)  # [100, n]
    assert len(drawn.unique(dim=0)) == 100
    assert drawn.shape[1] == 3136 + 16 + 16 + 3
    assert float(drawn.mean()) == pytest.approx(0, abs=4 / math.sqrt(drawn.numel()))
    assert float(drawn.var()) == pytest.approx(1, abs=0.02)
    assert float(torch.corrcoef(drawn).fill_diagonal_(0).abs().max()) < 0.1
    assert len(actions.unique()) > 1
    assert any(len(row.unique()) > 1 for row in actions)  # environments differ
    assert any(len(column.unique()) > 1 for column in actions.T)  # and steps
    again = learner_of(variant(tiny, "noisy"))
    assert torch.equal(again.act(observation)[0], actions[0])


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
def test_the_gradient_is_autograds_with_three_draws_of_noise(tiny: Config, bootstrap: str) -> None:
    """One for Q(s, a), one for the choice of a* and one for its value."""
    learner = learner_of(variant(tiny, "noisy", {"train.bootstrap": bootstrap}))
    calls = Recorder()
    learner.map_with(calls)
    batch = make_batch()

    gradient, found = learner.gradient(batch)

    noise = first_run(calls.arguments("gradients")[3]).normal
    learning, choosing, valuing = noise[0::3], noise[1::3], noise[2::3]
    w, other = online(learner), target(learner)
    after = batch.next_observation[0]
    q = noisy_q(w, batch.observation[0], learning)
    value = noisy_q(w if bootstrap == "online" else other, after, valuing).detach()
    choice = noisy_q(w, after, choosing).detach() if bootstrap == "double" else value
    losses, errors = [], []
    for i, action in enumerate(batch.action[0].tolist()):
        next_q = value[i, best_of(choice[i])]
        difference = q[i, action] - (batch.reward[0, i] + batch.discount[0, i] * next_q)
        losses.append(batch.weight[0, i] * smooth_l1(difference))
        errors.append(abs(difference.item()))
    loss = sum(losses[1:], start=losses[0]) / len(losses)
    loss.backward()
    assert_gradient(learner, gradient, w)
    assert found.surprise[0].tolist() == pytest.approx(errors, abs=1e-4)
    assert float(found.measured["loss/total"][0]) == pytest.approx(loss.item(), rel=1e-4)
    named = learner.rows.named(gradient)
    for layer in ("hidden", "out"):
        for kind in ("weight_sigma", "bias_sigma"):
            assert bool(named[f"head.{layer}.{kind}"].any())


def test_the_draws_of_an_update_are_independent_and_new_in_the_next(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "noisy"))
    calls = Recorder()
    learner.map_with(calls)
    for update in range(4):
        learner.update(make_batch(seed=update))

    drawn = torch.stack(
        [first_run(calls.arguments("gradients", call)[3]).normal for call in range(4)]
    )

    each = drawn.view(4, -1, 3).mT.flatten(0, 1)  # [4 · 3, n]
    assert each.shape == (12, 3136 + 16 + 16 + 3)
    bound = 4.5 / math.sqrt(each.shape[1])
    assert bool((each.mean(1).abs() < bound).all())
    assert bool(((each.var(1) - 1).abs() < bound * math.sqrt(2)).all())
    assert float(torch.corrcoef(each).fill_diagonal_(0).abs().max()) < bound


def test_sigma_is_learned(tiny: Config) -> None:
    learner = learner_of(variant(tiny, "noisy"))
    before = learner.weights(0)
    learner.update(make_batch())
    after = learner.weights(0)
    for name in before:
        if name.endswith("sigma"):
            assert not torch.equal(before[name], after[name]), name
