"""How well an agent plays."""

from __future__ import annotations

from idqn.evaluate import evaluate, random_policy
from idqn.explain.performance import performance
from tests.explain.untrained import untrained


def test_games_are_played_as_in_evaluation() -> None:
    agent = untrained()
    found = performance(agent, episodes=5, seed=9)
    own = evaluate(agent.act, agent.config.env, 5, seed=9)
    assert found.returns == own.returns
    assert found.lengths == own.lengths
    assert (found.mean, found.interval, found.distinct) == (own.mean, own.interval, own.distinct)
    chance = evaluate(random_policy(agent.config.env, 9), agent.config.env, 5, seed=9)
    assert (found.random_mean, found.random_interval) == (chance.mean, chance.interval)


def test_what_was_evaluated_is_not_played_again() -> None:
    agent = untrained()
    own = {
        "policy": "idqn",
        "frames_trained": 0,
        "episodes": 20,
        "sticky_probability": 0.0,
        "mean": 7.0,
        "interval": [6.0, 8.0],
        "median": 7.5,
        "distinct": 3,
        "returns": [7.0] * 20,
        "lengths": [11] * 20,
    }
    others = {  # of another checkpoint, with sticky actions, too short
        "a": {**own, "frames_trained": 5, "mean": 1.0},
        "b": {**own, "sticky_probability": 0.25, "mean": 2.0},
        "c": {**own, "episodes": 4, "mean": 3.0},
        "d": {**own, "policy": "random", "episodes": 40, "mean": 4.0},
    }
    found = performance(agent, episodes=5, evaluations={"own": own, **others})
    assert (found.mean, found.episodes, found.random_mean) == (7.0, 20, 4.0)
    assert found.interval == (6.0, 8.0)
