"""The cells of each study: what is changed, what it is held against, what its runs are called."""

from __future__ import annotations

import pytest

from idqn.errors import UserError
from idqn.population import check_population
from idqn.presets import preset
from idqn.reproduce.studies import (
    STUDIES,
    Choices,
    ablation,
    curves,
    sensitivity,
    table1,
    table2,
)


def test_table_1_has_eight_games_for_each_agent() -> None:
    study = table1(Choices())
    assert len(study.cells) == 16
    pacman = next(cell for cell in study.cells if cell.row == ("MsPacman", "idqn"))
    assert pacman.config == preset("paper", "ALE/MsPacman-v5").replace(
        **{"train.frames": 10_000_000}
    )
    assert pacman.run_of(2) == "MsPacman-idqn-s2"
    assert pacman.reference is not None
    assert (pacman.reference.value, pacman.reference.frames) == (6132.21, 40_000_000)
    (rainbow,) = table1(Choices(games=("Qbert",), agents=("c51",))).cells
    assert rainbow.reference is not None
    assert (rainbow.reference.value, rainbow.reference.whose) == (16956.0, "the published final")


def test_table_2_has_four_decoders_in_two_sizes() -> None:
    cells = {cell.row: cell for cell in table2(Choices()).cells}
    assert len(cells) == 8
    colour = cells["colour 210×160", "VAE, β = 0"]
    assert colour.run_name == "MsPacman-idqn-colour-vae-beta0"
    assert (colour.config.agent.decoder, colour.config.agent.beta) == ("vae", 0.0)
    assert (colour.config.env.color, colour.config.env.frame_height) == (True, None)
    assert cells["grey 84×84", "VAE, β = 0.01"].reference.value == 10.97  # type: ignore[union-attr]
    # a run that other studies have is theirs, too
    assert cells["grey 84×84", "AE"].run_name == "MsPacman-idqn"
    assert cells["grey 84×84", "AE"].config == table1(Choices(games=("MsPacman",))).cells[0].config


def test_sensitivity_and_ablation_are_populations() -> None:
    for study in (sensitivity(Choices()), ablation(Choices())):
        check_population([cell.config for cell in study.cells])
        assert len({cell.run_name for cell in study.cells}) == len(study.cells)
    names = [cell.run_name for cell in sensitivity(Choices()).cells]
    assert names[0] == "MsPacman-idqn"
    assert names[3] == "MsPacman-idqn-bellman10-distributional10"
    assert names[-1] == "MsPacman-idqn-exploration_factor0.001"
    assert [cell.run_name for cell in ablation(Choices()).cells] == [
        "Pong-idqn-distributional0-reconstruction0",
        "Pong-idqn-reconstruction0",
        "Pong-idqn",
    ]


def test_curves_also_know_pong() -> None:
    assert len(curves(Choices()).cells) == 16
    (pong,) = curves(Choices(games=("Pong",), agents=("idqn",))).cells
    assert pong.reference is None


def test_names_tell_presets_apart() -> None:
    (cell,) = table1(Choices(preset="authors", games=("Alien",), agents=("idqn",))).cells
    assert cell.run_name == "Alien-idqn-authors"
    # its own weights are not the paper's, which the study is about
    assert sensitivity(Choices(preset="authors")).cells[0].run_name != "MsPacman-idqn-authors"


def test_games_by_their_ids_and_once() -> None:
    games = ("ALE/Qbert-v5", "Qbert")
    assert [cell.game for cell in table1(Choices(games=games)).cells] == ["Qbert", "Qbert"]


@pytest.mark.parametrize(
    ("name", "choices", "said"),
    [
        ("table1", {"games": ("MsPackman",)}, "no game 'MsPackman'; did you mean 'MsPacman'?"),
        ("table1", {"games": ("Pong",)}, "no game 'Pong'; `idqn reproduce curves` has it"),
        ("table1", {"agents": ("idqm",)}, "unknown agent 'idqm'; did you mean 'idqn'?"),
        ("table1", {"agents": ()}, "--agents needs at least one"),
        ("table1", {"preset": "authors", "agents": ("c51",)}, "no c51 agent"),
        ("table1", {"changes": {"train.env": 3}}, "did you mean 'train.envs'"),
        ("table1", {"changes": {"env.id": "ALE/Pong-v5"}}, "env.id, which is for --games"),
        ("table1", {"changes": {"train.seed": 3}}, "train.seed, which is for --seeds"),
        ("sensitivity", {"changes": {"loss.bellman": 2.0}}, "what the study is about"),
    ],
)
def test_bad_choices(name: str, choices: dict[str, object], said: str) -> None:
    with pytest.raises(UserError) as error:
        STUDIES[name](Choices(**choices))  # type: ignore[arg-type]
    assert said in str(error.value)
