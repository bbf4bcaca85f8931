"""Intervals, by hand and against what is published."""

from __future__ import annotations

import numpy as np
import pytest

from idqn.explain.intervals import difference_of_means, difference_of_shares, mean_of, share_of


def test_means_of_nothing_are_unknown() -> None:
    assert np.isnan(mean_of(np.zeros(0))).all()
    assert np.isnan(difference_of_means(np.zeros(0), np.ones(2))).all()
    assert np.isnan(share_of(0, 0)).all()


def test_means_of_equal_samples_are_certain() -> None:
    assert mean_of(np.full(5, 3.0)).tolist() == [3, 3, 3]
    assert difference_of_means(np.full(5, 3.0), np.full(2, 1.0)).tolist() == [2, 2, 2]


def test_the_mean_lies_within() -> None:
    samples = np.random.default_rng(0).normal(2.0, 1.0, 400)
    value, low, high = mean_of(samples)
    # the normal approximation: 1.96 / 20 on either side
    assert low == pytest.approx(value - 0.098, abs=0.015)
    assert high == pytest.approx(value + 0.098, abs=0.015)


def test_newcombe_published_example() -> None:
    # Newcombe 1998, table II (a), method 10: 56/70 less 48/80
    found = difference_of_shares(share_of(56, 70), share_of(48, 80))
    np.testing.assert_allclose(found, [0.2, 0.0524, 0.3339], atol=5e-5)
