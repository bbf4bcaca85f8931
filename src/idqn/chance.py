"""The random numbers of a population, as tensors: each a function of its run's seed, what it is
for and when, so that a run draws the same alone, in company and after a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from idqn.rng import make_lanes, uniform

Draw = Callable[[Tensor, Tensor, Tensor], Tensor]
_PURPOSE_BITS = 56  # the counters' own numbers lie below
_EPISODE_BITS = 32


class Dice:
    def __init__(self, seeds: Sequence[int], members: int, device: torch.device) -> None:
        self._seeds = torch.tensor(seeds, device=device)
        self._members = members
        self._lanes: dict[int, Tensor] = {}

    def per_row(self, draw: Draw, purpose: int, counter: Tensor, count: int) -> Tensor:
        """New numbers for each network, [R, count]; those of one run's networks are equal."""
        found = self._draw(draw, purpose, counter.expand_as(self._seeds), count)
        return found.repeat_interleave(self._members, 0)

    def per_env(self, draw: Draw, purpose: int, counter: Tensor, envs: int, count: int) -> Tensor:
        """New numbers for each environment of each run, [P, envs, count]."""
        # the first few are the same, however many there are
        found = self._draw(draw, purpose, counter.expand_as(self._seeds), count * envs)
        return found.view(len(found), count, envs).mT

    def per_episode(self, purpose: int, episode: Tensor, first_env: int, count: int) -> Tensor:
        """Uniform numbers that an environment keeps as long as its episode [P, envs] lasts,
        [P, envs, count]; `first_env` is the number of the first."""
        env = torch.arange(first_env, first_env + episode.shape[1], device=episode.device)
        return self._kept(purpose, (env << _EPISODE_BITS) + episode, count)

    def per_place(self, purpose: int, place: Tensor, count: int) -> Tensor:
        """Uniform numbers that belong to places [R, B] in replay, [R, B, count]."""
        return self._kept(purpose, place, count)

    def _kept(self, purpose: int, occasion: Tensor, count: int) -> Tensor:
        rows, size = occasion.shape
        if count == 0:
            return torch.zeros(rows, size, 0, device=occasion.device)
        seeds = self._seeds.repeat_interleave(rows * size // len(self._seeds))
        found = self._draw(uniform, purpose, occasion.flatten(), count, seeds)
        return found.view(rows, size, count)

    def _draw(
        self, draw: Draw, purpose: int, counter: Tensor, count: int, seeds: Tensor | None = None
    ) -> Tensor:
        if count == 0:
            return torch.zeros(len(counter), 0, device=counter.device)
        if count not in self._lanes:
            self._lanes[count] = make_lanes(count, counter.device)
        seeds = self._seeds if seeds is None else seeds
        return draw(seeds, counter + (purpose << _PURPOSE_BITS), self._lanes[count])
