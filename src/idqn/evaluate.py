"""Playing full games and measuring them. Playing is a generator; measuring stands outside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import EnvPositions, RunEnvs, VectorEnv, describe
from idqn.envs.single import FrameStack, SingleEnv
from idqn.errors import UserError
from idqn.run_dir import RunDir, write_atomically

Policy = Callable[[NDArray[np.uint8]], NDArray[np.int64]]
"""Observations [n, C, H, W] to actions [n]."""

EVALUATION_SEED = 1_000_003  # episodes that training with small seeds has not started from


class Moment(NamedTuple):
    """One step of one episode."""

    observation: NDArray[np.uint8]  # [C, H, W], what the policy saw
    screen: NDArray[np.uint8]  # RGB, what a person saw
    action: int
    reward: float
    last: bool


def play(policy: Policy, env: SingleEnv, seed: int = EVALUATION_SEED) -> Iterator[Moment]:
    """Play one episode, moment by moment."""
    check_seed(seed)
    observation = env.reset(seed)
    over = False
    while not over:
        screen = env.screen()
        action = int(policy(observation[None])[0])
        following, reward, terminated, truncated = env.step(action)
        over = terminated or truncated
        yield Moment(observation, screen, action, reward, over)
        observation = following


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**31:
        raise UserError(f"a seed is between 0 and 2**31 - 1, got {seed}")


class Episode(NamedTuple):
    score: float
    length: int  # agent steps


def play_many(
    policy: Policy,
    config: EnvConfig,
    episodes: int,
    seed: int = EVALUATION_SEED,
    envs: int = 16,
    workers: int | None = None,
) -> Iterator[Episode]:
    """Play `episodes` full games, several at once, yielding each as it ends.

    Each environment plays its share of a list that `seed` alone decides: stopping at the first so
    many finished ones would favour short games.
    """
    if episodes < 1:
        raise UserError(f"episodes must be at least 1, got {episodes}")
    check_seed(seed)
    count = min(envs, episodes)
    bounds = np.linspace(0, episodes, count + 1).astype(np.int64)
    quota = np.diff(bounds)
    positions = EnvPositions.start(count)._replace(episode=bounds[:-1])
    score, length = np.zeros(count), np.zeros(count, np.int64)
    # as many runs of one environment: all have the same episodes, and each begins at its share
    with VectorEnv([RunEnvs(config, seed)] * count, 1, workers) as vector:
        stack = FrameStack(count, config.frame_stack, vector.frame_shape)
        observation = stack.push(vector.start(positions), np.ones(count, bool))
        while quota.any():
            step = vector.step(policy(observation))
            score += step.reward
            length += 1
            over = step.terminated | step.truncated
            observation = stack.push(step.frame, over)
            for env in np.flatnonzero(over):
                if quota[env] > 0:
                    quota[env] -= 1
                    yield Episode(float(score[env]), int(length[env]))
                score[env], length[env] = 0.0, 0


@dataclass(frozen=True)
class Evaluation:
    """Scores of full games, and what they say."""

    env: str
    policy: str
    frames_trained: int
    episodes: int
    sticky_probability: float
    seed: int
    mean: float
    median: float
    std: float
    interval: tuple[float, float]
    """95 % bootstrap interval of the mean."""
    distinct: int
    """How many different returns there were: few of many episodes suggest memorised play."""
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    def save(self, run: RunDir) -> None:
        name = (
            f"{self.policy}-{self.frames_trained:012d}-sticky{self.sticky_probability:g}"
            f"-seed{self.seed}-{self.episodes}episodes"
        )
        text = json.dumps(dataclasses.asdict(self), indent=1) + "\n"
        write_atomically(run.evaluation(name), text.encode())


def summarize(
    played: list[Episode], config: EnvConfig, policy: str, frames_trained: int, seed: int
) -> Evaluation:
    returns = np.array([episode.score for episode in played])
    return Evaluation(
        env=config.id,
        policy=policy,
        frames_trained=frames_trained,
        episodes=len(played),
        sticky_probability=config.sticky_probability,
        seed=seed,
        mean=float(returns.mean()),
        median=float(np.median(returns)),
        std=float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        interval=bootstrap_interval(returns),
        distinct=len(np.unique(returns)),
        returns=tuple(returns.tolist()),
        lengths=tuple(episode.length for episode in played),
    )


def bootstrap_interval(
    samples: NDArray[np.float64], level: float = 0.95, resamples: int = 10_000
) -> tuple[float, float]:
    """Percentile bootstrap of the mean (Efron 1979), from a fixed seed."""
    rng = np.random.default_rng(0)
    means = [rng.choice(samples, len(samples)).mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def random_policy(config: EnvConfig, seed: int = 0) -> Policy:
    """Uniformly random actions: the floor that any score should be read against."""
    rng = np.random.default_rng(seed)
    actions = describe(config).num_actions

    def choose(observation: NDArray[np.uint8]) -> NDArray[np.int64]:
        return rng.integers(actions, size=len(observation))

    return choose


def evaluate(
    policy: Policy, config: EnvConfig, episodes: int = 100, name: str = "agent", **options: Any
) -> Evaluation:
    """Play and summarise in one call."""
    played = list(play_many(policy, config, episodes, **options))
    return summarize(played, config, name, 0, options.get("seed", EVALUATION_SEED))
