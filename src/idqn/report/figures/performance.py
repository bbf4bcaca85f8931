"""Who this agent is, and how well it plays."""

from __future__ import annotations

from html import escape

from idqn.explain.performance import Performance
from idqn.report.drawing import Bar, bars, interval, number
from idqn.report.section import Section


def section(result: Performance) -> Section:
    about = result.about
    facts = {
        "mean return": number(result.mean),
        "its 95 % interval": interval(*result.interval),
        "distinct returns": f"{result.distinct} of {result.episodes}",
        "mean length of a game": f"{number(sum(result.lengths) / result.episodes)} steps",
    }
    shown = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items()
    )
    chart = bars(
        [
            Bar(about.agent, result.mean, *result.interval),
            Bar("random", result.random_mean, *result.random_interval),
        ],
        "mean return, 95 % interval",
        "mean return beside a random policy",
    )
    return Section(
        kind=result.kind,
        title="The agent",
        reading=f"{result.episodes} full games, each from another start, played greedily: with the "
        "action that the agent values most.",
        caveat="Returns of one seed say little about the method; few distinct returns suggest "
        "that the same games are played again and again.",
        html=f"<div class='agent'><dl class='facts'>{shown}</dl>{chart}</div>",
        finding=_finding(result),
    )


def _finding(result: Performance) -> str:
    low, high = result.interval
    if low > result.random_interval[1]:
        against = "clearly above"
    elif high < result.random_interval[0]:
        against = "clearly below"
    else:
        against = "not clearly apart from"
    repeats = ""
    if result.distinct <= result.episodes / 2:
        repeats = f", with only {result.distinct} distinct returns in {result.episodes} games"
    return (
        f"It scores {number(result.mean)} ({interval(low, high)}), {against} a random policy's "
        f"{number(result.random_mean)}{repeats}."
    )
