"""Replay, the training loop, and the machine that it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from idqn.config.checks import require


@dataclass(frozen=True)
class ReplayConfig:
    transitions: int = 10_000
    """Capacity; the oldest transitions are forgotten."""
    batch_size: int = 32
    """Transitions per update."""
    learning_starts_steps: int = 10_000
    """Agent steps taken before the first update (by the agent's own policy)."""
    prioritized: bool = False
    """Draw transitions the more often the larger their last error was (Schaul et al. 2016),
    instead of uniformly."""
    priority_exponent: float = 0.6
    """Prioritized: α, how far errors decide; 0 is uniform, 1 in proportion to the error."""
    priority_correction: float = 0.4
    """Prioritized: initial β of the importance weights, which undo the bias in full at 1."""
    priority_correction_steps: int = 2_500_000
    """Prioritized: agent steps over which β rises to 1, in a straight line."""

    def __post_init__(self) -> None:
        require(self.transitions >= 1, f"replay.transitions must be >= 1, got {self.transitions}")
        require(
            1 <= self.batch_size <= self.transitions,
            f"replay.batch_size must be between 1 and replay.transitions "
            f"({self.transitions}), got {self.batch_size}",
        )
        require(
            self.learning_starts_steps >= self.batch_size,
            f"replay.learning_starts_steps must be at least replay.batch_size "
            f"({self.batch_size}), got {self.learning_starts_steps}",
        )
        require(
            self.priority_exponent >= 0,
            f"replay.priority_exponent must not be negative, got {self.priority_exponent}",
        )
        require(
            0 <= self.priority_correction <= 1,
            f"replay.priority_correction must be in [0, 1], got {self.priority_correction}",
        )
        require(
            self.priority_correction_steps >= 1,
            f"replay.priority_correction_steps must be at least 1, "
            f"got {self.priority_correction_steps}",
        )


@dataclass(frozen=True)
class TrainConfig:
    frames: Annotated[int, tyro.conf.arg(aliases=["--frames"])] = 10_000_000
    """Emulator frames to train for, counted as agent steps x frame_skip."""
    seed: tyro.conf.Suppress[int] = 0
    """Seed of everything random in the run."""
    envs: int = 16
    """Environments this run plays at once; does not change the replay ratio."""
    turns: int | None = None
    """Equal parts in which the environments take turns: while those of one part step, actions
    are chosen for another. None means 1 where emulators are not in processes of their own, 2 for
    Atari, and 4 for large populations on a GPU, if that divides the environments."""
    discount: float = 0.99
    """γ."""
    n_step: int = 1
    """Steps of reward before the next state is valued."""
    train_every_steps: int = 4
    """Agent steps per update."""
    target_sync_steps: int = 1_000
    """Agent steps between copies of the online network into the target network."""
    bootstrap: Literal["double", "target", "online"] = "double"
    """Who values the next state: double, the online network chooses the action and the target
    network values it (the code); target, the target network does both; online, the online
    network does both (the text, read literally)."""
    clip_rewards: bool = False
    """Learn from rewards clipped to [-1, 1]; statistics always see raw ones."""
    bootstrap_on_truncation: bool = True
    """Value the state after a time limit; the authors' code treated it as terminal."""

    def __post_init__(self) -> None:
        for name in ("frames", "envs", "n_step", "train_every_steps", "target_sync_steps"):
            value = getattr(self, name)
            require(value >= 1, f"train.{name} must be at least 1, got {value}")
        require(
            self.turns is None or (self.turns >= 1 and self.envs % self.turns == 0),
            f"train.turns must divide train.envs ({self.envs}), got {self.turns}",
        )
        require(
            0 <= self.seed < 2**31, f"train.seed must be between 0 and 2**31 - 1, got {self.seed}"
        )
        require(
            0.0 <= self.discount < 1.0, f"train.discount must be in [0, 1), got {self.discount}"
        )


@dataclass(frozen=True)
class SystemConfig:
    device: Annotated[str, tyro.conf.arg(aliases=["--device"])] = "auto"
    """cpu, cuda, cuda:N, or auto: CUDA where there is one."""
    workers: int | None = None
    """Emulator processes; 0 steps the environments in the training process, None uses one per
    CPU core for Atari and 0 otherwise. Never changes results."""
    threads: int | None = None
    """Torch CPU threads; None means all cores on the CPU and 1 beside a GPU. Part of what makes
    CPU results repeatable to the bit."""
    matmul_precision: Literal["highest", "high", "medium"] = "medium"
    """Precision of products on a GPU, in torch's words: float32, TF32 or bfloat16; sums,
    parameters and the memory are float32 always. A CPU computes everything in float32."""
    log_every_frames: int = 10_000
    """Frames between rows of metrics."""
    checkpoint_every_frames: int = 500_000
    """Frames between checkpoints."""
    keep_checkpoints: int = 3
    """Checkpoints kept, besides the best one."""

    def __post_init__(self) -> None:
        for name in ("log_every_frames", "checkpoint_every_frames", "keep_checkpoints"):
            value = getattr(self, name)
            require(value >= 1, f"system.{name} must be at least 1, got {value}")
        require(
            self.workers is None or self.workers >= 0,
            f"system.workers must be at least 0, got {self.workers}",
        )
        require(
            self.threads is None or self.threads >= 1,
            f"system.threads must be at least 1, got {self.threads}",
        )
