"""What seasons stand on: an unseeded reset begins an episode that no play before it can change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari import AtariGroup
from idqn.envs.episodes import UNSEEDED
from idqn.envs.gym_images import ImageGroup
from idqn.envs.registry import describe
from tests.envs.alone import GAMES, MINI, config_of

ONE, ALL = np.ones(1, bool), np.ones(3, bool)
RESETS = 8


def reset(group: AtariGroup, mask: NDArray[np.bool_], *seeds: int) -> NDArray[np.uint8]:
    """Unseeded if no seeds are given."""
    return group.reset(mask, np.array(seeds or [UNSEEDED] * len(mask)))


def after(life: NDArray[np.int64], cut_every: int, config: EnvConfig) -> list[Any]:
    """All that can be seen of an episode that comes so many resets after the seed, if these actions
    were played before."""
    group = AtariGroup(config, 1)
    reset(group, ONE, 4)
    resets = 0
    for time, action in enumerate(life, 1):
        _, _, terminated, truncated = group.step(np.array([action]))
        if terminated[0] or truncated[0] or time % cut_every == 0:
            reset(group, ONE)
            resets += 1
    assert resets < RESETS
    seen: list[Any] = [[reset(group, ONE) for _ in range(resets, RESETS)][-1]]
    for action in np.random.default_rng(2).integers(describe(config).num_actions, size=150):
        seen += group.step(np.array([action]))
        if seen[-2][0] or seen[-1][0]:
            break
    group.close()
    return seen


def forgets(config: EnvConfig) -> bool:
    """Whether the same follows after nothing, after holding every action for a while, and after
    wild play that was cut off."""
    num_actions = describe(config).num_actions
    nothing = np.zeros(0, np.int64)
    holding = np.arange(200) // 15 % num_actions
    wild = np.random.default_rng(1).integers(num_actions, size=310)
    one, *others = (after(*life, config) for life in ((nothing, 1), (holding, 999), (wild, 101)))
    return all(len(one) == len(other) and all(map(np.array_equal, one, other)) for other in others)


@pytest.mark.parametrize("game", [*GAMES, "Breakout"])
def test_an_unseeded_reset_forgets_what_was_played(game: str) -> None:
    """A canary, should another ale-py differ."""
    assert forgets(config_of(game))


def test_some_games_remember_and_sticky_actions_do() -> None:
    """So the canary can sing."""
    assert not forgets(config_of("IceHockey"))
    assert not forgets(config_of("MsPacman", sticky_probability=0.25))


def test_how_many_episodes_a_seed_serves() -> None:
    for game in ("MsPacman", "Breakout"):
        assert AtariGroup(config_of(game), 1).episodes_per_seed == 256
        assert AtariGroup(config_of(game, sticky_probability=0.25), 1).episodes_per_seed == 1
    assert AtariGroup(config_of("IceHockey"), 1).episodes_per_seed == 1
    assert ImageGroup(MINI, 1).episodes_per_seed == 1


def test_one_reset_may_seed_some_and_not_others() -> None:
    config = config_of("MsPacman")
    apart = [AtariGroup(config, 1) for _ in range(3)]
    together = AtariGroup(config, 3)
    reset(together, ALL, 1, 2, 3)
    for group, seed in zip(apart, (1, 2, 3), strict=True):
        reset(group, ONE, seed)
    mixed = (UNSEEDED, 9, UNSEEDED)
    expected = [reset(group, ONE, seed)[0] for group, seed in zip(apart, mixed, strict=True)]
    np.testing.assert_array_equal(reset(together, ALL, *mixed), expected)
    for _ in range(3):
        expected = [reset(group, ONE)[0] for group in apart]
        np.testing.assert_array_equal(reset(together, ALL), expected)


def test_unseeded_episodes_differ() -> None:
    """They are a season, not one episode again and again."""
    group = AtariGroup(config_of("Freeway"), 1)
    reset(group, ONE, 7)
    frames = [reset(group, ONE) for _ in range(20)]
    assert len({frame.tobytes() for frame in frames}) > 5
