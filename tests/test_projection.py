"""Projection of a return distribution onto fixed atoms, by hand and against a slow loop."""

import bisect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from idqn.projection import project

slow_machine = settings(max_examples=60, deadline=None, derandomize=True)


def projected(probability: list[float], position: list[float], support: list[float]) -> Tensor:
    return project(torch.tensor(probability), torch.tensor(position), torch.tensor(support))


def assert_close(actual: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected), rtol=0, atol=1e-6)


def test_even_support() -> None:
    # 0.5 at 0.25: 3/4 of it to atom 0, 1/4 to atom 1; 0.5 at 2.5: half to atom 2, half to atom 3
    actual = projected([0.5, 0.5], [0.25, 2.5], [0.0, 1.0, 2.0, 3.0])

    assert_close(actual, [0.375, 0.125, 0.25, 0.25])


def test_uneven_support_and_both_ends() -> None:
    # 0.5 at -4, six tenths of the way from -10 to 0:     0.2    at -10 and 0.3    at 0
    # 0.25 at 2, a quarter of the way from 1 to 5:        0.1875 at 1   and 0.0625 at 5
    # 0.15 at 100, beyond the end:                        0.15   at 5
    # 0.1 at -50, beyond the other end:                   0.1    at -10
    actual = projected([0.5, 0.25, 0.15, 0.1], [-4.0, 2.0, 100.0, -50.0], [-10.0, 0.0, 1.0, 5.0])

    assert_close(actual, [0.3, 0.3, 0.1875, 0.2125])


def test_particles_on_atoms_stay_there() -> None:
    actual = projected([0.1, 0.2, 0.3, 0.4], [1.0, -10.0, 5.0, 1.0], [-10.0, 0.0, 1.0, 5.0])

    assert_close(actual, [0.2, 0.0, 0.5, 0.3])  # 0.1 + 0.4 meet at 1


def test_bellman_shift_of_the_papers_atoms() -> None:
    # atoms -2, 0, 2 with reward 1 and discount 0.5 lie at 0, 1, 2
    # 0.2 at 0 stays; 0.5 at 1 is shared by 0 and 2; 0.3 at 2 stays
    support = torch.tensor([-2.0, 0.0, 2.0])
    actual = project(torch.tensor([0.2, 0.5, 0.3]), 1 + 0.5 * support, support)

    assert_close(actual, [0.0, 0.45, 0.55])


def test_after_termination_all_mass_is_around_the_reward() -> None:
    # every particle at 7, between 5 and 10: (10 - 7)/5 = 0.6 and (7 - 5)/5 = 0.4
    actual = projected([0.25] * 4, [7.0] * 4, [0.0, 5.0, 10.0, 100.0])

    assert_close(actual, [0.0, 0.6, 0.4, 0.0])


def test_infinitely_far_particles_go_to_the_ends() -> None:
    actual = projected([0.25, 0.75], [float("-inf"), float("inf")], [-1.0, 0.0, 1.0])

    assert_close(actual, [0.25, 0.0, 0.75])


def test_leading_dimensions_are_projected_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    probability = torch.rand(2, 3, 5, generator=generator)
    position = 20 * torch.rand(2, 3, 5, generator=generator) - 10
    support = torch.tensor([-7.0, -1.0, 0.5, 6.0])

    together = project(probability, position, support)

    assert together.shape == (2, 3, 4)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(
                together[i, j], project(probability[i, j], position[i, j], support)
            )


def test_mismatched_shapes_are_refused() -> None:
    with pytest.raises(AssertionError):
        project(torch.ones(2, 3), torch.ones(3), torch.tensor([0.0, 1.0]))
    with pytest.raises(AssertionError):
        project(torch.ones(3), torch.ones(3), torch.ones(1, 2))


# thirds, so that neither atoms nor gaps are exact in binary
supports = st.lists(st.integers(-90, 90), min_size=2, max_size=9, unique=True).map(
    lambda thirds: [third / 3 for third in sorted(thirds)]
)
weights = st.integers(0, 1_000)


@st.composite
def cases(draw: st.DrawFn, inside: bool = False) -> tuple[list[float], list[float], list[float]]:
    """Probabilities, positions and a support; positions may lie on atoms or outside."""
    support = draw(supports)
    low, high = (support[0], support[-1]) if inside else (-60.0, 60.0)
    anywhere = st.floats(low, high, allow_nan=False) | st.sampled_from(support)
    position = draw(st.lists(anywhere, min_size=1, max_size=6))
    mass = draw(st.lists(weights, min_size=len(position), max_size=len(position)))
    total = sum(mass) or 1
    return [m / total for m in mass], position, support


def slow_project(
    probability: list[float], position: list[float], support: list[float]
) -> list[float]:
    result = [0.0] * len(support)
    for mass, where in zip(probability, position, strict=True):
        above = bisect.bisect_right(support, where)  # the first atom beyond the particle
        if above == 0:
            result[0] += mass
        elif above == len(support):
            result[-1] += mass
        else:
            below = above - 1
            closeness = (where - support[below]) / (support[above] - support[below])
            result[below] += mass * (1 - closeness)
            result[above] += mass * closeness
    return result


def double(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@slow_machine
@given(cases())
def test_equals_the_slow_loop(case: tuple[list[float], list[float], list[float]]) -> None:
    actual = project(*(double(part) for part in case))

    torch.testing.assert_close(actual, double(slow_project(*case)), rtol=0, atol=1e-11)


@slow_machine
@given(cases())
def test_mass_is_kept_and_never_negative_in_single_precision(
    case: tuple[list[float], list[float], list[float]],
) -> None:
    actual = projected(*case)

    assert (actual >= 0).all()
    assert float(actual.sum()) == pytest.approx(sum(case[0]), abs=1e-6)


@slow_machine
@given(cases(inside=True))
def test_the_mean_is_kept_inside_the_range(
    case: tuple[list[float], list[float], list[float]],
) -> None:
    probability, position, support = case
    mean = sum(p * x for p, x in zip(probability, position, strict=True))

    actual = project(*(double(part) for part in case))

    assert float(actual @ double(support)) == pytest.approx(mean, abs=1e-9)


@slow_machine
@given(supports, st.data())
def test_positions_equal_to_the_support_change_nothing(
    support: list[float], data: st.DataObject
) -> None:
    mass = data.draw(st.lists(weights, min_size=len(support), max_size=len(support)))
    probability = torch.tensor([float(m) for m in mass])
    atoms = torch.tensor(support)

    assert torch.equal(project(probability, atoms, atoms), probability)
