"""One Atari game that can be saved, restored and edited, byte by byte or by name.

Training plays ale-py's native `AtariVectorEnv`, which shows neither RAM nor state. This class
plays the same game for explanations: from the same seed and actions, its observations, rewards
and episode ends equal the native ones bit for bit (`tests/envs/test_editable.py`). The reference
is ALE's `src/ale/vector/preprocessed_env.cpp`; its oddities are repeated here on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari import SCREEN_HEIGHT, SCREEN_WIDTH
from idqn.envs.editing import Editable, check_under_way
from idqn.envs.edits import Edit, Pokes, Ram
from idqn.envs.emulator import Emulator, EmulatorSnapshot
from idqn.envs.games import edits_for
from idqn.errors import UserError

RAM_BYTES = 128


@dataclass(frozen=True, eq=False)
class AtariSnapshot:
    """Everything that determines the future of an `EditableAtari`."""

    config: EnvConfig
    emulator: EmulatorSnapshot
    observation: NDArray[np.uint8]  # [C, H, W]
    raw_frames: NDArray[np.uint8]  # [2, 210, 160] or [2, 210, 160, 3], the last one first
    elapsed_frames: int
    terminated: bool
    truncated: bool


class EditableAtari(Editable[Ram, Pokes]):
    """One game. Call `reset` (or `restore`) first, and again when an episode has ended."""

    screen_size = (SCREEN_HEIGHT, SCREEN_WIDTH)
    lag_frames = 4  # sprites are drawn a frame late, and those that blink in turns

    def __init__(self, config: EnvConfig) -> None:
        self.config = config
        self.game = edits_for(config.id)
        self._emulator = Emulator(config)
        self._ale = self._emulator.ale
        self._frame_shape = (
            3 if config.color else 1,
            config.frame_height or SCREEN_HEIGHT,
            config.frame_width or SCREEN_WIDTH,
        )
        channels, height, width = self._frame_shape
        screen = (*self._ale.getScreenDims(), 3) if config.color else self._ale.getScreenDims()
        self._raw_frames: NDArray[np.uint8] = np.zeros((2, *screen), np.uint8)
        self._observation: NDArray[np.uint8] = np.zeros(
            (config.frame_stack * channels, height, width), np.uint8
        )
        self._elapsed_frames = 0
        self._terminated = self._truncated = False

    @property
    def num_actions(self) -> int:
        return len(self._emulator.actions)

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(action.name for action in self._emulator.actions)

    @property
    def frame_shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one frame."""
        return self._frame_shape

    @property
    def lives(self) -> int:
        return int(self._ale.lives())

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current stack of frames, [C, H, W], oldest first."""
        return self._observation.copy()

    @property
    def ram(self) -> NDArray[np.uint8]:
        """A copy of the 128 bytes of RAM."""
        return np.array(self._ale.getRAM(), np.uint8)

    def screen(self) -> NDArray[np.uint8]:
        """The emulator's screen in RGB, [210, 160, 3], neither resized nor pooled."""
        return np.array(self._ale.getScreenRGB(), np.uint8)

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Start the episode that the native environment starts with `reset(seed=[seed])`."""
        if not 0 <= seed < 2**31:
            raise UserError(f"reset: a seed is an integer from 0 to 2**31 - 1, got {seed}")
        self._emulator.begin_episode(int(seed))
        self._raw_frames[1] = 0
        self._capture(0)
        self._observation = np.zeros_like(self._observation)
        self._push_frame()
        self._elapsed_frames = 0
        self._terminated = self._truncated = False
        return self.observation

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        """Repeat an action for `frame_skip` frames: observation, raw reward, terminated,
        truncated."""
        self._require_start("step")
        if self._terminated or self._truncated:
            raise RuntimeError("the episode is over: call reset(seed) before the next step")
        if not 0 <= action < self.num_actions:
            raise UserError(f"step: an action is from 0 to {self.num_actions - 1}, got {action}")
        pressed = int(self._emulator.actions[action].value)
        limit = self.config.max_episode_frames
        reward = 0
        for frames_left in range(self.config.frame_skip, 0, -1):
            reward += self._emulator.act(pressed)
            self._elapsed_frames += 1
            self._terminated = bool(self._ale.game_over())
            out_of_time = limit is not None and self._elapsed_frames >= limit
            self._truncated = out_of_time and not self._terminated
            # As in the native environment, an episode's last frame is never seen: what is pooled
            # and pushed below is what earlier frames left.
            if self._terminated or self._truncated:
                break
            if frames_left <= 2:
                self._capture(frames_left - 1)
        self._push_frame()
        return self.observation, float(reward), self._terminated, self._truncated

    def poke(self, values: Mapping[int, int]) -> None:
        """Set bytes of RAM by index, all or (if one is wrong) none.

        Screen and observation are stale until the next step, and sprites may lag a frame behind
        it. Rewards are differences of the score: poking the score changes the next one.
        """
        self._require_start("poke")
        for index, value in values.items():
            if not _is_integer(index) or not 0 <= index < RAM_BYTES:
                raise UserError(f"poke: a RAM index is an integer from 0 to 127, got {index!r}")
            if not _is_integer(value) or not 0 <= value <= 255:
                raise UserError(
                    f"poke: a RAM value is an integer from 0 to 255, got {value!r} for byte {index}"
                )
        for index, value in values.items():
            self._emulator.set_ram(int(index), int(value))

    def save(self) -> AtariSnapshot:
        self._require_start("save")
        return AtariSnapshot(
            config=self.config,
            emulator=self._emulator.save(),
            observation=self._observation.copy(),
            raw_frames=self._raw_frames.copy(),
            elapsed_frames=self._elapsed_frames,
            terminated=self._terminated,
            truncated=self._truncated,
        )

    def restore(self, snapshot: AtariSnapshot) -> NDArray[np.uint8]:
        """Go back to where `save` was called, in this instance or another of the same config."""
        if snapshot.config != self.config:
            raise UserError(
                f"restore: the snapshot was made with {snapshot.config}, but this game has "
                f"{self.config}; build an EditableAtari from the snapshot's config"
            )
        self._emulator.restore(snapshot.emulator)
        self._resume(snapshot)
        return self.observation

    def _resume(self, snapshot: AtariSnapshot) -> None:
        self._observation = snapshot.observation.copy()
        self._raw_frames = snapshot.raw_frames.copy()
        self._elapsed_frames = snapshot.elapsed_frames
        self._terminated, self._truncated = snapshot.terminated, snapshot.truncated

    def close(self) -> None:
        """Nothing to release: the emulator goes with its object."""

    def _state(self, caller: str) -> Ram:
        self._require_start(caller)
        check_under_way(self._terminated or self._truncated, caller)
        ram: list[int] = self._ale.getRAM().tolist()  # not bytes of NumPy's, which overflow
        return ram

    def _make(self, edit: Edit[Ram, Pokes], change: Pokes) -> None:
        assert edit.writes.issuperset(change), f"{edit.name} writes what it does not declare"
        self.poke(change)

    def _way_back(self) -> Callable[[], object]:
        """Leaves out redrawing the emulator's screen: whoever goes back acts before looking."""
        rewind = self._emulator.rewinder()
        if rewind is None or self.config.frame_skip < 2:  # then a step may show what was before
            return super()._way_back()
        snapshot = self.save()

        def go_back() -> None:
            rewind()
            self._resume(snapshot)

        return go_back

    def _require_start(self, caller: str) -> None:
        if not self._emulator.started:
            raise RuntimeError(f"no episode to {caller}: call reset(seed) or restore first")

    def _capture(self, slot: int) -> None:
        if self.config.color:
            self._ale.getScreenRGB(self._raw_frames[slot])
        else:
            self._ale.getScreenGrayscale(self._raw_frames[slot])

    def _push_frame(self) -> None:
        last, before = self._raw_frames
        if self.config.max_pool:
            # In place, as the native environment does: a step that ends early shows it again.
            np.maximum(last, before, out=last)
        channels, height, width = self._frame_shape
        frame = last
        if last.shape[:2] != (height, width):
            frame = cv2.resize(last, (width, height), interpolation=cv2.INTER_AREA)
        frame = frame.reshape(height, width, channels).transpose(2, 0, 1)
        self._observation = np.concatenate([self._observation[channels:], frame])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
