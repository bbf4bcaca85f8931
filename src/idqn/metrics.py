"""What a run measures about itself, and where it writes it down."""

from __future__ import annotations

import json
import math
import os
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.run_dir import RunDir
from idqn.types import Step

WINDOW = 100  # episodes in the running mean, as in the paper


class EpisodeStatistics:
    """Returns and lengths of one run's training episodes, from raw rewards."""

    def __init__(self, envs: int) -> None:
        self.current_return = np.zeros(envs)
        self.current_length = np.zeros(envs, np.int64)
        self.returns: list[float] = []  # the last WINDOW
        self.lengths: list[int] = []
        self.episodes = 0
        self.best: float | None = None  # best mean over WINDOW consecutive episodes

    def record(self, reward: NDArray[np.float32], over: NDArray[np.bool_], first: int = 0) -> None:
        """A step of the environments from number `first` on."""
        part = slice(first, first + len(reward))
        self.current_return[part] += reward
        self.current_length[part] += 1
        for env in first + np.flatnonzero(over):
            self.returns = [*self.returns, float(self.current_return[env])][-WINDOW:]
            self.lengths = [*self.lengths, int(self.current_length[env])][-WINDOW:]
            self.episodes += 1
            self.current_return[env], self.current_length[env] = 0.0, 0
            if len(self.returns) == WINDOW:
                mean = math.fsum(self.returns) / WINDOW
                self.best = mean if self.best is None else max(self.best, mean)

    @property
    def last_mean(self) -> float | None:
        return math.fsum(self.returns) / len(self.returns) if self.returns else None

    def row(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "return_last_100": self.last_mean,
            "return_best_100": self.best,
            "length_last_100": sum(self.lengths) / len(self.lengths) if self.lengths else None,
        }

    def state(self) -> dict[str, Any]:
        return {
            "current_return": self.current_return.tolist(),
            "current_length": self.current_length.tolist(),
            "returns": self.returns,
            "lengths": self.lengths,
            "episodes": self.episodes,
            "best": self.best,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.current_return = np.array(state["current_return"])
        self.current_length = np.array(state["current_length"], np.int64)
        self.returns, self.lengths = list(state["returns"]), list(state["lengths"])
        self.episodes, self.best = state["episodes"], state["best"]


class UpdateMeans:
    """Means of what updates measured since the last row; sums stay on the device, in place."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}  # [P] or [P, ...]

    def add(self, measured: dict[str, Tensor]) -> None:
        if not self.sums:
            self.sums = {name: torch.zeros_like(tensor) for name, tensor in measured.items()}
        torch._foreach_add_([self.sums[name] for name in measured], list(measured.values()))

    def rows(self, runs: int, count: int) -> list[dict[str, float]]:
        """One row per run, over `count` updates; empty ones if there were none."""
        rows: list[dict[str, float]] = [{} for _ in range(runs)]
        if count == 0:
            return rows
        for name, total in self.sums.items():
            values = total.cpu()
            for run, row in enumerate(rows):
                if name == "key_hits":
                    row["keys_in_use"] = int((values[run] > 0).sum())
                else:
                    row[name] = float(values[run]) / count
        return rows

    def clear(self) -> None:
        for total in self.sums.values():
            total.zero_()

    def state(self, run: int) -> dict[str, Tensor]:
        return {f"sum.{name}": total[run].cpu() for name, total in self.sums.items()}

    def load_states(self, states: list[dict[str, Tensor]], device: torch.device) -> None:
        names = [name for name in states[0] if name.startswith("sum.")]
        self.sums = {
            name.removeprefix("sum."): torch.stack([s[name] for s in states]).to(device)
            for name in names
        }


class MetricsWriter:
    """Rows to `metrics.jsonl` and TensorBoard. Only keys under `time/` depend on the clock."""

    def __init__(self, run: RunDir, length: int = 0, frames: int = 0) -> None:
        """Continue after the first `length` bytes, written up to `frames`; later ones go."""
        self._file = run.metrics_file.open("ab")
        if self.length < length:
            warnings.warn(f"'{run.metrics_file}' has lost its last rows", stacklevel=2)
        self._file.truncate(min(length, self.length))
        self._board = _tensorboard(run, frames)

    @property
    def length(self) -> int:
        return self._file.seek(0, 2)

    def write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        if self._board is not None:
            for name, value in row.items():
                if name != "frames" and value is not None:
                    self._board.add_scalar(name, value, row["frames"])

    def sync(self) -> None:
        """Rows must outlive a power cut as surely as the checkpoint that counts them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _tensorboard(run: RunDir, frames: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # training without a TensorBoard installed is fine
        return None
    return SummaryWriter(str(run.path), purge_step=frames + 1 if frames else None)


def record_step(statistics: list[EpisodeStatistics], step: Step, first: int = 0) -> None:
    """Hand each run its part of a step of every run's environments from number `first` on."""
    runs = len(statistics)
    rewards = step.reward.reshape(runs, -1)
    overs = (step.terminated | step.truncated).reshape(runs, -1)
    for own, reward, over in zip(statistics, rewards, overs, strict=True):
        own.record(reward, over, first)
