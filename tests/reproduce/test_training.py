"""--train: what is missing is trained as populations, stops and goes on, and is measured."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from idqn import checkpoint
from idqn.config import Config
from idqn.console import TrainingDisplay
from idqn.errors import DivergenceError, UserError
from idqn.population import check_population
from idqn.reproduce import training
from idqn.reproduce.deadline import Deadline, OutOfTimeError
from idqn.reproduce.evaluating import checkpoint_at, has_agreement
from idqn.reproduce.results import gather
from idqn.reproduce.studies import STUDIES, Cell, Choices, Study
from idqn.reproduce.training import Begin, GoOn, Work, complete, discard_unbegun, jobs
from idqn.run_dir import RunDir
from idqn.train import resume, train
from tests.reproduce.made import make_run, metrics_row

pytestmark = pytest.mark.usefixtures("in_tmp_path")
FRAMES = 120
RUNS = Path("runs")


@pytest.fixture
def study(tiny: Config) -> Study:
    """Two cells that can share a program, and one that cannot."""
    short = {"train.frames": FRAMES, "env.max_episode_frames": 1, "system.log_every_frames": 20}
    base = tiny.replace(**short, **{"system.checkpoint_every_frames": 40})
    cells = (
        Cell(("plain",), "plain", base),
        Cell(("strong",), "strong", base.replace(**{"loss.reconstruction": 0.5})),
        Cell(("vae",), "vae", base.replace(**{"agent.decoder": "vae"})),
    )
    return Study("table1", "Stand-in", ("cell",), cells)


@pytest.fixture
def work(study: Study) -> Work:
    return Work(study, (0, 1), RUNS, FRAMES, episodes=2)


def two(work: Work) -> Work:
    """Its first two cells."""
    return replace(work, study=replace(work.study, cells=work.study.cells[:2]))


class Stops(TrainingDisplay):
    """Somebody stops the training at so many frames."""

    at = 60

    def __call__(self, progress: Any) -> None:
        if progress.frames >= self.at and progress.frames < FRAMES:
            signal.raise_signal(signal.SIGTERM)


def newest(*names: str) -> list[int]:
    return [checkpoint.find(RunDir(RUNS / name)) for name in names]


def population(name: str) -> list[str]:
    run = RunDir(RUNS / name)
    found: list[str] = checkpoint.load_state(run, checkpoint.find(run))["population"]
    return found


def test_populations_are_what_can_share_a_program(work: Work) -> None:
    first = jobs(work, (0,))
    assert [[path.name for path in job.paths] for job in first if isinstance(job, Begin)] == [
        ["plain-s0", "strong-s0"],
        ["vae-s0"],
    ]
    later = jobs(work, (1, 2))
    assert [len(job.paths) for job in later if isinstance(job, Begin)] == [4, 2]
    small = jobs(replace(work, at_once=1), (0,))
    assert [len(job.paths) for job in small if isinstance(job, Begin)] == [1, 1, 1]


def test_it_trains_evaluates_and_then_has_nothing_to_do(
    work: Work, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = two(work)
    complete(work, Deadline())
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "frames" not in line] == [
        "training 2 runs (plain-s0, strong-s0)",
        "play 2 games with runs/plain-s0",
        "play 2 games with runs/strong-s0",
        "training 2 runs (plain-s1, strong-s1)",
        "play 2 games with runs/plain-s1",
        "play 2 games with runs/strong-s1",
    ]
    assert population("strong-s1") == ["plain-s1", "strong-s1"]
    results = gather(work.study, work.seeds, RUNS, FRAMES)
    assert not results.incomplete
    for cell in results.cells:
        estimate = cell.estimate("evaluation")
        assert estimate is not None
        assert estimate.seeds == 2

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it trains or plays")

    for name in ("train", "resume", "evaluate"):
        monkeypatch.setattr(training, name, never)
    complete(work, Deadline(0))  # and needs no time to find that out


def test_what_is_trained_is_measured_before_more_is_trained(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a command with little time would never come to it."""
    complete(replace(work, seeds=(0,), at_once=1, study=two(work).study), Deadline())
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "frames" not in line] == [
        "training 1 run (plain-s0)",
        "play 2 games with runs/plain-s0",
        "training 1 run (strong-s0)",
        "play 2 games with runs/strong-s0",
    ]


def test_it_goes_on_where_it_was_stopped(
    work: Work, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = replace(two(work), seeds=(0,), episodes=0)
    complete(replace(work, folder=Path("whole")), Deadline())
    with pytest.raises(OutOfTimeError, match=r"no time left for 2 runs \(plain-s0, strong-s0\)"):
        complete(work, Deadline(0))
    assert not RUNS.exists()

    with monkeypatch.context() as patched:
        patched.setattr(training, "TrainingDisplay", Stops)
        with pytest.raises(OutOfTimeError, match="stopped at 60 of 120 frames"):
            complete(work, Deadline())
    assert newest("plain-s0", "strong-s0") == [60, 60]
    capsys.readouterr()
    complete(work, Deadline())
    assert "going on with 2 runs (plain-s0, strong-s0)" in capsys.readouterr().err
    assert newest("plain-s0", "strong-s0") == [FRAMES, FRAMES]
    for cells in zip(
        *(gather(work.study, (0,), Path(at), FRAMES).cells for at in ("whole", "runs")),
        strict=True,
    ):
        whole, resumed = ([score.values for score in cell.scores] for cell in cells)
        assert whole == resumed


def test_the_deadline_stops_a_training_with_checkpoints(work: Work) -> None:
    work = replace(two(work), seeds=(0,), episodes=0)

    class Late(Deadline):
        """Time is up once training has begun."""

        asked = 0

        @property
        def passed(self) -> bool:
            self.asked += 1
            return self.asked > 2

    with pytest.raises(OutOfTimeError, match=r"stopped at \d+ of 120 frames"):
        complete(work, Late())
    (at,) = set(newest("plain-s0", "strong-s0"))
    assert 0 < at < FRAMES


def test_more_frames_go_on_with_what_there_is(work: Work) -> None:
    work = replace(two(work), seeds=(0,), episodes=0)
    complete(work, Deadline())
    complete(replace(work, frames=160), Deadline())
    assert newest("plain-s0", "strong-s0") == [160, 160]
    assert RunDir(RUNS / "plain-s0").config().train.frames == 160


def test_a_run_that_was_killed_in_its_first_moments_is_begun_anew(
    work: Work, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its population has a checkpoint of the first moment, and it has none."""
    work = replace(two(work), seeds=(0,), episodes=0)
    with monkeypatch.context() as patched:
        patched.setattr(Stops, "at", 0)
        patched.setattr(training, "TrainingDisplay", Stops)
        with pytest.raises(OutOfTimeError):
            complete(work, Deadline())
    for name in ("plain-s0", "strong-s0"):
        run = RunDir(RUNS / name)
        run.metrics_file.write_text("")
        for frames in checkpoint.complete(run)[1 if name == "plain-s0" else 0 :]:
            shutil.rmtree(run.checkpoint(frames))
    complete(work, Deadline())
    assert "runs/strong-s0 had not been trained at all: begun anew" in capsys.readouterr().err
    assert newest("plain-s0", "strong-s0") == [FRAMES, FRAMES]
    assert population("strong-s0") == ["plain-s0", "strong-s0"]


def test_what_was_examined_or_is_elsewhere_is_never_deleted(work: Work) -> None:
    cell = work.study.cells[0]
    elsewhere = make_run(RUNS / "another-name", cell.of_seed(0), [])
    examined = make_run(RUNS / "plain-s1", cell.of_seed(1), [], [{}])
    unbegun = make_run(RUNS / "strong-s0", work.study.cells[1].of_seed(0), [])
    with unbegun.lock(), pytest.raises(UserError, match="another process is training"):
        discard_unbegun(work)
    discard_unbegun(work)
    assert [run.path.exists() for run in (elsewhere, examined, unbegun)] == [True, True, False]


def test_numbers_that_go_bad_keep_nobody_else_waiting(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    mad = work.study.cells[0].config.replace(**{"optimizer.learning_rate": 1e30})
    cells = (replace(work.study.cells[0], config=mad), work.study.cells[2])
    work = replace(work, study=replace(work.study, cells=cells), seeds=(0,))
    with pytest.raises(DivergenceError, match="of 'runs/plain-s0' became"):
        complete(work, Deadline())
    assert newest("vae-s0") == [FRAMES]
    assert RunDir(RUNS / "vae-s0").evaluations()
    assert "of 'runs/plain-s0' became" in capsys.readouterr().err


def test_a_population_that_is_too_large_goes_on_in_parts(work: Work) -> None:
    work = replace(two(work), seeds=(0,), episodes=0)
    train([cell.of_seed(0).replace(**{"train.frames": 40}) for cell in work.study.cells], _paths())
    (both,) = jobs(replace(work, at_once=2), (0,))
    assert isinstance(both, GoOn)
    assert not both.alone
    each = jobs(replace(work, at_once=1), (0,))
    assert [([r.name for r in j.runs], j.alone) for j in each if isinstance(j, GoOn)] == [
        (["plain-s0"], True),
        (["strong-s0"], True),
    ]


def test_games_are_not_played_past_the_deadline(work: Work) -> None:
    work = replace(work, study=replace(work.study, cells=work.study.cells[:1]), seeds=(0,))
    complete(replace(work, episodes=0), Deadline())

    class Late(Deadline):
        """Time is up in the middle of a game."""

        asked = 0

        @property
        def passed(self) -> bool:
            self.asked += 1
            return self.asked > 1

    with pytest.raises(OutOfTimeError, match="no time left to play 2 games with runs/plain-s0"):
        complete(work, Late())
    assert RunDir(RUNS / "plain-s0").evaluations() == {}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("table1", [8, 8]),  # all games of an agent, whatever actions they have
        ("table2", [1, 2, 1, 1, 2, 1]),  # grey, then colour; decoders apart; both βs together
        ("sensitivity", [8]),
        ("ablation", [3]),
    ],
)
def test_populations_of_the_studies(name: str, sizes: list[int]) -> None:
    found = jobs(Work(STUDIES[name](Choices()), (0, 1, 2), RUNS, 10_000_000), (0,))
    assert [len(job.configs) for job in found if isinstance(job, Begin)] == sizes
    for job in found:
        assert isinstance(job, Begin)
        check_population(job.configs)
        assert len({config.env.color for config in job.configs}) == 1
    colour = [job.configs[0].env.color for job in found if isinstance(job, Begin)]
    assert colour == sorted(colour)


def test_members_that_went_their_own_way_are_left_alone(work: Work) -> None:
    """A run that was resumed alone, or whose population has lost a member, goes on alone: nobody
    is set back."""
    work = replace(two(work), seeds=(0,), episodes=0)
    train([cell.of_seed(0).replace(**{"train.frames": 40}) for cell in work.study.cells], _paths())
    resume("runs/plain-s0", frames=80, alone=True)
    found = jobs(work, (0,))
    assert [([r.name for r in j.runs], j.alone) for j in found if isinstance(j, GoOn)] == [
        (["plain-s0"], False),  # a population of its own
        (["strong-s0"], True),
    ]
    complete(work, Deadline())
    assert newest("plain-s0", "strong-s0") == [FRAMES, FRAMES]
    assert not RunDir(RUNS / "plain-s0").checkpoints.joinpath("abandoned").exists()


def _paths() -> list[Path]:
    return [RUNS / "plain-s0", RUNS / "strong-s0"]


def test_a_lost_member_is_trained_anew(work: Work) -> None:
    work = replace(two(work), seeds=(0,), episodes=0)
    train([cell.of_seed(0).replace(**{"train.frames": 40}) for cell in work.study.cells], _paths())
    shutil.rmtree(RUNS / "plain-s0")
    going_on, beginning = jobs(work, (0,))
    assert isinstance(going_on, GoOn)
    assert isinstance(beginning, Begin)
    assert going_on.alone
    assert [path.name for path in beginning.paths] == ["plain-s0"]


def test_directories_that_are_taken_are_refused_before_anything_is_trained(work: Work) -> None:
    make_run(RUNS / "strong-s1", work.study.cells[0].of_seed(1), [])
    with pytest.raises(UserError, match=r"with loss.reconstruction = 0.05, not 0.5; choose anot"):
        complete(work, Deadline())
    shutil.rmtree(RUNS)
    (RUNS / "vae-s0").mkdir(parents=True)
    with pytest.raises(UserError, match="'runs/vae-s0' exists already and is not a run"):
        complete(work, Deadline())
    assert [path.name for path in RUNS.iterdir()] == ["vae-s0"]


def test_agreement_is_stored_and_read(
    work: Work, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = (work.study.cells[2],)
    study = replace(work.study, cells=cells, measure="agreement", evaluated=False)
    work = replace(work, study=study, seeds=(0,))
    complete(work, Deadline())
    run = RunDir(RUNS / "vae-s0")
    assert has_agreement(run, FRAMES)
    assert run.evaluations() == {}
    (cell,) = gather(study, (0,), RUNS, FRAMES).cells
    estimate, frequent = cell.estimate("agreement"), cell.estimate("most_frequent")
    assert estimate is not None
    assert frequent is not None
    assert 0 <= estimate.mean <= 100
    assert 0 < frequent.mean <= 100
    # of an earlier checkpoint it does not count at fewer frames, and is told at more
    (early,) = gather(study, (0,), RUNS, 60).cells
    assert early.estimate("agreement") is None
    assert "is of 120 frames, after 60: not counted" in early.scores[0].remarks[-1]
    # once it is there, it is not made again
    monkeypatch.setattr(training, "explain_agreement", None)
    complete(work, Deadline())


def test_agreement_that_is_missing_is_told_with_its_command(work: Work) -> None:
    study = replace(work.study, cells=(work.study.cells[2],), measure="agreement")
    config = study.cells[0].of_seed(0)
    make_run(RUNS / "vae-s0", config, [metrics_row(FRAMES, 1.0)])
    (remark,) = gather(study, (0,), RUNS, FRAMES).remarks
    assert "has no stored agreement; `idqn explain runs/vae-s0 --only agreement` makes" in remark


def test_a_checkpoint_that_is_gone(
    work: Work, tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny.replace(**{"system.checkpoint_every_frames": 50})
    run = make_run(RUNS / "run", config, [])
    kept: Callable[[RunDir], list[int]] = lambda _: [100, 203, 300]  # noqa: E731
    monkeypatch.setattr(checkpoint, "complete", kept)
    assert checkpoint_at(run, 200) == 203  # of the same step: 4 environments
    assert checkpoint_at(run, 249) == 203
    for frames in (96, 150, 198, 400):
        with pytest.raises(UserError, match="its checkpoints are at 100, 203, 300"):
            checkpoint_at(run, frames)
