"""Where things really are, beside where explanations say they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idqn.explain.ground_truth import NEAR_CELLS, GroundTruth
from idqn.report.drawing import interval, number, table
from idqn.report.section import Section

_THINGS = ("pacman", "ghost", "pellets")


def section(result: GroundTruth) -> Section:
    return Section(
        kind=result.kind,
        title="Ground truth",
        reading="In MiniPacman every object's place is known, so that explanations can be held "
        "against it: 1 is a map that is the same everywhere, and more means that an object gets "
        "more than its share of the frame.",
        caveat="Light on objects does not show that they matter: look at the map of picture "
        "detail, which knows nothing of the agent; and intervals are over games of this one "
        "agent, so that another seed's may well lie outside.",
        html=_density(result) + _places(result),
        finding=_finding(result),
        weight=0.6,
    )


def _density(result: GroundTruth) -> str:
    rows = [
        [
            name,
            number(_least(result, i)),
            *[_value(found) for found in result.density[i, :-1]],
            number(result.density[i, -1, 0]),
        ]
        for i, name in enumerate(result.maps)
    ]
    cover = ["share of the frame", "", *[f"{number(100 * c, 2)} %" for c in result.covers]]
    return "<h3>What saliency falls on</h3>" + table(
        ["map", "least / walls", *result.objects],
        [*rows, cover],
        f"share of the saliency over share of the frame, with its 95 % interval; least: of pacman, "
        f"ghost and pellets; {result.mapped_states} states of {result.games} games",
    )


def _least(result: GroundTruth, map_index: int) -> float:
    """Of pacman, ghost and pellets the one that the map lights up least, over walls."""
    density = dict(zip(result.objects, result.density[map_index, :, 0], strict=True))
    return float(min(density[thing] for thing in _THINGS) / max(density["walls"], 1e-12))


def _places(result: GroundTruth) -> str:
    if result.places is None:
        return "<p class='reading'>This agent has no keys with pictures to hold against it.</p>"
    names = {
        "nearness": f"brightest pixel within {NEAR_CELLS} cells of pacman, share of states",
        "brightness": "brightness of pacman's pixels, in standard deviations of the picture",
    }
    rows = []
    for measure, found in zip(names.values(), result.places, strict=True):
        for picture, places in zip(result.pictures, found, strict=True):
            rows.append(
                [
                    f"{picture}: {measure}",
                    number(places[0, 0]),
                    number(places[1, 0]),
                    _value(places[2]),
                ]
            )
    return "<h3>Do pictures show where pacman is?</h3>" + table(
        ["newest frame, minus the mean image", "pacman's place", "chance", "difference"],
        rows,
        f"chance: where pacman is in other games; {result.states:,} states, intervals over "
        f"{result.games} games; attended: of each state, the key that the action taken attends "
        f"to most; as attention sees them: what sets a key apart from the mean key of its action, "
        f"as long as a state",
    )


def _finding(result: GroundTruth) -> str:
    methods = [(name, _least(result, i)) for i, name in enumerate(result.maps[:-1])]
    fair = [name for name, least in methods if least > 1]
    least = min(value for _, value in methods)
    if len(fair) == len(methods):
        told = (
            f"All saliency maps fall on pacman, ghost and pellets more than on walls, per pixel at "
            f"least {number(least)} times as much"
        )
    else:
        some = ", ".join(name for name, _ in methods if name not in fair)
        told = f"Not all saliency falls on pacman, ghost and pellets more than on walls ({some})"
    if result.places is None:
        return f"{told}."
    _, keys, seen = result.places[0]
    return (
        f"{told}; pictures of attended keys are brightest near pacman {_against_chance(keys)}, and "
        f"{_against_chance(seen)} as attention sees them."
    )


def _against_chance(places: NDArray[np.floating]) -> str:
    here, chance, difference = places
    if difference[1] > 0:
        how = "more often than chance"
    elif difference[2] < 0:
        how = "less often than chance"
    else:
        how = "no more often than chance"
    return f"{how} ({number(100 * here[0])} % against {number(100 * chance[0])} %)"


def _value(found: NDArray[np.floating]) -> str:
    return f"{number(found[0])} ({interval(found[1], found[2])})"
