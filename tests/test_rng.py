"""Random numbers as a function of (seed, counter), against plain Python integers."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import Tensor

from idqn import rng
from idqn.rng import make_lanes, normal, random_bits, random_index, uniform

CPU = torch.device("cpu")

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """SplitMix64's finaliser on an unsigned 64-bit integer."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def expected_bits(seed: int, counter: int, count: int) -> list[int]:
    stream = mix(mix((seed + GOLDEN) & MASK) ^ (counter & MASK))
    return [mix((stream + lane * GOLDEN) & MASK) >> 32 for lane in range(1, count + 1)]


def bits(seed: int, counter: int, count: int) -> list[int]:
    drawn: list[int] = random_bits(
        torch.tensor([seed]), torch.tensor([counter]), make_lanes(count, CPU)
    )[0].tolist()
    return drawn


def index(seed: Tensor, counter: Tensor, count: int, size: int) -> np.ndarray:
    return random_index(seed, counter, make_lanes(count, CPU), torch.full_like(seed, size)).numpy()


def chi_square(drawn: np.ndarray, cells: int) -> float:
    counts = np.bincount(drawn.ravel(), minlength=cells)
    assert len(counts) == cells
    mean = drawn.size / cells
    return float(((counts - mean) ** 2 / mean).sum())


def test_the_reference_is_splitmix64() -> None:
    # the published sequence of SplitMix64 from the seed 1234567
    assert [mix((1234567 + n * GOLDEN) & MASK) for n in range(1, 6)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 - 1, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize("counter", [0, 1, 2_500_000, 2**63 - 1])
def test_bits_equal_the_reference(seed: int, counter: int) -> None:
    assert bits(seed, counter, 40) == expected_bits(seed, counter, 40)


def test_bits_are_32_bits_wide() -> None:
    drawn = random_bits(torch.arange(50), torch.arange(50), make_lanes(200, CPU))

    assert drawn.dtype == torch.int64
    assert drawn.shape == (50, 200)
    assert drawn.min() >= 0
    assert drawn.max() < 2**32
    # of 10,000 draws, each of the 32 bits is set in half: 5000 ± 6 standard deviations of 50
    for bit in range(32):
        assert 4_700 < int(((drawn >> bit) & 1).sum()) < 5_300


def test_index_scales_bits_to_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = torch.tensor([[0, 2**31, 2**32 - 1]] * 4)
    monkeypatch.setattr(rng, "random_bits", lambda *_: edges)
    size = torch.tensor([1, 10, 10_000, 2**31 - 1])

    # bits · size / 2^32, rounded down: 0, half of size, and just below size
    assert random_index(size, size, make_lanes(3, CPU), size).tolist() == [
        [0, 0, 0],
        [0, 5, 9],
        [0, 5_000, 9_999],
        [0, 1_073_741_823, 2_147_483_646],
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_index_covers_all_below_size_and_never_size(size: int) -> None:
    drawn = index(torch.tensor([3]), torch.tensor([11]), 20 * size + 20_000, size)

    assert set(drawn.ravel().tolist()) == set(range(size))


@pytest.mark.parametrize("along", ["draws", "counters", "seeds"])
def test_index_is_uniform_along(along: str) -> None:
    total, cells = 12_800, 64
    zeros, numbers = torch.zeros(total, dtype=torch.int64), torch.arange(total)
    if along == "draws":
        drawn = index(torch.tensor([5]), torch.tensor([9]), total, cells)
    elif along == "counters":
        drawn = index(zeros, numbers, 1, cells)
    else:
        drawn = index(numbers, zeros, 1, cells)

    # 63 degrees of freedom: mean 63, standard deviation √126 = 11.2; four of them either way
    assert 18 < chi_square(drawn, cells) < 108


def test_neighbouring_draws_are_independent() -> None:
    drawn = index(torch.tensor([1]), torch.tensor([0]), 12_801, 8)[0]
    following = index(torch.tensor([1]), torch.tensor([1]), 12_801, 8)[0]

    assert 18 < chi_square(drawn[:-1] * 8 + drawn[1:], 64) < 108  # draw n and n+1
    assert 18 < chi_square(drawn * 8 + following, 64) < 108  # update t and t+1


def test_each_seed_and_counter_has_its_own_stream() -> None:
    streams = {tuple(bits(seed, counter, 3)) for seed in range(15) for counter in range(15)}

    assert len(streams) == 15 * 15


def test_a_stream_in_a_population_is_the_stream_alone() -> None:
    seeds, counters = torch.tensor([4, 0, 4, 99]), torch.tensor([7, 7, 8, 0])
    sizes = torch.tensor([10, 1_000, 3, 64])

    together = random_index(seeds, counters, make_lanes(50, CPU), sizes)

    for run in range(4):
        own = slice(run, run + 1)
        alone = random_index(seeds[own], counters[own], make_lanes(50, CPU), sizes[own])
        assert torch.equal(together[own], alone)


def test_a_longer_draw_starts_as_the_shorter_one() -> None:
    assert bits(3, 5, 100)[:32] == bits(3, 5, 32)


def test_global_torch_seed_has_no_say() -> None:
    torch.manual_seed(1)
    before = bits(3, 5, 10)
    torch.manual_seed(2)

    assert bits(3, 5, 10) == before


Draw = Callable[[Tensor, Tensor, Tensor], Tensor]


def test_uniform_by_hand() -> None:
    seed, counter = torch.tensor([7]), torch.tensor([2_500_000])
    expected = [((b >> 9) + 0.5) / 2**23 for b in expected_bits(7, 2_500_000, 40)]

    drawn = uniform(seed, counter, make_lanes(40, CPU))

    assert drawn.dtype == torch.float32
    assert drawn[0].tolist() == expected  # to the bit


def test_normal_is_the_quantile_of_uniform() -> None:
    seed, counter, lanes = torch.tensor([7]), torch.tensor([3]), make_lanes(500, CPU)
    quantile = NormalDist().inv_cdf
    expected = torch.tensor([[quantile(u) for u in uniform(seed, counter, lanes)[0].tolist()]])

    torch.testing.assert_close(normal(seed, counter, lanes), expected, rtol=1e-4, atol=1e-5)


def test_even_the_last_bits_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = torch.tensor([[0, 2**31, 2**32 - 1]])
    monkeypatch.setattr(rng, "random_bits", lambda *_: edges)

    low, middle, high = uniform(edges, edges, edges)[0].tolist()
    assert 0 < low < 1e-6
    assert middle == pytest.approx(0.5)
    assert 1 - 1e-6 < high < 1
    low, middle, high = normal(edges, edges, edges)[0].tolist()
    assert -6 < low < -5
    assert middle == pytest.approx(0, abs=1e-6)
    assert high == -low


@pytest.mark.parametrize("along", ["draws", "counters", "seeds"])
@pytest.mark.parametrize(
    ("draw", "mean", "variance", "fourth"), [(uniform, 0.5, 1 / 12, 1 / 80), (normal, 0, 1, 3)]
)
def test_moments(draw: Draw, mean: float, variance: float, fourth: float, along: str) -> None:
    total = 40_000
    zeros, numbers = torch.zeros(total, dtype=torch.int64), torch.arange(total)
    if along == "draws":
        drawn = draw(torch.tensor([5]), torch.tensor([9]), make_lanes(total, CPU))
    elif along == "counters":
        drawn = draw(zeros, numbers, make_lanes(1, CPU))
    else:
        drawn = draw(numbers, zeros, make_lanes(1, CPU))

    assert drawn.numel() == total
    error = drawn.double().flatten() - mean
    # four standard deviations of each, which are those of one number over √40,000
    assert abs(float(error.mean())) < 4 * (variance / total) ** 0.5
    spread = (fourth - variance**2) / total
    assert abs(float(error.square().mean()) - variance) < 4 * spread**0.5
    assert abs(float(error.pow(3).mean())) < 4 * (15 * variance**3 / total) ** 0.5


@pytest.mark.parametrize("draw", [uniform, normal])
def test_lanes_counters_and_seeds_are_independent(draw: Draw) -> None:
    lanes = make_lanes(20_000, CPU)
    rows = draw(torch.tensor([1, 1, 2]), torch.tensor([0, 1, 0]), lanes).double()
    shifted = rows[:1].roll(1, 1)  # each lane beside the one before

    correlation = torch.corrcoef(torch.cat([rows, shifted]))

    # one standard deviation is 1/√20,000 = 0.007
    assert (correlation - torch.eye(4)).abs().max() < 0.03


@pytest.mark.parametrize("draw", [uniform, normal])
def test_equal_seeds_and_counters_draw_equal_numbers(draw: Draw) -> None:
    seeds, counters = torch.tensor([4, 0, 4, 99, 4]), torch.tensor([7, 7, 8, 0, 7])

    together = draw(seeds, counters, make_lanes(50, CPU))

    assert torch.equal(together[0], together[4])
    assert len({tuple(row) for row in together.tolist()}) == 4
    for run in range(5):
        own = slice(run, run + 1)
        longer = draw(seeds[own], counters[own], make_lanes(80, CPU))
        assert torch.equal(together[own], longer[:, :50])
