"""What the section on faithfulness says, and of which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from idqn.explain.deletion import FRACTIONS
from idqn.explain.faithfulness import MEASURES, RIVALS, Faithfulness
from idqn.explain.results import About
from idqn.explain.saliency import METHODS
from idqn.report.figures.faithfulness import section
from idqn.report.page import render

ABOUT = About("run", None, "ALE/Pong-v5", "idqn", 100, 0, ("NOOP", "UP"))


def around(values: Any, width: float = 0.05) -> np.ndarray:
    values = np.asarray(values, float)
    return np.stack([values, values - width, values + width], -1)


def example(**changes: Any) -> Faithfulness:
    """Only sarfa is better than random; every map changes with the weights."""
    maps = len(METHODS) + len(RIVALS)
    gains = np.zeros((len(MEASURES), 2, len(METHODS), len(RIVALS)))
    gains[0, :, METHODS.index("sarfa"), :2] = 0.2
    areas = np.full((2, 2, maps), 0.5)
    areas[0, 0, METHODS.index("sarfa")] = 0.31
    found = Faithfulness(
        ABOUT,
        states=24,
        blur_sigma=5.0,
        methods=METHODS,
        rivals=RIVALS,
        fractions=FRACTIONS,
        largest_change=7.5,
        kept=around(np.tile(np.linspace(1, 0, 21), (2, 2, maps, 1))),
        areas=around(areas),
        gains=around(gains),
        sanity_states=6,
        depths=("head", "all layers"),
        map_correlation=around(np.full((2, len(METHODS)), 0.12)),
        decoding_error={
            "decoded state": around(2.0),
            "mean image": around(5.0),
            "mean of these states": around(4.0),
        },
        keys=180,
        attended_keys=72,
        key_moves=around([0.41, 0.52]),
        picture_correlation={
            "as it began": around([0.3, 0.33]),
            "random keys": around([0.1, 0.15]),
            "other keys": around([0.1, 0.2]),
            "random decoder": around([0.0, 0.01]),
        },
        cycle_error={
            "states": around(0.4),
            "all keys": around(9.0),
            "attended keys": around(8.0),
        },
        cycle_returns=0.25,
    )
    return replace(found, **changes)


def test_it_names_the_map_to_believe() -> None:
    drawn = section(example())
    assert drawn.finding.startswith("Of the saliency maps believe sarfa first: ")
    assert "(deletion 0.31 against 0.50)" in drawn.finding
    assert "but it is no better than a map of mere picture detail" in drawn.finding
    gains = example().gains.copy()
    gains[0, :, METHODS.index("sarfa"), 2] = (0.2, 0.1, 0.3)
    assert "and it beats a map of mere picture detail" in section(example(gains=gains)).finding


def test_of_several_it_names_the_one_that_gains_most() -> None:
    gains = example().gains.copy()
    gains[0, :, METHODS.index("gradient"), :2] = (0.3, 0.1, 0.5)
    assert "believe gradient first" in section(example(gains=gains)).finding


def test_none_better_than_random_is_said() -> None:
    found = section(example(gains=np.zeros_like(example().gains)))
    assert found.finding.startswith("No saliency map finds what matters")
    assert "<td>better than random</td>" not in found.html


@pytest.mark.parametrize(("value", "verdict"), [(0.5, "unclear"), (0.8, "fails")])
def test_a_map_of_any_network_is_not_to_be_believed(value: float, verdict: str) -> None:
    correlation = around(np.full((2, len(METHODS)), value))
    found = section(example(map_correlation=correlation))
    assert found.finding.startswith(
        "Believe no saliency map unseen: the pixels that sarfa put first"
    )
    assert f"at least {value:.2f}" in found.finding
    assert found.html.count(f"<td>{verdict}</td>") == len(METHODS)


@pytest.mark.parametrize(
    ("began", "random", "expected"),
    [
        (0.3, 0.1, "pictures of attended keys are their own, unlike those of random keys"),
        (0.9, 0.1, "moved by 0.52 of their length in training, and their pictures are much as if"),
        (0.9, 0.7, "they come from the decoder, not from the keys"),
    ],
)
def test_what_keys_pictures_are_worth(began: float, random: float, expected: str) -> None:
    compared = dict(example().picture_correlation or {})
    compared |= {"as it began": around([0, began]), "random keys": around([0, random])}
    assert expected in section(example(picture_correlation=compared)).finding


def test_numbers_are_written_with_their_intervals() -> None:
    html = section(example()).html
    assert "<td>0.31 (0.26 to 0.36)</td>" in html
    assert "<td>+0.20 (0.15 to 0.25)</td>" in html
    assert "<td>0.12 (0.07 to 0.17)</td>" in html
    assert "Skill, 1 − error / error of the better fixed picture: 0.50." in html
    assert "25 % are encoded nearer" in html
    assert "72 attended keys" in html


def test_without_keys_it_says_so() -> None:
    nothing = dict.fromkeys(
        ("keys", "key_moves", "picture_correlation", "decoding_error", "cycle_error")
    )
    drawn = section(example(**nothing))
    assert "This agent has no keys" in drawn.html
    assert "no decoder" in drawn.html
    assert "keys" not in drawn.finding


def test_keys_without_a_decoder_still_moved() -> None:
    nothing = dict.fromkeys(("picture_correlation", "decoding_error", "cycle_error"))
    drawn = section(example(**nothing))
    assert "<td>0.52 (0.47 to 0.57)</td>" in drawn.html
    assert "picture like that" not in drawn.html
    assert "no decoder" in drawn.html


def test_it_stands_on_the_page() -> None:
    page = render(ABOUT, [section(example())], {})
    assert 'id="faithfulness"' in page
