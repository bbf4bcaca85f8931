"""MiniPacman that can be saved, restored and edited, with the observations agents train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.editing import Editable, check_under_way
from idqn.envs.edits import Edit
from idqn.envs.games.mini_pacman import GAME
from idqn.envs.mini_pacman import (
    CELL_PIXELS,
    MAZE_CELLS,
    RENDER_SCALE,
    MiniPacman,
    MiniPacmanSnapshot,
    MiniPacmanState,
)
from idqn.envs.single import SingleImageEnv
from idqn.errors import UserError


@dataclass(frozen=True, eq=False)
class EditableMiniPacmanSnapshot:
    """Everything that determines the future of an `EditableMiniPacman`."""

    config: EnvConfig
    game: MiniPacmanSnapshot
    observation: NDArray[np.uint8]  # [C, H, W]
    elapsed_frames: int
    over: bool


class EditableMiniPacman(Editable[MiniPacmanState, MiniPacmanState]):
    """One game. Call `reset` (or `restore`) first, and again when an episode has ended."""

    screen_size = (MAZE_CELLS * CELL_PIXELS * RENDER_SCALE,) * 2

    def __init__(self, config: EnvConfig) -> None:
        self.config = config
        self.game = GAME
        self._single = SingleImageEnv(config)
        game = self._single.env.env.unwrapped
        assert isinstance(game, MiniPacman)
        self._game = game
        self.reset(seed=0)  # Gymnasium's wrappers do not let an environment begin with `restore`
        self._over = True

    @property
    def num_actions(self) -> int:
        return self._single.env.num_actions

    @property
    def action_names(self) -> tuple[str, ...]:
        return self._single.env.action_names

    @property
    def observation(self) -> NDArray[np.uint8]:
        return self._single.observation

    @property
    def state(self) -> MiniPacmanState:
        return self._game.state

    def screen(self) -> NDArray[np.uint8]:
        """The maze in RGB, [264, 264, 3]."""
        return self._single.screen()

    def reset(self, seed: int) -> NDArray[np.uint8]:
        self._over = False
        return self._single.reset(seed)

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        check_under_way(self._over, "step")
        observation, reward, terminated, truncated = self._single.step(action)
        self._over = terminated or truncated
        return observation, reward, terminated, truncated

    def save(self) -> EditableMiniPacmanSnapshot:
        return EditableMiniPacmanSnapshot(
            config=self.config,
            game=self._game.save(),
            observation=self.observation,
            elapsed_frames=self._single.env.elapsed_frames,
            over=self._over,
        )

    def restore(self, snapshot: EditableMiniPacmanSnapshot) -> NDArray[np.uint8]:
        """Go back to where `save` was called, in this instance or another of the same config."""
        if snapshot.config != self.config:
            raise UserError(
                f"restore: the snapshot was made with {snapshot.config}, but this game has "
                f"{self.config}; build an EditableMiniPacman from the snapshot's config"
            )
        self._game.restore(snapshot.game)
        self._single.observation = snapshot.observation
        self._single.env.elapsed_frames = snapshot.elapsed_frames
        self._over = snapshot.over
        return self.observation

    def close(self) -> None:
        self._single.close()

    def _state(self, caller: str) -> MiniPacmanState:
        check_under_way(self._over, caller)
        return self._game.state

    def _make(self, edit: Edit[MiniPacmanState, MiniPacmanState], change: MiniPacmanState) -> None:
        self._game.set_state(change)
