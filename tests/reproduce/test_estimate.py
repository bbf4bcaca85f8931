"""Intervals over seeds and normalised scores, against values computed by hand."""

from __future__ import annotations

import pytest

from idqn.reproduce.estimate import Estimate, normalised, over_seeds, student_t, summary
from idqn.reproduce.published import SCALES, TABLE_1


def test_the_interval_of_three_seeds_is_students() -> None:
    """1, 2 and 3: standard deviation 1, standard error 1/√3 = 0.57735, t of 2 degrees 4.303."""
    found = over_seeds([1.0, 2.0, 3.0])
    assert found is not None
    assert found.mean == 2
    assert found.seeds == 3
    assert found.interval == pytest.approx((2 - 2.48434, 2 + 2.48434), abs=1e-4)


def test_two_seeds_say_little() -> None:
    """10 and 12: standard error 1, t of 1 degree 12.706."""
    found = over_seeds([10.0, 12.0])
    assert found is not None
    assert found.interval == pytest.approx((11 - 12.706, 11 + 12.706))


def test_one_seed_has_no_interval_and_none_no_mean() -> None:
    assert over_seeds([7.0]) == Estimate(7.0, None, 1)
    assert over_seeds([]) is None


@pytest.mark.parametrize(("degrees", "t"), [(1, 12.706), (9, 2.262), (30, 2.042), (60, 2.000)])
def test_students_t(degrees: int, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, abs=1e-3)


def test_normalised_scores() -> None:
    """Freeway: 14.8 is half of a person's 29.6; Pong: (-3.05 + 20.7) / 35.3."""
    assert normalised("Freeway", 14.8) == pytest.approx(50)
    assert normalised("Pong", -3.05) == pytest.approx(50)
    assert normalised("MsPacman", 6132.21) == pytest.approx(100 * 5824.91 / 6644.3)
    assert normalised("Alien", 227.8) == 0


def test_the_summary_of_games() -> None:
    """50 %, 0 % and 200 %: median 50, mean 250/3."""
    found = summary({"Freeway": 14.8, "Venture": 0.0, "Pong": -20.7 + 2 * 35.3})
    assert found.median == pytest.approx(50)
    assert found.mean == pytest.approx(250 / 3)


def test_every_published_game_has_a_scale() -> None:
    for column in TABLE_1:
        assert column.scores.keys() <= SCALES.keys()
        assert len(column.scores) == 8
