"""What commands print: progress and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")
_SECONDS_BETWEEN_LINES = 10.0


class TrainingDisplay:
    """A live bar in a terminal; elsewhere a line every few seconds. Called with each `Progress`."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal and not quiet
        self._quiet = quiet
        self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[news]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=False,
            disable=not self._live,
        )
        self._task = self._bar.add_task("training", total=None, news="")

    def __enter__(self) -> TrainingDisplay:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Any) -> None:
        news = _news(progress.rows)
        if self._live:
            self._bar.update(
                self._task, completed=progress.frames, total=progress.total_frames, news=news
            )
        elif not self._quiet:
            finished = progress.frames >= progress.total_frames
            if time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES or finished:
                self._last_line = time.monotonic()
                done = f"{progress.frames:,} of {progress.total_frames:,} frames"
                print(f"training  {done}  {news}", file=sys.stderr, flush=True)


def _news(rows: list[dict[str, Any]]) -> str:
    """Scores and speed, from the newest rows of metrics."""
    scores = [row["return_last_100"] for row in rows if row.get("return_last_100") is not None]
    rate = sum(row.get("time/frames_per_s", 0.0) for row in rows)
    speed = f"  {rate:,.0f} frames/s" if rate else ""
    if not scores:
        return f"no episode finished yet{speed}"
    mean = sum(scores) / len(scores)
    runs = f" (mean of {len(scores)} runs)" if len(scores) > 1 else ""
    return f"return {mean:,.1f}{runs}{speed}"


class Activity:
    """What is being done now: a line that changes in a terminal; elsewhere one for each thing."""

    def __init__(self, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._live = console.is_terminal and not quiet
        self._quiet = quiet
        self._status = console.status("")
        self._last = ""

    def __enter__(self) -> Activity:
        if self._live:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, doing: str, how_far: str = "") -> None:
        if self._live:
            self._status.update(f"{doing}  {how_far}")
        elif not self._quiet and doing != self._last:
            print(doing, file=sys.stderr, flush=True)
        self._last = doing

    def about(self, what: str) -> Callable[[str, str], None]:
        """The same, for things done about `what`."""
        return lambda doing, how_far: self(f"{what}: {doing}", how_far)


class Steps:
    """Several things done one after another: in a terminal a bar for the one under way and a line
    for each that is done; elsewhere the lines alone."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._began = time.monotonic()
        self._bar = Progress(console=self._console, disable=quiet or not self._console.is_terminal)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Steps:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, doing: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=doing, completed=done, total=total)

    def done(self, name: str) -> None:
        took, self._began = time.monotonic() - self._began, time.monotonic()
        if not self._quiet:
            self._console.print(f"{name}  {took:.1f} s", highlight=False)

    def refused(self, name: str, why: str) -> None:
        self._began = time.monotonic()
        self._console.print(f"{name}: {why}", highlight=False, soft_wrap=True, markup=False)


def track(items: Iterable[T], total: int, description: str, quiet: bool = False) -> Iterator[T]:
    """Go through `items` under a progress bar, if anyone is there to see it."""
    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        for item in items:
            yield item
            bar.advance(task)


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """A table: plain and whole when it goes to a file, drawn when it goes to a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def number(value: float | None) -> str:
    """A score, or a dash where there is none."""
    return "-" if value is None else f"{value:,.2f}"
