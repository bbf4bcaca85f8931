"""When play is called memorised: the rules, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from idqn.explain.intervals import Number

MEMORISED, PLAYS, UNCLEAR = "memorised", "does not look memorised", "cannot be told"

IGNORED_GAIN = 0.2  # food draws the agent no more often than this, by the interval's upper end
UNMOVED_SHARE = 0.9  # of actions that stay the same after an irrelevant edit, by the lower end
FEW_SHARE = 0.5  # different games or returns for each different start
LOST_SHARE = 0.5  # of the advantage over random play

IGNORES, FEW_GAMES, FALLS = (
    "ignores food beside its way",
    "plays few different games",
    "is lost off its path",
)
RULES = (
    f"{IGNORES}: it comes at most {100 * IGNORED_GAIN:.0f} % of times more often to a cell for the "
    f"food put there (upper end of the interval), and keeps to at least {100 * UNMOVED_SHARE:.0f} "
    "% of its actions after an irrelevant edit (lower end), so that it is not just erratic",
    f"{FEW_GAMES}: at most {100 * FEW_SHARE:.0f} % as many different sequences of actions as there "
    "are different starts; or as many different returns, and half as many as random play has",
    f"{FALLS}: sticky actions or random starts cost at least {100 * LOST_SHARE:.0f} % of its "
    "advantage over random play, and the loss is certain (its interval is above 0)",
    f"{MEMORISED}: the first, or both others",
)


class Verdict(NamedTuple):
    text: str
    signs: dict[str, bool | None]


def judge(
    numbers: Mapping[str, Number],
    counts: Mapping[str, int],
    starts: float,
    random_return: float,
    random_returns: int,
) -> Verdict:
    """`starts` is how many games could have begun differently; a random policy has a mean return
    (NaN: nobody knows) and so many different ones."""
    signs = {
        IGNORES: _ignores_food(numbers),
        FEW_GAMES: _plays_few(counts, starts, random_returns),
        FALLS: _is_lost(numbers, random_return),
    }
    ignores, few, falls = signs.values()
    if ignores or (few and falls):
        return Verdict(MEMORISED, signs)
    food_is_open = ignores is None and not np.isnan(numbers["gain"][0])
    path_is_open = None in (few, falls) and False not in (few, falls)
    if food_is_open or (ignores is None and path_is_open):
        return Verdict(UNCLEAR, signs)
    return Verdict(PLAYS, signs)


def _ignores_food(numbers: Mapping[str, Number]) -> bool | None:
    """None where it was not measured, or an interval leaves it open."""
    _, low, high = numbers["gain"]
    _, same_low, same_high = numbers["same actions"]
    if np.isnan(high) or np.isnan(same_low):
        return None
    if low > 0 and high > IGNORED_GAIN:
        return False
    if high <= IGNORED_GAIN and same_low >= UNMOVED_SHARE:
        return True
    return False if same_high < UNMOVED_SHARE else None


def _plays_few(counts: Mapping[str, int], starts: float, random_returns: int) -> bool | None:
    """Sequences of actions differ by how long a game takes to begin, if by nothing else; so returns
    count as well, where random play shows that there are many."""
    if starts < 4:
        return None
    few_games = counts["distinct games"] <= FEW_SHARE * starts
    return few_games or counts["distinct returns"] <= FEW_SHARE * min(starts, random_returns)


def _is_lost(numbers: Mapping[str, Number], random_return: float) -> bool | None:
    advantage = numbers["return"][0] - random_return
    losses = [numbers[name] for name in ("lost: sticky", "lost: random start")]
    known = [loss for loss in losses if not np.isnan(loss[0])]
    if not known or not advantage > 0:
        return None
    return any(loss[0] >= LOST_SHARE * advantage and loss[1] > 0 for loss in known)
