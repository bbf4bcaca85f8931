"""A moment of each game at which every one of its edits has valid choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from idqn.envs.editable import EditableAtari
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.editing import Choice, Editable
from tests.envs.alone import GAMES, MINI, config_of

# No-ops first, then so many random steps.
_WARM_UP = {
    "Alien": (0, 110),
    "Freeway": (20, 60),
    "Frostbite": (40, 0),
    "Gravitar": (10, 0),
    "MsPacman": (70, 60),
    "Pong": (30, 20),
    "Qbert": (60, 0),
    "SpaceInvaders": (30, 60),
    "Venture": (40, 10),
}
ALL = (*GAMES, "MiniPacman")


def to_the_bear(env: EditableAtari) -> None:
    """Through the doors of three igloos, to Frostbite's first level that has a bear."""

    def play(action: int, frames: int) -> None:
        for _ in range(frames // env.config.frame_skip):
            assert not env.step(action)[2]

    noop, up = 0, 2
    for level in range(3):
        play(noop, 160)
        assert env.ram[75] == level
        env.apply("igloo", blocks=16)
        env.apply("player", x=120)  # before the door
        play(up, 80)
        play(noop, 360)  # until blocks and degrees are paid for


def moment(game: str, **changes: Any) -> Editable[Any, Any]:
    if game == "MiniPacman":
        mini = EditableMiniPacman(MINI)
        mini.reset(3)
        for action in (2, 2, 4, 4, 3):
            mini.step(action)
        return mini
    env = EditableAtari(config_of(game, **changes))
    env.reset(3)
    noops, random = _WARM_UP[game]
    rng = np.random.default_rng(3)
    if game == "Frostbite":
        to_the_bear(env)
    for _ in range(noops):
        env.step(0)
    for _ in range(random):
        assert not env.step(int(rng.integers(env.num_actions)))[2]
    return env


def some_choices(env: Editable[Any, Any], count: int) -> list[Choice]:
    """So many random choices of every edit."""
    rng = np.random.default_rng(0)
    some: list[Choice] = []
    for name in env.edits:
        choices = env.choices(name)
        assert choices, f"{env.config.id}: no valid {name}"
        some += [(name, choices[i]) for i in rng.permutation(len(choices))[:count]]
    return some


def everything(env: Editable[Any, Any]) -> list[Any]:
    """All that can be seen of a moment, and how it goes on."""
    seen: list[Any] = [env.observation, env.screen()]
    if isinstance(env, EditableAtari):
        seen.append(env.ram)
        seen.append(env.save().emulator.state)
        seen.append(env.save().emulator.replay)
    snapshot = env.save()
    for action in (1, 2, 3, 0, 1):
        if env.num_actions > action:
            answer = env.step(action)
            seen += [*answer, env.screen()]
            if answer[2] or answer[3]:
                break
    env.restore(snapshot)
    return seen


def assert_same(ones: list[Any], others: list[Any]) -> None:
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_array_equal(one, other)
