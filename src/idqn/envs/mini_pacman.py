"""A small Pac-Man that needs no Atari: a CPU quick start, and ground truth for explanations.

Where every object is drawn is known exactly (`object_mask`), and every state can be edited
(`set_state`), so a test can say what a saliency map should have lit up.

One step: both move at once, the ghost aiming at where pacman stood in the frame the agent saw.
Then pacman eats, and only then is it caught, so a pellet on the fatal cell still counts. The last
pellet pays 10 instead of 1 and ends the episode, caught or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from idqn.errors import UserError, nearest

Cell = tuple[int, int]  # row, column
Frame = npt.NDArray[np.uint8]

ENV_ID = "idqn/MiniPacman-v0"

# Every open cell lies on a loop: a dead end would make some states lost whatever the agent does.
MAZE = (
    "###########",
    "#.........#",
    "#.##.#.##.#",
    "#.........#",
    "#.#.###.#.#",
    "#...###...#",
    "#.#.###.#.#",
    "#.........#",
    "#.##.#.##.#",
    "#.........#",
    "###########",
)
MAZE_CELLS = len(MAZE)
CELL_PIXELS = 3
RENDER_SCALE = 8
MIN_START_DISTANCE = 6
PELLET_REWARD, LAST_PELLET_REWARD = 1.0, 10.0

# Agents see grey: the levels in the comments (cv2.COLOR_RGB2GRAY) must stay far apart.
COLOURS = {
    "walls": (30, 50, 130),  # 53
    "pellets": (255, 255, 255),  # 255
    "ghost": (255, 60, 60),  # 118
    "pacman": (255, 225, 20),  # 211
}
# The shapes never turn: a direction in the picture would be state that `MiniPacmanState` lacks.
# Both cover the centre, so that a pellet below is hidden.
SHAPES = {"pacman": ("XXX", "XX.", "XXX"), "ghost": ("XXX", "XXX", "X.X")}

ACTION_MEANINGS = ("NOOP", "UP", "RIGHT", "LEFT", "DOWN")  # ALE's order
_DIRECTIONS = ((0, 0), (-1, 0), (0, 1), (0, -1), (1, 0))

OPEN_CELLS: tuple[Cell, ...] = tuple(
    (row, col) for row, line in enumerate(MAZE) for col, tile in enumerate(line) if tile == "."
)


def _moves_from(cell: Cell) -> tuple[Cell, ...]:
    """Where each action leads; into a wall is staying."""
    targets = [(cell[0] + down, cell[1] + right) for down, right in _DIRECTIONS]
    return tuple(target if target in OPEN_CELLS else cell for target in targets)


MOVES = {cell: _moves_from(cell) for cell in OPEN_CELLS}
NEIGHBOURS = {cell: tuple(c for c in moves if c != cell) for cell, moves in MOVES.items()}


def _distances_from(start: Cell) -> dict[Cell, int]:
    distances = {start: 0}
    queue = [start]
    for cell in queue:  # grows while it is read: breadth first
        for neighbour in NEIGHBOURS[cell]:
            if neighbour not in distances:
                distances[neighbour] = distances[cell] + 1
                queue.append(neighbour)
    return distances


DISTANCES = {cell: _distances_from(cell) for cell in OPEN_CELLS}
# _CHASE[pacman][ghost]: the ghost's moves that lie on a shortest path to pacman.
_CHASE = {
    pacman: {
        ghost: tuple(c for c in NEIGHBOURS[ghost] if distance[c] < distance[ghost])
        for ghost in OPEN_CELLS
    }
    for pacman, distance in DISTANCES.items()
}
_GHOST_STARTS = {
    pacman: tuple(c for c in OPEN_CELLS if distance[c] >= MIN_START_DISTANCE)
    for pacman, distance in DISTANCES.items()
}


def _paint(picture: tuple[str, ...], mark: str, name: str) -> Frame:
    marked = np.array([[symbol == mark for symbol in line] for line in picture])
    return np.where(marked[:, :, None], np.array(COLOURS[name], np.uint8), np.uint8(0))


_WALLS = _paint(MAZE, "#", "walls").repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)
_PACMAN, _GHOST = (_paint(SHAPES[name], "X", name) for name in ("pacman", "ghost"))


@dataclass(frozen=True)
class MiniPacmanState:
    """All that the next frames depend on, save the luck. Edit it with `dataclasses.replace`."""

    pacman: Cell
    ghost: Cell
    pellets: frozenset[Cell]
    steps: int


@dataclass(frozen=True)
class MiniPacmanSnapshot:
    """State and luck: play goes on from here identically, given the same constructor arguments."""

    state: MiniPacmanState
    over: bool
    rng_state: Mapping[str, Any]


class MiniPacman(gym.Env[Frame, np.int64]):
    """Eat every pellet, flee from one ghost. Rewards and order of events: see the module."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012  # as in Env
    _pacman: Cell
    _ghost: Cell
    _pellets: set[Cell]
    _steps: int
    _over: bool  # no episode under way
    _board: Frame  # walls and pellets stay drawn from step to step; what moves is put on top

    def __init__(
        self,
        max_steps: int = 200,
        ghost_skill: float = 0.75,
        ghost_speed: float = 0.75,
        render_mode: str | None = None,
    ) -> None:
        """`ghost_speed`: probability that the ghost moves; `ghost_skill`: that the move chases."""
        if max_steps < 1:
            raise UserError(f"max_steps is {max_steps}; expected at least 1")
        for name, value in (("ghost_skill", ghost_skill), ("ghost_speed", ghost_speed)):
            if not 0 <= value <= 1:
                raise UserError(f"{name} is {value}; expected a probability from 0 to 1")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode is {render_mode!r}; expected 'rgb_array' or None")
        self.max_steps, self.ghost_skill, self.ghost_speed = max_steps, ghost_skill, ghost_speed
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(0, 255, _WALLS.shape, np.uint8)
        self.action_space = gym.spaces.Discrete(len(ACTION_MEANINGS))
        self._start(OPEN_CELLS[0], OPEN_CELLS[-1], over=True)  # something to show before reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        pacman = OPEN_CELLS[self.np_random.integers(len(OPEN_CELLS))]
        ghosts = _GHOST_STARTS[pacman]
        self._start(pacman, ghosts[self.np_random.integers(len(ghosts))], over=False)
        return self.observe(), self._info()

    def step(self, action: int | np.integer) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise UserError("step() was called with no episode under way; call reset() first")
        if not 0 <= action < len(ACTION_MEANINGS):
            raise UserError(f"action is {action}; expected 0 to {len(ACTION_MEANINGS) - 1}")
        before = self._pacman, self._ghost
        self._pacman, self._ghost = MOVES[self._pacman][action], self._ghost_move()
        self._steps += 1
        reward = self._eat()
        swapped = before == (self._ghost, self._pacman)
        terminated = not self._pellets or self._pacman == self._ghost or swapped
        truncated = not terminated and self._steps >= self.max_steps
        self._over = terminated or truncated
        return self.observe(), reward, terminated, truncated, self._info()

    def observe(self) -> Frame:
        """The current frame, the caller's own. The ghost is on top where it caught pacman."""
        frame = self._board.copy()
        for cell, sprite in ((self._pacman, _PACMAN), (self._ghost, _GHOST)):
            y0, x0, y1, x1 = self.cell_box(*cell)
            frame[y0:y1, x0:x1] = sprite
        return frame

    def render(self) -> Frame | None:
        if self.render_mode is None:
            return None
        return self.observe().repeat(RENDER_SCALE, axis=0).repeat(RENDER_SCALE, axis=1)

    def get_action_meanings(self) -> list[str]:
        return list(ACTION_MEANINGS)

    @property
    def state(self) -> MiniPacmanState:
        return MiniPacmanState(self._pacman, self._ghost, frozenset(self._pellets), self._steps)

    def set_state(self, state: MiniPacmanState) -> Frame:
        """Go on playing from an edited state, with the luck as it was; returns its frame."""
        pacman = _open_cell("pacman", state.pacman)
        ghost = _open_cell("ghost", state.ghost)
        pellets = frozenset(_open_cell("a pellet", cell) for cell in state.pellets)
        if pacman == ghost:
            raise UserError(f"pacman and the ghost are both on {pacman}; expected different cells")
        if not pellets:
            raise UserError("pellets is empty; expected at least one, or the level is over")
        if pacman in pellets:
            raise UserError(f"a pellet is on {pacman}, under pacman; expected it to be eaten")
        if not 0 <= state.steps < self.max_steps:
            raise UserError(f"steps is {state.steps}; expected 0 to {self.max_steps - 1}")
        self._load(MiniPacmanState(pacman, ghost, pellets, int(state.steps)), over=False)
        return self.observe()

    def save(self) -> MiniPacmanSnapshot:
        return MiniPacmanSnapshot(self.state, self._over, self.np_random.bit_generator.state)

    def restore(self, snapshot: MiniPacmanSnapshot) -> Frame:
        """Back to where `save` was called, luck included; returns that frame."""
        self.np_random.bit_generator.state = snapshot.rng_state
        self._load(snapshot.state, snapshot.over)
        return self.observe()

    @staticmethod
    def cell_box(row: int, col: int) -> tuple[int, int, int, int]:
        """The cell's pixels as (y0, x0, y1, x1), ends excluded."""
        if not (0 <= row < MAZE_CELLS and 0 <= col < MAZE_CELLS):
            raise UserError(f"cell is {(row, col)}; expected row and column 0 to {MAZE_CELLS - 1}")
        y, x = row * CELL_PIXELS, col * CELL_PIXELS
        return y, x, y + CELL_PIXELS, x + CELL_PIXELS

    def object_mask(self, name: str) -> npt.NDArray[np.bool_]:
        """The pixels that show "pacman", "ghost", "pellets" or "walls"; hidden ones are left out.

        Each object has a colour of its own, so what is drawn is the most reliable source.
        """
        if name not in COLOURS:
            known = ", ".join(COLOURS)
            raise UserError(f"object is '{name}'; expected one of {known}{nearest(name, COLOURS)}")
        same: npt.NDArray[np.bool_] = self.observe() == np.array(COLOURS[name], np.uint8)
        return same[..., 0] & same[..., 1] & same[..., 2]

    def _ghost_move(self) -> Cell:
        # Three draws on every step, used or not: after an edit the luck stays in line with the
        # unedited game, so the two differ by the edit alone.
        move, chase, pick = self.np_random.random(3).tolist()
        if move >= self.ghost_speed:
            return self._ghost
        chases = chase < self.ghost_skill
        cells = _CHASE[self._pacman][self._ghost] if chases else NEIGHBOURS[self._ghost]
        return cells[int(pick * len(cells))]

    def _eat(self) -> float:
        if self._pacman not in self._pellets:
            return 0.0
        self._pellets.remove(self._pacman)
        self._board[_centre(self._pacman)] = 0
        return PELLET_REWARD if self._pellets else LAST_PELLET_REWARD

    def _start(self, pacman: Cell, ghost: Cell, over: bool) -> None:
        pellets = frozenset(OPEN_CELLS) - {pacman}
        self._load(MiniPacmanState(pacman, ghost, pellets, steps=0), over)

    def _load(self, state: MiniPacmanState, over: bool) -> None:
        self._pacman, self._ghost, self._steps = state.pacman, state.ghost, state.steps
        self._pellets = set(state.pellets)
        self._over = over
        self._board = _WALLS.copy()
        for cell in state.pellets:
            self._board[_centre(cell)] = COLOURS["pellets"]

    def _info(self) -> dict[str, Any]:
        return {"pellets_left": len(self._pellets)}


def register() -> None:
    """Make `gymnasium.make("idqn/MiniPacman-v0")` work; calling it again does nothing."""
    if ENV_ID not in gym.registry:
        gym.register(ENV_ID, entry_point="idqn.envs.mini_pacman:MiniPacman")


def _open_cell(what: str, cell: Cell) -> Cell:
    """The same cell as plain ints, so that a numpy index never leaks into a saved state."""
    if cell not in OPEN_CELLS:
        raise UserError(f"{what} is on {cell}; expected a (row, column) that is '.' in the maze")
    return OPEN_CELLS[OPEN_CELLS.index(cell)]


def _centre(cell: Cell) -> Cell:
    return cell[0] * CELL_PIXELS + CELL_PIXELS // 2, cell[1] * CELL_PIXELS + CELL_PIXELS // 2
