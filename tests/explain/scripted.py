"""Agents that play MiniPacman by a rule, and say what a network says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.mini_pacman import MOVES, NEIGHBOURS, OPEN_CELLS, Cell
from idqn.look import Look
from tests.explain.untrained import untrained

PACMAN, PELLET = 211, 255
Rule = Callable[[Cell, frozenset[Cell]], int]


class Scripted(Agent):
    rule: Rule

    def look(self, observation: Any, decode: bool = True) -> Look:
        out = super().look(observation, decode)
        batch = np.asarray(observation).reshape(-1, *self.observation_shape)
        q = torch.zeros(len(batch), self.spec.num_actions)
        for i, each in enumerate(batch):
            q[i, self.rule(*seen(each[-1]))] = 1.0
        shape = out.q.shape
        return Look(
            self.name,
            {"q": q.reshape(shape), "embedding": out.embedding, "attention": out.attention},
        )


def scripted(rule: Rule) -> Agent:
    plain = untrained()
    agent = Scripted(plain.network, plain.config, plain.spec, plain.device)
    agent.rule = rule
    return agent


def seen(frame: NDArray[np.uint8]) -> tuple[Cell, frozenset[Cell]]:
    """Pacman's cell (or that of the ghost that caught it), and those with a pellet in sight."""
    middles = {cell: frame[3 * cell[0] + 1, 3 * cell[1] + 1] for cell in OPEN_CELLS}
    pacman = next((cell for cell, grey in middles.items() if grey == PACMAN), OPEN_CELLS[0])
    return pacman, frozenset(cell for cell, grey in middles.items() if grey == PELLET)


def to_nearest_pellet(pacman: Cell, pellets: frozenset[Cell]) -> int:
    before: dict[Cell, Cell] = {pacman: pacman}
    queue = [pacman]
    for cell in queue:
        if cell in pellets:
            while before[cell] != pacman:
                cell = before[cell]
            return MOVES[pacman].index(cell)
        for neighbour in NEIGHBOURS[cell]:
            if neighbour not in before:
                before[neighbour] = cell
                queue.append(neighbour)
    return 0


def round_and_round(pacman: Cell, pellets: frozenset[Cell]) -> int:
    """Clockwise along the outer way, up to it from within; pellets do not matter."""
    row, col = pacman
    up, right, left, down = 1, 2, 3, 4
    if row == 1 and col < 9:
        return right
    if col == 9 and row < 9:
        return down
    if row == 9 and col > 1:
        return left
    if col == 1:
        return up
    return left if row in (3, 5, 7) else up
