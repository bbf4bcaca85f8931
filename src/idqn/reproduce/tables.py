"""Each study's tables and sentences, made of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from idqn.presets import PAPER_GAMES
from idqn.reproduce import published
from idqn.reproduce.document import Block, Lines, Table
from idqn.reproduce.estimate import Estimate, Summary, normalised, over_seeds, summary
from idqn.reproduce.results import CellResult, Results
from idqn.reproduce.verdict import (
    amount,
    how_far,
    judge,
    published_amount,
    sentence,
    spread,
)


def document(results: Results) -> list[Block]:
    """Everything there is to say."""
    study = results.study
    blocks: list[Block] = [Lines("", [how_far(results.frames), _MEANING[study.measure]])]
    blocks += _BLOCKS[study.name](results) if study.name in _BLOCKS else [ours(results)]
    if study.name != "curves":
        said = [sentence(result, study.measure) for result in results.cells]
        met = _has_published(results)
        blocks.append(Lines("Was it met?", [*said, _MET]) if met else Lines("In words", said))
    if runs := _runs(results):
        blocks.append(runs)
    if results.remarks:
        blocks.append(Lines("Remarks", list(results.remarks)))
    return blocks


_MEANING = {
    "best_100": "best-100 is the paper's measure: the best mean of 100 consecutive training "
    "episodes, averaged over seeds; final-100 the mean of the last 100; evaluation is of games "
    "without exploration.",
    "agreement": "Agreement: how often the agent does what its keys' pictures suggest, in percent, "
    "averaged over rollouts and then over seeds.",
}
_DOPAMINE = (
    "Dopamine's numbers are of training with sticky actions (probability 0.25), means of 5 seeds; "
    "all others are without."
)
_MET = (
    "(met: our mean is the published number or more. not met: it is less, and so is its whole 95 % "
    "interval over seeds, if there are two or more. undecided: it is less, but the interval "
    "reaches the published number.)"
)


def ours(results: Results) -> Table:
    """A row for each cell: what our runs scored, and the number it is held against."""
    measures, published_too = _measures(results), _has_published(results)
    headings = [*results.study.headings, "seeds", *measures.values()]
    headings += ["published", "verdict"] if published_too else []
    rows = []
    for result in results.cells:
        reference = result.cell.reference
        estimate = result.estimate("best_100")
        rows.append(
            [
                *result.cell.row,
                _seeds(result, estimate),
                *(_cell(result.estimate(name), result.lacking) for name in measures),
            ]
        )
        if published_too:
            rows[-1].append(published_amount(reference.value if reference else None))
            rows[-1].append(judge(estimate, reference) if estimate else "")
    return Table("Ours", headings, rows)


def _has_published(results: Results) -> bool:
    """Whether there is any number to be held against."""
    return any(result.cell.reference is not None for result in results.cells)


def _table1(results: Results) -> list[Block]:
    blocks: list[Block] = [ours(results), _beside_published(results), Lines("", [_DOPAMINE])]
    for agent in _agents(results):
        if block := _normalised(results, agent):
            blocks.append(block)
    return blocks


def _agents(results: Results) -> list[str]:
    return list(dict.fromkeys(result.cell.config.agent.name for result in results.cells))


def _of_agent(results: Results, agent: str) -> dict[str, CellResult]:
    """By game."""
    mine = [result for result in results.cells if result.cell.config.agent.name == agent]
    return {result.cell.game: result for result in mine}


def _beside_published(results: Results) -> Table:
    """The paper's Table 1, with our columns before its own."""
    agents = {agent: _of_agent(results, agent) for agent in _agents(results)}
    scale, unknown = dopamine_at(results.frames), (None, None)
    headings = [
        "game",
        *(f"our {agent}" for agent in agents),
        *(f"{column.name} ({column.frames // 1_000_000}M)" for column in published.TABLE_1),
        *(f"{name} ({scale // 1_000_000}M, Dopamine)" for name in ("C51", "Rainbow")),
    ]
    rows = []
    for game in dict.fromkeys(result.cell.game for result in results.cells):
        own = [results_of[game] for results_of in agents.values()]
        rows.append(
            [
                game,
                *(_alone(result) for result in own),
                *(published_amount(column.scores.get(game)) for column in published.TABLE_1),
                *(
                    published_amount(score)
                    for score in published.DOPAMINE[scale].get(game, unknown)
                ),
            ]
        )
    title = "best-100 beside the published columns (millions of emulator frames)"
    return Table(title, headings, rows)


def dopamine_at(frames: int) -> int:
    """Which of Dopamine's numbers are of no more training than ours, as far as there are any."""
    fitting = [at for at in published.DOPAMINE if at <= frames]
    return max(fitting, default=min(published.DOPAMINE))


def _normalised(results: Results, agent: str) -> Table | None:
    """Percent of the way from random play to a person's score, over the games that we have: the
    published columns are averaged over these same games."""
    means = {
        game: mean
        for game, result in _of_agent(results, agent).items()
        if game in PAPER_GAMES and (mean := _mean(result.estimate("best_100"))) is not None
    }
    if not means:
        return None
    columns = {f"our {agent}": means} | {
        column.name: {game: column.scores[game] for game in means} for column in published.TABLE_1
    }
    rows = [
        [game, *(f"{normalised(game, scores[game]):.1f}" for scores in columns.values())]
        for game in means
    ]
    found = [summary(scores) for scores in columns.values()]
    for name in Summary.__dataclass_fields__:
        rows.append([name, *(f"{getattr(each, name):.1f}" for each in found)])
    count = f"{len(means)} game" + ("s" if len(means) > 1 else "")
    title = f"Human-normalised, of {agent}'s {count}, in percent (random play 0, a person 100)"
    return Table(title, ["game", *columns], rows)


def _table2(results: Results) -> list[Block]:
    headings = [*results.study.headings, "seeds", "Agreement", "most frequent action"]
    headings += ["published", "verdict"]
    rows = []
    for result in results.cells:
        reference, estimate = result.cell.reference, result.estimate("agreement")
        frequent = result.estimate("most_frequent")
        rows.append(
            [
                *result.cell.row,
                _seeds(result, estimate),
                result.lacking if estimate is None else _percent(estimate),
                "-" if frequent is None else f"{frequent.mean:.1f} %",
                published_amount(reference.value if reference else None, "agreement"),
                judge(estimate, reference) if estimate else "",
            ]
        )
    note = "Random actions agree in 11.1 %, one of MsPacman's nine."
    return [Table("Ours", headings, rows), Lines("", [note])]


def _sensitivity(results: Results) -> list[Block]:
    """Scores, and each as a share of the default's: what the paper's section is about."""
    blocks: list[Block] = [ours(results)]
    default, *others = results.cells
    own = _mean(default.estimate("best_100"))
    known = default.cell.reference.value if default.cell.reference else None
    rows = []
    for result in others:
        reference = result.cell.reference
        rows.append(
            [
                *result.cell.row,
                _share(_mean(result.estimate("best_100")), own),
                _share(reference.value if reference else None, known),
            ]
        )
    title = f"best-100 as a share of that of {default.cell.label}"
    return [*blocks, Table(title, [*results.study.headings, "ours", "published"], rows)]


def _ablation(results: Results) -> list[Block]:
    """Scores, and what each further loss adds, by the seeds that both have."""
    rows = []
    for before, after in zip(results.cells, results.cells[1:], strict=False):
        without, with_it = before.values("best_100"), after.values("best_100")
        gains = [with_it[seed] - without[seed] for seed in with_it if seed in without]
        estimate = over_seeds(gains)
        rows.append([after.cell.label, str(len(gains)), _cell(estimate)])
    title = "What each loss adds to best-100 (the same seeds with and without it)"
    note = "The paper has curves of this study, without numbers."
    return [ours(results), Table(title, ["loss", "seeds", "gain"], rows), Lines("", [note])]


def _curves(results: Results) -> list[Block]:
    return [ours(results)]


_BLOCKS: dict[str, Callable[[Results], Sequence[Block]]] = {
    "table1": _table1,
    "table2": _table2,
    "sensitivity": _sensitivity,
    "ablation": _ablation,
    "curves": _curves,
}


def _runs(results: Results) -> Table | None:
    """Every run that was read."""
    names = _measures(results)
    rows = []
    for result in results.cells:
        for score in result.scores:
            frames = f"{score.frames:,}" + ("" if score.reached else " (unfinished)")
            values = [amount(score.values.get(name)) for name in names]
            rows.append([score.run, result.cell.label, str(score.seed), frames, *values])
    if not rows:
        return None
    return Table("Runs", ["run", "is", "seed", "frames", *names.values()], rows)


def _measures(results: Results) -> dict[str, str]:
    """Names of values, and what they are called."""
    names = {"best_100": "best-100", "final_100": "final-100"}
    if results.study.measure == "agreement":
        names = {"agreement": "Agreement", **names}
    return names | ({"evaluation": "evaluation"} if results.study.evaluated else {})


def _seeds(result: CellResult, estimate: Estimate | None) -> str:
    return f"{0 if estimate is None else estimate.seeds} of {result.wanted}"


def _alone(result: CellResult) -> str:
    """The mean of best-100, without its interval."""
    estimate = result.estimate("best_100")
    return result.lacking if estimate is None else amount(estimate.mean)


def _cell(estimate: Estimate | None, lacking: str = "missing") -> str:
    if estimate is None:
        return lacking
    if estimate.interval is None:
        return amount(estimate.mean)
    low, high = estimate.interval
    return f"{amount(estimate.mean)} ({amount(low)} to {amount(high)})"


def _percent(estimate: Estimate) -> str:
    text = amount(estimate.mean, "agreement")
    return text if estimate.interval is None else f"{text} ({spread(estimate, 'agreement')})"


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _share(value: float | None, whole: float | None) -> str:
    if value is None or whole is None or whole <= 0:
        return "-"
    return f"{100 * value / whole:.0f} %"
