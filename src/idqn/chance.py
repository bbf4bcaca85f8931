"""The random numbers of a population, as tensors: each a function of its run's seed, what it is
for and when, so that a run draws the same alone, in company and after a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from idqn.rng import make_lanes, normal, uniform

Draw = Callable[[Tensor, Tensor, Tensor], Tensor]
_PURPOSE_BITS = 56  # the counters' own numbers lie below
_EPISODE_BITS = 32
# what random numbers are for
_ACTING, _NOISE, _LEADING, _LEARNING, _MASKS, _CODE = range(1, 7)


class Needs(NamedTuple):
    """How many random numbers an objective asks for."""

    uniform: int = 0
    normal: int = 0
    lasting: int = 0


class Chance(NamedTuple):
    """Random numbers. In acting, a row for each environment; in learning, uniform and normal ones
    are for the whole batch, and have no rows."""

    uniform: Tensor
    normal: Tensor
    lasting: Tensor  # uniform, and the same for a whole episode or, in learning, a transition
    steps: Tensor  # agent steps so far


class Dice:
    def __init__(self, seeds: Sequence[int], members: int, device: torch.device) -> None:
        self._seeds = torch.tensor(seeds, device=device)
        self._members = members
        self._lanes: dict[int, Tensor] = {}

    def for_acting(self, needs: Needs, choices: Tensor, episode: Tensor, first_env: int) -> Chance:
        """For choice number `choices` of the environments from number `first_env` on, in their so
        manieth episodes [P, E]."""
        envs = episode.shape[1]
        return Chance(
            uniform=self.per_env(uniform, _ACTING, choices, envs, needs.uniform),
            normal=self.per_env(normal, _NOISE, choices, envs, needs.normal),
            lasting=self.per_episode(_LEADING, episode, first_env, needs.lasting),
            steps=(choices * envs).float().expand(len(episode)),
        )

    def for_learning(self, needs: Needs, updates: Tensor, place: Tensor) -> Chance:
        """For update number `updates`, from transitions at `place` [R, B] in replay."""
        return Chance(
            uniform=self.per_row(uniform, _LEARNING, updates, needs.uniform),
            normal=self.per_row(normal, _LEARNING, updates, needs.normal),
            lasting=self.per_place(_MASKS, place, needs.lasting),
            steps=updates.float().expand(len(place)),
        )

    def for_codes(self, updates: Tensor, count: int) -> Tensor:
        """What a variational autoencoder adds to the means of its codes, [R, count]."""
        return self.per_row(normal, _CODE, updates, count)

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
