"""Whether a published number was met, in words that the numbers alone decide."""

from __future__ import annotations

from typing import Literal

from idqn.reproduce.estimate import Estimate
from idqn.reproduce.published import PAPER_FRAMES
from idqn.reproduce.results import CellResult
from idqn.reproduce.studies import Measure, Reference

Verdict = Literal["met", "not met", "undecided", "missing", "no number"]


def judge(estimate: Estimate | None, reference: Reference | None) -> Verdict:
    """met: our mean is the published number or more. not met: it is less, and so is the whole
    interval over seeds, if there is one. undecided: it is less, and the interval reaches the
    published number: a wide interval of few seeds shall not turn a miss into a hit."""
    if estimate is None:
        return "missing"
    if reference is None:
        return "no number"
    if estimate.mean >= reference.value:
        return "met"
    if estimate.interval is not None and estimate.interval[1] >= reference.value:
        return "undecided"
    return "not met"


def sentence(result: CellResult, measure: Measure) -> str:
    """One for each cell."""
    cell, estimate = result.cell, result.estimate(measure)
    if estimate is None:
        return f"{cell.label}: {_nothing(result, measure)}.{_would_be(cell.reference, measure)}"
    ours = f"{amount(estimate.mean, measure)} ({spread(estimate, measure)})"
    if cell.reference is None:
        said = f"{ours}; there is no published number"
    else:
        said = f"{ours} is {_beside(estimate, cell.reference, measure)}"
    return f"{cell.label}: {said}.{_most_frequent(result)}{_incomplete(result, estimate)}"


def how_far(frames: int) -> str:
    """How much of the paper's training this is."""
    share = 100 * frames / PAPER_FRAMES
    return (
        f"Scores are those by {frames:,} emulator frames, {share:.3g} % of the paper's training: "
        f'what its authors\' code calls "10M frames" are agent steps, {PAPER_FRAMES:,} emulator '
        f"frames."
    )


def amount(value: float | None, measure: Measure = "best_100") -> str:
    """As many digits as mean something."""
    if value is None:
        return "-"
    if measure == "agreement":
        return f"{value:.1f} %"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{round(value, digits) + 0.0:,.{digits}f}"  # + 0.0, because there is no -0.00


def published_amount(value: float | None, measure: Measure = "best_100") -> str:
    """As it was published."""
    if value is None:
        return "-"
    return f"{value:,}".removesuffix(".0") + (" %" if measure == "agreement" else "")


def spread(estimate: Estimate, measure: Measure = "best_100") -> str:
    """Of how many seeds, and their interval."""
    if estimate.interval is None:
        return "one seed"
    low, high = (amount(end, measure) for end in estimate.interval)
    return f"mean of {estimate.seeds} seeds, 95 % interval {low} to {high}"


def _beside(estimate: Estimate, reference: Reference, measure: Measure) -> str:
    """29 % of the paper's 6,132.21: not met"""
    value = reference.value
    named = f"{reference.whose} {published_amount(value, measure)}"
    if reference.frames != PAPER_FRAMES:
        named += f" (after {reference.frames // 1_000_000}M frames)"
    if measure == "agreement":
        points = estimate.mean - value
        digits = 1 if abs(points) >= 0.1 else 2
        part = f"{abs(points):.{digits}f} points {'above' if points >= 0 else 'below'} {named}"
    elif value > 0 and estimate.mean >= 0:
        part = f"{_percent(estimate.mean / value)} of {named}"
    elif estimate.mean == value:
        part = f"equal to {named}"
    else:
        more = estimate.mean > value
        part = f"{amount(abs(estimate.mean - value))} {'more' if more else 'less'} than {named}"
    verdict = judge(estimate, reference)
    why = ""
    if verdict == "undecided":
        why = ", for the interval over seeds reaches the published number"
    elif verdict == "met" and estimate.interval is None:
        why = " by one seed"
    elif verdict == "met" and estimate.interval is not None:
        above = estimate.interval[0] >= value
        why = ", by the whole interval" if above else ", though the interval reaches below it"
    return f"{part}: {verdict}{why}"


def _percent(share: float) -> str:
    """Near the whole, with a decimal: 99.97 % that are not met should not be written 100 %."""
    percent = min(100 * share, 99.9) if share < 1 else 100 * share
    return f"{percent:.{1 if 0.99 <= share <= 1.01 else 0}f} %"


def _nothing(result: CellResult, measure: Measure) -> str:
    """Why there is no value."""
    if not result.scores:
        return f"missing (no run of {seeds(result.missing)})"
    if not any(score.reached for score in result.scores):
        what = "its runs have" if len(result.scores) > 1 else "its run has"
        return f"missing ({what} not been trained for so long yet)"
    return f"missing (trained, but without {'Agreement' if measure == 'agreement' else 'a score'})"


def _would_be(reference: Reference | None, measure: Measure) -> str:
    if reference is None:
        return ""
    whose = reference.whose[0].upper() + reference.whose[1:]
    return f" {whose} number is {published_amount(reference.value, measure)}."


def _most_frequent(result: CellResult) -> str:
    """What Agreement should be read against."""
    frequent = result.estimate("most_frequent")
    if frequent is None:
        return ""
    return f" Always taking its most frequent action agrees in {frequent.mean:.1f} %."


def _incomplete(result: CellResult, estimate: Estimate) -> str:
    if estimate.seeds == result.wanted:
        return ""
    return f" It is of {estimate.seeds} of {result.wanted} seeds."


def seeds(numbers: tuple[int, ...]) -> str:
    """seed 0; seeds 0, 1 and 2"""
    if len(numbers) == 1:
        return f"seed {numbers[0]}"
    return f"seeds {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
