"""Films of games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.evaluate import play

FILM_HEIGHT = 420  # pixels, at least: two screen pixels for each of Atari's


def film(agent: Agent, path: Path, seed: int, max_steps: int) -> tuple[float, int]:
    """Film one game; returns its score and length in agent steps."""
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"films end in .mp4 or .gif, got '{path}'")
    if max_steps < 1:
        raise UserError(f"a film needs at least 1 step, got --max-steps {max_steps}")
    if path.exists():
        raise UserError(f"'{path}' exists already; choose another name with --video")
    import imageio.v2 as imageio

    path.parent.mkdir(parents=True, exist_ok=True)
    fps = agent.config.env.steps_per_second
    options: dict[str, Any] = {"macro_block_size": 1} if path.suffix == ".mp4" else {}
    score, steps = 0.0, 0
    env = agent.make_env()
    try:
        writer: Any
        with imageio.get_writer(path, fps=fps, **options) as writer:
            for moment in play(agent.act, env, seed):
                writer.append_data(_enlarged(moment.screen))
                score += moment.reward
                steps += 1
                if steps >= max_steps:
                    break
            writer.append_data(_enlarged(env.screen()))
    finally:
        env.close()
    return score, steps


def _enlarged(screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Whole pixels, and sides of even length as video codecs want them."""
    factor = max(1, -(-FILM_HEIGHT // screen.shape[0]))
    large = screen.repeat(factor, 0).repeat(factor, 1)
    return large[: large.shape[0] // 2 * 2, : large.shape[1] // 2 * 2]
