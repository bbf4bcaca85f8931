"""How a game begins, remembered instead of emulated.

A reset emulates some seventy frames, as many as eighteen steps, and meanwhile everybody waits. But
what it leads to depends on one random number only, where a timer starts, and the emulator draws
those numbers from a sequence that is the same for every seed. So all 75 beginnings of a game are
emulated once, and a reset restores one of them.

This holds for games that forget the last episode (`episodes_per_seed`), and is checked: a game in
which one number led to two beginnings is reset as ever.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from ale_py import ALEInterface, ALEState
from numpy.typing import NDArray

from idqn.envs.emulator import frame_in_progress

_TIMERS = 75  # the timer starts at 25 to 99
_MOST_RESETS = 2_000  # to meet them all takes 370, give or take 100


class _Beginning(NamedTuple):
    state: ALEState
    exact: bytes  # all that it says about the console
    # [2, 210, 160], grey; now, and after one more frame. States leave out the screens, and only
    # after a second frame nothing is left of those from before they were restored.
    screens: NDArray[np.uint8]


class Openings:
    """The beginnings of one game. `fire` is the action that is always taken first, if there is one;
    where a reset leaves a frame half drawn, which cannot be restored, it is part of them
    (`fired`). Then a game must not be over within its first no-ops, and none is."""

    def __init__(self, rom: str, fire: Any) -> None:
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.loadROM(rom)
        self._draws = _timer_draws(_serialised(self._ale))
        self._timers: list[int] = []  # of all resets so far
        self._ale.reset_game()
        self.fired = fire is not None and frame_in_progress(_serialised(self._ale))
        self._ale.loadROM(rom)
        self._known: dict[int, _Beginning] = {}
        self.usable = self._learn(fire)

    def restore(self, ale: ALEInterface, reset: int) -> NDArray[np.uint8]:
        """Bring an emulator to where a reset would bring it, its so manieth since it was loaded,
        the first being number 0. It can only be restored from then on, until it is loaded. Returns
        its screen, and the one after the next frame: it does not show them."""
        while frame_in_progress(_serialised(ale)):  # restoring would not end it
            ale.reset_game()
            ale.act(ale.getLegalActionSet()[0])
        beginning = self._known[self._timer(reset)]
        ale.restoreState(beginning.state)
        return beginning.screens

    def named(self, reset: int) -> bytes:
        """The same for resets that lead to the same console and the same screens."""
        beginning = self._known[self._timer(reset)]
        return sha256(beginning.exact + beginning.screens.tobytes()).digest()

    def _learn(self, fire: Any) -> bool:
        """Meet all beginnings; False if they are not what they should be."""
        for reset in range(_MOST_RESETS):
            self._ale.reset_game()
            if self.fired:
                self._ale.act(fire)
            state = self._ale.cloneState(include_rng=False)
            serialised = bytes(state.serialize())
            if frame_in_progress(serialised):
                return False
            timer, exact = self._timer(reset), serialised[serialised.index(b"M6502") :]
            if timer not in self._known:
                now = self._ale.getScreenGrayscale()
                self._ale.act(
                    self._ale.getLegalActionSet()[0] if self.fired or fire is None else fire
                )
                screens = np.stack([now, self._ale.getScreenGrayscale()])
                self._known[timer] = _Beginning(state, exact, screens)
            elif self._known[timer].exact != exact:
                return False
            if len(self._known) == _TIMERS:
                return True
        return False

    def _timer(self, reset: int) -> int:
        while len(self._timers) <= reset:
            draw = self._draws.randint(0, 2**32, dtype=np.uint32)
            self._timers.append(int(draw) % _TIMERS)
        return self._timers[reset]


@cache  # all emulators of a process share them
def openings(rom: str, fire: Any) -> Openings:
    return Openings(rom, fire)


def _serialised(ale: ALEInterface) -> bytes:
    return bytes(ale.cloneState(include_rng=False).serialize())


def _timer_draws(state: bytes) -> np.random.RandomState:
    """The console's random numbers from here on: a `std::mt19937`, which a state has as text."""
    found = re.search(rb"((?:\d+ ){624})(\d+)", state)
    assert found is not None, "ALE has changed its states"
    draws = np.random.RandomState()
    numbers = np.array(found.group(1).split(), np.uint64).astype(np.uint32)
    draws.set_state(("MT19937", numbers, int(found.group(2)), 0, 0.0))
    return draws
