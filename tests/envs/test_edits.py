"""Named edits: what is accepted, what is refused, and that nothing else happens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs.editable import EditableAtari
from idqn.envs.editing import Editable
from idqn.envs.edits import GameEdits, Pokes, Ram, changed, game_edits, number, one_of, switch
from idqn.envs.games import edits_for
from idqn.envs.games.mini_pacman import GAME as MINI_PACMAN
from idqn.envs.single import make_editable
from idqn.errors import UserError
from tests.envs.alone import MINI, config_of
from tests.envs.edited import ALL, assert_same, everything, moment, some_choices

# Bytes from which ALE's src/ale/games/supported/*.cpp reads score, lives and the game's end.
READ_BY_ALE = {
    "Alien": {3, 5, 7, 9, 11, 64},
    "Freeway": {22, 103},
    "Frostbite": {72, 73, 74, 76, 113},
    "Gravitar": {1, 4, 7, 8, 9},
    "MsPacman": {39, 120, 121, 122, 123},
    "Pong": {13, 14},
    "Qbert": {8, 89, 90, 91},
    "SpaceInvaders": {24, 73, 102, 104},
    "Venture": {63, 70, 71, 72, 77},
}


@pytest.mark.parametrize("game", READ_BY_ALE)
def test_no_edit_reaches_score_lives_or_the_end(game: str) -> None:
    edits = edits_for(f"ALE/{game}-v5")
    assert edits.score <= READ_BY_ALE[game] | {104}  # 104: the other player's, in Freeway
    for edit in edits.edits.values():
        assert edit.writes
        assert not edit.writes & READ_BY_ALE[game], edit.name


def test_a_game_whose_edit_writes_the_score_cannot_be_built() -> None:
    edit = edits_for("ALE/Pong-v5").edits["ball"]
    with pytest.raises(ValueError, match="ball writes score"):
        game_edits((edit,), score=(49,))


@pytest.mark.parametrize("game", ALL)
def test_edits_do_no_more_than_they_say(game: str) -> None:
    """Choices write declared bytes only, pay nothing by themselves, and are undone by restore."""
    env = moment(game)
    snapshot, before = env.save(), everything(env)
    for name, params in some_choices(env, 6):
        if isinstance(env, EditableAtari):
            ram = env.ram
            env.apply(name, **params)
            written = set(np.flatnonzero(env.ram != ram))
            assert written
            assert written <= env.edits[name].writes
        else:
            env.apply(name, **params)
        env.restore(snapshot)
        assert_same(everything(env), before)


def test_pacman_elsewhere_earns_what_is_there_and_nothing_else_does() -> None:
    env = moment("MsPacman")
    snapshot, choices = env.save(), some_choices(env, 10)
    assert env.step(0)[1] == 0
    for name, params in choices:
        env.restore(snapshot)
        env.apply(name, **params)
        assert env.step(0)[1] in ((0.0, 10.0) if name == "pacman" else (0.0,))


BAD: Mapping[str, tuple[tuple[str, dict[str, Any], str], ...]] = {
    "MsPacman": (
        ("pellet", {"row": 1, "col": 1, "on": True}, "wall"),
        ("pellet", {"row": 1, "col": 0, "on": True}, "pill"),
        ("pellet", {"row": 0, "col": 0, "on": True}, "already"),
        ("pellet", {"row": 14, "col": 0, "on": True}, "row is 14; expected 0 to 13"),
        ("pellet", {"row": True, "col": 0, "on": True}, "row is True"),
        ("pellet", {"row": 0, "col": 0, "on": 1}, "on is 1; expected True or False"),
        ("pellet", {"row": 0.0, "col": 0, "on": True}, "row is 0.0"),
        ("pellet", {"row": 0, "on": True}, "needs col"),
        ("pellet", {"row": 0, "col": 0, "on": True, "column": 2}, "no 'column'"),
        ("power_pill", {"i": 0, "on": True}, "already"),
        ("pacman", {"row": 1, "col": 1, "direction": "up"}, "wall"),
        ("pacman", {"row": 0, "col": 0, "direction": "up"}, "wall"),
        ("pacman", {"row": 0, "col": 0, "direction": "north"}, "'up' or 'right'"),
        ("ghost", {"name": "clyde", "row": 0, "col": 0, "direction": "right"}, "'sue'"),
        ("ghost", {"name": "sue", "row": 6, "col": 8, "direction": "up"}, "wall"),
        ("edible", {"on": False}, "already"),
        ("pelet", {}, "did you mean 'pellet'"),
    ),
    "SpaceInvaders": (
        ("invaders", {"rows": (0,) * 6}, "no invader"),
        ("invaders", {"rows": (64, 0, 0, 0, 0, 0)}, "six numbers"),
        ("invaders", {"rows": (1, 2)}, "six numbers"),
        ("invaders", {"rows": 63}, "six numbers"),
        ("invader", {"row": 0, "col": 0, "on": True}, "already"),
        ("player", {"x": 20}, "34 to 116"),
        ("shield", {"i": 3, "on": True}, "0 to 2"),
    ),
    "Pong": (
        ("ball", {"x": 10, "y": 100}, "24 to 134"),
        ("ball", {"x": 50, "y": 99, "vx": 0}, "vx"),
    ),
    "Qbert": (("tile", {"i": 21, "on": True}, "0 to 20"),),
    "Freeway": (("car", {"lane": 10, "x": 50}, "0 to 9"), ("chicken", {"y": 5}, "20 to 187")),
    "Frostbite": (
        ("igloo", {"blocks": 0}, "nothing would change"),
        ("igloo", {"blocks": 17}, "0 to 16"),
        ("temperature", {"degrees": 0}, "1 to 45"),
    ),
    "Alien": (
        ("egg", {"row": 1, "col": 1, "on": True}, "wall"),
        ("alien", {"i": 0, "row": 0, "col": 0}, "wait until it has come"),
    ),
    "Venture": (("player", {"x": 20, "y": 40}, "wall"), ("sprite", {"i": 6, "x": 8}, "0 to 5")),
    "Gravitar": (("ship", {"x": 80, "y": 84}, "sun"), ("fuel", {"hundreds": 0}, "1 to 999")),
    "MiniPacman": (
        ("pellet", {"row": 2, "col": 2, "on": True}, "wall"),
        ("pellet", {"row": 9, "col": 9, "on": True}, "already"),
        ("pacman", {"row": 9, "col": 9}, "a pellet is on"),
        ("ghost", {"row": 5, "col": 5}, "wall"),
    ),
}


@pytest.mark.parametrize("game", BAD)
def test_refused_edits_leave_everything_untouched(game: str) -> None:
    env = moment(game)
    before = everything(env)
    for name, params, message in BAD[game]:
        with pytest.raises(UserError, match=message):
            env.apply(name, **params)
        with pytest.raises(UserError, match=message):
            env.edit(name, **params)
    assert_same(everything(env), before)


def test_refused_where_figures_stand() -> None:
    env = moment("MsPacman")
    assert isinstance(env, EditableAtari)
    row = (int(env.ram[16]) + 4) // 12
    col = min(range(18), key=lambda c: abs(18 + 8 * c + 4 * (c > 8) - int(env.ram[10])))
    with pytest.raises(UserError, match="pacman is on"):
        env.apply("ghost", name="sue", row=row, col=col, direction="left")
    on_it = [p for p in env.choices("pellet") if p["on"] and (p["row"], p["col"]) == (row, col)]
    assert not on_it
    freeway = moment("Freeway")
    for lane in range(10):
        freeway.apply("car", lane=lane, x=8)
    freeway.apply("chicken", y=60)
    with pytest.raises(UserError, match="chicken is there"):
        freeway.apply("car", lane=2, x=45)


def test_nothing_can_be_edited_before_or_after_an_episode() -> None:
    env = EditableAtari(config_of("MsPacman", max_episode_frames=8))
    with pytest.raises(RuntimeError, match="reset"):
        env.apply("pellet", row=0, col=0, on=False)
    env.reset(0)
    env.step(0)
    env.step(0)
    for call in (
        lambda: env.apply("pellet", row=0, col=0, on=False),
        lambda: env.choices("pellet"),
    ):
        with pytest.raises(UserError, match="the episode is over"):
            call()


def test_games_without_edits_and_environments_without_state() -> None:
    env = make_editable(config_of("Breakout"))
    env.reset(0)
    assert not env.edits
    assert env.objects() == {}
    with pytest.raises(UserError, match="no named edits"):
        env.apply("ball", x=3)
    with pytest.raises(UserError, match=r"cannot be edited.*idqn/MiniPacman-v0"):
        make_editable(EnvConfig(id="CarRacing-v3"))
    assert make_editable(MINI).edits


@pytest.mark.parametrize("game", ["MsPacman", "SpaceInvaders", "Qbert", "MiniPacman"])
def test_an_edit_equals_the_same_pokes_in_another_instance(game: str) -> None:
    """After settling, the whole stack shows the edited world, as replayed from the start."""
    env, other = moment(game), moment(game)
    name, params = some_choices(env, 1)[0]
    settled = env.edit(name, **params)
    assert settled.steps == env.settle_steps == env.config.frame_stack
    if isinstance(other, EditableAtari):
        other.poke(other.edits[name].plan(other.ram.tolist(), other.edits[name].checked(params)))
    else:
        other.apply(name, **params)
    reward = 0.0
    for _ in range(env.config.frame_stack):
        observation, more, *_ = other.step(0)
        reward += more
    np.testing.assert_array_equal(settled.observation, observation)
    assert settled.reward == reward
    unedited = moment(game).settle()
    frames = len(unedited.observation) // env.config.frame_stack
    for i in range(0, len(unedited.observation), frames):  # every frame shows it
        assert (unedited.observation[i : i + frames] != settled.observation[i : i + frames]).any()


def test_settling_plays_what_is_asked_and_stops_at_the_end() -> None:
    env = EditableAtari(config_of("Pong", max_episode_frames=12))
    env.reset(0)
    assert env.settle([2]).steps == 1
    settled = env.settle([0] * 5)
    assert (settled.steps, settled.truncated) == (2, True)
    assert EditableAtari(config_of("Pong", frame_skip=1)).settle_steps == 7
    assert EditableAtari(config_of("Pong", frame_skip=2, frame_stack=1)).settle_steps == 2


@pytest.mark.parametrize("game", ALL)
@pytest.mark.parametrize("changes", [{}, {"frame_skip": 2, "max_pool": False}])
def test_trials_equal_restoring_and_editing(game: str, changes: dict[str, Any]) -> None:
    if game == "MiniPacman" and changes:
        return
    env = moment(game, **changes)
    before, snapshot = everything(env), env.save()
    trials = [[choice] for choice in some_choices(env, 3)]
    trials.append([trials[0][0], trials[-1][0]] if len(env.edits) > 1 else trials[0])
    for actions in ([1], None):
        quick = (
            [(*answer, env.lives) for answer in env.try_edits(trials, actions)]
            if isinstance(env, EditableAtari)
            else list(env.try_edits(trials, actions))
        )
        assert_same(everything(env), before)
        for trial, answer in zip(trials, quick, strict=True):
            env.restore(snapshot)
            for name, params in trial:
                env.apply(name, **params)
            expected = env.settle(actions)
            assert_same(list(answer)[:5], list(expected))
        env.restore(snapshot)


@pytest.mark.parametrize(
    ("game", "changes"), [("MsPacman", {"sticky_probability": 0.25}), ("Pong", {"frame_skip": 1})]
)
def test_trials_without_a_short_cut(game: str, changes: dict[str, Any]) -> None:
    env = moment(game, **changes)
    before, snapshot = everything(env), env.save()
    trials = [[choice] for choice in some_choices(env, 2)]
    answers = list(env.try_edits(trials))
    for [(name, params)], answer in zip(trials, answers, strict=True):
        env.restore(snapshot)
        assert_same(list(env.edit(name, **params)), list(answer))
    env.restore(snapshot)
    assert_same(everything(env), before)


def test_a_refused_trial_puts_the_game_back() -> None:
    env = moment("Qbert")
    before = everything(env)
    good, bad = ("tile", {"i": 20, "on": True}), ("tile", {"i": 30, "on": True})
    with pytest.raises(UserError, match="i is 30"):
        list(env.try_edits([[good], [good, bad]]))
    assert_same(everything(env), before)
    abandoned = env.try_edits([[good], [good]])
    next(abandoned)
    abandoned.close()
    assert_same(everything(env), before)
    assert list(env.try_edits([])) == []


def test_saving_in_the_middle_of_a_trial_works() -> None:
    """A rewound emulator still knows how to be put back."""
    env = moment("MsPacman")
    choice = ("pellet", {"row": 0, "col": 0, "on": False})
    kept = []
    for answer in env.try_edits([[choice], [choice]]):
        kept.append((env.save(), answer.observation))
    for snapshot, observation in kept:
        np.testing.assert_array_equal(env.restore(snapshot), observation)
        fresh = EditableAtari(env.config)
        np.testing.assert_array_equal(fresh.restore(snapshot), observation)
        assert_same(everything(fresh), everything(env))


@pytest.mark.parametrize("game", ALL)
def test_the_documentation_tells_every_edit_as_it_is(game: str) -> None:
    told = Path("docs/editing.md").read_text().split(f"### {game}\n")[1].split("\n### ")[0]
    edits = MINI_PACMAN.edits if game == "MiniPacman" else edits_for(f"ALE/{game}-v5").edits
    assert edits
    assert told.count("\n| `") == len(edits)
    for name, edit in edits.items():
        assert name == edit.name
        assert f"| `{name}` | {edit.summary} |" in told
        assert all(f"`{p.name}`" in told and p.expected in told for p in edit.parameters)
        assert all(rule in told for rule in edit.rules)


def test_numpy_values_and_lists_are_taken() -> None:
    env = moment("MsPacman")
    env.apply("pellet", row=np.int64(0), col=np.uint8(0), on=np.bool_(False))
    with pytest.raises(UserError, match="already"):
        env.apply("pellet", row=0, col=0, on=False)
    invaders: Editable[Any, Any] = moment("SpaceInvaders")
    invaders.apply("invaders", rows=[1, 0, 0, 0, 0, 0])
    assert sum("invader" in name for name in invaders.objects()) == 1


def test_parameters_by_hand() -> None:
    row = number("row", 2, 6, "row", step=2)
    assert list(row.search) == [2, 4, 6]
    assert row.checked("edit", np.int16(3)) == 3
    assert switch("s").checked("edit", False) is False
    assert one_of("vx", (-1, 1), "v", optional=True).checked("edit", None) is None
    with pytest.raises(UserError, match="edit: row is 1; expected 2 to 6"):
        row.checked("edit", 1)
    with pytest.raises(UserError, match="nothing would change"):
        changed([1, 2], {0: 1, 1: 2}, "edit")
    assert changed([1, 2], {0: 1, 1: 3}, "edit") == {1: 3}
    empty: GameEdits[Ram, Pokes] = game_edits(())
    with pytest.raises(UserError, match="'x' has no named edits"):
        empty.named("a", "x")
