"""i-DQN's losses together: their gradient, and what a weight of 0 does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from idqn.config import Config
from idqn.learner import Learner
from idqn.losses import divergence_loss
from idqn.types import Batch
from tests.agents.plain import (
    Named,
    Recorder,
    assert_gradient,
    learner_of,
    make_batch,
    online,
    target,
)
from tests.agents.plain_idqn import DECODERS, SIZE, WEIGHTS, idqn, losses_by_hand


def gradient_and_losses(config: Config) -> tuple[Learner, Tensor, Named, Named, Named]:
    """Of the learner: gradient and measurements; by hand: the leaves and the losses."""
    learner = learner_of(config)
    calls = Recorder()
    learner.map_with(calls)
    batch = make_batch()
    gradient, found = learner.gradient(batch)
    noise = None
    if calls.calls["draw_code"]:
        noise = calls.arguments("draw_code")[1].view(12, SIZE)
        assert 0.8 < float(noise.std()) < 1.2
    elif config.agent.decoder.endswith("vae"):
        noise = torch.zeros(12, SIZE)  # nothing was decoded
    w = online(learner)
    measured = {name: own[0] for name, own in found.measured.items()}
    return learner, gradient, measured, w, losses_by_hand(w, target(learner), batch, noise)


def weight_of(config: Config, name: str) -> float:
    if name == "divergence":
        return config.loss.reconstruction * config.agent.beta
    weight: float = getattr(config.loss, name)
    return weight


@pytest.mark.parametrize("decoder", ["none", *DECODERS])
def test_the_gradient_is_autograds_through_a_plain_network(tiny: Config, decoder: str) -> None:
    config = idqn(tiny, decoder)
    learner, gradient, measured, w, losses = gradient_and_losses(config)

    total = sum(weight_of(config, name) * loss for name, loss in losses.items())
    assert isinstance(total, Tensor)
    total.backward()

    assert_gradient(learner, gradient, w)
    named = {f"loss/{name}": loss for name, loss in losses.items()} | {"loss/total": total}
    assert {name for name in measured if name.startswith("loss/")} == named.keys()
    for name, loss in named.items():
        assert float(measured[name]) == pytest.approx(loss.item(), rel=1e-4), name
    assert ("divergence" in losses) == (decoder in ("vae", "dense-vae"))


@pytest.mark.parametrize("decoder", ["ae", "vae"])
@pytest.mark.parametrize("off", WEIGHTS)
def test_a_weight_of_0_switches_a_loss_off(tiny: Config, decoder: str, off: str) -> None:
    config = idqn(tiny, decoder, {f"loss.{off}": 0.0})
    learner, gradient, measured, w, losses = gradient_and_losses(config)
    gone = {off, "divergence"} if off == "reconstruction" else {off}

    left = {name: loss for name, loss in losses.items() if name not in gone}
    total = sum(weight_of(config, name) * loss for name, loss in left.items())
    assert isinstance(total, Tensor)
    total.backward()

    assert {f"loss/{name}" for name in left} | {"loss/total"} == {
        name for name in measured if name.startswith("loss/")
    }
    assert float(measured["loss/total"]) == pytest.approx(total.item(), rel=1e-4)
    assert_gradient(learner, gradient, w)
    if off == "reconstruction":
        named = learner.rows.named(gradient)
        assert not any(own.any() for name, own in named.items() if name.startswith("decoder"))


@pytest.mark.parametrize("off", WEIGHTS)
def test_a_weight_of_0_in_one_run_of_two_is_that_run_alone(tiny: Config, off: str) -> None:
    without, with_it = idqn(tiny, "vae", {f"loss.{off}": 0.0}), idqn(tiny, "vae")
    batch = make_batch(runs=2)

    together, found = learner_of(without, with_it).gradient(batch)

    first = Batch(*(part[:1] for part in batch))
    alone, own = learner_of(without).gradient(first)
    assert torch.equal(together[0], alone[0])
    assert f"loss/{off}" in found.measured  # it counts in the other run
    assert torch.equal(found.measured["loss/total"][0], own.measured["loss/total"][0])
    full, _ = learner_of(with_it).gradient(first)
    assert not torch.equal(together[0], full[0])


def test_beta_of_0_switches_the_divergences_gradient_off(tiny: Config) -> None:
    config = idqn(tiny, "vae", {"agent.beta": 0.0})
    learner, gradient, measured, w, losses = gradient_and_losses(config)
    divergence = losses.pop("divergence")
    total = sum(weight_of(config, name) * loss for name, loss in losses.items())
    assert isinstance(total, Tensor)
    total.backward()

    assert_gradient(learner, gradient, w)
    assert float(measured["loss/divergence"]) == pytest.approx(divergence.item(), rel=1e-4)
    assert float(measured["loss/total"]) == pytest.approx(total.item(), rel=1e-4)
    again = learner_of(idqn(tiny, "vae", {"agent.beta": 1.0}))
    spread = slice(SIZE, None)  # of the last layer, what makes the log-variance
    name = "encoder.linear.bias"
    ours = learner.rows.named(gradient)[name][0, spread]
    theirs = again.rows.named(again.gradient(make_batch())[0])[name][0, spread]
    assert not torch.allclose(ours, theirs, rtol=1e-2)


def test_divergence_in_closed_form() -> None:
    """½ Σ (μ² + σ² - 1 - ln σ²): 0 for a standard normal; ½·9 where only the mean is 3 off;
    ½ (4 - 1 - ln 4) where only σ is 2."""
    zero, three = torch.zeros(1, 1), torch.full((1, 1), 3.0)
    assert float(divergence_loss(zero, zero)) == 0
    assert float(divergence_loss(three, zero)) == pytest.approx(4.5)
    twice = torch.full((1, 1), math.log(4))
    assert float(divergence_loss(zero, twice)) == pytest.approx((3 - math.log(4)) / 2)
    # summed over dimensions, averaged over the batch
    mean, log_variance = torch.tensor([[3.0, 0.0], [0.0, 0.0]]), torch.zeros(2, 2)
    log_variance[0, 1] = math.log(4)
    expected = (4.5 + (3 - math.log(4)) / 2) / 2
    assert float(divergence_loss(mean, log_variance)) == pytest.approx(expected)
