"""The run directory: the only code that knows file names inside a run.

runs/NAME/  config.json  system.json  metrics.jsonl  events.out.tfevents.*
  checkpoints/FRAMES/  weights.safetensors  training.safetensors  training.json
                       replay.zst  COMPLETE
  checkpoints/BEST     frames of the best checkpoint
  evaluation/NAME.json
  explanations/KIND/   result.json  arrays.safetensors
  report/              index.html
  videos/
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from idqn import zoo
from idqn.config import Config, from_dict, to_json
from idqn.errors import UserError

DEFAULT_ROOT = Path("runs")


class RunDir:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def identity(self) -> str | None:
        """What checkpoints of this run are marked with; None if nobody knows any more."""
        try:
            system = json.loads(self.system_file.read_text())
        except (OSError, ValueError):
            return None
        return system.get("run_id") if isinstance(system, dict) else None

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def system_file(self) -> Path:
        return self.path / "system.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def best_file(self) -> Path:
        return self.checkpoints / "BEST"

    def checkpoint(self, frames: int) -> Path:
        return self.checkpoints / f"{frames:012d}"

    def evaluation(self, name: str) -> Path:
        return self.path / "evaluation" / f"{name}.json"

    def explanation(self, kind: str) -> Path:
        return self.path / "explanations" / kind / "result.json"

    def explanation_arrays(self, kind: str) -> Path:
        return self.path / "explanations" / kind / "arrays.safetensors"

    @property
    def examined(self) -> bool:
        """Whether anything was stored about its agent."""
        return any((self.path / name).exists() for name in ("evaluation", "explanations", "videos"))

    @property
    def report(self) -> Path:
        return self.path / "report" / "index.html"

    def video(self, name: str) -> Path:
        return self.path / "videos" / name

    @staticmethod
    def require_new(paths: list[Path]) -> None:
        """Refuse to write where something is already."""
        for path in paths:
            run = RunDir(path)
            if run.config_file.exists() and not any(run.checkpoints.glob("*/*")):
                raise UserError(
                    f"'{path}' is a run that was stopped before its first checkpoint; delete it, "
                    f"or choose another --name or --runs-dir"
                )
            if run.config_file.exists():
                raise UserError(
                    f"'{path}' is a run already; continue it with `idqn resume {path}`, or choose "
                    f"another --name or --runs-dir"
                )
            if path.exists():
                raise UserError(
                    f"'{path}' exists already and is not a run; choose another --name or --runs-dir"
                )
        for path in paths:
            if paths.count(path) > 1:
                raise UserError(f"two runs would share the directory '{path}'; name them apart")

    @staticmethod
    def create_all(
        paths: list[Path], configs: list[Config], system: dict[str, Any]
    ) -> list[RunDir]:
        """New run directories: all of them or, if any exists already, none."""
        RunDir.require_new(paths)
        runs = []
        for path, config in zip(paths, configs, strict=True):
            run = RunDir(path)
            run.checkpoints.mkdir(parents=True)
            marked = {"run_id": uuid.uuid4().hex} | system
            run.system_file.write_text(json.dumps(marked, indent=2) + "\n")
            write_atomically(run.config_file, to_json(config).encode())
            runs.append(run)
        return runs

    @staticmethod
    def open(path: str | os.PathLike[str], only_reading: bool = False) -> RunDir:
        """The run at `path`, of that name in the usual folder, or `zoo:NAME`: the agent that comes
        with idqn or, unless one is only reading, a copy of it in the usual folder."""
        if str(path).startswith(zoo.PREFIX):
            name = str(path).removeprefix(zoo.PREFIX)
            return RunDir(zoo.shipped(name) if only_reading else zoo.copied(name, DEFAULT_ROOT))
        run = RunDir(Path(path))
        if not run.path.exists() and (DEFAULT_ROOT / path).is_dir():
            run = RunDir(DEFAULT_ROOT / path)
        if not run.path.is_dir():
            near = [str(r.path) for r in find_runs(run.path.parent)]
            hint = f"; runs here: {', '.join(near[:5])}" if near else "; `idqn runs` lists them"
            raise UserError(f"there is no run '{path}'{hint}")
        if not run.config_file.is_file():
            raise UserError(
                f"'{path}' is not a run directory (it has no {run.config_file.name}); "
                f"`idqn runs` lists runs"
            )
        return run

    def config(self) -> Config:
        try:
            return from_dict(json.loads(self.config_file.read_text()))
        except (ValueError, UserError) as error:
            raise UserError(f"'{self.config_file}' is not a valid config: {error}") from error

    def lock(self) -> IO[bytes]:
        """Keep other processes from training this run until the file returned is closed."""
        import fcntl

        file = (self.path / ".lock").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UserError(f"another process is training '{self.path}'; wait for it") from None
        return file

    def metrics(self) -> list[dict[str, Any]]:
        """All complete rows of metrics, oldest first."""
        return list(self._complete_rows())[::-1]

    def last_metrics(self) -> dict[str, Any]:
        """The newest complete row of metrics, or nothing."""
        return next(self._complete_rows(), {})

    def _complete_rows(self) -> Iterator[dict[str, Any]]:
        """From the newest on."""
        if not self.metrics_file.exists():
            return
        for line in reversed(self.metrics_file.read_bytes().splitlines()):
            with suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """What is stored under `evaluation/`, by file name, less what cannot be read."""
        found = {}
        for file in sorted((self.path / "evaluation").glob("*.json")):
            with suppress(ValueError):
                found[file.stem] = json.loads(file.read_text())
        return found

    def newest_evaluation(self, config: Config) -> dict[str, Any] | None:
        """The agent's newest evaluation in the games it was trained on, of most episodes."""
        own = [
            data
            for data in self.evaluations().values()
            if data.get("policy") == config.agent.name
            and data.get("sticky_probability") == config.env.sticky_probability
        ]
        return max(own, key=lambda d: (d["frames_trained"], d["episodes"]), default=None)


def find_runs(root: Path) -> Iterator[RunDir]:
    """The run directories under `root`, not looking inside them."""
    if not root.is_dir():
        return
    for path in sorted(root.iterdir()):
        if not path.is_dir() or path.name.startswith("."):
            continue
        run = RunDir(path)
        if run.config_file.is_file() and run.checkpoints.is_dir():
            yield run
        else:
            yield from find_runs(path)


def write_atomically(path: Path, data: bytes) -> None:
    """Write so that a crash leaves the old file or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames inside `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
