"""Drawing batches from what replay stored: functions of tensors alone, to be compiled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from idqn.priorities import Shares, pick
from idqn.rng import random_bits, random_index
from idqn.types import Batch


class Source(NamedTuple):
    """What a draw depends on."""

    drawable: Tensor  # [2, P]: the first transition that may be drawn, and how many may
    seeds: Tensor  # [P]
    counter: Tensor  # [P]
    lanes: Tensor  # [B]


class Stored(NamedTuple):
    """All transitions; C is the capacity."""

    frames: Tensor  # [P, 1+ring, c, h, w]
    slots: Tensor  # [P, C, k+1]
    action: Tensor  # [P, C]
    reward: Tensor  # [P, C]
    terminated: Tensor  # [P, C]
    ended: Tensor  # [P, C]


class Sums(NamedTuple):
    """How rewards are summed."""

    discount: Tensor  # [P, 1]
    limit: Tensor  # [P, 1], of each reward's size
    ahead: tuple[int, ...]  # how many places further on the next steps lie


def draw_batch(source: Source, shares: Shares | None, stored: Stored, sums: Sums) -> Batch:
    """A batch per run. A function of tensors alone, so that it can be compiled."""
    drawable, seeds, counter, lanes = source
    if shares is not None:
        place, weight = pick(shares, random_bits(seeds, counter, lanes))
    else:
        oldest, size = drawable
        index = random_index(seeds, counter, lanes, size)  # [P, B]
        place = (index + oldest[:, None]) % stored.slots.shape[1]
        weight = torch.ones_like(place, dtype=torch.float32)
    return _look_up(place, weight, stored, sums)


def _look_up(place: Tensor, weight: Tensor, stored: Stored, sums: Sums) -> Batch:
    """The transitions at `place` [P, B], each with the rewards of the steps that followed it up
    to n or its episode's end."""
    run = torch.arange(len(place), device=place.device)[:, None]

    def reward_at(place: Tensor) -> Tensor:
        return stored.reward[run, place].clamp(-sums.limit, sums.limit)

    reward, discount, last = reward_at(place), sums.discount.expand(place.shape), place
    for offset in sums.ahead:
        further = (place + offset) % stored.slots.shape[1]
        over = stored.ended[run, last]  # and stays so, because `last` stays
        reward = torch.where(over, reward, reward + discount * reward_at(further))
        discount = torch.where(over, discount, discount * sums.discount)
        last = torch.where(over, last, further)
    return Batch(
        observation=gather(stored.frames, stored.slots[run, place, :-1]),
        action=stored.action[run, place],
        reward=reward,
        next_observation=gather(stored.frames, stored.slots[run, last, 1:]),
        discount=torch.where(stored.terminated[run, last], 0.0, discount),
        place=place,
        weight=weight,
    )


def gather(frames: Tensor, slots: Tensor) -> Tensor:
    """[P, B, k] frame places to [P, B, k*c, h, w] observations."""
    run = torch.arange(len(frames), device=frames.device)[:, None, None]
    return frames[run, slots.long()].flatten(2, 3)
