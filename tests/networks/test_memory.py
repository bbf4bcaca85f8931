"""Attention, Q and U of the key-value memory, by hand and where rounding bites."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from idqn.networks.memory import KeyValueMemory, make_values


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def memory_of(keys: Tensor, values: list[float]) -> KeyValueMemory:
    memory = KeyValueMemory(len(keys), torch.tensor(values), keys.shape[2], 0.1, generator())
    with torch.no_grad():
        memory.keys.copy_(keys)
    return memory


def test_by_hand() -> None:
    log2, log3 = math.log(2), math.log(3)
    keys = torch.tensor(
        [
            [[0.0, 0.0], [log3, 0.0]],  # action 0
            [[log2, 1.0], [-log2, 1.0]],  # action 1
        ]
    )
    recall = memory_of(keys, [-1.0, 3.0])(torch.tensor([[1.0, 0.0], [0.0, 5.0]]))

    # state (1, 0): action 0 scores 0, ln 3, so w = 1/4, 3/4; action 1 ln 2, -ln 2, so 4/5, 1/5
    # state (0, 5): action 0 scores 0 and 0; action 1 scores 5 and 5; so halves
    attention = [[[0.25, 0.75], [0.8, 0.2]], [[0.5, 0.5], [0.5, 0.5]]]
    torch.testing.assert_close(recall.attention, torch.tensor(attention))
    torch.testing.assert_close(recall.log_attention, torch.tensor(attention).log())
    # Q: -1/4 + 9/4 = 2; -0.8 + 0.6 = -0.2; -1/2 + 3/2 = 1
    torch.testing.assert_close(recall.q, torch.tensor([[2.0, -0.2], [1.0, 1.0]]))
    # U²: 1/4·3² + 3/4·1² = 3; 0.8·0.8² + 0.2·3.2² = 0.512 + 2.048 = 2.56; ½·2² + ½·2² = 4
    torch.testing.assert_close(recall.uncertainty, torch.tensor([[math.sqrt(3), 1.6], [2.0, 2.0]]))


def test_uncertainty_is_the_standard_deviation() -> None:
    values = [-25.0, -3.0, 0.5, 4.0, 25.0]
    memory = memory_of(torch.randn(3, 5, 4, generator=generator(1)), values)
    recall = memory(torch.randn(6, 4, generator=generator(2)))

    weights = recall.attention.detach().double().numpy()
    v = np.array(values)
    mean = (weights * v).sum(-1)
    deviation = np.sqrt((weights * v**2).sum(-1) - mean**2)  # Σ w v² - Q², safe in double
    np.testing.assert_allclose(recall.q.detach().numpy(), mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(recall.uncertainty.detach().numpy(), deviation, rtol=1e-4)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)


def test_saturated_attention_has_no_nan() -> None:
    values = torch.linspace(-25, 25, 20)
    memory = KeyValueMemory(4, values, 8, 1.0, generator())
    scale = torch.logspace(0, 5, 5_000)[:, None]
    with torch.no_grad():
        recall = memory(torch.randn(5_000, 8, generator=generator(3)) * scale)

    # the textbook formula does go below zero here, so this test has something to catch
    naive = (recall.attention * values.square()).sum(-1) - recall.q.square()
    assert (naive < 0).any()
    assert (recall.attention.max(-1).values == 1).any()
    for part in recall:
        assert part.isfinite().all()
    assert (recall.uncertainty >= 0).all()


def test_certain_attention_has_no_uncertainty() -> None:
    keys = torch.tensor([[[0.0], [1e6], [0.0]]])
    recall = memory_of(keys, [-25.0, 7.0, 25.0])(torch.tensor([[1.0]]))

    assert recall.attention.tolist() == [[[0.0, 1.0, 0.0]]]
    assert recall.q.tolist() == [[7.0]]
    assert recall.uncertainty.tolist() == [[0.0]]


def test_gradient_of_q_is_finite_when_saturated() -> None:
    memory = memory_of(torch.tensor([[[0.0], [1e6]]]), [-25.0, 25.0])
    memory(torch.tensor([[1.0]])).q.sum().backward()

    assert memory.keys.grad is not None
    assert memory.keys.grad.isfinite().all()


def test_values_are_fixed_and_kept_with_the_weights() -> None:
    memory = KeyValueMemory(2, torch.tensor([-1.0, 1.0]), 3, 0.1, generator())

    assert set(dict(memory.named_parameters())) == {"keys"}
    assert set(memory.state_dict()) == {"keys", "values"}
    assert memory.keys.shape == (2, 2, 3)


@pytest.mark.parametrize("std", [0.1, 1.0])
def test_keys_start_normal_with_the_std_asked(std: float) -> None:
    keys = KeyValueMemory(9, torch.linspace(-25, 25, 20), 64, std, generator()).keys.detach()

    assert float(keys.std()) == pytest.approx(std, rel=0.026)  # 4 deviations of 11,520 draws
    assert float(keys.mean()) == pytest.approx(0, abs=0.04 * std)
    assert float(keys.abs().max()) > 3 * std


def test_even_values_are_those_in_the_papers_figures() -> None:
    values = make_values(20, -25, 25, "linspace", generator())

    assert float(values[0]) == -25
    assert float(values[-1]) == 25
    assert float(values[1]) == pytest.approx(-22.368421)  # -25 + 50/19
    torch.testing.assert_close(values.diff(), torch.full((19,), 50 / 19))
    assert {25, 3, -11, -25} <= {int(v) for v in values}  # the labels, truncated


def test_uniform_values_are_sorted_and_inside() -> None:
    values = make_values(2_000, -25, 25, "uniform", generator())

    assert values.shape == (2_000,)
    assert (values.diff() > 0).all()
    assert float(values.min()) >= -25
    assert float(values.max()) <= 25
    # uniform on (-25, 25): a fifth of the draws in each tenth part either way from the middle
    counts = torch.histc(values, bins=10, min=-25, max=25)
    assert ((counts > 140) & (counts < 260)).all()  # 200 ± 4.5 deviations of 13.4


def test_uniform_values_are_seeded() -> None:
    first = make_values(20, -25, 25, "uniform", generator(1))

    assert torch.equal(first, make_values(20, -25, 25, "uniform", generator(1)))
    assert not torch.equal(first, make_values(20, -25, 25, "uniform", generator(2)))


def test_uniform_values_are_drawn_again_when_two_are_equal() -> None:
    first_draw = torch.rand(6_000, generator=generator(0))
    assert len(first_draw.unique()) < 6_000  # so the first draw cannot be taken

    assert (make_values(6_000, 0.0, 1.0, "uniform", generator(0)).diff() > 0).all()


@pytest.mark.parametrize("spacing", ["linspace", "uniform"])
def test_two_values_are_enough(spacing: Literal["linspace", "uniform"]) -> None:
    low, high = make_values(2, -1.0, 1.0, spacing, generator()).tolist()

    assert -1 <= low < high <= 1
