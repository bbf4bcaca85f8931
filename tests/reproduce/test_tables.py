"""The documents of studies: nothing is guessed, and only the same games are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from idqn.presets import preset
from idqn.reproduce.document import Block, Lines, Table, markdown
from idqn.reproduce.record import record
from idqn.reproduce.results import Results, gather
from idqn.reproduce.studies import STUDIES, Choices, ablation, sensitivity, table1
from idqn.reproduce.tables import document, dopamine_at
from tests.reproduce.made import make_run, metrics_row, played

FRAMES = 10_000_000


def table(blocks: list[Block], title: str) -> Table:
    return next(b for b in blocks if isinstance(b, Table) and b.title.startswith(title))


def rows(found: Table) -> dict[str, dict[str, str]]:
    """By the first cell; later rows of the same name are lost."""
    return {row[0]: dict(zip(found.headings, row, strict=True)) for row in found.rows}


@pytest.fixture
def some(tmp_path: Path) -> Results:
    """Three seeds of MsPacman, and one of Freeway; no other game."""
    for game, best in (("MsPacman", [6000.0, 7000.0, 8000.0]), ("Freeway", [14.8])):
        for seed, value in enumerate(best):
            config = preset("paper", f"ALE/{game}-v5").replace(**{"train.seed": seed})
            path = tmp_path / f"{game}{seed}"
            make_run(path, config, [metrics_row(FRAMES, value)], [played(config, FRAMES, 5.0)])
    choices = Choices(agents=("idqn",))
    return gather(table1(choices), (0, 1, 2), tmp_path, FRAMES)


def test_missing_games_are_missing(some: Results) -> None:
    blocks = document(some)
    ours = rows(table(blocks, "Ours"))
    assert ours["MsPacman"]["best-100"] == "7,000 (4,516 to 9,484)"  # ± 4.303 · 1000/√3
    assert ours["MsPacman"]["verdict"] == "met"
    assert ours["Freeway"]["best-100"] == "14.80"
    assert (ours["Freeway"]["seeds"], ours["Freeway"]["verdict"]) == ("1 of 3", "not met")
    assert (ours["Qbert"]["best-100"], ours["Qbert"]["seeds"]) == ("missing", "0 of 3")
    beside = rows(table(blocks, "best-100 beside"))
    assert beside["Qbert"]["our idqn"] == "missing"
    assert beside["Qbert"]["i-DQN (40M)"] == "19,137.6"
    assert beside["MsPacman"]["our idqn"] == "7,000"
    assert beside["MsPacman"]["C51 (10M, Dopamine)"] == "2,257"


def test_means_are_over_the_games_that_we_have(some: Results) -> None:
    found = rows(table(document(some), "Human-normalised, of idqn's 2 games"))
    assert list(found) == ["Freeway", "MsPacman", "median", "mean"]
    assert found["Freeway"]["our idqn"] == "50.0"
    assert found["MsPacman"]["our idqn"] == "100.7"  # 6692.7 / 6644.3
    assert found["mean"]["our idqn"] == "75.4"
    # of the paper's column: 28.79 / 29.6 and 5824.91 / 6644.3, and nothing of the other six
    assert (found["Freeway"]["i-DQN"], found["MsPacman"]["i-DQN"]) == ("97.3", "87.7")
    assert found["mean"]["i-DQN"] == found["median"]["i-DQN"] == "92.5"


def test_without_runs_nothing_is_normalised(tmp_path: Path) -> None:
    blocks = document(gather(table1(Choices()), (0,), tmp_path, FRAMES))
    assert not [block for block in blocks if block.title.startswith("Human-normalised")]
    assert not [block for block in blocks if block.title in ("Runs", "Remarks")]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_empty(name: str, tmp_path: Path) -> None:
    results = gather(STUDIES[name](Choices()), (0, 1), tmp_path, FRAMES)
    assert results.incomplete
    text = markdown("T", document(results))
    assert "missing" in text
    for cell in record(results, "paper", {})["cells"]:
        assert cell["verdict"] == "missing"
        assert cell["missing_seeds"] == [0, 1]
        assert cell["estimates"] == {}


def test_sensitivity_is_a_share_of_the_default(tmp_path: Path) -> None:
    study = sensitivity(Choices())
    for number, best in ((0, 800.0), (3, 400.0)):
        cell = study.cells[number]
        make_run(tmp_path / cell.run_of(0), cell.of_seed(0), [metrics_row(FRAMES, best)])
    shares = table(document(gather(study, (0,), tmp_path, FRAMES)), "best-100 as a share").rows
    assert shares[2] == ["10", "10", "0.05", "preset's", "50 %", "86 %"]
    assert shares[0][-2:] == ["-", "53 %"]


def test_what_a_loss_adds_is_of_the_same_seeds(tmp_path: Path) -> None:
    study = ablation(Choices())
    for number, best in ((0, [1.0, 2.0, 9.0]), (1, [4.0, 7.0])):
        for seed, value in enumerate(best):
            cell = study.cells[number]
            config = cell.of_seed(seed)
            make_run(tmp_path / cell.run_of(seed), config, [metrics_row(FRAMES, value)])
    blocks = document(gather(study, (0, 1, 2), tmp_path, FRAMES))
    gains = table(blocks, "What each loss adds").rows
    assert gains[0] == ["+ distributional", "2", "4.00 (-8.71 to 16.71)"]  # 3 and 5: 4 ± 12.706
    assert gains[1] == ["+ reconstruction", "0", "missing"]
    assert "published" not in table(blocks, "Ours").headings
    assert not [b for b in blocks if isinstance(b, Lines) and b.title == "Was it met?"]


def test_the_record_has_what_the_tables_have(some: Results) -> None:
    found = record(some, "paper", {"train.envs": 32})
    cells = {cell["game"]: cell for cell in found["cells"]}
    assert (found["frames"], found["paper_frames"]) == (FRAMES, 40_000_000)
    assert cells["MsPacman"]["estimates"]["best_100"]["mean"] == 7000
    assert cells["MsPacman"]["verdict"] == "met"
    assert cells["Freeway"]["normalised_percent"] == 50
    assert cells["Freeway"]["missing_seeds"] == [1, 2]
    assert cells["Freeway"]["published"]["value"] == 28.79
    assert [run["best_100"] for run in cells["MsPacman"]["runs"]] == [6000, 7000, 8000]


def test_dopamines_numbers_of_no_more_training() -> None:
    assert dopamine_at(300_000) == 10_000_000  # there are none of less
    assert dopamine_at(39_999_999) == 10_000_000
    assert dopamine_at(40_000_000) == 40_000_000


def test_markdown() -> None:
    text = markdown("T", [Table("A", ["x", "y"], [["1|2", "3"]]), Lines("", ["one", "two"])])
    assert text == "# T\n\n## A\n\n| x | y |\n| --- | ---: |\n| 1\\|2 | 3 |\n\n- one\n- two\n"
