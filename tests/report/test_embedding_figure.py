"""What the page says and shows of the map."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from idqn.explain import About, Embedding
from idqn.report.figures.embedding import section

ACTIONS = ("NOOP", "UP", "<DOWN>")


def result(**changes: Any) -> Embedding:
    """Six states and the 3 x 2 keys of an agent."""
    action = np.array([0, 0, 0, 1, 1, 1])
    return dataclasses.replace(
        Embedding(
            About("run", None, "idqn/MiniPacman-v0", "idqn", 1_000, 0, ACTIONS),
            states=12,
            tsne=np.arange(12, dtype=np.float32).reshape(6, 2) / 3,
            pca=np.arange(12, dtype=np.float32).reshape(6, 2)[::-1] * 1e-7,
            pca_share=(0.75, 0.125),
            perplexity=3.5,
            perplexity_asked=40.0,
            divergence=0.25,
            action=action,
            q=np.linspace(-1, 1, 6, dtype=np.float32),
            episode=np.zeros(6, np.int64),
            step=np.arange(6),
            frames=np.zeros((6, 20, 30), np.uint8),
            value=25.0,
            threshold=0.9,
            above_only=False,
            attention=np.array([0.95, 0.1, 0.2, 0.91, 0.3, 0.92], np.float32),
            attending=np.array([0, 0, 0, 0, 1, 1]),
            key_tsne=np.zeros((6, 2), np.float32),
            key_pca=np.zeros((6, 2), np.float32),
            key_action=np.repeat(np.arange(3), 2),
            key_value=np.tile(np.array([-25, 25], np.float32), 3),
            key_used=np.array([True, False] * 3),
            silhouettes=np.array([0.5, 0.7, 0.9, 0.1, 0.2, 0.3], np.float32),
            most_frequent=0.5,
            nearest_key=0.25,
            strongest_key=0.75,
            nearest_key_of_value=0.1,
            strongest_key_of_value=0.2,
            centroid=0.6,
            centroid_most_frequent=0.3,
            keys_beside_states=0.1,
        ),
        **changes,
    )


WITHOUT_KEYS: dict[str, Any] = dict.fromkeys(
    (
        *("value", "threshold", "attention", "attending", "key_tsne", "key_pca", "key_action"),
        *("key_value", "key_used", "nearest_key", "strongest_key", "nearest_key_of_value"),
        *("strongest_key_of_value", "keys_beside_states"),
    )
)


def test_the_page_gets_every_point() -> None:
    data = json.loads(json.dumps(section(result()).data, allow_nan=False))
    assert data["action"] == [0, 0, 0, 1, 1, 1]
    assert data["keys"]["action"] == [0, 0, 1, 1, 2, 2]
    assert data["keys"]["value"] == ["−25", "25"] * 3
    assert data["keys"]["used"] == [1, 0] * 3
    assert data["keys"]["marked"] == [0, 1] * 3
    assert data["above"] == [1, 0, 0, 1, 0, 1]
    assert [len(axis) for positions in data["maps"] for axis in positions] == [12] * 4
    assert data["maps"][0][0][:3] == [0, 0.6667, 1.333]
    assert data["maps"][1][0][:6] == [1e-6, 8e-7, 6e-7, 4e-7, 2e-7, 0]
    assert data["share"] == ["75 %", "12 %"]
    assert data["episode"] == [1] * 6
    assert data["step"] == [1, 2, 3, 4, 5, 6]  # counted like those of other sections


def test_what_the_map_is_made_of_is_said() -> None:
    html = section(result()).html
    assert "6 of 12 states. t-SNE&#x27;s perplexity is 3.5 (instead of 40: " in html
    assert "3 states give more than 0.9 of" in html
    assert "in 2 of them that action was chosen" in html
    none = section(result(threshold=0.96)).html
    assert "No state gives more than 0.96 of" in none
    assert "the most is 0.95." in none
    only = section(result(above_only=True))
    assert "Only states are shown that give more than" in only.html
    assert only.data["above"] is None


def test_tables_say_in_words_what_is_drawn() -> None:
    html = section(result()).html
    for row in (
        "NOOP</th><td>3</td><td>0.70",
        "UP</th><td>3</td><td>0.20",
        "&lt;DOWN&gt;</th><td>0</td><td>–",
        "all</th><td>6</td><td>0.45",
        "nearest mean embedding</th><td>60 %</td><td>30 %",
        "nearest key</th><td>25 %</td><td>50 %",
        "strongest key</th><td>75 %</td><td>50 %",
        "strongest key of value 25</th><td>20 %</td><td>50 %",
    ):
        assert row in html
    assert "<DOWN>" not in html
    assert "a state for 10 % of the keys, and would be for 55 % if" in html
    assert "keys lie apart from the states" in html
    assert "keys lie partly among the states" in section(result(keys_beside_states=0.3)).html
    assert "keys lie among the states" in section(result(keys_beside_states=0.5)).html


@pytest.mark.parametrize(
    ("silhouette", "right", "said"),
    [
        (0.6, 0.75, ("form clear clusters (silhouette 0.60;", "in 75 % of them, far more often")),
        (0.3, 0.56, ("tend to cluster (silhouette 0.30;", "56 % of them, more often than")),
        (0.1, 0.52, ("hardly cluster", "hardly more often than the most frequent")),
        (-0.2, 0.49, ("do not form clusters (silhouette −0.20;", ", no more often than")),
        (-0.2, 0.4, ("do not form clusters", "less often than", "action is right (50 %).")),
    ],
)
def test_the_finding_follows_the_numbers(
    silhouette: float, right: float, said: tuple[str, ...]
) -> None:
    scores = np.full(6, silhouette, np.float32)
    finding = section(result(silhouettes=scores, strongest_key=right)).finding
    assert "the strongest key names" in finding
    for words in said:
        assert words in finding


def test_agents_without_keys_have_no_squares() -> None:
    found = section(result(**WITHOUT_KEYS))
    assert "square" not in found.reading
    assert "nearest key" not in found.html
    assert "keys lie" not in found.html
    assert found.data["keys"] is found.data["above"] is None
    assert "the nearest mean state names the chosen action in 60 % of them" in found.finding
    assert "(30 %)" in found.finding


def test_one_action_is_nothing_to_keep_apart() -> None:
    found = section(result(action=np.full(6, 1)))
    assert found.finding == "The agent always chose UP, so there are no actions to keep apart."
    assert "UP</th><td>6</td><td>–" in found.html


@pytest.mark.parametrize("shape", [(6, 20, 30), (6, 20, 30, 3), (1_500, 84, 84)])
def test_frames_fit_into_one_picture(shape: tuple[int, ...]) -> None:
    count = shape[0]
    found = result(
        frames=np.zeros(shape, np.uint8),
        **{name: np.zeros(count, np.int64) for name in ("action", "step", "episode", "attending")},
        **{name: np.zeros(count, np.float32) for name in ("q", "attention", "silhouettes")},
        **{name: np.zeros((count, 2), np.float32) for name in ("tsne", "pca")},
    )
    frames = section(found).data["frames"]
    assert frames["columns"] * frames["rows"] >= count
    assert frames["columns"] * frames["width"] * frames["rows"] * frames["height"] < 7e6
    assert (frames["width"], frames["height"]) == ((30, 20) if count == 6 else (66, 66))
