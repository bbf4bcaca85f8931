"""Atari as the native environment plays it, up to the point where it shrinks the screen.

Shrinking takes a quarter of an emulator's time, and a GPU has time to spare: where one does the
training, emulators hand over whole screens, grey and pooled. Driving them from here also saves the
native environment's hand-over to a thread of its own. From the same seeds and actions, screens,
rewards and episode ends equal the native ones bit for bit (`tests/envs/test_screens.py`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari import (
    NO_LIMIT,
    SCREEN_HEIGHT,
    SCREEN_SHAPE,
    SCREEN_WIDTH,
    episodes_per_seed,
)
from idqn.envs.atari_ids import rom_name
from idqn.envs.emulator import FIRE, NOOP, draw_noops
from idqn.envs.episodes import UNSEEDED, GroupStep
from idqn.envs.openings import openings


def shows_screens(config: EnvConfig) -> bool:
    """Whether a `ScreenGroup` can play this, and there is something to shrink."""
    if config.color:
        return False
    height, width = config.frame_height or SCREEN_HEIGHT, config.frame_width or SCREEN_WIDTH
    smaller = height <= SCREEN_HEIGHT and width <= SCREEN_WIDTH
    # OpenCV rounds otherwise then, and the native environment shrinks with OpenCV
    by_whole_numbers = SCREEN_HEIGHT % height == 0 and SCREEN_WIDTH % width == 0
    return smaller and not by_whole_numbers and _is_usual(rom_name(config.id))


@cache
def _is_usual(rom: str) -> bool:
    """A few cartridges draw on a screen of another height."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.loadROM(str(roms.get_rom_path(rom)))
    return tuple(ale.getScreenDims()) == (SCREEN_HEIGHT, SCREEN_WIDTH)


class ScreenGroup:
    """n emulators of one game, in the calling thread."""

    def __init__(self, config: EnvConfig, count: int) -> None:
        self.episodes_per_seed = episodes_per_seed(config)
        self._screens = np.zeros((count, *SCREEN_SHAPE), np.uint8)
        self._games = [ScreenGame(config, screen[0]) for screen in self._screens]
        self._actions: list[int] = []

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        for i in np.flatnonzero(mask):
            self._games[i].reset(int(seeds[i]))
        return self._screens

    def send(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions.tolist()

    def recv(self) -> GroupStep:
        stepped = zip(self._games, self._actions, strict=True)
        reward, terminated, truncated = zip(*(g.step(a) for g, a in stepped), strict=True)
        return (
            self._screens,
            np.array(reward, np.float32),
            np.array(terminated, bool),
            np.array(truncated, bool),
        )

    def step(self, actions: NDArray[np.int64]) -> GroupStep:
        self.send(actions)
        return self.recv()

    def close(self) -> None:
        self._games = []


class ScreenGame:
    """One emulator, which draws into `screen` [210, 160]."""

    def __init__(self, config: EnvConfig, screen: NDArray[np.uint8]) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._rom = str(roms.get_rom_path(rom_name(config.id)))
        self._ale.setFloat("repeat_action_probability", config.sticky_probability)
        self._ale.loadROM(self._rom)
        full = config.full_action_space
        self._actions = self._ale.getLegalActionSet() if full else self._ale.getMinimalActionSet()
        named = {action.value: action for action in self._ale.getLegalActionSet()}
        self._noop, fire = named[NOOP], named.get(FIRE)
        self._fire = fire if config.fire_on_reset and fire in self._actions else None
        self._noop_max, self._skip, self._pool = (
            config.noop_max,
            config.frame_skip,
            config.max_pool,
        )
        self._limit = config.max_episode_frames or NO_LIMIT
        self._draws = np.random.RandomState(0)
        self.screen, self._earlier = screen, np.zeros_like(screen)
        self._elapsed = 0
        self._resets = 0  # since the cartridge was loaded
        fast = episodes_per_seed(config) > 1 and self._skip > 2  # to see no screens of before
        known = openings(self._rom, self._fire) if fast else None
        self._openings = known if known is not None and known.usable else None

    def reset(self, seed: int) -> None:
        ale = self._ale
        if seed != UNSEEDED:
            ale.setInt("random_seed", seed)
            ale.loadROM(self._rom)
            self._draws = np.random.RandomState(seed)
            self._resets = 0
        screens = self._begin()
        noops = draw_noops(self._draws, self._noop_max)
        actions = [self._noop] * noops
        if self._fire is not None:
            fired = self._openings is not None and self._openings.fired
            actions = [self._fire] * (not fired) + [self._noop] * (noops - 1)
        for action in actions:
            ale.act(action)
            if action is not self._fire and ale.game_over():
                self._begin()
        if screens is not None and len(actions) < len(screens):
            np.copyto(self.screen, screens[len(actions)])
        else:
            ale.getScreenGrayscale(self.screen)
        self._earlier.fill(0)
        self._elapsed = 0

    def begin(self, seed: int, resets: int) -> None:
        """As `reset` does from a seed, and so many times more without one. Where beginnings are
        remembered, those in between need no emulator, and neither does the seed."""
        if self._openings is None:
            self.reset(seed)
            for _ in range(resets):
                self.reset(UNSEEDED)
            return
        self._draws, self._resets = np.random.RandomState(seed), resets
        for _ in range(resets):
            draw_noops(self._draws, self._noop_max)
        self.reset(UNSEEDED)

    def beginning(self, seed: int, resets: int) -> tuple[bytes, int] | None:
        """What tells apart where `begin` leads: who begins alike, goes on alike, if it acts alike.
        None if nobody knows."""
        if self._openings is None:
            return None
        draws = np.random.RandomState(seed)
        noops = [draw_noops(draws, self._noop_max) for _ in range(resets + 1)]
        return self._openings.named(resets), noops[-1]

    def _begin(self) -> NDArray[np.uint8] | None:
        """Reset the console; returns its first screens, if the emulator does not show them."""
        if self._openings is None:
            self._ale.reset_game()
            return None
        self._resets += 1
        return self._openings.restore(self._ale, self._resets - 1)

    def step(self, action: int) -> tuple[int, bool, bool]:
        """Reward, terminated, truncated. As in the native environment, an episode's last frame is
        never seen: what is pooled is what earlier frames left."""
        ale, pressed = self._ale, self._actions[action]
        reward, over, late = 0, False, False
        for left in range(self._skip, 0, -1):
            reward += ale.act(pressed)
            self._elapsed += 1
            over, late = ale.game_over(), self._elapsed >= self._limit
            if over or late:
                break
            if left == 2:
                ale.getScreenGrayscale(self._earlier)
            elif left == 1:
                ale.getScreenGrayscale(self.screen)
        if self._pool:
            np.maximum(self.screen, self._earlier, out=self.screen)
        return reward, over, late and not over
