"""How well labels keep apart, against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from idqn.explain import clusters


def test_silhouettes_of_a_line() -> None:
    points = torch.tensor([[0.0], [2], [10], [13], [20]])
    label = torch.tensor([0, 0, 1, 1, 2])
    # own: 2, 2, 3, 3; nearest other label's: (10 + 13) / 2, (8 + 11) / 2, (10 + 8) / 2, 7
    expected = torch.tensor([1 - 2 / 11.5, 1 - 2 / 9.5, 1 - 3 / 9, 1 - 3 / 7, 0])
    torch.testing.assert_close(clusters.silhouettes(points, label), expected)


def test_points_among_others_have_silhouettes_below_nothing() -> None:
    points = torch.tensor([[0.0], [1], [5], [6]])
    label = torch.tensor([0, 1, 0, 1])
    # own: 5, 5, 5, 5; other: (1 + 6) / 2, (1 + 4) / 2
    expected = torch.tensor([3.5 / 5 - 1, 2.5 / 5 - 1, 2.5 / 5 - 1, 3.5 / 5 - 1])
    torch.testing.assert_close(clusters.silhouettes(points, label), expected)


def test_one_label_has_no_silhouette() -> None:
    points, label = torch.rand(5, 2), torch.full((5,), 3)
    assert not clusters.silhouettes(points, label).any()
    assert not clusters.silhouettes(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])).any()


def test_keys_as_classifiers() -> None:
    keys = torch.tensor([[1.0, 0], [0, 1], [10, 10]])
    points = torch.tensor([[2.0, 0], [0, 2], [9, 9], [0.4, 0.1]])
    assert clusters.nearest(points, keys).tolist() == [0, 1, 2, 0]
    assert clusters.strongest(points, keys).tolist() == [2, 2, 2, 2]
    assert clusters.strongest(points, keys[:2]).tolist() == [0, 1, 0, 0]
    assert clusters.share(torch.tensor([1, 2, 0]), torch.tensor([1, 2, 2])) == pytest.approx(2 / 3)
    assert clusters.most_frequent(torch.tensor([4, 4, 4, 0])) == 0.75


def test_keys_beside_states_are_told_from_those_apart() -> None:
    keys = torch.tensor([[0.0], [1], [10], [12]])
    states = torch.tensor([[9.5], [12.1], [40]])
    assert clusters.beside(keys, states) == 0.5
    assert clusters.beside(keys[:1], states) == 1


def test_centroids_are_of_the_other_half() -> None:
    points = torch.tensor([[0.0], [1], [10], [0.4], [9], [11]])
    label = torch.tensor([0, 0, 2, 0, 1, 2])
    # from the first half: means 0.5 (0) and 10 (2), so right, wrong, right;
    # from the second: 0.4 (0), 9 (1), 11 (2), so right, right, and 10 is as far from 9 as from 11
    right, frequent = clusters.centroids(points, label)
    assert right == pytest.approx(4 / 6)
    # first half mostly 0, second a tie that the lowest wins, 0
    assert frequent == pytest.approx((1 + 2) / 6)


def test_a_label_of_one_half_alone_cannot_be_guessed() -> None:
    points = torch.tensor([[0.0], [0], [5], [5]])
    assert clusters.centroids(points, torch.tensor([0, 0, 1, 1])) == (0, 0)
    assert clusters.centroids(points, torch.tensor([0, 1, 1, 0]))[0] == 0.5
