"""What an agent loses without some of its keys."""

from __future__ import annotations

import numpy as np

from idqn.explain.operations import (
    CONTROL,
    REMOVE_ACTION,
    REMOVE_KEY,
    REMOVE_VALUE,
    SWAP_ACTIONS,
    SWAP_KEYS,
)
from idqn.explain.surgery import Surgery
from idqn.report.drawing import heatmap, interval, number, table
from idqn.report.forest import Effect, forest, scale
from idqn.report.section import Section

_GROUPS = {
    "Keys removed": (REMOVE_KEY, CONTROL),
    "Keys exchanged": (SWAP_KEYS,),
    "Values and actions": (REMOVE_VALUE, REMOVE_ACTION, SWAP_ACTIONS),
}


def section(result: Surgery) -> Section:
    count = len(result.what)
    return Section(
        kind=result.kind,
        title="Key surgery",
        reading="The keys that are used most are removed (attention goes to the action's other "
        "keys) or exchanged with the same value's key of the action that is most often second, and "
        f"the agent plays the first {result.max_steps:,} steps of the same {result.episodes} games "
        "again; the effect is the return with the change less the return without it.",
        caveat=f"Of {count} changes, about {max(1, round(0.05 * count))} would look "
        "certain by chance alone, in one direction or the other; games that go much the same way "
        "make intervals narrower than they should be; and what is lost within "
        f"{result.max_steps:,} steps of few games is not what is lost in the long run.",
        html=_charts(result) + _used(result) + _numbers(result),
        finding=_finding(result),
        weight=0.7,  # somebody asked for it
    )


def _charts(result: Surgery) -> str:
    parts = []
    every = [Effect(_name(result, i), *row) for i, row in enumerate(result.effect.tolist())]
    for title, kinds in _GROUPS.items():
        own = [i for i, what in enumerate(result.what) if what in kinds]
        if own:
            across = "effect on the return, with its 95 % interval; grey: 0 is within"
            shown = [every[i] for i in own]
            chart = forest(shown, across, f"{title}: effect on the return", scale(every))
            parts.append(f"<h3>{title}</h3><div class='wide'>{chart}</div>")
    return "".join(parts)


def _used(result: Surgery) -> str:
    values = [number(float(v), 2) for v in result.values]
    chart = heatmap(
        result.use / max(1, result.states),
        list(result.about.action_names),
        values,
        "share of states in which a key is the most attended one of the action taken",
        across="value of the key",
    )
    return f"<h3>Which keys are used</h3><div class='wide'>{chart}</div>"


def _numbers(result: Surgery) -> str:
    rows = [
        [
            _name(result, i),
            number(result.effect[i, 0]),
            interval(result.effect[i, 1], result.effect[i, 2]),
            _percent(result.changed[i]),
            _percent(result.used[i]),
            _percent(result.attention[i]),
        ]
        for i in range(len(result.what))
    ]
    return "<h3>In numbers</h3>" + table(
        [
            "change",
            "effect",
            "95 % interval",
            "states with another action",
            "used in",
            "mean attention",
        ],
        rows,
        f"sorted by effect; unchanged, the agent gets {number(result.unchanged.mean())} on "
        f"average; shares are of {result.states:,} of its own states; mean attention is that of "
        "the action that a key belongs to",
    )


def _finding(result: Surgery) -> str:
    mean = float(result.unchanged.mean())
    worst = result.effect[:, 2] < 0
    if not worst.any():
        told = (
            f"None of {len(worst)} changes to its keys lowers the return of {number(mean)} for "
            "certain"
        )
    else:
        i = int(np.flatnonzero(worst)[0])
        told = (
            f"Of {len(worst)} changes to its keys, {int(worst.sum())} lower the return of "
            f"{number(mean)} for certain, most of all '{_name(result, i)}' "
            f"({_signed(result, i)})"
        )
        keys = [j for j in np.flatnonzero(worst) if result.what[j] == REMOVE_KEY]
        if keys and keys[0] != i:
            j = int(keys[0])
            told += (
                f"; the single key it misses most is '{_name(result, j)}' ({_signed(result, j)})"
            )
    better = np.flatnonzero(result.effect[:, 1] > 0)
    if len(better):
        best = int(better[result.effect[better, 0].argmax()])
        told += (
            f"; {len(better)} raise it, most of all '{_name(result, best)}' "
            f"({_signed(result, best)})"
        )
    controls = [i for i, what in enumerate(result.what) if what == CONTROL]
    if not controls:
        return f"{told}."
    felt = [i for i in controls if result.effect[i, 2] < 0 or result.effect[i, 1] > 0]
    if felt:
        return f"{told}; but keys of the least attention matter too ('{_name(result, felt[0])}')."
    return f"{told}; removing the keys of the least attention makes no certain difference."


def _signed(result: Surgery, i: int) -> str:
    value, low, high = result.effect[i].tolist()
    return f"{number(value)}, {interval(low, high)}"


def _name(result: Surgery, i: int) -> str:
    actions, what = result.about.action_names, result.what[i]
    action, partner = actions[result.action[i]], actions[result.partner[i]]
    value = number(float(result.values[result.value[i]]), 2)
    return {
        REMOVE_KEY: f"without {action} {value}",
        CONTROL: f"without {action} {value} (least attention)",
        SWAP_KEYS: f"{action} {value} with {partner}'s",
        REMOVE_VALUE: f"without all keys of value {value}",
        REMOVE_ACTION: f"without {action}",
        SWAP_ACTIONS: f"{action} with {partner}",
    }[what]


def _percent(share: float) -> str:
    return f"{100 * float(share):.1f} %"
