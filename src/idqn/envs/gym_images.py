"""Any Gymnasium environment with image observations and discrete actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.episodes import GroupStep
from idqn.errors import UserError


def make_image_env(config: EnvConfig, render_mode: str | None = None) -> ImageEnv:
    """Build and check one environment."""
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    try:
        env = gym.make(config.id, **options)
    except Exception as error:  # whatever the environment's own code may raise
        raise UserError(f"environment '{config.id}' could not be made: {error}") from error
    return ImageEnv(env, config)


class ImageEnv:
    """One environment, its frames brought to [c, h, w] uint8 as the config asks."""

    def __init__(self, env: gym.Env[Any, Any], config: EnvConfig) -> None:
        _check_spaces(env, config.id)
        _check_options(config)
        self.env = env
        self._config = config
        assert isinstance(env.action_space, gym.spaces.Discrete)
        self.num_actions = int(env.action_space.n)
        self._first_action = int(env.action_space.start)
        # MultiBinary says int8 where others say bool
        self._binary = (
            isinstance(env.observation_space, gym.spaces.MultiBinary)
            or env.observation_space.dtype == np.bool_
        )
        self.frame_shape: tuple[int, int, int] = self._frame(
            np.zeros(env.observation_space.shape or (), env.observation_space.dtype)
        ).shape
        self.elapsed_frames = 0

    @property
    def action_names(self) -> tuple[str, ...]:
        meanings = getattr(self.env.unwrapped, "get_action_meanings", None)
        if meanings is None:
            return tuple(f"action {a}" for a in range(self.num_actions))
        return tuple(meanings())

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self.elapsed_frames = 0
        observation, _ = self.env.reset(seed=seed)
        return self._frame(observation)

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        """Repeat `action` for `frame_skip` frames; returns frame, reward, terminated, truncated."""
        total, terminated, truncated = 0.0, False, False
        frames: list[NDArray[Any]] = []
        for _ in range(self._config.frame_skip):
            observation, reward, terminated, truncated, _ = self.env.step(
                action + self._first_action
            )
            frames.append(observation)
            total += float(reward)
            self.elapsed_frames += 1
            limit = self._config.max_episode_frames
            truncated = truncated or (limit is not None and self.elapsed_frames >= limit)
            if terminated or truncated:
                break
        newest = frames[-1]
        if self._config.max_pool and len(frames) > 1:
            newest = np.maximum(frames[-2], newest)
        return self._frame(newest), total, bool(terminated), bool(truncated and not terminated)

    def _frame(self, observation: NDArray[Any]) -> NDArray[np.uint8]:
        config = self._config
        frame = np.asarray(observation)
        if self._binary:
            frame = (frame != 0).astype(np.uint8) * 255
        if frame.ndim == 3 and frame.shape[2] == 3 and not config.color and not self._binary:
            import cv2

            frame = cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)
        if frame.ndim == 2:
            frame = frame[:, :, None]
        height = config.frame_height or frame.shape[0]
        width = config.frame_width or frame.shape[1]
        if (height, width) != frame.shape[:2]:
            import cv2

            # channel by channel: OpenCV resizes at most four channels, and drops a single one
            resized = [
                cv2.resize(
                    np.ascontiguousarray(frame[:, :, c]),
                    (width, height),
                    interpolation=cv2.INTER_AREA,
                )
                for c in range(frame.shape[2])
            ]
            frame = np.stack(resized, axis=2)
        return np.ascontiguousarray(frame.transpose(2, 0, 1))


class ImageGroup:
    """n such environments, one after another."""

    episodes_per_seed = 1

    def __init__(self, config: EnvConfig, count: int) -> None:
        self._envs = [make_image_env(config) for _ in range(count)]
        self._frames = np.zeros((count, *self._envs[0].frame_shape), np.uint8)

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        for i in np.flatnonzero(mask):
            self._frames[i] = self._envs[i].reset(int(seeds[i]))
        return self._frames

    def send(self, actions: NDArray[np.int64]) -> None:
        self._sent = actions

    def recv(self) -> GroupStep:
        return self.step(self._sent)

    def step(self, actions: NDArray[np.int64]) -> GroupStep:
        count = len(self._envs)
        reward = np.zeros(count, np.float32)
        terminated, truncated = np.zeros(count, bool), np.zeros(count, bool)
        for i, env in enumerate(self._envs):
            self._frames[i], reward[i], terminated[i], truncated[i] = env.step(int(actions[i]))
        return self._frames, reward, terminated, truncated

    def close(self) -> None:
        for env in self._envs:
            env.env.close()


def _check_spaces(env: gym.Env[Any, Any], env_id: str) -> None:
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gym.spaces.Discrete):
        raise UserError(
            f"environment '{env_id}' has actions {actions}; a Q-network needs discrete actions "
            f"(gymnasium.spaces.Discrete)"
        )
    image = (
        isinstance(observations, gym.spaces.Box | gym.spaces.MultiBinary)
        and observations.shape is not None
        and len(observations.shape) in (2, 3)
        and observations.dtype in (np.dtype(np.uint8), np.dtype(np.bool_))
    ) or (isinstance(observations, gym.spaces.MultiBinary) and len(observations.shape) in (2, 3))
    if not image:
        raise UserError(
            f"environment '{env_id}' has observations {observations}; images are needed: "
            f"HxW or HxWxC, uint8 or bool"
        )


def _check_options(config: EnvConfig) -> None:
    atari_only = {
        "noop_max": config.noop_max > 0,
        "fire_on_reset": config.fire_on_reset,
        "sticky_probability": config.sticky_probability > 0,
        "full_action_space": config.full_action_space,
    }
    for name, used in atari_only.items():
        if used:
            raise UserError(
                f"env.{name} works for Atari (ALE/...) only, and '{config.id}' is not; "
                f"leave it at its default"
            )
