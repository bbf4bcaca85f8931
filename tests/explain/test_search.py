"""The search through edited states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from idqn.config import Config
from idqn.envs.editable_mini_pacman import EditableMiniPacman
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.explain import search
from idqn.explain.confirm import play_edits
from idqn.explain.edited import Moment, score_edits
from idqn.explain.picking import matched, ranked
from idqn.explain.rates import Rate
from idqn.explain.search import TWIN, Search, untrained_twin
from idqn.explain.twins import record, walk
from idqn.run_dir import RunDir
from tests.explain.scripted import round_and_round, scripted, to_nearest_pellet
from tests.explain.untrained import untrained


def test_the_smallest_edits_come_first_and_one_of_each_moment() -> None:
    pixels = np.array([5, 2, 2, 9, 1, 2])
    score = np.array([0.0, 0.3, 0.1, 0.0, 0.5, 0.2])
    moment = np.array([0, 1, 2, 3, 4, 2])
    fit = np.array([True, True, True, True, False, True])
    assert ranked(fit, pixels, score, moment, 9).tolist() == [2, 1, 0, 3]
    assert ranked(fit, pixels, score, moment, 2).tolist() == [2, 1]
    assert ranked(np.zeros(6, bool), pixels, score, moment, 2).tolist() == []


def test_control_edits_are_as_large_and_no_candidates() -> None:
    rng = np.random.default_rng(0)
    pixels = np.repeat([1, 50], 40)
    moment = np.arange(80) % 40
    pool = np.ones(80, bool)
    pool[5] = False
    candidates = np.array([0, 1, 41])
    found = matched(candidates, pool, pixels, moment, rng)
    assert pixels[found].tolist() == [1, 1, 50]
    assert not set(found.tolist()) & {0, 1, 41, 5}
    assert len(set(moment[found].tolist())) == 3
    assert matched(candidates, np.zeros(80, bool), pixels, moment, rng).tolist() == []


def test_a_control_of_the_same_size_goes_before_one_of_another_moment() -> None:
    rng = np.random.default_rng(0)
    # two candidates; small edits of one other moment, large ones of many
    pixels = np.array([4, 4, 4, 5, *[40] * 30])
    moment = np.array([0, 1, 2, 2, *range(3, 33)])
    found = matched(np.array([0, 1]), np.ones(34, bool), pixels, moment, rng)
    assert sorted(found.tolist()) == [2, 3]
    # where there is none of the size, the nearest
    pixels[[2, 3]] = 400
    assert (pixels[matched(np.array([0, 1]), np.ones(34, bool), pixels, moment, rng)] == 40).all()


def test_rates_have_wilsons_interval() -> None:
    assert Rate(0, 10).interval == pytest.approx((0, 0.2775), abs=1e-4)
    assert Rate(5, 10).interval == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert Rate(0, 0).interval == (0, 1)


def test_scores_are_what_the_agent_says_of_each_edit() -> None:
    agent = untrained()
    game = make_editable(agent.config.env)
    found = score_edits(agent, game, 40, games=2, horizon=4, max_steps=30, seed=3)
    assert 0 < len(found.edits) <= 40
    assert found.measure == "attention"
    assert {name for name, _ in found.edits} == set(game.edits)
    for i in (0, len(found.edits) // 2, len(found.edits) - 1):
        moment = found.moments[found.moment[i]]
        trajectory = found.games[moment.game]
        given = trajectory.actions[moment.step : moment.step + found.settle].tolist()
        name, params = found.edits[i]
        for _ in walk(game, trajectory, [moment.step]):
            snapshot = game.save()
            plain = game.settle(given).observation
            game.restore(snapshot)
            game.apply(name, **params)
            edited = game.settle(given).observation
        assert found.pixels[i] == (plain[-1] != edited[-1]).sum()
        before, after = agent.look(plain), agent.look(edited)
        moved = 0.5 * (before.attention - after.attention).abs().sum(-1).mean()
        assert found.distance[i] == pytest.approx(float(moved), abs=1e-5)
        assert found.flipped[i] == (agent.act(plain) != agent.act(edited))
        if name == "pacman":
            assert found.near[i]


def test_games_that_are_the_same_are_searched_once() -> None:
    agent = untrained("ddqn", env="ALE/MsPacman-v5", env__noop_max=1)
    game = make_editable(agent.config.env)
    found = score_edits(agent, game, 8, games=5, horizon=4, max_steps=90, seed=0)
    # all that can differ is whether there was a no-op, if it makes any difference at all
    assert 1 <= len(found.games) <= 2
    courses = {(g.actions.tobytes(), g.rewards.tobytes()) for g in found.games}
    assert len(courses) == len(found.games)
    assert {moment.game for moment in found.moments} <= set(range(len(found.games)))


def test_edited_games_are_played_with_the_agent_and_with_the_plan() -> None:
    agent = scripted(round_and_round)
    game = make_editable(agent.config.env)
    trajectory = record(agent, game, seed=1, max_steps=40)
    moment = Moment(0, 20, 6)
    for _ in walk(game, trajectory, [20]):
        pellet = next(p for p in game.choices("pellet") if abs(p["row"] - game.state.pacman[0]) > 2)
    (played,) = play_edits(agent, [trajectory], [(moment, ("pellet", pellet))], horizon=6)
    assert (played.steps, played.kept) == (6, 6)
    assert played.reacting == played.as_before
    settled = 20 + game.settle_steps
    assert played.unedited == trajectory.rewards[settled : settled + 6].sum()
    eater = scripted(to_nearest_pellet)
    trajectory = record(eater, game, seed=3, max_steps=50)
    jobs = [(Moment(0, 34, 6), ("pellet", {"row": 4, "col": 9, "on": True}))]
    (played,) = play_edits(eater, [trajectory], jobs, horizon=6)
    assert played.kept < played.steps


def test_a_search_finds_the_same_again_and_comes_back_from_the_disk(tmp_path: Path) -> None:
    agent = untrained()
    options = {"budget": 60, "horizon": 4, "games": 3, "max_steps": 30, "confirmed": 4}
    found, again = (search(agent, **options) for _ in range(2))  # type: ignore[arg-type]
    assert found.whose == ("idqn", TWIN)
    for name in found.outcomes:
        np.testing.assert_array_equal(found.outcomes[name], again.outcomes[name])
        assert len(found.outcomes[name]) == len(found.gains[name]) == len(found.sizes[name]) <= 4
    assert len(found.outcomes["idqn, blind candidates"]) > 0
    assert len(found.pictures) == len(found.examples)
    run = RunDir.create_all([tmp_path / "run"], [Config()], {})[0]
    found.save(run)
    loaded = Search.load(run)
    assert loaded.examples == found.examples
    np.testing.assert_array_equal(loaded.distance["idqn"], found.distance["idqn"])


def test_agents_without_attention_are_searched_by_their_q() -> None:
    found = search(untrained("ddqn"), 20, horizon=3, games=2, max_steps=20, baseline=False)
    assert found.measure == "Q"
    assert found.whose == ("ddqn",)
    assert (found.distance["ddqn"] >= 0).all()


def test_the_twin_has_other_weights_and_the_same_normalisation() -> None:
    agent = untrained()
    agent.network.mean_image.fill_(7.0)
    twin = untrained_twin(agent)
    assert (twin.network.mean_image == 7).all()
    assert not (twin.network.head.keys == agent.network.head.keys).all()
    assert twin.action_names == agent.action_names


def test_nothing_to_search_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = untrained()
    with pytest.raises(UserError, match="among 0 edited states; give --budget at least 1"):
        search(agent, 0)
    with pytest.raises(UserError, match="Breakout-v5 has no named edits"):
        search(untrained(env="ALE/Breakout-v5"), 10)
    with pytest.raises(UserError, match="none goes on for 500 steps after an edit"):
        search(agent, 10, horizon=500, games=1, max_steps=3)
    monkeypatch.setattr(EditableMiniPacman, "choices", lambda self, name: [])
    with pytest.raises(UserError, match="no edit of idqn/MiniPacman-v0 is valid at the"):
        search(agent, 10, horizon=3, games=1, max_steps=20)
