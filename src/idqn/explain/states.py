"""What an agent meets in its own games: the states that explanations are made of."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.single import SingleEnv
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED, check_seed
from idqn.explain.progress import Progress, silent
from idqn.explain.results import About


@dataclass(frozen=True, eq=False)
class States:
    """T moments of the agent's own games, one game after another, and what it said of each.

    Frames are kept once: `observations` puts them together again.
    """

    frames: NDArray[np.uint8]  # [F, c, h, w]
    stacks: NDArray[np.int64]  # [T, frame stack], places in `frames`; -1 is a black one
    screens: tuple[bytes, ...]  # T PNG files, what a person saw
    episode: NDArray[np.int64]  # [T], from 0
    step: NDArray[np.int64]  # [T], within the episode
    action: NDArray[np.int64]  # [T], taken: the agent's greedy one
    reward: NDArray[np.float64]  # [T]
    finished: tuple[bool, ...]  # of each episode; False if it was cut off
    embedding: NDArray[np.float32]  # [T, E]
    q: NDArray[np.float32]  # [T, A]
    uncertainty: NDArray[np.float32] | None  # [T, A]
    attention: NDArray[np.float32] | None  # [T, A, N], of agents with keys

    def __len__(self) -> int:
        return len(self.action)

    @property
    def episodes(self) -> int:
        return len(self.finished)

    def observations(self, index: NDArray[np.integer] | slice) -> NDArray[np.uint8]:
        """Those at `index`, [n, C, h, w]."""
        stacks = self.stacks[index]
        found = self.frames[np.maximum(stacks, 0)]  # [n, stack, c, h, w]
        found[stacks < 0] = 0
        return found.reshape(len(found), -1, *self.frames.shape[2:])

    def screen(self, index: int) -> NDArray[np.uint8]:
        """What a person saw, RGB [height, width, 3]."""
        drawn = cv2.imdecode(np.frombuffer(self.screens[index], np.uint8), cv2.IMREAD_COLOR_RGB)
        assert drawn is not None
        screen: NDArray[np.uint8] = np.asarray(drawn, np.uint8)
        return screen


def collect(
    agent: Agent,
    episodes: int = 5,
    max_steps: int = 1_000,
    seed: int = EVALUATION_SEED,
    progress: Progress = silent,
) -> States:
    """Let the agent play, greedily, and remember everything; no episode longer than
    `max_steps`."""
    if episodes < 1:
        raise UserError(f"there is nothing to explain in {episodes} episodes; play at least 1")
    if max_steps < 1:
        raise UserError(f"there is nothing to explain in {max_steps} steps; play at least 1")
    check_seed(seed)
    games = [_Game(agent, seed + number, max_steps) for number in range(episodes)]
    try:
        playing = games
        while playing:
            out = agent.look(np.stack([game.observation for game in playing]), decode=False)
            actions = agent.choose(out)
            names = ("embedding", "q", "uncertainty", "attention")
            said = {name: getattr(out, name).cpu().numpy() for name in names if name in out}
            for i, game in enumerate(playing):
                game.step(int(actions[i]), {name: part[i] for name, part in said.items()})
            playing = [game for game in playing if not game.over]
            done = sum(len(game.actions) for game in games)
            progress("playing", done, done + sum(max_steps - len(g.actions) for g in playing))
    finally:
        for game in games:
            game.env.close()
    return _together(games)


def about(agent: Agent) -> About:
    """Whom results are about."""
    return About(
        run=agent.origin.run,
        run_id=agent.origin.run_id,
        env=agent.config.env.id,
        agent=agent.name,
        frames=agent.origin.frames,
        seed=agent.config.train.seed,
        action_names=agent.action_names,
    )


class _Game:
    def __init__(self, agent: Agent, seed: int, max_steps: int) -> None:
        self.env: SingleEnv = agent.make_env()
        self.max_steps = max_steps
        self.channels = agent.spec.frame_shape[0]
        self.observation = self.env.reset(seed)
        self.frames = [self.observation[-self.channels :]]
        self.screens: list[bytes] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.said: list[dict[str, NDArray[np.float32]]] = []
        self.finished = self.over = False

    def step(self, action: int, said: dict[str, NDArray[np.float32]]) -> None:
        self.screens.append(as_png(self.env.screen()))
        self.said.append(said)
        self.observation, reward, terminated, truncated = self.env.step(action)
        self.actions.append(action)
        self.rewards.append(reward)
        self.finished = terminated or truncated
        self.over = self.finished or len(self.actions) >= self.max_steps
        if not self.over:
            self.frames.append(self.observation[-self.channels :])

    def stacks(self, frame_stack: int, first: int) -> NDArray[np.int64]:
        """The frames of each observation, if the game's first is frame `first`."""
        newest = np.arange(len(self.frames))[:, None]
        within = newest + np.arange(1 - frame_stack, 1)
        return np.where(within < 0, -1, within + first)


def _together(games: list[_Game]) -> States:
    stack = games[0].observation.shape[0] // games[0].channels
    first = np.cumsum([0, *(len(game.frames) for game in games)])
    said = [each for game in games for each in game.said]

    def all_of(name: str) -> NDArray[np.float32]:
        return np.stack([each[name] for each in said])

    return States(
        frames=np.concatenate([np.stack(game.frames) for game in games]),
        stacks=np.concatenate([g.stacks(stack, f) for g, f in zip(games, first[:-1], strict=True)]),
        screens=tuple(screen for game in games for screen in game.screens),
        episode=np.concatenate([np.full(len(g.actions), i) for i, g in enumerate(games)]),
        step=np.concatenate([np.arange(len(game.actions)) for game in games]),
        action=np.concatenate([np.array(game.actions, np.int64) for game in games]),
        reward=np.concatenate([np.array(game.rewards, np.float64) for game in games]),
        finished=tuple(game.finished for game in games),
        embedding=all_of("embedding"),
        q=all_of("q"),
        uncertainty=all_of("uncertainty") if "uncertainty" in said[0] else None,
        attention=all_of("attention") if "attention" in said[0] else None,
    )


def as_png(screen: NDArray[np.uint8]) -> bytes:
    fine, file = cv2.imencode(".png", cv2.cvtColor(screen, cv2.COLOR_RGB2BGR))
    assert fine
    return file.tobytes()
