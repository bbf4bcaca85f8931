"""Met, not met, undecided: computed, and said in plain sentences."""

from __future__ import annotations

import pytest

from idqn.presets import preset
from idqn.reproduce.estimate import over_seeds
from idqn.reproduce.results import CellResult
from idqn.reproduce.scores import Score
from idqn.reproduce.studies import Cell, Measure, Reference
from idqn.reproduce.verdict import amount, how_far, judge, published_amount, sentence

PAPER = Reference(6132.21, "the paper's", 40_000_000)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([], "missing"),
        ([6132.21], "met"),
        ([6132.2], "not met"),
        ([6000.0, 7000.0], "met"),  # though the interval is wide
        ([6000.0, 6200.0], "undecided"),  # 6100 ± 1270
        ([5000.0, 5001.0], "not met"),  # 5000.5 ± 6.4
    ],
)
def test_what_met_is(values: list[float], verdict: str) -> None:
    assert judge(over_seeds(values), PAPER) == verdict


def test_without_a_published_number_there_is_nothing_to_meet() -> None:
    assert judge(over_seeds([1.0]), None) == "no number"


def of(values: list[float], reference: Reference | None = PAPER, missing: int = 0) -> CellResult:
    cell = Cell(("MsPacman", "idqn"), "x", preset("paper", "ALE/MsPacman-v5"), reference)
    scores = [Score("x", i, 1, True, {"best_100": value}) for i, value in enumerate(values)]
    return CellResult(cell, tuple(scores), tuple(range(len(values), len(values) + missing)))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            of([1773.0]),
            "MsPacman, idqn: 1,773 (one seed) is 29 % of the paper's 6,132.21: not met.",
        ),
        (
            of([1773.0], missing=2),
            "MsPacman, idqn: 1,773 (one seed) is 29 % of the paper's 6,132.21: not met. "
            "It is of 1 of 3 seeds.",
        ),
        (
            of([6200.0]),
            "MsPacman, idqn: 6,200 (one seed) is 101 % of the paper's 6,132.21: met by one seed.",
        ),
        (
            of([6000.0, 6200.0]),
            "MsPacman, idqn: 6,100 (mean of 2 seeds, 95 % interval 4,829 to 7,371) is 99.5 % of "
            "the paper's 6,132.21: undecided, for the interval over seeds reaches the published "
            "number.",
        ),
        (
            of([6000.0, 7000.0]),
            "MsPacman, idqn: 6,500 (mean of 2 seeds, 95 % interval 147.0 to 12,853) is 106 % of "
            "the paper's 6,132.21: met, though the interval reaches below it.",
        ),
        (
            of([9000.0, 9001.0]),
            "MsPacman, idqn: 9,000 (mean of 2 seeds, 95 % interval 8,994 to 9,007) is 147 % of "
            "the paper's 6,132.21: met, by the whole interval.",
        ),
        (
            of([6115.0]),
            "MsPacman, idqn: 6,115 (one seed) is 99.7 % of the paper's 6,132.21: not met.",
        ),
        (
            of([], missing=3),
            "MsPacman, idqn: missing (no run of seeds 0, 1 and 2). The paper's number is 6,132.21.",
        ),
        (of([18.5], None), "MsPacman, idqn: 18.50 (one seed); there is no published number."),
        (
            of([0.5], Reference(0, "the published final", 200_000_000)),
            "MsPacman, idqn: 0.50 (one seed) is 0.50 more than the published final 0 (after 200M "
            "frames): met by one seed.",
        ),
        (
            of([0.0], Reference(0, "the paper's", 40_000_000)),
            "MsPacman, idqn: 0.00 (one seed) is equal to the paper's 0: met by one seed.",
        ),
        (
            of([0.0], Reference(70.87, "the paper's", 40_000_000)),
            "MsPacman, idqn: 0.00 (one seed) is 0 % of the paper's 70.87: not met.",
        ),
        (
            of([-20.5], Reference(-18.0, "the paper's", 40_000_000)),
            "MsPacman, idqn: -20.50 (one seed) is 2.50 less than the paper's -18: not met.",
        ),
        (
            of([-1.5, -0.5], Reference(10.0, "the paper's", 40_000_000)),
            "MsPacman, idqn: -1.00 (mean of 2 seeds, 95 % interval -7.35 to 5.35) is 11.00 less "
            "than the paper's 10: not met.",
        ),
        (
            of([6132.0]),
            "MsPacman, idqn: 6,132 (one seed) is 99.9 % of the paper's 6,132.21: not met.",
        ),
    ],
)
def test_a_sentence_for_each_cell(result: CellResult, said: str) -> None:
    assert sentence(result, "best_100") == said


def test_a_run_that_is_not_there_yet() -> None:
    result = of([])
    early = Score("x", 0, 5, False, {"best_100": 9e9})
    result = CellResult(result.cell, (early,), ())
    assert result.lacking == "unfinished"
    assert "missing (its run has not been trained for so long yet)" in sentence(result, "best_100")


def test_agreement_is_read_against_the_most_frequent_action() -> None:
    measure: Measure = "agreement"
    reference = Reference(19.87, "the paper's", 40_000_000)
    cell = Cell(("grey", "AE"), "x", preset("paper", "ALE/MsPacman-v5"), reference)
    score = Score("x", 0, 1, True, {"agreement": 22.0, "most_frequent": 35.0})
    assert sentence(CellResult(cell, (score,), ()), measure) == (
        "grey, AE: 22.0 % (one seed) is 2.1 points above the paper's 19.87 %: met by one seed. "
        "Always taking its most frequent action agrees in 35.0 %."
    )
    without = Score("x", 0, 1, True, {"agreement": None, "most_frequent": None})
    said = sentence(CellResult(cell, (without,), ()), measure)
    assert "missing (trained, but without Agreement). The paper's number is 19.87 %." in said


def test_how_much_of_the_papers_training() -> None:
    assert "10,000,000 emulator frames, 25 % of the paper's training" in how_far(10_000_000)
    assert "300,000 emulator frames, 0.75 % of" in how_far(300_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1773.4, "1,773"),
        (-20.7, "-20.70"),
        (714.68, "714.7"),
        (18.505, "18.50"),
        (-0.001, "0.00"),
        (None, "-"),
    ],
)
def test_amounts(value: float | None, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(6132.21, "6,132.21"), (16956.0, "16,956"), (412, "412"), (22.5, "22.5")]
)
def test_published_amounts_are_as_they_were(value: float, text: str) -> None:
    assert published_amount(value) == text
