"""Results go to the disk and come back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.config import Config
from idqn.errors import UserError
from idqn.explain.results import About, Result
from idqn.run_dir import RunDir

ABOUT = About("run", "f00", "idqn/MiniPacman-v0", "idqn", 1_000, 3, ("NOOP", "UP"))


@dataclass(frozen=True, eq=False, repr=False)
class Sample(Result):
    kind: ClassVar[str] = "sample"
    weights: NDArray[np.float32]
    maps: dict[str, NDArray[Any]]
    rows: tuple[tuple[str, float], ...]
    several: tuple[NDArray[np.int64], ...]
    nothing: NDArray[np.float32] | None
    number: float


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create_all([tmp_path / "run"], [Config()], {})[0]


def sample() -> Sample:
    return Sample(
        ABOUT,
        weights=np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not as it lies in memory
        maps={"a": np.array([True, False]), "b": np.zeros((0, 2), np.uint8)},
        rows=(("x", 0.5), ("y", 2.0)),
        several=(np.array([1]), np.array([2, 3])),
        nothing=None,
        number=np.float64(1.5),
    )


def test_shown_in_a_notebook_arrays_are_only_told_of() -> None:
    assert repr(sample()) == (
        "Sample(of run, weights=float32[3, 2], maps={'a': bool[2], 'b': uint8[0, 2]}, "
        "rows=(('x', 0.5), ('y', 2.0)), several=(int64[1], int64[2]), nothing=None, number=1.5)"
    )


def test_a_result_comes_back_as_it_was(run: RunDir) -> None:
    sample().save(run)
    found = Sample.load(run)
    assert found.about == ABOUT
    np.testing.assert_array_equal(found.weights, [[0, 3], [1, 4], [2, 5]])
    assert found.weights.dtype == np.float32
    assert found.maps["a"].tolist() == [True, False]
    assert found.maps["b"].shape == (0, 2)
    assert found.rows == (("x", 0.5), ("y", 2.0))
    assert [part.tolist() for part in found.several] == [[1], [2, 3]]
    assert found.nothing is None
    assert found.number == 1.5
    assert json.loads(run.explanation("sample").read_text())["rows"] == [["x", 0.5], ["y", 2.0]]


def test_what_is_not_there_or_not_whole_is_said(run: RunDir) -> None:
    with pytest.raises(UserError, match=r"no stored sample; `idqn explain .* --only sample` makes"):
        Sample.load(run)
    sample().save(run)
    arrays = run.explanation_arrays("sample")
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:20])
    with pytest.raises(UserError, match=r"cannot be read .* makes it anew"):
        Sample.load(run)
    arrays.write_bytes(whole)
    text = run.explanation("sample")
    good = text.read_text()
    for bad in (
        "{",
        good.replace('"kind": "sample"', '"kind": "other"'),
        good.replace("rows", "r"),
    ):
        text.write_text(bad)
        with pytest.raises(UserError, match=r"cannot be read .* makes it anew"):
            Sample.load(run)
