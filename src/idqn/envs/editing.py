"""One environment whose world can be saved, restored and edited by name.

After an edit the screen is stale until the game acts, sprites lag and blink, and the older frames
of the stack still show the old world. So an edit has two parts: `apply` changes the world, and
`settle` plays on until every frame of the stack shows it. To compare with the unedited world, play
the same actions there: `restore`, `settle`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs.edits import Box, Change, Edit, GameEdits, Params, State, clip
from idqn.errors import UserError

NOOP = 0

Choice = tuple[str, Mapping[str, Any]]
"""An edit's name and its parameters."""


class Settled(NamedTuple):
    observation: NDArray[np.uint8]  # [C, H, W]
    reward: float
    """Of all the steps together."""
    terminated: bool
    truncated: bool
    steps: int
    """Steps played: fewer than asked for if the episode ended."""


class Editable(ABC, Generic[State, Change]):
    """A `SingleEnv` with save, restore and named edits."""

    config: EnvConfig
    game: GameEdits[State, Change]
    screen_size: tuple[int, int]
    """Height and width of `screen()`."""
    lag_frames = 1
    """Frames to play until a change of the world is drawn."""

    @property
    @abstractmethod
    def num_actions(self) -> int: ...

    @property
    @abstractmethod
    def action_names(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def observation(self) -> NDArray[np.uint8]:
        """The current stack of frames, [C, H, W], oldest first."""

    @abstractmethod
    def reset(self, seed: int) -> NDArray[np.uint8]: ...

    @abstractmethod
    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]: ...

    @abstractmethod
    def screen(self) -> NDArray[np.uint8]: ...

    @abstractmethod
    def save(self) -> Any: ...

    @abstractmethod
    def restore(self, snapshot: Any) -> NDArray[np.uint8]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _state(self, caller: str) -> State:
        """What edits look at; an error where there is no episode under way."""

    @abstractmethod
    def _make(self, edit: Edit[State, Change], change: Change) -> None: ...

    @property
    def edits(self) -> Mapping[str, Edit[State, Change]]:
        """This game's edits by name; none for games without a memory map."""
        return self.game.edits

    def apply(self, name: str, /, **params: Any) -> None:
        """Change the world, and nothing else: what is seen stays stale until the game acts. Refused
        with a UserError, and then nothing is changed, where a rule forbids it."""
        edit = self.game.named(name, self.config.id)
        self._make(edit, edit.plan(self._state("edit"), params))

    def settle(self, actions: Sequence[int] | None = None) -> Settled:
        """Play these actions (no-ops if none are given), as many as fill the stack with frames
        drawn since."""
        if actions is None:
            actions = [NOOP] * self.settle_steps
        observation, total, terminated, truncated, steps = self.observation, 0.0, False, False, 0
        for action in actions:
            observation, reward, terminated, truncated = self.step(action)
            total += reward
            steps += 1
            if terminated or truncated:
                break
        return Settled(observation, total, terminated, truncated, steps)

    @property
    def settle_steps(self) -> int:
        """Steps until no frame of the stack is older than an edit, or as old."""
        return self.config.frame_stack - 1 + math.ceil(self.lag_frames / self.config.frame_skip)

    def edit(self, name: str, /, **params: Any) -> Settled:
        """`apply`, then `settle` with no-ops."""
        self.apply(name, **params)
        return self.settle()

    def choices(self, name: str) -> list[Params]:
        """The parameters with which an edit would be accepted now; of positions and velocities, a
        grid of them."""
        edit = self.game.named(name, self.config.id)
        return list(edit.choices(self._state("look for edits")))

    def region(self, name: str, /, **params: Any) -> tuple[Box, ...]:
        """Where on `screen()` this edit would show: one box for what appears or goes, two for what
        moves; what is off the screen is left out."""
        edit = self.game.named(name, self.config.id)
        boxes = edit.region(self._state("look for a region"), params)
        return tuple(seen for box in boxes if (seen := clip(box, *self.screen_size)))

    def objects(self) -> dict[str, Box]:
        """Where things that move are on `screen()` now, by name."""
        boxes = self.game.objects(self._state("look for objects")).items()
        return {name: seen for name, box in boxes if (seen := clip(box, *self.screen_size))}

    def try_edits(
        self, trials: Iterable[Sequence[Choice]], actions: Sequence[int] | None = None
    ) -> Iterator[Settled]:
        """From the present moment, again and again: apply the edits of one trial, settle, yield
        what came of it. Afterwards, also after a refusal, the game is where it was."""
        snapshot = self.save()
        go_back = self._way_back()
        try:
            for trial in trials:
                for name, params in trial:
                    self.apply(name, **params)
                yield self.settle(actions)
                go_back()
        finally:
            self.restore(snapshot)

    def _way_back(self) -> Callable[[], object]:
        """A quick way back to the present moment, for `try_edits`."""
        snapshot = self.save()
        return lambda: self.restore(snapshot)


def check_under_way(over: bool, caller: str) -> None:
    if over:
        raise UserError(f"cannot {caller}: the episode is over; call reset(seed) or restore first")
