"""`idqn explain` as a user meets it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from idqn import cli
from idqn.explain.kinds import KINDS as ALL_KINDS
from idqn.report.figures import FIGURES
from idqn.run_dir import RunDir

pytestmark = pytest.mark.usefixtures("in_tmp_path")

KINDS = (
    "performance",
    "keys",
    "attention",
    "saliency",
    "embedding",
    "interpolation",
    "agreement",
    "comparison",
    "faithfulness",
    "film",
)
SMALL = ("--episodes", "2", "--max-steps", "12", "--film-steps", "5", "--device", "cpu")


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained / "own", tmp_path / "own")


@pytest.fixture
def ddqn(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained / "ddqn", tmp_path / "ddqn")


def explain(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["explain", *arguments])
    return int(exit_.value.code or 0)


def made(run: Path) -> set[str]:
    return {path.parent.name for path in (run / "explanations").glob("*/result.json")}


def test_everything_is_explained_and_drawn(
    own: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(str(own), *SMALL) == 0
    out, err = capsys.readouterr()
    alone = made(own)
    assert alone >= set(KINDS) - {"comparison"}
    assert "comparison" not in alone
    told = [line.split()[0] for line in err.splitlines()]
    assert told == [figure.result.kind for figure in FIGURES if figure.result.kind in alone]
    assert f"open {own / 'report' / 'index.html'}" in out
    page = (own / "report" / "index.html").read_text()
    for kind in alone:
        assert f'<section id="{kind}"' in page
    assert 'id="missing"' not in page
    assert (own / "report" / "film.mp4").read_bytes()[4:8] == b"ftyp"
    for figure in FIGURES:
        if figure.result.kind in alone:
            assert figure.result.load(RunDir.open(own)).about.run == "own"

    compare = ("--compare", str(trained / "other"))
    assert explain(str(own), "--only", "comparison", *compare, *SMALL) == 0
    assert made(own) == alone | {"comparison"}
    page = (own / "report" / "index.html").read_text()
    for kind in KINDS:  # what was found before is still there
        assert f'<section id="{kind}"' in page


def test_some_are_explained_alone(own: Path) -> None:
    assert explain(str(own), "--only", "keys", "saliency", *SMALL) == 0
    assert made(own) == {"keys", "saliency"}
    page = (own / "report" / "index.html").read_text()
    assert '<section id="keys"' in page
    assert '<section id="saliency"' in page
    assert '<section id="performance"' not in page


def test_what_cannot_be_explained_is_said_and_the_rest_appears(
    ddqn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(str(ddqn), "--only", "keys", "saliency", *SMALL) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("keys: this is a ddqn agent: it has no keys")]
    assert made(ddqn) == {"saliency"}
    page = (ddqn / "report" / "index.html").read_text()
    assert '<section id="saliency"' in page
    assert "this is a ddqn agent" in page


def test_a_comparison_that_was_asked_for_is_missed(
    own: Path, ddqn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(str(own), "--only", "comparison", "--compare", str(own), *SMALL) == 2
    assert "both runs to compare are own at " in capsys.readouterr().err
    few = ("--only", "comparison", "film")  # with all of them it would take longer, no more
    assert explain(str(own), *few, "--compare", str(ddqn), *SMALL) == 2
    assert made(own) == {"film"}


def test_comparing_in_vain_is_no_success(
    own: Path, ddqn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idqn.explain.kinds.usual", lambda subject: ("film", "comparison"))
    assert explain(str(own), "--compare", str(ddqn), *SMALL) == 2
    assert explain(str(own), *SMALL) == 0  # nobody asked
    assert made(own) == {"film"}


def test_agents_without_keys_get_the_other_sections(
    ddqn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(str(ddqn), *SMALL) == 0
    assert {"performance", "saliency", "embedding", "film"} <= made(ddqn)
    assert not {"keys", "attention", "interpolation"} & made(ddqn)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--only", "keyz"),
            "unknown explanation 'keyz'; did you mean 'keys'? (performance, film, keys",
        ),
        (("--only", "comparison"), "--compare"),
        (("--only", "film", "--film-steps", "0"), "nothing to explain in 0 film steps; play at"),
        (("--only", "film", "--max-steps", "0"), "nothing to explain in 0 steps; play at"),
        (("--only", "memorization", "--seed", "-1"), "a seed is between 0 and"),
        (("--only", "surgery", "--seed", "-1"), "a seed is between 0 and"),
        (("--only", "grounding", "--seed", "-1"), "a seed is between 0 and"),
        (("--episodes", "0"), "nothing to explain in 0 episodes; play at least 1"),
        (("--only", "keys", "--episodes", "-1"), "nothing to explain in -1 episodes; play at"),
        (("--seed", "-1"), "a seed is between 0 and"),
        (("--perplexity", "1"), "a number of neighbours above 1, got 1"),
        (("--perplexity", "nan"), "a number of neighbours above 1, got nan"),
        (("--attention-threshold", "1"), "attention is a share from 0 to 1, so it cannot exceed 1"),
        (("--attention-threshold", "-0.5"), "so a threshold is not -0.5"),
        (("--compare", "nowhere"), "there is no run 'nowhere'"),
        (("--checkpoint", "7"), "has no checkpoint '7'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_gets_a_clear_line(
    own: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(str(own), *arguments) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert "Traceback" not in err
    assert out == ""
    assert made(own) == set()


def test_a_run_without_checkpoints_is_refused(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(own / "checkpoints")
    assert explain(str(own)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "was stopped before its first checkpoint; delete it and train anew" in err
    assert not (own / "report").exists()


def test_help_names_every_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--help") == 0
    words = set(re.findall(r"[a-z-]+", capsys.readouterr().out))
    assert set(ALL_KINDS) <= words
