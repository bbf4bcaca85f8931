"""Trained agents, small enough to send: their run directories without replay, optimiser and older
checkpoints, large weights in half precision. `idqn.load` and `idqn eval` read them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import safetensors.torch
import torch

from idqn import checkpoint
from idqn.run_dir import RunDir

_LARGE = 100_000  # numbers: below it a tensor, such as the mean image, is kept as it is


def pack(runs: list[RunDir], target: Path, most_mb: float) -> dict[str, float]:
    """Write a tar of the newest checkpoints of `runs`; returns the MB (of 2**20 bytes) of each run,
    of which those above `most_mb` were left out; no tar if all were."""
    sizes = {}
    temporary = target.with_name(f".{target.name}")
    with tarfile.open(temporary, "w") as tar:
        for run in runs:
            frames = checkpoint.find(run)
            weights = checkpoint.load_weights(run, frames)
            data = safetensors.torch.save({name: _small(w) for name, w in weights.items()})
            sizes[run.name] = round(len(data) / 2**20, 1)
            if sizes[run.name] > most_mb:
                continue
            folder = f"{run.name}/checkpoints/{run.checkpoint(frames).name}"
            seal = {
                "format": checkpoint.FORMAT,
                "version": checkpoint.VERSION,
                "run_id": run.identity,
                "frames": frames,
                "sha256": {checkpoint.WEIGHTS: hashlib.sha256(data).hexdigest()},
            }
            files = {
                f"{run.name}/{file.name}": file.read_bytes()
                for file in (run.config_file, run.system_file, run.metrics_file)
            }
            files[f"{folder}/{checkpoint.WEIGHTS}"] = data
            files[f"{folder}/{checkpoint.COMPLETE}"] = json.dumps(seal, indent=1).encode()
            for name, content in files.items():
                _add(tar, name, content)
    if min(sizes.values()) <= most_mb:
        temporary.replace(target)
    temporary.unlink(missing_ok=True)
    return sizes


def _small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half() if tensor.numel() >= _LARGE else tensor


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
