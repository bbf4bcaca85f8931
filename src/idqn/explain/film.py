"""A game, step by step: what a person sees, what the agent says of it, and where it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain.perturbation import Scale, perturb, squared_changes
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.states import States, about, collect


@dataclass(frozen=True, eq=False, repr=False)
class Film(Result):
    """The first T steps of a game."""

    kind: ClassVar[str] = "film"
    screens: NDArray[np.uint8]  # [bytes], T PNG files, one after another
    ends: NDArray[np.int64]  # [T], where in `screens` each ends
    action: NDArray[np.int64]  # [T], chosen
    reward: NDArray[np.float64]  # [T]
    q: NDArray[np.float32]  # [T, A]
    uncertainty: NDArray[np.float32] | None  # [T, A]
    attention: NDArray[np.float32] | None  # [T, A, N], of agents with keys
    values: NDArray[np.float32] | None  # [N], the returns that keys stand for
    saliency: NDArray[np.float32]  # [T, R, K], perturbation saliency of the chosen action
    whole: bool
    """Whether the game ends with the last step here."""
    steps_per_second: float
    """As a person would see it played."""

    def __len__(self) -> int:
        return len(self.action)

    def screen(self, index: int) -> NDArray[np.uint8]:
        """What a person saw, RGB [height, width, 3]."""
        begin = self.ends[index - 1] if index else 0
        drawn = cv2.imdecode(self.screens[begin : self.ends[index]], cv2.IMREAD_COLOR_RGB)
        assert drawn is not None
        screen: NDArray[np.uint8] = np.asarray(drawn, np.uint8)
        return screen


def film(
    agent: Agent, states: States | None = None, steps: int = 240, progress: Progress = silent
) -> Film:
    """The first `steps` steps of the first of the agent's games. Saliency is by perturbation, on
    a grid half as fine as elsewhere: a film has many frames."""
    if steps < 1:
        raise UserError(f"a film needs at least 1 step, got {steps}")
    if states is None:
        states = collect(agent, episodes=1, max_steps=steps, progress=progress)
    game = np.flatnonzero(states.episode == 0)
    if not len(game):
        raise UserError("there is nothing to film: these states are of no game")
    shown = game[:steps]
    screens = [states.screens[i] for i in shown]
    attention = None if states.attention is None else states.attention[shown]
    return Film(
        about(agent),
        screens=np.frombuffer(b"".join(screens), np.uint8),
        ends=np.cumsum([len(screen) for screen in screens]),
        action=states.action[shown],
        reward=states.reward[shown],
        q=states.q[shown],
        uncertainty=None if states.uncertainty is None else states.uncertainty[shown],
        attention=attention,
        values=None if attention is None else agent.values.cpu().numpy(),
        saliency=coarse_saliency(agent, states.observations(shown), states.action[shown], progress),
        whole=states.finished[0] and len(shown) == len(game),
        steps_per_second=agent.config.env.steps_per_second,
    )


def coarse_saliency(
    agent: Agent,
    observations: NDArray[np.uint8],
    actions: NDArray[np.int64],
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """Perturbation saliency of these actions, on a grid half as fine as elsewhere, [n, R, K]."""
    fine = Scale.of(*agent.observation_shape[1:])
    coarse = fine._replace(rows=-(-fine.rows // 2), columns=-(-fine.columns // 2))
    found = perturb(agent, observations, coarse, progress)
    chosen: NDArray[np.float32] = squared_changes(found)[np.arange(len(actions)), :, :, actions]
    return chosen
