"""t-SNE, against slow implementations and known maps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from idqn.errors import UserError
from idqn.explain.clusters import silhouettes
from idqn.explain.tsne import Divergence, conditional, joint, pca, squared_distances, tsne


def some(n: int, size: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(n, size, generator=torch.Generator().manual_seed(seed))


def blobs(n: int = 40, apart: float = 12.0) -> tuple[Tensor, Tensor]:
    """Three clouds in ten dimensions, and whose cloud each point is of."""
    label = torch.arange(3).repeat_interleave(n)
    return some(3 * n, 10) + apart * torch.eye(3, 10)[label], label


@pytest.mark.parametrize("perplexity", [2.0, 5.0, 13.0])
def test_every_point_has_the_perplexity_asked_for(perplexity: float) -> None:
    points = some(60) * torch.linspace(0.01, 100, 60)[:, None]  # some crowded, some alone
    p = conditional(squared_distances(points), perplexity)
    torch.testing.assert_close(p.sum(1), torch.ones(60))
    assert not p.diagonal().any()
    entropy = -torch.special.xlogy(p, p).sum(1)
    torch.testing.assert_close(entropy.exp(), torch.full((60,), perplexity), rtol=1e-3, atol=0)


def test_neighbours_are_gaussian() -> None:
    points = some(12)
    p = conditional(squared_distances(points), 3.0)
    for i in range(12):
        others = torch.arange(12) != i
        distance = (points[others] - points[i]).square().sum(1)
        slope = torch.diff(p[i][others].log()) / torch.diff(distance)
        torch.testing.assert_close(slope, slope[:1].expand(10), rtol=1e-2, atol=1e-3)
        assert slope[0] < 0


def test_more_equal_points_than_the_perplexity_are_no_trouble() -> None:
    points = torch.cat([torch.zeros(20, 3), some(20, 3)])
    p = joint(conditional(squared_distances(points), 4.0))
    assert p.isfinite().all()
    assert float(p.sum()) == pytest.approx(1)
    assert tsne(points, 4.0).position.isfinite().all()
    assert tsne(torch.ones(8, 3), 2.0).position.isfinite().all()


def test_squared_distances_are_exact_far_from_the_origin() -> None:
    points = 1_000 + some(9) * 1e-2
    found = squared_distances(points)
    slow = torch.stack([(points.double() - point).square().sum(1) for point in points.double()])
    torch.testing.assert_close(found, slow.float(), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("exaggeration", [1.0, 12.0])
def test_the_gradient_is_that_of_the_divergence(exaggeration: float) -> None:
    p = joint(conditional(squared_distances(some(30)), 5.0))
    y = some(30, 2, seed=1).double().requires_grad_()
    near = 1 / (1 + torch.cdist(y, y).square())
    near = near * (1 - torch.eye(30))
    q = near / near.sum()
    pull = exaggeration * p
    pairs = ~torch.eye(30, dtype=torch.bool)
    value = (pull[pairs] * (pull[pairs] / q[pairs]).log()).sum()
    # exaggerated, p no longer sums to 1, and t-SNE leaves the push of q as it was
    value = value + (1 - exaggeration) * near.sum().log()
    value.backward()  # type: ignore[no-untyped-call]
    divergence = Divergence(p)
    found = divergence.gradient(y.detach().float(), exaggeration)
    assert y.grad is not None
    torch.testing.assert_close(found, y.grad.float(), rtol=1e-3, atol=1e-6)
    if exaggeration == 1:
        assert divergence.value(y.detach().float()) == pytest.approx(
            float(value.detach()), rel=1e-4
        )


def test_blocks_of_rows_make_one_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    p = joint(conditional(squared_distances(some(30)), 5.0))
    y = some(30, 2, seed=1)
    whole = Divergence(p)
    monkeypatch.setattr("idqn.explain.tsne._BLOCK", 7 * 30)
    parts = Divergence(p)
    assert (len(whole.blocks), len(parts.blocks)) == (1, 5)
    torch.testing.assert_close(parts.gradient(y), whole.gradient(y))


def test_what_is_apart_stays_apart() -> None:
    points, label = blobs()
    drawn = tsne(points, 15.0)
    distance = torch.cdist(drawn.position, drawn.position).fill_diagonal_(math.inf)
    assert (label[distance.argmin(1)] == label).all()
    assert float(silhouettes(drawn.position, label).min()) > 0.25
    assert drawn.divergence < 0.6
    torch.testing.assert_close(drawn.position.mean(0), torch.zeros(2), rtol=0, atol=1e-3)


def test_the_same_seed_draws_the_same_map() -> None:
    points = some(50)
    one, same, other = (tsne(points, 8.0, seed).position for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_few_points_get_a_smaller_perplexity() -> None:
    assert tsne(some(31), 40.0).perplexity == 10
    assert tsne(some(31), 7.0).perplexity == 7
    assert tsne(some(4), 40.0).perplexity == 1
    with pytest.raises(UserError, match="at least 4 points, got 3"):
        tsne(some(3))
    with pytest.raises(UserError, match="perplexity is a number of neighbours above 1, got 0"):
        tsne(some(30), 0.0)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    tsne(some(10), 2.0, iterations=120, progress=lambda done, total: told.append((done, total)))
    assert told == [(50, 120), (100, 120)]


def test_principal_components_and_their_share() -> None:
    # 3 along one axis, 2 along another, 0 elsewhere: variances 9 and 4
    points = torch.tensor([[3.0, 0, 0], [-3, 0, 0], [0, 0, 2], [0, 0, -2]]) + 7
    flat, share = pca(points)
    torch.testing.assert_close(share, torch.tensor([9 / 13, 4 / 13]))
    expected = torch.tensor([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
    torch.testing.assert_close(flat, expected, rtol=0, atol=1e-6)


def test_one_dimension_has_one_component() -> None:
    flat, share = pca(torch.tensor([[1.0], [2], [4]]))
    torch.testing.assert_close(share, torch.tensor([1.0, 0]))
    torch.testing.assert_close(flat[:, 1], torch.zeros(3))
