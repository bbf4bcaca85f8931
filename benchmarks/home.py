"""What is worth bringing home from a machine that keeps nothing, in few files of limited size.

    python benchmarks/home.py FOLDER DIR [--results]

From FOLDER, which `gpu.sh` works in: `results.tar.gz` has results, logs and the rows of metrics of
all runs; `weights-N.tar` have the runs themselves, as `idqn export` makes them small, those of the
tables first, as many as there is room for. With `--results`, no weights.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

_RUNS = ("table1-runs", "agents-runs")  # in order of worth; of others, no weights
_SMALL = ("*.json", "*.jsonl", "*.md", "*.svg", "*.log")
_MB = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--results", action="store_true", help="no weights")
    parser.add_argument("--file-mb", type=float, default=15.0, help="no file is larger")
    parser.add_argument("--files", type=int, default=3, help="so many of weights at most")
    parser.add_argument("--run-mb", type=float, default=8.0, help="leave out larger weights")
    args = parser.parse_args(arguments)
    args.to.mkdir(parents=True, exist_ok=True)
    most = round(args.file_mb * _MB)
    _results(args.folder, args.to / "results.tar.gz", most)
    if not args.results:
        small = _exported(args.folder, round(args.run_mb * _MB))
        _weights(small, args.folder, args.to, most, args.files)
    return 0


def _results(folder: Path, target: Path, most: int) -> None:
    """Small files; if they are too many, without what runs say of themselves."""
    runs = [file for name in _RUNS for file in _found(folder / name)]
    own = [file for file in _found(folder) if file not in set(runs)]
    own += sorted((folder / "done").glob("*"))
    for files in ([*own, *runs], own):
        size = _write(target, files, folder, "w:gz", most)
        if size <= most:
            return
    print(f"{target} would have {size / _MB:.1f} MB: left as it is", file=sys.stderr)


def _found(folder: Path) -> list[Path]:
    """Not what was compiled, nor what training and this program keep for themselves."""
    hidden = {"cache", "checkpoints", "exported"}
    found = {file for pattern in _SMALL for file in folder.rglob(pattern)}
    return sorted(f for f in found if not hidden & set(f.relative_to(folder).parts))


def _exported(folder: Path, most: int) -> list[Path]:
    """The newest checkpoint of each run as a small run directory, made once."""
    runs = [c.parent for kind in _RUNS for c in sorted((folder / kind).glob("*/config.json"))]
    if not runs:
        return []  # and torch, which takes seconds, need not be imported
    from idqn import checkpoint
    from idqn.errors import UserError
    from idqn.export import export
    from idqn.run_dir import RunDir

    found = []
    for run in map(RunDir, runs):
        newest = max(checkpoint.complete(run), default=0)
        if newest == 0:
            continue
        kind = folder / "exported" / run.path.parent.name
        place = kind / f"{run.name}-{newest}-{len(run.evaluations())}" / run.name
        if not place.exists():
            making = kind / ".making" / run.name
            shutil.rmtree(making.parent, ignore_errors=True)
            try:
                export(run, newest, making)
            except (UserError, OSError) as error:
                print(f"{run.path}: {error}", file=sys.stderr)
                continue
            for old in kind.glob(f"{run.name}-*-*"):
                shutil.rmtree(old)
            making.parent.rename(place.parent)
        if _size(place) <= most:
            found.append(place)
        else:
            print(f"{run.path}: {_size(place) / _MB:.1f} MB are too many", file=sys.stderr)
    return found


def _weights(runs: Iterable[Path], folder: Path, to: Path, most: int, files: int) -> None:
    """First fit, so that early ones are surest to travel."""
    parts: list[list[Path]] = []
    for run in runs:
        # a tar's own records, and blocks it fills up
        size = _size(run) + 20_000
        room = [part for part in parts if sum(_size(r) + 20_000 for r in part) + size <= most]
        if room:
            room[0].append(run)
        elif len(parts) < files:
            parts.append([run])
        else:
            print(f"no room for {run.name}", file=sys.stderr)
    for number, part in enumerate(parts, 1):
        target = to / f"weights-{number}.tar"
        _write(target, part, folder / "exported", "w", most, flat=True)
    for number in range(len(parts) + 1, files + 1):
        (to / f"weights-{number}.tar").unlink(missing_ok=True)


def _write(
    target: Path, paths: Iterable[Path], root: Path, mode: str, most: int, flat: bool = False
) -> int:
    """Returns its size; what is too large, or half written, never replaces what is there."""
    temporary = root.parent / f".{target.name}.{root.name}"
    with tarfile.open(temporary, mode) as tar:  # type: ignore[call-overload]
        for path in paths:
            name = f"{path.parents[1].name}/{path.name}" if flat else path.relative_to(root)
            with contextlib.suppress(FileNotFoundError):  # training goes on meanwhile
                tar.add(path, name)
    size = temporary.stat().st_size
    if size <= most:
        shutil.move(temporary, target)
    else:
        temporary.unlink()
    return size


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
