"""The losses, by hand. Arithmetic in the comments."""

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from idqn.losses import (
    bellman_loss,
    distributional_loss,
    divergence_loss,
    diversity_loss,
    reconstruction_loss,
)


def value(loss: Tensor) -> float:
    assert loss.shape == ()
    return float(loss)


def test_bellman_squared() -> None:
    q, target = torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.5, 0.0, -3.0])

    loss = bellman_loss(q, target, "squared")
    assert loss.tolist() == [0.25, 4.0, 0.0]
    # (0.25 + 4 + 0) / 3
    assert value(loss.mean()) == pytest.approx(4.25 / 3)


def test_bellman_smooth_l1() -> None:
    q, target = torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.5, 0.0, -3.0])

    # below 1: ½·0.5² = 0.125; above: 2 - ½ = 1.5; (0.125 + 1.5 + 0) / 3
    loss = bellman_loss(q, target, "smooth_l1")
    assert loss.tolist() == [0.125, 1.5, 0.0]
    assert value(loss.mean()) == pytest.approx(1.625 / 3)


@pytest.mark.parametrize(("kind", "slope"), [("smooth_l1", 1.0), ("squared", 100.0)])
def test_bellman_gradient_of_a_large_error(
    kind: Literal["smooth_l1", "squared"], slope: float
) -> None:
    q = torch.tensor([50.0], requires_grad=True)
    bellman_loss(q, torch.tensor([0.0]), kind).mean().backward()

    assert q.grad is not None
    assert q.grad.tolist() == [slope]  # smooth_l1 is bounded; 2·50 for the square


def test_bellman_refuses_a_column() -> None:
    # [B] against [B, 1] would broadcast to [B, B]
    with pytest.raises(AssertionError):
        bellman_loss(torch.zeros(3), torch.zeros(3, 1), "squared")
    with pytest.raises(AssertionError):
        bellman_loss(torch.zeros(3, 1), torch.zeros(3), "squared")


def test_bellman_of_several_heads_is_each_ones_own() -> None:
    q, target = torch.tensor([[1.0, 2.0], [-3.0, 0.0]]), torch.tensor([[1.5, 0.0], [-3.0, 3.0]])

    assert bellman_loss(q, target, "squared").tolist() == [[0.25, 4.0], [0.0, 9.0]]
    assert bellman_loss(q, target, "smooth_l1").tolist() == [[0.125, 1.5], [0.0, 2.5]]


ATTENTION = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
TARGET = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])


def test_distributional_is_cross_entropy() -> None:
    # -ln 0.5 = 0.693147; -(½ ln 0.2 + ½ ln 0.7) = 0.804719 + 0.178337 = 0.983056; mean of both
    loss = distributional_loss(ATTENTION.log(), TARGET)
    assert loss.tolist() == pytest.approx([0.693147, 0.983056], abs=2e-6)
    assert value(loss.mean()) == pytest.approx(0.838102, abs=2e-6)


def test_distributional_with_epsilon_in_the_logarithm() -> None:
    # -ln 0.6 = 0.510826; -(½ ln 0.3 + ½ ln 0.8) = 0.601986 + 0.111572 = 0.713558; mean of both
    loss = distributional_loss(ATTENTION.log(), TARGET, log_epsilon=0.1)

    assert loss.tolist() == pytest.approx([0.510826, 0.713558], abs=2e-6)
    assert value(loss.mean()) == pytest.approx(0.612192, abs=2e-6)


def test_epsilon_bounds_the_loss_of_a_confident_mistake() -> None:
    log_attention, target = torch.tensor([[0.0, -1000.0]]), torch.tensor([[0.0, 1.0]])

    assert value(distributional_loss(log_attention, target).mean()) == 1000.0
    # -ln 1e-6 = 6 ln 10 = 13.815511
    actual = value(distributional_loss(log_attention, target, log_epsilon=1e-6).mean())
    assert actual == pytest.approx(13.815511, abs=1e-4)


def test_distributional_refuses_other_shapes() -> None:
    with pytest.raises(AssertionError):
        distributional_loss(torch.zeros(2, 3), torch.zeros(1, 3))
    with pytest.raises(AssertionError):
        distributional_loss(torch.zeros(2, 4, 3), torch.zeros(2, 4, 3))


def test_reconstruction_sums_pixels_and_averages_samples() -> None:
    state = torch.zeros(2, 2, 1, 2)
    guess = torch.zeros(2, 2, 1, 2)
    guess[0] = 1.0  # 4 pixels of both frames off by 1: ½·4 = 2
    guess[1, 1, 0, 1] = -3.0  # 1 pixel off by 3: ½·9 = 4.5

    assert value(reconstruction_loss(guess, state)) == pytest.approx(3.25)  # (2 + 4.5) / 2


def test_reconstruction_refuses_broadcasting() -> None:
    with pytest.raises(AssertionError):
        reconstruction_loss(torch.zeros(2, 1, 3, 3), torch.zeros(2, 4, 3, 3))


def test_diversity_by_hand() -> None:
    attention = torch.tensor([[0.5, 0.5], [1.0, 0.0]])

    # AAᵀ = [0.5 0.5; 0.5 1]; less I: [-0.5 0.5; 0.5 0]; squares 0.25 · 3 = 0.75
    assert value(diversity_loss(attention, per_sample=False)) == pytest.approx(0.75)
    assert value(diversity_loss(attention, per_sample=True)) == pytest.approx(0.375)  # / B = 2
    assert value(diversity_loss(attention)) == pytest.approx(0.75)


def test_diversity_is_zero_when_each_sample_has_its_own_key() -> None:
    attention = torch.eye(5)[[3, 0, 4]]

    assert value(diversity_loss(attention, per_sample=False)) == 0.0


def test_diversity_counts_samples_that_share_a_key() -> None:
    attention = torch.eye(5)[[3, 3, 3, 1]]

    # three samples on one key: 3 · 2 off-diagonal ones; over B = 4
    assert value(diversity_loss(attention, per_sample=False)) == 6.0
    assert value(diversity_loss(attention, per_sample=True)) == 1.5


def test_all_actions_in_a_row_punish_peaked_attention() -> None:
    # 3 actions, 3 keys, one-hot in each action; the 2 samples share no key
    peaked = torch.eye(3)[torch.tensor([[0, 1, 2], [1, 2, 0]])].flatten(1)  # [2, A·N]
    # a one-hot row has squared norm A = 3: (3 - 1)² = 4 for each sample
    assert value(diversity_loss(peaked, per_sample=False)) == 8.0
    assert value(diversity_loss(peaked, per_sample=True)) == 4.0

    # attention spread evenly over the keys has squared norm 3 · 3 · (1/3)² = 1: nothing to pay
    spread = torch.full((1, 9), 1 / 3)
    assert value(diversity_loss(spread)) == pytest.approx(0.0, abs=1e-12)


def test_diversity_refuses_an_action_dimension() -> None:
    with pytest.raises(AssertionError):
        diversity_loss(torch.zeros(2, 3, 4))


SATURATED = [[1e4, 0.0, -1e4], [0.0, 3e4, 3e4], [-500.0, 200.0, 0.0]]


@pytest.mark.parametrize(
    "name", ["squared", "smooth_l1", "distributional", "log_epsilon", "diversity"]
)
def test_gradients_are_finite_for_saturated_attention(name: str) -> None:
    logits = torch.tensor(SATURATED, requires_grad=True)
    log_attention = logits.log_softmax(-1)
    attention = log_attention.exp()
    target = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    if name in ("squared", "smooth_l1"):
        q = attention @ torch.tensor([-25.0, 0.0, 25.0])
        loss = bellman_loss(q, torch.zeros(3), "squared" if name == "squared" else "smooth_l1")
    elif name == "diversity":
        loss = diversity_loss(attention)
    else:
        loss = distributional_loss(log_attention, target, 1e-6 if name == "log_epsilon" else 0.0)
    loss = loss.mean()
    loss.backward()

    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_exact_cross_entropy_still_learns_when_saturated() -> None:
    logits = torch.tensor([[1e4, 0.0]], requires_grad=True)
    distributional_loss(logits.log_softmax(-1), torch.tensor([[0.0, 1.0]])).mean().backward()

    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.0, -1.0]]  # softmax - target


def test_divergence_by_hand() -> None:
    mean = torch.tensor([[0.0, 3.0], [0.0, 0.0]])
    log_variance = torch.tensor([[0.0, 0.0], [0.0, 2.0]])

    # standard normal: 0; mean 3: 9/2 = 4.5; variance e²: (e² - 1 - 2)/2 = 2.194528; over B = 2
    assert value(divergence_loss(mean, log_variance)) == pytest.approx((4.5 + 2.194528) / 2)


def test_divergence_is_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = 2 * torch.randn(2, 5, 7, generator=generator)

    each = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0))  # [B, E]

    torch.testing.assert_close(divergence_loss(mean, log_variance), each.sum(1).mean())


def test_divergence_is_zero_and_flat_at_a_standard_normal() -> None:
    mean = torch.zeros(3, 4, requires_grad=True)
    log_variance = torch.zeros(3, 4, requires_grad=True)
    loss = divergence_loss(mean, log_variance)
    loss.backward()

    assert value(loss.detach()) == 0.0
    assert mean.grad is not None
    assert log_variance.grad is not None
    assert not mean.grad.any()
    assert not log_variance.grad.any()


def test_divergence_refuses_broadcasting() -> None:
    with pytest.raises(AssertionError):
        divergence_loss(torch.zeros(2, 3), torch.zeros(2, 1))
