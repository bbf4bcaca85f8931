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


def test_what_belongs_together_is_drawn_together() -> None:
    # a hundred moments of four games, in which all of a game's are alike, are four samples
    games = np.repeat(np.arange(4), 25)
    samples = np.array([0.0, 0.0, 1.0, 1.0])[games]
    alone, together = mean_of(samples), mean_of(samples, cluster=games)
    assert together[0] == alone[0] == 0.5
    # four draws of one of two halves: one in sixteen is all 0, one in sixteen all 1
    assert together[1:].tolist() == [0, 1]
    assert alone[1] > 0.35
    # of clusters of one, nothing changes but the luck
    each = mean_of(samples, cluster=np.arange(100))
    np.testing.assert_allclose(each, alone, atol=0.02)
    # one cluster says nothing about others
    np.testing.assert_array_equal(mean_of(samples, cluster=np.zeros(100, np.int64)), alone)


def test_clusters_count_by_their_size() -> None:
    value, low, high = mean_of(np.array([0.0, 0.0, 0.0, 1.0]), cluster=np.array([7, 7, 7, 9]))
    assert (value, low, high) == (0.25, 0, 1)


def test_newcombe_published_example() -> None:
    # Newcombe 1998, table II (a), method 10: 56/70 less 48/80
    found = difference_of_shares(share_of(56, 70), share_of(48, 80))
    np.testing.assert_allclose(found, [0.2, 0.0524, 0.3339], atol=5e-5)
