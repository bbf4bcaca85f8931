"""Prioritised replay (Schaul et al. 2016), proportional: what surprised is drawn more often."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from idqn.capture import compiled

_LEAST = 1e-6  # of any priority, so that what was no surprise at all may still be drawn
_UNIT = 2**32  # the share of the highest priority


class Priorities(NamedTuple):
    """How far surprise decides what is drawn, and how far that is corrected for."""

    exponent: float  # α: the probability is proportional to priority ** α
    correction: float  # β of the importance weights, at first
    correction_draws: int  # draws over which it rises to 1


class Shares(NamedTuple):
    """The probability of each place. In whole numbers, whose sums are exact: a GPU adds up
    fractions in no fixed order."""

    each: Tensor  # [P, capacity] int64, 0 where nothing may be drawn
    upto: Tensor  # [P, capacity], summed over all places so far, of this run and those before
    correction: Tensor  # [P], β


class Prioritized:
    """The priorities of all places in the replay of P runs."""

    def __init__(self, options: Priorities, runs: int, capacity: int, device: torch.device) -> None:
        self.priority = torch.zeros((runs, capacity), device=device)
        self.highest = torch.ones(runs, device=device)  # ever seen
        self._options = options
        self._exponent = torch.full((runs,), options.exponent, device=device)
        self._share = compiled(_share, device)

    def enter(self, place: Tensor) -> None:
        """Give new transitions, at `place` [P, e], the highest priority: nobody knows them yet."""
        self.priority.scatter_(1, place, self.highest[:, None].expand(place.shape))

    def learned(self, place: Tensor, surprise: Tensor) -> None:
        """Set priorities to |surprise|; both [P, B]."""
        fresh = surprise.detach().float().abs() + _LEAST
        # where a place was drawn twice: a maximum is the same in any order
        self.priority.scatter_reduce_(1, place, fresh, "amax", include_self=False)
        self.highest.copy_(torch.maximum(self.highest, fresh.amax(1)))

    def shares(self, drawable: Tensor, counter: Tensor) -> Shares:
        """For draw number `counter` [P]. `drawable` [2, P] is the first transition that may be
        drawn, counted from the very first, and how many may."""
        each: Tensor = self._share(self.priority, self.highest, self._exponent, drawable)
        # not compiled: torch's compiler fails on several long rows (2.11), and one row is faster
        upto = each.flatten().cumsum(0).view(each.shape)
        _, correction, draws = self._options
        beta = (correction + (1 - correction) / draws * counter.float()).clamp(max=1.0)
        return Shares(each, upto, beta)


def pick(shares: Shares, bits: Tensor) -> tuple[Tensor, Tensor]:
    """Places and importance weights, [P, B], from uniform 32-bit numbers [P, B]: one draw from
    each of B equal parts of the probability."""
    each, upto, correction = shares
    count, capacity = bits.shape[1], each.shape[1]
    before = upto[:, :1] - each[:, :1]
    part = torch.arange(count, device=bits.device) + bits.double() / 2**32  # in 0 .. B
    target = before + (part / count * (upto[:, -1:] - before)).long()
    place = torch.searchsorted(upto, target, right=True).clamp(max=capacity - 1)
    share = each.gather(1, place).clamp(min=1)
    # (N P(i))^-β over the largest of the batch, as in section 3.4: N and the sum cancel out
    return place, _power(share.amin(1, keepdim=True) / share, correction)


def _share(priority: Tensor, highest: Tensor, exponent: Tensor, drawable: Tensor) -> Tensor:
    capacity = priority.shape[1]
    oldest, size = drawable
    age = torch.arange(capacity, device=priority.device) - (oldest % capacity)[:, None]
    may_be_drawn = torch.where(age < 0, age + capacity, age) < size[:, None]  # [P, capacity]
    share = (_power(priority / highest[:, None], exponent) * _UNIT).long().clamp(min=1)
    return torch.where(may_be_drawn, share, 0)


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """base [P, n] ** exponent [P], to the bit the same for a run alone."""
    if base.is_cuda:
        return torch.pow(base, exponent[:, None])
    # a CPU's powers differ in the last bit between full vectors and what is left over at the end
    # of a tensor: so each run's are a tensor of their own
    return torch.stack([own**power for own, power in zip(base, exponent, strict=True)])
