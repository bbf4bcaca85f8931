"""What a run scored by so many frames: from its rows of metrics, its evaluations, and its stored
Agreement."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from idqn import checkpoint
from idqn.config import Config
from idqn.errors import UserError
from idqn.run_dir import RunDir

Row = dict[str, Any]
WINDOW = 100  # episodes of a mean


@dataclass(frozen=True)
class Score:
    """Of one run. Values that it does not have are None."""

    run: str
    seed: int
    frames: int
    """Of the row that was read or, of a run that is not there yet, of its training."""
    reached: bool
    """Whether the run has been trained for as long as was asked; if not, its values count for
    nothing."""
    values: dict[str, float | None] = field(default_factory=dict)
    """By name: best_100, final_100, evaluation, agreement, most_frequent."""
    remarks: tuple[str, ...] = ()


def rows(run: RunDir) -> list[Row]:
    """Of its metrics; half a line, of a run that was killed or is writing, is none."""
    if not run.metrics_file.exists():
        return []
    found = []
    for line in run.metrics_file.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "frames" in row:
            found.append(row)
    return found


def last_at(config: Config, frames: int) -> int:
    """The last frame that still counts as `frames`: training goes in steps of some frames, and
    ends with the first at or after its goal."""
    return frames + config.train.envs * config.env.frame_skip - 1


def row_at(run_rows: list[Row], last: int) -> Row | None:
    """The newest row that is not after `last`."""
    return max(
        (r for r in run_rows if r["frames"] <= last), key=lambda r: r["frames"], default=None
    )


def score(run: RunDir, frames: int, measure: str) -> Score:
    """What it scored by `frames`, and the row that says so."""
    config = run.config()
    run_rows, last = rows(run), last_at(config, frames)
    row = row_at(run_rows, last) or {"frames": 0}
    reached = any(each["frames"] >= frames for each in run_rows)
    values: dict[str, float | None] = dict.fromkeys(("best_100", "final_100", "evaluation"))
    remarks = []
    if not reached:
        remarks.append(_unfinished(run, frames, run_rows[-1] if run_rows else None))
    elif row.get("episodes", 0) < WINDOW:
        remarks.append(
            f"{run.path} has no mean of {WINDOW} training episodes: by {row['frames']:,} frames it "
            f"had finished {row.get('episodes', 0)}"
        )
    else:
        values["best_100"], values["final_100"] = row["return_best_100"], row["return_last_100"]
        if row["frames"] < frames - config.system.log_every_frames:  # exports have fewer rows
            remarks.append(
                f"{run.path} is shown as it was at {row['frames']:,} frames: of its rows of "
                f"metrics this is the last before {frames:,}"
            )
    if reached:
        evaluation = newest_evaluation(run, config, last)
        if evaluation is not None:
            values["evaluation"] = float(evaluation["mean"])
            remarks += _older(run, "evaluated", evaluation["frames_trained"], frames)
        if measure == "agreement":
            found, said = _agreement(run, frames, last)
            values |= found
            remarks += said
    at = row["frames"] if reached else trained_frames(run)
    return Score(str(run.path), config.train.seed, at, reached, values, tuple(remarks))


def newest_evaluation(run: RunDir, config: Config, last: int) -> dict[str, Any] | None:
    """Of the games as they were trained on, by a checkpoint not after `last`; of most episodes."""
    own = [
        data
        for data in run.evaluations().values()
        if data.get("policy") == config.agent.name
        and data.get("sticky_probability") == config.env.sticky_probability
        and data.get("frames_trained", last + 1) <= last
    ]
    return max(own, key=lambda d: (d["frames_trained"], d["episodes"]), default=None)


def _agreement(run: RunDir, frames: int, last: int) -> tuple[dict[str, float | None], list[str]]:
    """What `idqn explain` found, if it is about this run by then."""
    from idqn.explain.agreement import Agreement

    nothing: dict[str, float | None] = {"agreement": None, "most_frequent": None}
    try:
        found = Agreement.load(run)
    except UserError as error:
        return nothing, [str(error)]
    if found.about.run_id != run.identity:
        return nothing, [f"the Agreement stored in {run.path} is of another run: not counted"]
    if found.about.frames > last:
        return nothing, [
            f"the Agreement stored in {run.path} is of {found.about.frames:,} frames, after "
            f"{frames:,}: not counted"
        ]
    remarks = _older(run, "asked for its Agreement", found.about.frames, frames)
    return {"agreement": found.mean, "most_frequent": found.most_frequent_mean}, remarks


def _older(run: RunDir, done: str, at: int, frames: int) -> list[str]:
    return [f"{run.path} was {done} at {at:,} frames, before {frames:,}"] if at < frames else []


def trained_frames(run: RunDir) -> int:
    """By its metrics, and by its newest checkpoint, which may be of a moment between two rows."""
    found: list[int] = [row["frames"] for row in rows(run)]
    return max([*found, *checkpoint.complete(run)], default=0)


def _unfinished(run: RunDir, frames: int, row: Row | None) -> str:
    best = None if row is None else row.get("return_best_100")
    so_far = "" if best is None else f", best-100 so far {best:,.2f}"
    hint = f"; --frames {row['frames']:_} would count it" if row else ""
    at = f"{trained_frames(run):,} of {frames:,} frames"
    return f"{run.path} is at {at}{so_far}: not counted{hint}"
