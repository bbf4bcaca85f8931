"""The paper's adversarial examples."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from idqn.config import Config
from idqn.envs.editable import EditableAtari
from idqn.envs.games import spaceinvaders
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain import attack, collect
from idqn.explain.extra_pellet import ExtraPellet, extra_pellet
from idqn.explain.inverted_triangle import InvertedTriangle, cleared, inverted_triangle
from idqn.explain.pixel_max import PixelMax, maximum, pixel_max
from idqn.explain.twins import COUNTERFACTUAL, FACTUAL, record, walk
from idqn.run_dir import RunDir
from tests.explain.scripted import round_and_round, scripted, seen, to_nearest_pellet
from tests.explain.untrained import untrained

triangle = import_module("idqn.explain.inverted_triangle")


def test_who_eats_pellets_eats_the_extra_one() -> None:
    found = attack(scripted(to_nearest_pellet), "extra-pellet", seed=3, horizon=8)
    assert isinstance(found, ExtraPellet)
    assert found.distance == 1
    assert found.eaten is not None
    assert found.eaten <= found.filmed
    assert found.nearest == 0
    assert found.first_action is not None
    assert found.reward[COUNTERFACTUAL][found.eaten - 1] == 1


def test_who_repeats_a_way_passes_by() -> None:
    agent = scripted(round_and_round)
    found = extra_pellet(agent, seed=1, horizon=8)
    assert found.first_action is None
    assert found.first_frame == 1
    assert found.eaten is None or found.eaten > found.settle + 2 * 8
    np.testing.assert_array_equal(found.action[FACTUAL], found.action[COUNTERFACTUAL])
    # what the rule promises, checked by playing the game anew
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=1, max_steps=1_000)
    way = []
    for step in walk(game, trajectory):
        pacman, pellets = seen(game.observation[-1])
        way.append(pacman)
        if step == found.step:
            assert found.cell not in pellets
    ahead = way[found.step : found.step + found.settle + 2 * 8]
    assert found.cell not in ahead
    passing = ahead[found.passed]
    assert abs(passing[0] - found.cell[0]) + abs(passing[1] - found.cell[1]) <= found.distance


@pytest.mark.parametrize("seed", range(6))
def test_both_games_are_measured_over_the_same_steps(seed: int) -> None:
    found = extra_pellet(scripted(round_and_round), seed=seed, horizon=4)
    assert found.first_action is None
    assert found.nearest == found.distance


def test_a_game_that_is_over_too_soon_gives_way_to_the_next() -> None:
    agent = scripted(round_and_round)
    game = make_editable(agent.config.env)
    lengths = [len(record(agent, game, seed, max_steps=1_000)) for seed in range(30)]
    longer = sorted(lengths)[-3]
    seed = next(i for i in range(20) if lengths[i] < longer and longer in lengths[i : i + 8])
    horizon = longer - game.settle_steps - 3
    found = extra_pellet(agent, seed=seed, horizon=horizon)
    assert found.seed > seed
    assert found.game_steps == lengths[found.seed]
    assert found.step + found.filmed <= found.game_steps
    assert "goes on for the whole film" in found.because


def test_an_extra_pellet_in_mspacman_comes_back_from_the_disk(tmp_path: Path) -> None:
    agent = untrained(env="ALE/MsPacman-v5")
    made = extra_pellet(agent, seed=5, horizon=3, max_steps=90)
    row, col = made.cell
    assert made.changes[COUNTERFACTUAL] == f"a pellet in row {row}, column {col}"
    assert 1 <= made.distance <= 3
    # the pellet is all that differs on the screen, when nothing else has happened yet
    one, other = (made.film(side).screen(1) for side in (FACTUAL, COUNTERFACTUAL))
    differs = np.argwhere((one != other).any(-1))
    ((top, left, bottom, right),) = made.boxes
    assert len(differs)
    assert (differs >= (top, left)).all()
    assert (differs < (bottom, right)).all()
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    made.save(run)
    found = ExtraPellet.load(run)
    assert found.cell == made.cell
    assert found.changes == made.changes
    np.testing.assert_array_equal(found.film(FACTUAL).screen(2), made.film(FACTUAL).screen(2))
    np.testing.assert_array_equal(found.saliency[FACTUAL], made.saliency[FACTUAL])


def test_both_formations_are_played() -> None:
    agent = untrained("ddqn", env="ALE/SpaceInvaders-v5")
    found = attack(agent, "inverted-triangle", step=30, horizon=4, max_steps=40)
    assert isinstance(found, InvertedTriangle)
    assert [found.ships[side][0] for side in (FACTUAL, COUNTERFACTUAL)] == [20, 19]
    assert found.attention is None
    # the 36 of the first wave, less what was shot, against the formation from training
    game = make_editable(agent.config.env)
    assert isinstance(game, EditableAtari)
    trajectory = record(agent, game, found.seed, 40)
    for _ in walk(game, trajectory, [30]):
        rows = [byte & 63 for byte in game.ram[18:24]]
    wanted = spaceinvaders.TRAINING_FORMATION
    assert found.replaced == sum((a ^ b).bit_count() for a, b in zip(rows, wanted, strict=True))
    assert cleared(np.array([20, 19, 19, 17, 36, 35])) == 4


def test_formations_are_put_where_the_ships_are_high(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = untrained("ddqn", env="ALE/SpaceInvaders-v5")
    game = make_editable(agent.config.env)
    assert isinstance(game, EditableAtari)
    trajectory = record(agent, game, EVALUATION_SEED, 320)
    heights = [int(game.ram[spaceinvaders.FORMATION_Y]) for _ in walk(game, trajectory)]
    high = [step for step, height in enumerate(heights) if height == min(heights)]
    assert high[-1] < len(heights) - 1  # they come down while the game goes on
    # the later the step, the fewer ships had to come or go, or so it seems
    fewest = iter(range(10_000, 0, -1))
    monkeypatch.setattr(triangle, "_replaced", lambda env: next(fewest))
    found = inverted_triangle(agent, horizon=4, max_steps=320)
    assert found.step == high[-1]


def test_pixel_max_is_numpys_maximum() -> None:
    agent = untrained()
    states = collect(agent, 3, 12)
    some = states.observations(np.array([0, 3, 7]))
    np.testing.assert_array_equal(maximum(some), np.maximum.reduce(list(some)))
    states = dataclasses.replace(states, action=np.arange(len(states)) % 3)
    found = pixel_max(agent, states, sources=4, groups=5, mapped=2)
    assert isinstance(found, PixelMax)
    assert sorted(found.action[:-1]) == [0, 1, 2]  # as many as the agent takes
    channels = agent.spec.frame_shape[0]
    places = [
        int(np.flatnonzero((states.episode == e) & (states.step == s))[0])
        for e, s in zip(found.episode, found.step, strict=True)
    ]
    sources = states.observations(np.array(places))
    np.testing.assert_array_equal(found.frames[-1], np.maximum.reduce(sources)[-channels:])
    out = agent.look(np.maximum.reduce(sources))
    np.testing.assert_allclose(found.q[-1], out.q, rtol=1e-5, atol=1e-5)
    order = np.argsort(-out.q.numpy()).tolist()
    assert found.ranks[0].tolist() == [order.index(a) for a in found.action[:-1]]
    for i, source in enumerate(agent.look(sources).q.numpy()):
        order = np.argsort(-source).tolist()
        assert found.source_ranks[0, i].tolist() == [order.index(a) for a in found.action[:-1]]
    assert found.kept is not None
    assert found.kept.shape == (5, 3, 3)
    assert states.attention is not None
    action = found.action[1]
    moved = 0.5 * np.abs(out.attention[action].numpy() - states.attention[places[2], action]).sum()
    assert found.kept[0, 1, 2] == pytest.approx(1 - moved, abs=1e-5)
    assert found.correlation.shape == (2, 3, 3)
    assert (np.abs(found.correlation) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("env", "options", "said"),
    [
        ("idqn/MiniPacman-v0", {"recipe": "extra-pelet"}, "did you mean 'extra-pellet'"),
        (
            "idqn/MiniPacman-v0",
            {"recipe": "inverted-triangle"},
            "is for ALE/SpaceInvaders-v5, but this agent plays idqn/MiniPacman-v0",
        ),
        (
            "ALE/Pong-v5",
            {"recipe": "extra-pellet"},
            "is for ALE/MsPacman-v5 and idqn/MiniPacman-v0, but",
        ),
        ("idqn/MiniPacman-v0", {"recipe": "extra-pellet", "step": 999}, "there is no step 999 in"),
        ("idqn/MiniPacman-v0", {"recipe": "extra-pellet", "step": 0}, "can be put back at step 0"),
        ("idqn/MiniPacman-v0", {"recipe": "extra-pellet", "horizon": 0}, "compared in 0 steps"),
        ("idqn/MiniPacman-v0", {"recipe": "pixel-max", "step": 3}, "leave out --step"),
    ],
)
def test_what_does_not_fit_is_refused(env: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        attack(untrained(env=env), **options)  # type: ignore[arg-type]


def test_a_maximum_needs_different_actions() -> None:
    agent = untrained()
    states = collect(agent, 1, 5)
    same = dataclasses.replace(states, action=np.zeros(len(states), np.int64))
    with pytest.raises(UserError, match="needs states with different actions, but"):
        pixel_max(agent, same)
    with pytest.raises(UserError, match="of at least 2 states, got 1"):
        pixel_max(agent, states, sources=1)
