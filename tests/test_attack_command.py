"""`idqn attack` as a user meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from idqn import cli

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SMALL = ("--max-steps", "12", "--device", "cpu", "--quiet")


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained / "own", tmp_path / "own")


def attack(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["attack", *arguments])
    return int(exit_.value.code or 0)


def test_a_search_is_stored_and_drawn(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert attack(str(own), "--budget", "30", "--horizon", "2", *SMALL) == 0
    assert f"open {own / 'report' / 'index.html'}" in capsys.readouterr().out
    assert (own / "explanations" / "search" / "result.json").is_file()
    assert '<section id="search"' in (own / "report" / "index.html").read_text()


def test_a_recipe_is_stored_and_drawn(own: Path) -> None:
    assert attack(str(own), "--recipe", "extra-pellet", "--horizon", "2", *SMALL) == 0
    assert (own / "explanations" / "extra-pellet" / "result.json").is_file()
    assert '<section id="extra-pellet"' in (own / "report" / "index.html").read_text()
    assert (own / "report" / "extra-pellet.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "attack takes either --recipe NAME or --budget N"),
        (("--recipe", "pixel-max", "--budget", "5"), "either --recipe NAME or --budget N"),
        (("--recipe", "extra-pelet"), "Did you mean 'extra-pellet'?"),
        (("--recipe", "inverted-triangle"), "is for ALE/SpaceInvaders-v5, but this agent plays"),
        (("--recipe", "extra-pellet", "--step", "500"), "there is no step 500 in a game of"),
        (("--recipe", "extra-pellet", "--step", "-1"), "there is no step -1 in a game of"),
        (("--recipe", "extra-pellet", "--step", "early"), "Error parsing --step"),
        (("--recipe", "pixel-max", "--step", "3"), "leave out --step"),
        (("--budget", "0"), "nothing is found among 0 edited states"),
        (("--budget", "5", "--step", "3"), "--step is for recipes"),
        (("--budget", "5", "--horizon", "0"), "nothing can be compared in 0 steps"),
        (("--budget", "5", "--max-steps", "0"), "nothing to edit in a game of 0 steps"),
        (
            ("--recipe", "extra-pellet", "--max-steps", "-1"),
            "nothing to edit in a game of -1 steps",
        ),
        (("--budget", "5", "--seed", "-1"), "a seed is between 0 and 2**31 - 1, got -1"),
        (("--recipe", "pixel-max", "--seed", "-1"), "a seed is between 0 and 2**31 - 1, got -1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_gets_one_clear_line(
    own: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attack(str(own), *SMALL, *arguments) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (own / "explanations").exists()
    assert not (own / "report").exists()
