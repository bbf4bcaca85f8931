"""Atari through ale-py's native vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.atari_ids import rom_name

SCREEN_HEIGHT, SCREEN_WIDTH = 210, 160
_NO_LIMIT = 2**31 - 1


def native_options(config: EnvConfig) -> dict[str, Any]:
    """Keyword arguments of `AtariVectorEnv`, apart from the number of environments and threads."""
    return {
        "game": rom_name(config.id),
        "img_height": config.frame_height or SCREEN_HEIGHT,
        "img_width": config.frame_width or SCREEN_WIDTH,
        "grayscale": not config.color,
        "frameskip": config.frame_skip,
        "maxpool": config.max_pool,
        # the native env draws 0 .. noop_max - 1, and counts FIRE as one of them
        "noop_max": config.noop_max + 1 if config.noop_max > 0 else 0,
        "use_fire_reset": config.fire_on_reset,
        "repeat_action_probability": config.sticky_probability,
        "full_action_space": config.full_action_space,
        "max_num_frames_per_episode": config.max_episode_frames or _NO_LIMIT,
        "episodic_life": False,
        "reward_clipping": False,
    }


class AtariGroup:
    """n emulators of one game in one thread. Single frames: replay does the stacking."""

    def __init__(self, config: EnvConfig, count: int) -> None:
        import ale_py
        from ale_py.vector_env import AtariVectorEnv

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._env = AtariVectorEnv(
            num_envs=count, num_threads=1, stack_num=1, **native_options(config)
        )

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        observation, _ = self._env.reset(seed=seeds[mask], options={"reset_mask": mask})
        return _channels_first(observation)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        observation, reward, terminated, truncated, _ = self._env.step(actions)
        return _channels_first(observation), reward.astype(np.float32), terminated, truncated

    def close(self) -> None:
        self._env.close()


def _channels_first(observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n, 1, h, w] stays; [n, 1, h, w, 3] becomes [n, 3, h, w]."""
    if observation.ndim == 5:
        return np.ascontiguousarray(observation[:, 0].transpose(0, 3, 1, 2))
    return observation
