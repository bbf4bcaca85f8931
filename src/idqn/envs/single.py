"""One environment, played step by step, with the observations the agent was trained on."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.editing import Editable
from idqn.envs.gym_images import make_image_env
from idqn.errors import UserError


class SingleEnv(Protocol):
    """Observations are uint8 [C, H, W], C being frames x channels."""

    def reset(self, seed: int) -> NDArray[np.uint8]: ...

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        """Observation, raw reward, terminated, truncated."""
        ...

    def screen(self) -> NDArray[np.uint8]:
        """What a person would see, RGB [height, width, 3]."""
        ...

    def close(self) -> None: ...


def make_single(config: EnvConfig) -> SingleEnv:
    if config.is_atari:
        from idqn.envs.editable import EditableAtari

        return EditableAtari(config)
    return SingleImageEnv(config)


def make_editable(config: EnvConfig) -> Editable[Any, Any]:
    """An environment with save and restore, and with named edits if its game has any."""
    from idqn.envs.mini_pacman import ENV_ID

    if config.is_atari:
        from idqn.envs.editable import EditableAtari

        return EditableAtari(config)
    if config.id == ENV_ID:
        from idqn.envs.editable_mini_pacman import EditableMiniPacman

        return EditableMiniPacman(config)
    raise UserError(
        f"'{config.id}' cannot be edited: its state cannot be saved; expected an Atari game "
        f"(ALE/...) or '{ENV_ID}'"
    )


class FrameStack:
    """The last k frames of n environments, zeros before an episode's first."""

    def __init__(self, count: int, frame_stack: int, frame_shape: tuple[int, int, int]) -> None:
        channels, height, width = frame_shape
        self._channels = channels
        self.observation: NDArray[np.uint8] = np.zeros(
            (count, frame_stack * channels, height, width), np.uint8
        )

    def push(self, frame: NDArray[np.uint8], fresh: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Add the newest frames [n, c, h, w]; where `fresh`, an episode begins with them."""
        kept = self.observation[:, self._channels :].copy()
        kept[fresh] = 0
        self.observation = np.concatenate([kept, frame], axis=1)
        return self.observation

    def keep(self, envs: NDArray[np.int64]) -> None:
        """Forget all other environments."""
        if len(envs) < len(self.observation):
            self.observation = self.observation[envs]


class SingleImageEnv:
    """Any Gymnasium image environment as a `SingleEnv`."""

    def __init__(self, config: EnvConfig) -> None:
        from idqn.envs.registry import check_registered

        check_registered(config.id)
        try:
            self.env = make_image_env(config, render_mode="rgb_array")
        except UserError:  # perhaps it cannot be drawn, but still be played
            self.env = make_image_env(config)
        self._stack = FrameStack(1, config.frame_stack, self.env.frame_shape)

    @property
    def observation(self) -> NDArray[np.uint8]:
        """The current stack of frames, [C, H, W], oldest first."""
        observation: NDArray[np.uint8] = self._stack.observation[0].copy()
        return observation

    @observation.setter
    def observation(self, observation: NDArray[np.uint8]) -> None:
        self._stack.observation = observation[None].copy()

    def reset(self, seed: int) -> NDArray[np.uint8]:
        observation: NDArray[np.uint8] = self._stack.push(
            self.env.reset(seed)[None], np.ones(1, bool)
        )[0]
        return observation

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        frame, reward, terminated, truncated = self.env.step(action)
        return self._stack.push(frame[None], np.zeros(1, bool))[0], reward, terminated, truncated

    def screen(self) -> NDArray[np.uint8]:
        drawn = self.env.env.render() if self.env.env.render_mode == "rgb_array" else None
        if drawn is None:  # then what the agent sees, in grey
            frame = self._stack.observation[0, -self.env.frame_shape[0] :].max(0)
            return np.repeat(frame[:, :, None], 3, axis=2)
        picture: NDArray[np.uint8] = np.asarray(drawn, np.uint8)
        return picture

    def close(self) -> None:
        self.env.env.close()
