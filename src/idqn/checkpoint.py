"""Checkpoints: safetensors, JSON and a zstd stream; no pickle, no half-written state.

A checkpoint is written to a temporary folder, file by file, each flushed to disk; the last file,
COMPLETE, holds a SHA-256 of every other; then the folder is renamed into place. Loading checks
the sums of what it reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import zstandard
from safetensors import SafetensorError
from torch import Tensor

from idqn.errors import UserError
from idqn.run_dir import RunDir, sync_directory, write_atomically

FORMAT = "idqn-checkpoint"
VERSION = 1
WEIGHTS, TRAINING, REPLAY = "weights.safetensors", "training.safetensors", "replay.zst"
STATE, COMPLETE = "training.json", "COMPLETE"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Checkpoint:
    """Everything one run needs to go on."""

    weights: dict[str, Tensor]  # enough to play and explain
    training: dict[str, Tensor]  # target network, optimiser, logs, running sums
    replay: dict[str, Tensor]
    state: dict[str, Any]  # counters and statistics, JSON


def save(run: RunDir, frames: int, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; on any failure earlier ones stay as they were."""
    shapes = {
        name: {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
        for name, t in checkpoint.replay.items()
    }
    state = checkpoint.state | {"replay": shapes}
    files = {
        WEIGHTS: iter([_pack(checkpoint.weights)]),
        TRAINING: iter([_pack(checkpoint.training)]),
        REPLAY: _compress(checkpoint.replay),
        STATE: iter([json.dumps(state, indent=1).encode()]),
    }
    return _save_files(run, frames, files)


def save_weights(run: RunDir, frames: int, weights: dict[str, Tensor]) -> Path:
    """A checkpoint that can be played and explained, but not trained on."""
    return _save_files(run, frames, {WEIGHTS: iter([_pack(weights)])})


def _save_files(run: RunDir, frames: int, files: dict[str, Iterator[bytes]]) -> Path:
    final = run.checkpoint(frames)
    temporary = run.checkpoints / f".{final.name}.{os.getpid()}"
    try:
        temporary.mkdir(parents=True)
        seal = {
            "format": FORMAT,
            "version": VERSION,
            "run_id": run.identity,
            "frames": frames,
            "sha256": {name: _write(temporary / name, parts) for name, parts in files.items()},
        }
        _write(temporary / COMPLETE, [json.dumps(seal, indent=1).encode()])
        sync_directory(temporary)
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        sync_directory(run.checkpoints)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        kept = complete(run)
        advice = (
            f"the last good one is at {kept[-1]:,} frames. Free some space, then "
            f"`idqn resume {run.path}`"
            if kept
            else "it would have been the first. Free some space, delete the run and begin again"
        )
        raise UserError(
            f"could not write the checkpoint at {frames:,} frames to '{run.path}': "
            f"{error.strerror or error}; {advice}"
        ) from error
    return final


def prune(run: RunDir, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints and the best, and leftovers of dead writers."""
    for leftover in run.checkpoints.glob(".*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
    spared = best(run)
    for frames in complete(run)[:-keep]:
        if frames != spared:
            shutil.rmtree(run.checkpoint(frames))


def mark_best(run: RunDir, frames: int) -> None:
    write_atomically(run.best_file, f"{frames}\n".encode())


def best(run: RunDir) -> int | None:
    """Frames of the best checkpoint so far, if there is one."""
    if not run.best_file.exists():
        return None
    text = run.best_file.read_text().strip()
    known = text.isdigit() and (run.checkpoint(int(text)) / COMPLETE).exists()
    return int(text) if known else None


def abandon_after(run: RunDir, frames: int) -> None:
    """Move checkpoints newer than `frames` out of the way of a run that goes on from there."""
    for newer in complete(run):
        if newer > frames:
            aside = run.checkpoints / "abandoned" / run.checkpoint(newer).name
            aside.parent.mkdir(exist_ok=True)
            shutil.rmtree(aside, ignore_errors=True)
            run.checkpoint(newer).rename(aside)


def complete(run: RunDir) -> list[int]:
    """Frames of the complete checkpoints, oldest first."""
    found = (path.parent.name for path in run.checkpoints.glob(f"*/{COMPLETE}"))
    return sorted(int(name) for name in found if name.isdigit())


def find(run: RunDir, which: str | int = "latest") -> int:
    """Frames of the checkpoint called "latest" or "best", or of the one at that many frames."""
    frames = complete(run)
    if not frames:
        raise UserError(
            f"run '{run.path}' was stopped before its first checkpoint; delete it and train anew"
        )
    if which == "latest":
        return frames[-1]
    if which == "best":
        return best(run) or frames[-1]
    try:
        wanted = int(which)
    except ValueError:
        wanted = -1
    if wanted not in frames:
        known = ", ".join(str(f) for f in frames)
        raise UserError(
            f"run '{run.path}' has no checkpoint '{which}'; use latest, best or one of {known}"
        )
    return wanted


def load_weights(run: RunDir, frames: int) -> dict[str, Tensor]:
    folder, sums = _opened(run, frames)
    return _read_tensors(folder, WEIGHTS, sums)


def load_state(run: RunDir, frames: int) -> dict[str, Any]:
    return _read_state(*_opened(run, frames))


def load(run: RunDir, frames: int) -> Checkpoint:
    folder, sums = _opened(run, frames)
    state = _read_state(folder, sums)
    return Checkpoint(
        weights=_read_tensors(folder, WEIGHTS, sums),
        training=_read_tensors(folder, TRAINING, sums),
        replay=_read_stream(_verified(folder, REPLAY, sums), state["replay"]),
        state=state,
    )


def _write(path: Path, parts: Iterable[bytes]) -> str:
    """Write a file and flush it to the disk; returns its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _pack(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: t.contiguous() for name, t in tensors.items()})


def _compress(tensors: dict[str, Tensor]) -> Iterator[bytes]:
    """The tensors' bytes, one after another, compressed as they go."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    for tensor in tensors.values():
        data = _bytes_of(tensor.contiguous())
        for start in range(0, len(data), _CHUNK):
            yield compressor.compress(data[start : start + _CHUNK])
    yield compressor.flush()


def _bytes_of(tensor: Tensor) -> memoryview:
    array: Any = tensor.numpy()
    return memoryview(array).cast("B")


def _opened(run: RunDir, frames: int) -> tuple[Path, dict[str, str]]:
    """A checkpoint's folder and the sums of its files, once it is known to be one of ours."""
    folder = run.checkpoint(frames)
    try:
        seal = json.loads((folder / COMPLETE).read_text())
        known = seal["format"] == FORMAT
        version, sums = seal["version"], dict(seal["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{_damaged(run, folder, COMPLETE)}") from error
    if not known:
        raise UserError(f"'{folder}' is not an idqn checkpoint but a '{seal['format']}'")
    if version > VERSION:
        raise UserError(
            f"'{folder}' has checkpoint version {version}, and this idqn reads up to {VERSION}; "
            f"install a newer idqn"
        )
    if run.identity is not None and seal.get("run_id") != run.identity:
        raise UserError(f"'{folder}' is a checkpoint of another run, not of '{run.path}'")
    return folder, sums


def _verified(folder: Path, name: str, sums: dict[str, str]) -> Path:
    path = folder / name
    if name not in sums:
        raise UserError(
            f"'{folder}' has no {name}: it was exported to be played and explained, and cannot be "
            f"trained on; resume the run that it came from"
        )
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise UserError(_damaged(RunDir(folder.parent.parent), folder, name)) from error
    if digest.hexdigest() != sums[name]:
        raise UserError(_damaged(RunDir(folder.parent.parent), folder, name))
    return path


def _damaged(run: RunDir, folder: Path, name: str) -> str:
    others = [f for f in complete(run) if run.checkpoint(f) != folder]
    advice = (
        f"use an earlier one with --checkpoint {others[-1]}" if others else "there is no other one"
    )
    return f"checkpoint '{folder}' is damaged: {name} is not what was written; {advice}"


def _read_state(folder: Path, sums: dict[str, str]) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(_verified(folder, STATE, sums).read_text())
    return state


def _read_tensors(folder: Path, name: str, sums: dict[str, str]) -> dict[str, Tensor]:
    path = _verified(folder, name, sums)
    try:
        return safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise UserError(f"'{path}' is not a safetensors file: {error}") from error


def _read_stream(path: Path, shapes: dict[str, Any]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as source:
        for name, about in shapes.items():
            tensor = torch.empty(about["shape"], dtype=getattr(torch, about["dtype"]))
            data = _bytes_of(tensor)
            filled = 0
            while filled < len(data):
                count = source.readinto(data[filled : filled + _CHUNK])
                if count == 0:
                    raise UserError(f"'{path}' ends too early for '{name}'")
                filled += count
            tensors[name] = tensor
    return tensors
