"""Environments that take turns play as if they did not, and say where they were before a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import EnvConfig
from idqn.envs import EnvPositions, RunEnvs, VectorEnv, describe
from idqn.envs.gym_images import ImageGroup
from idqn.presets import preset
from idqn.types import Step
from tests.envs.alone import BREAKOUT, MINI, assert_same_steps, over, play, random_actions
from tests.envs.test_vector import assert_same_positions

MIXED_MINI = replace(MINI, max_episode_frames=20)
FREEWAY = replace(preset("paper", "ALE/Freeway-v5").env, max_episode_frames=80)
SHORT_BREAKOUT = replace(BREAKOUT, max_episode_frames=100)
STICKY_BREAKOUT = replace(SHORT_BREAKOUT, sticky_probability=0.25)


def members(runs: int, envs: int, turns: int, turn: int) -> NDArray[np.int64]:
    """Numbers of a turn's environments, ordered by (run, environment)."""
    size = envs // turns
    first = turn * size
    return np.array([run * envs + env for run in range(runs) for env in range(first, first + size)])


def play_in_turns(
    vector: VectorEnv, actions: NDArray[np.int64], runs: int, turns: int
) -> list[Step]:
    """All turns are always in flight but the one that is handled; as `play`, all environments."""
    envs = vector.count // runs
    own = [members(runs, envs, turns, turn) for turn in range(turns)]
    blank = Step(
        np.zeros((vector.count, *vector.frame_shape), np.uint8),
        np.zeros(vector.count, np.float32),
        np.zeros(vector.count, bool),
        np.zeros(vector.count, bool),
        np.zeros((vector.count, *vector.frame_shape), np.uint8),
    )
    steps = [Step(*(part.copy() for part in blank)) for _ in actions]
    for turn in range(turns):
        vector.send(actions[0][own[turn]], turn)
    for time, step in enumerate(steps):
        for turn in range(turns):
            answer = vector.recv(turn)
            assert len(answer.frame) == vector.count // turns
            for whole, part in zip(step, answer, strict=True):
                whole[own[turn]] = part
            if time + 1 < len(actions):
                vector.send(actions[time + 1][own[turn]], turn)
        step.final_frame[~over(step)] = 0
    return steps


POPULATIONS = {
    "mini": ([RunEnvs(MIXED_MINI, 1), RunEnvs(MIXED_MINI, 2)], 300),
    "games": ([RunEnvs(FREEWAY, 1), RunEnvs(SHORT_BREAKOUT, 2), RunEnvs(FREEWAY, 3)], 55),
    "sticky": ([RunEnvs(STICKY_BREAKOUT, 4)], 30),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_turns_and_workers_change_nothing(name: str) -> None:
    """Nor does it matter with whom an environment shares a worker or a group."""
    (runs, steps), envs = POPULATIONS[name], 4
    count = len(runs) * envs
    actions = random_actions(steps, [describe(run.config).num_actions for run in runs] * envs)
    actions = actions.reshape(steps, envs, -1).swapaxes(1, 2).reshape(steps, count)
    begin = EnvPositions.start(count)
    begin.episode[: len(runs)] = 3  # within a season
    with VectorEnv(runs, envs, workers=0) as vector:
        start = vector.start(begin)
        expected = play(vector, actions)
        final = vector.positions()
    assert final.episode.min() >= 1
    for workers, turns in ((0, 2), (3, 4)):
        with VectorEnv(runs, envs, workers, turns) as vector:
            np.testing.assert_array_equal(vector.start(begin), start)
            assert_same_steps(play_in_turns(vector, actions, len(runs), turns), expected)
            assert_same_positions(vector.positions(), final)


@pytest.mark.parametrize(("workers", "later"), [(0, 2), (2, 0), (2, 2)])
def test_positions_in_flight_are_those_before(workers: int, later: int) -> None:
    """The caller keeps the actions that are on their way, and sends them again."""
    runs, envs, turns = [RunEnvs(MIXED_MINI, 1), RunEnvs(MIXED_MINI, 2)], 4, 2
    actions = random_actions(60, [5] * 8)
    with VectorEnv(runs, envs, 0) as vector:
        vector.start()
        play(vector, actions[:30])
        between = vector.positions()
        expected = play(vector, actions[30:])
        final = vector.positions()
    own = [members(2, envs, turns, turn) for turn in range(turns)]
    with VectorEnv(runs, envs, workers, turns) as vector:
        vector.start()
        play_in_turns(vector, actions[:30], 2, turns)
        assert_same_positions(vector.positions(), between)
        vector.send(actions[30][own[0]], 0)
        vector.send(actions[30][own[1]], 1)
        saved = vector.positions()
        assert_same_positions(saved, between)
        vector.recv(0)  # one has come, one is still on its way
        halfway = vector.positions()
        assert [len(halfway.actions[i]) == len(between.actions[i]) for i in own[1]] == [True] * 4
        changed = halfway.episode + [len(log) for log in halfway.actions] > (
            between.episode + [len(log) for log in between.actions]
        )
        assert not changed[own[1]].any()
        assert changed[own[0]].any()
    with VectorEnv(runs, envs, later, turns) as vector:
        vector.start(saved)
        assert_same_steps(play_in_turns(vector, actions[30:], 2, turns), expected)
        assert_same_positions(vector.positions(), final)


@pytest.mark.parametrize("workers", [0, 2])
def test_starting_anew_with_turns_in_flight(workers: int) -> None:
    actions = random_actions(40, [5] * 4)
    with VectorEnv([RunEnvs(MIXED_MINI, 1)], 4, workers, turns=2) as vector:
        first = vector.start()
        expected = play_in_turns(vector, actions, 1, 2)
        vector.send(actions[0][:2], 0)
        vector.send(actions[0][2:], 1)
        np.testing.assert_array_equal(vector.start(), first)
        assert vector.positions().episode.tolist() == [0, 0, 0, 0]
        assert_same_steps(play_in_turns(vector, actions, 1, 2), expected)


def test_an_answer_stays_until_the_same_turn_is_sent_again() -> None:
    actions = random_actions(20, [5] * 4)
    with VectorEnv([RunEnvs(MINI, 1)], 4, 2, turns=2) as vector:
        vector.start()
        for now in actions:
            vector.send(now[:2], 0)
            step = vector.recv(0)
            kept = Step(*(part.copy() for part in step))
            vector.send(now[2:], 1)
            vector.recv(1)
            assert_same_steps([step], [kept])


def test_mistakes_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="5 environments in 2 turns"):
        VectorEnv([RunEnvs(MINI, 0)], 5, 0, turns=2)
    two = np.zeros(2, np.int64)
    with VectorEnv([RunEnvs(MINI, 0)], 4, 0, turns=2) as vector:
        vector.start()
        with pytest.raises(AssertionError, match="use send and recv"):
            vector.step(np.zeros(4, np.int64))
        vector.send(two, 0)
        with pytest.raises(AssertionError, match="turn 0 was sent and not received"):
            vector.send(two, 0)
        vector.send(two, 1)
        with pytest.raises(AssertionError, match="turn 0 was sent before turn 1"):
            vector.recv(1)


def test_long_episodes_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment i's episodes last 1, 100, 10,000, 300 steps."""

    class Lasting(ImageGroup):
        def __init__(self, config: EnvConfig, count: int) -> None:
            super().__init__(config, count)
            self.length = np.zeros(count, np.int64)

        def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> Any:
            self.length[mask] = 0
            return self._frames

        def step(self, actions: NDArray[np.int64]) -> Any:
            self.length += 1
            over = self.length >= [1, 100, 10_000, 300]
            return self._frames, np.zeros(4, np.float32), over, np.zeros(4, bool)

    monkeypatch.setattr("idqn.envs.worker.make_group", lambda c, n, _: Lasting(c, n))
    actions = random_actions(1_150, [60_000] * 4)
    with VectorEnv([RunEnvs(MINI, 0)], 4, workers=0) as vector:
        vector.start()
        for now in actions[:600]:
            vector.step(now)
        vector.start(vector.positions())  # and long ones can be restored
        for now in actions[600:]:
            vector.step(now)
        positions = vector.positions()
    assert positions.episode.tolist() == [1_150, 11, 0, 3]
    logs = [actions[1_150:, 0], actions[1_100:, 1], actions[:, 2], actions[900:, 3]]
    for log, expected in zip(positions.actions, logs, strict=True):
        np.testing.assert_array_equal(log, expected.astype(np.uint16), strict=True)
