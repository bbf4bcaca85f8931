"""One Atari emulator whose episodes start from a seed, and that can really be put back.

ALE's own state leaves out the screen buffers, whether a frame is half drawn, and the action that
sticky actions repeat, so that a plain restore goes wrong now and then (for Q*bert, always after a
reset). Here a snapshot is the ALE state of a moment a few frames earlier, and what happened since:
acting it out again rebuilds all that is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari_ids import rom_name

NOOP, FIRE = 0, 1

_ACT = -1  # a replay entry that is an action rather than a RAM edit
_ANCHOR_ACTS = 8  # acts between anchors; two redraw both of the emulator's screen buffers


@dataclass(frozen=True, eq=False)
class EmulatorSnapshot:
    seed: int
    """Seed of the episode."""
    state: bytes
    """ALE's state a few frames ago, serialised; empty if that was the start of the episode."""
    held_action: int
    """The action that sticky actions would have repeated then."""
    replay: NDArray[np.int16]  # [n, 2]: what happened since, (-1, action) or (RAM index, value)


@dataclass
class _Anchor:
    """A moment the emulator can be brought back to, and what happened since."""

    state: bytes
    held_action: int
    replay: list[tuple[int, int]] = field(default_factory=list)
    acts: int = 0


class Emulator:
    """Acts frame by frame; `ale` is for looking (screen, RAM, lives), never for acting."""

    _held_action: int

    def __init__(self, config: EnvConfig) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self._rom = str(roms.get_rom_path(rom_name(config.id)))
        self._noop_max = config.noop_max
        # The emulator compares its draws with a 32-bit float; so must we.
        self._sticky = float(np.float32(config.sticky_probability))
        self.ale.setFloat("repeat_action_probability", config.sticky_probability)
        self._load(seed=0)
        full = config.full_action_space
        self.actions = self.ale.getLegalActionSet() if full else self.ale.getMinimalActionSet()
        self._presses_fire = config.fire_on_reset and FIRE in {a.value for a in self.actions}
        self._anchors: list[_Anchor] = []  # at most two

    @property
    def started(self) -> bool:
        return bool(self._anchors)

    def begin_episode(self, seed: int) -> None:
        """In the native environment's order: load, reset, FIRE, no-ops."""
        self._load(seed)
        self._reset_game()
        if self._presses_fire:
            self._emulate(FIRE)
        noops = draw_noops(np.random.RandomState(seed), self._noop_max)
        for _ in range(noops - self._presses_fire):
            self._emulate(NOOP)
            if self.ale.game_over():
                self._reset_game()
        self._anchors = [_Anchor(b"", self._held_action)]

    def act(self, action: int) -> int:
        """One frame of one of ALE's actions; the reward."""
        reward = self._emulate(action)
        anchor = self._anchors[-1]
        anchor.replay.append((_ACT, action))
        anchor.acts += 1
        if anchor.acts >= _ANCHOR_ACTS:
            self._drop_anchor()
        return reward

    def set_ram(self, index: int, value: int) -> None:
        self.ale.setRAM(index, value)
        self._anchors[-1].replay.append((index, value))

    def save(self) -> EmulatorSnapshot:
        start = self._anchors[0]
        replay = [entry for anchor in self._anchors for entry in anchor.replay]
        return EmulatorSnapshot(
            seed=self._seed,
            state=start.state,
            held_action=start.held_action,
            replay=np.array(replay, np.int16).reshape(-1, 2),
        )

    def restore(self, snapshot: EmulatorSnapshot) -> None:
        if snapshot.state:
            self._return_to(snapshot)
        else:
            self.begin_episode(snapshot.seed)
        for kind, value in snapshot.replay.tolist():
            if kind == _ACT:
                self.act(value)
            else:
                self.set_ram(kind, value)

    def rewinder(self) -> Callable[[], None] | None:
        """A way back to this moment, twenty times faster than `restore`, because it does not
        redraw the screens: whoever calls it must act before looking. None where that is not all
        that ALE's state leaves out: with sticky actions, and within a half drawn frame."""
        state = self.ale.cloneState(include_rng=True)
        if self._sticky > 0 or frame_in_progress(bytes(state.serialize())):
            return None
        held_action = self._held_action
        anchors = [replace(anchor, replay=list(anchor.replay)) for anchor in self._anchors]

        def rewind() -> None:
            self.ale.restoreState(state)
            self._held_action = held_action
            self._anchors = [replace(anchor, replay=list(anchor.replay)) for anchor in anchors]

        return rewind

    def _load(self, seed: int) -> None:
        """ALE takes a seed only while it loads a ROM, so every episode loads it anew."""
        self.ale.setInt("random_seed", seed)
        self.ale.loadROM(self._rom)
        self._seed = seed
        self._draws = np.random.RandomState(seed)
        self._held_action = NOOP

    def _reset_game(self) -> None:
        self.ale.reset_game()
        self._held_action = NOOP

    def _emulate(self, action: int) -> int:
        """One frame. ALE does not tell which action it holds, so we draw what it draws."""
        if self._sticky == 0.0:
            self._held_action = action
        else:
            draw, _ = self._draws.randint(0, 2**32, size=2, dtype=np.uint32)  # one per player
            if draw / 2**32 >= self._sticky:
                self._held_action = action
        return int(self.ale.act(action))

    def _drop_anchor(self) -> None:
        """Snapshots start from the last anchor but one: always some acts ago, never many. Not
        while a frame is half drawn, which ALE would not restore."""
        state = self._serialised()
        if not frame_in_progress(state) and not self.ale.game_over():
            self._anchors = [self._anchors[-1], _Anchor(state, self._held_action)]

    def _return_to(self, snapshot: EmulatorSnapshot) -> None:
        """Restore an ALE state, once this emulator holds the same action and no half frame."""
        while True:
            if self.ale.game_over():
                self._reset_game()  # a finished game ignores actions
            self._emulate(snapshot.held_action)
            held = self._held_action == snapshot.held_action
            if held and not frame_in_progress(self._serialised()):
                break
        self.ale.restoreState(ALEState(snapshot.state))
        self._seed = snapshot.seed
        self._draws = np.random.RandomState(snapshot.seed)
        self._draws.bytes(8 * self.ale.getFrameNumber())  # two 32-bit draws for each act so far
        self._anchors = [_Anchor(snapshot.state, snapshot.held_action)]

    def _serialised(self) -> bytes:
        return bytes(self.ale.cloneState(include_rng=True).serialize())


def draw_noops(draws: np.random.RandomState, noop_max: int) -> int:
    """What `std::uniform_int_distribution(0, noop_max)` draws from a `std::mt19937` in ale-py's
    Linux wheels: Lemire's multiply-and-shift, with rejection."""
    count = noop_max + 1
    while True:
        product = int(draws.randint(0, 2**32, dtype=np.uint32)) * count
        if product % 2**32 >= 2**32 % count:
            return product >> 32


def frame_in_progress(state: bytes) -> bool:
    """Whether the processor ran out of time before the game finished its frame, as Q*bert's does
    while it starts. ALE 0.12.1 does not restore that, but shows it: the last of the processor's 14
    numbers has bit 0 set when a finished frame stopped it."""
    processor = state.index(b"M6502Low") + len(b"M6502Low")
    return not state[processor + 13 * 4] & 1
