"""Random numbers that are a function of (seed, counter), on any device.

A stateful generator would have to be saved, split among the runs of a population and frozen into
captured graphs. A counter-based one needs none of that: draw n of update t of a run is the same
number on every device, alone or in a population, before or after a restart.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift; torch's >> on int64 copies the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014), in wrapping int64 arithmetic."""
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def make_lanes(count: int, device: torch.device) -> Tensor:
    """What tells apart `count` draws with one counter. A tensor that callers keep: compilers that
    see it computed from an index overflow."""
    return torch.arange(1, count + 1, device=device) * _GOLDEN


def random_bits(seed: Tensor, counter: Tensor, lanes: Tensor) -> Tensor:
    """Uniform 32-bit numbers (as int64) for each pair of `seed` [P] and `counter` [P], and each
    lane."""
    assert seed.dtype == torch.int64
    assert seed.shape == counter.shape
    stream = _mix(_mix(seed + _GOLDEN) ^ counter)  # [P]
    return _shift_right(_mix(stream[:, None] + lanes), 32)  # [P, count]


def random_index(seed: Tensor, counter: Tensor, lanes: Tensor, size: Tensor) -> Tensor:
    """Uniform draws from 0 .. size-1, with replacement, for each of P streams and each lane."""
    return (random_bits(seed, counter, lanes) * size[:, None]) >> 32  # [P, count]


def uniform(seed: Tensor, counter: Tensor, lanes: Tensor) -> Tensor:
    """Uniform numbers, never 0 and never 1, for each of P streams and each lane."""
    # as many bits as a float32 has room for, with a half to keep away from the ends
    return ((random_bits(seed, counter, lanes) >> 9) + 0.5) * 2.0**-23


def normal(seed: Tensor, counter: Tensor, lanes: Tensor) -> Tensor:
    """Standard normal numbers, for each of P streams and each lane."""
    return torch.erfinv(2 * uniform(seed, counter, lanes) - 1) * math.sqrt(2)
