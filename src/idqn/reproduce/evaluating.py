"""What is measured of a trained run, and stored in it: games without exploration, Agreement."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idqn import checkpoint
from idqn.agent import load
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED, play_many, summarize
from idqn.explain.agreement import Agreement
from idqn.explain.kinds import Subject, explain
from idqn.reproduce.deadline import Deadline
from idqn.reproduce.scores import last_at
from idqn.run_dir import RunDir


def checkpoint_at(run: RunDir, frames: int) -> int:
    """The newest checkpoint of what a run was at `frames`. Runs keep few: of one that was trained
    on, it may be gone."""
    config = run.config()
    last = last_at(config, frames)
    found = [at for at in checkpoint.complete(run) if at <= last]
    if not found or found[-1] <= frames - config.system.checkpoint_every_frames:
        kept = ", ".join(f"{at:,}" for at in checkpoint.complete(run)) or "none"
        raise UserError(
            f"'{run.path}' cannot be measured at {frames:,} frames: its checkpoints are at {kept}; "
            f"choose --frames near one of them"
        )
    return found[-1]


def evaluation_of(run: RunDir, frames: int, episodes: int) -> dict[str, Any] | None:
    """A stored one of the checkpoint at `frames`, of at least so many of the games that it was
    trained on."""
    config = run.config()
    for known in run.evaluations().values():
        if (
            known.get("policy") == config.agent.name
            and known.get("sticky_probability") == config.env.sticky_probability
            and known.get("frames_trained") == frames
            and known.get("episodes", 0) >= episodes
        ):
            return known
    return None


def evaluate(
    run: RunDir,
    frames: int,
    episodes: int,
    device: str = "auto",
    deadline: Deadline | None = None,
) -> None:
    """As `idqn eval` does. What is not finished by the deadline is played anew another time."""
    config = run.config()
    agent = load(run.path, frames, device)

    def act(observation: NDArray[np.uint8]) -> NDArray[np.int64]:
        if deadline is not None:
            deadline.require(f"to play {episodes} games with {run.path}")
        actions: NDArray[np.int64] = agent.act(observation)
        return actions

    played = list(play_many(act, config.env, episodes))
    summarize(played, config.env, config.agent.name, frames, EVALUATION_SEED).save(run)


def has_agreement(run: RunDir, frames: int) -> bool:
    """Of the checkpoint at `frames`."""
    try:
        about = Agreement.load(run).about
    except UserError:
        return False
    return (about.run_id, about.frames) == (run.identity, frames)


def explain_agreement(run: RunDir, frames: int, device: str = "auto") -> None:
    """As `idqn explain --only agreement` does, without its page."""
    agent = load(run.path, frames, device)
    (explained,) = explain(Subject(agent, run), ["agreement"])
    if explained.result is None:
        raise UserError(f"'{run.path}' has no Agreement: {explained.refusal}")
    explained.result.save(run)
