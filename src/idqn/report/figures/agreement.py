"""Agreement (the paper's Table 2): do decoded keys decide as keys do?"""

from __future__ import annotations

from html import escape

import numpy as np

from idqn.explain.agreement import Agreement
from idqn.report.drawing import Bar, bars, heatmap, interval, number, table
from idqn.report.section import Section

_LONGEST = 170  # percent of a bar's room: on a phone, 100 % and its number are in sight
_PAPER = (  # agreement on MsPacman, its Table 2
    ("AE", 30.76, 19.87),
    ("VAE, β = 0", 29.78, 18.14),
    ("VAE, β = 0.01", 16.8, 10.97),
    ("Dense VAE, β = 0", 23.73, 14.56),
)


def section(result: Agreement) -> Section:
    return Section(
        kind=result.kind,
        title="Agreement",
        reading="Every key is decoded to an image, and each state is compared with those images "
        "instead of with the keys; agreement is how often that suggests the action that the agent "
        "itself prefers.",
        caveat=f"The softmax of cosines at temperature {result.temperature:g} gives the most "
        f"similar image of an action about {_ratio(result, result.temperature)} times the weight "
        "of the least similar one, so that little decides; and the most frequent action is known "
        "only afterwards, which flatters it in short games.",
        html=_beside_baselines(result)
        + _by_rollout(result)
        + _by_action(result)
        + _sharper(result)
        # the paper has numbers of this game alone
        + (_paper(result) if "/MsPacman-" in result.about.env else ""),
        finding=_finding(result),
        weight=0.55,
    )


def _finding(result: Agreement) -> str:
    baseline = f"{number(result.most_frequent_mean)} % of always taking its most frequent action"
    against = "not clearly apart from"
    if result.advantage_interval is None:
        against = "above" if result.advantage > 0 else "not above"
        against += " (one game only, so no interval)"
    elif result.advantage_interval[0] > 0:
        against = "clearly above"
    elif result.advantage_interval[1] < 0:
        against = "clearly below"
    elif result.advantage < 0:
        against = "below, though not clearly,"
    chance = "above" if result.mean > result.random else "not even above"
    if result.interval and result.interval[0] <= result.random <= result.interval[1]:
        chance = "not clearly apart from"
    verdict = (
        "decoded keys do not explain its choices"
        if result.advantage_interval is None or result.advantage_interval[0] <= 0
        else "decoded keys explain some of its choices"
    )
    return (
        f"Decoded keys suggest the agent's own action in {_percent(result.mean, result.interval)} "
        f"of states: {against} the {baseline}, and {chance} chance "
        f"({number(result.random)} %); {verdict}."
    )


def _percent(mean: float, around: tuple[float, float] | None) -> str:
    return f"{number(mean)} %" + (f" ({interval(*around)})" if around else "")


def _ratio(result: Agreement, temperature: float) -> str:
    """How many times the weight of the least similar key the most similar one gets."""
    ratio = float(np.exp(min(result.cosine_range / temperature, 600)))
    return f"{ratio:.4f}" if ratio < 1.1 else number(ratio)


def _beside_baselines(result: Agreement) -> str:
    low, high = result.interval or (None, None)
    frequent_low, frequent_high = result.most_frequent_interval or (None, None)
    rows = [
        Bar("decoded keys", result.mean, low, high, "%"),
        Bar("most frequent action", result.most_frequent_mean, frequent_low, frequent_high, "%"),
        Bar("random action", result.random, note="%"),
    ]
    across = "% of states, 95 % interval"
    if result.interval is None:
        across = "% of the states of one game"
    return (
        f"<div class='wide'>{bars(rows, across, 'agreement beside two baselines', _LONGEST)}</div>"
    )


def _by_rollout(result: Agreement) -> str:
    rows = [
        (f"game {i + 1}", f"{length:,}", *(number(float(v)) for v in values))
        for i, (length, *values) in enumerate(
            zip(
                result.lengths.tolist(),
                result.rollouts,
                result.most_frequent,
                result.rollouts - result.most_frequent,
                strict=True,
            )
        )
    ]
    mean = (result.mean, result.most_frequent_mean, result.advantage)
    rows.append(("mean", f"{result.states:,}", *map(number, mean)))
    around = (result.interval, result.most_frequent_interval, result.advantage_interval)
    rows.append(("95 % interval", "", *(interval(*a) if a else "–" for a in around)))
    headings = ["", "states", "agreement %", "most frequent %", "difference"]
    return "<h3>Game by game</h3>" + table(headings, rows)


def _by_action(result: Agreement) -> str:
    names = result.about.action_names
    total = result.confusion.sum(1)  # [A]
    met = np.flatnonzero((total > 0) | (result.confusion.sum(0) > 0))
    taken = [a for a in met if total[a] > 0]
    recall = bars(
        [
            Bar(
                names[a],
                100 * float(result.confusion[a, a] / total[a]),
                note=f"% of {total[a]:,}",
            )
            for a in taken
        ],
        "% of the agent's states",
        "agreement by action",
        _LONGEST,
    )
    shares = result.confusion[np.ix_(taken, met)] / total[taken, None]
    numbered = {int(a): str(i + 1) for i, a in enumerate(met)}
    confusion = heatmap(
        shares,
        [f"{numbered[int(a)]} {names[a]}" for a in taken],
        [f"{numbered[int(a)]}" for a in met],
        "the agent's action by the one that decoded keys suggest",
        largest=1.0,
        across="suggested action",
    )
    absent = [f"{numbered[int(a)]} {names[a]}" for a in met if total[a] == 0]
    note = f" The agent itself never takes {', '.join(absent)}." if absent else ""
    return (
        "<h3>Action by action</h3>"
        f"<div class='row'><div class='wide'>{recall}</div><figure><div class='wide'>{confusion}"
        "</div><figcaption>Rows: the agent's action; columns, with the same numbers: the action "
        f"that decoded keys suggest. Shares of a row's states.{escape(note)}</figcaption></figure>"
        "</div>"
    )


def _sharper(result: Agreement) -> str:
    rows = [
        (f"{temperature:g}", _ratio(result, temperature), f"{100 * flat:.2f}", number(mean))
        for temperature, flat, mean in zip(
            result.temperatures, result.temperature_flatness, result.temperature_means, strict=True
        )
    ]
    return "<h3>Sharper weights</h3>" + table(
        ["temperature", "most to least weight", "entropy, % of even", "agreement %"],
        rows,
        f"Cosines between states and decoded keys have the median {result.cosine_median:.4f} "
        f"and differ by {result.cosine_range:.4f} within an action, on average.",
    )


def _paper(result: Agreement) -> str:
    rows = [(name, number(colour), number(grey)) for name, colour, grey in _PAPER]
    return "<h3>In the paper</h3>" + table(
        ["decoder", "colour, 210 × 160", "grey, 84 × 84"],
        rows,
        "Agreement in % on MsPacman, of fully trained agents (Table 2); chance is 11.1.",
    )
