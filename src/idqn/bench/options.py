"""What `idqn bench train`, `env` and `replay` take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from idqn.commands import PresetName
from idqn.config import Config
from idqn.presets import PAPER_GAMES

ATARI_GAMES = tuple(f"ALE/{game}-v5" for game in PAPER_GAMES)
Sizes = Annotated[str, tyro.conf.arg(metavar="N,N,...")]


@dataclass(frozen=True)
class BenchTrainOptions:
    """Measure how fast populations train here: as a whole, and emulators and learner alone.

    Each population is really trained, into a temporary directory. Learning starts early and lasts
    until it has been measured for --seconds; then its emulators play alone and its learner learns
    alone. Every field of the config can be set, as for `idqn train`.
    """

    runs: Sizes = "1,8,24"
    """Population sizes to measure. Runs take the games in turn, then the next seed: with the
    paper's eight games, 24 are three seeds of each."""
    envs: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            name="games", metavar="ENV", help_behavior_hint="(default: the paper's eight)"
        ),
    ] = ()
    """Environment ids."""
    seconds: float = 30.0
    """How long each population is measured once it learns at full speed; to the next row of
    metrics, so it takes a little longer."""
    json: Path | None = None
    """Write the results here: a list with one object for each population size."""
    preset: PresetName = "paper"
    """paper: the text, made sound; authors: what their code did; tuned: with what others have
    found to work better since; quick: small, for a CPU."""
    config: Path | None = None
    """TOML file laid over the preset; flags are laid over both."""
    quiet: bool = False
    """No progress."""
    tree: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


@dataclass(frozen=True)
class BenchEnvOptions:
    """Measure how fast emulators alone run here: each game, and all of them together."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV")] = ATARI_GAMES
    """Environment ids."""
    envs: int = 64
    """Environments at once: all of one game, then shared equally between the games."""
    workers: int | None = None
    """Emulator processes; 0 uses none, None one per CPU core for Atari and none otherwise."""
    seconds: float = 5.0
    """How long each is measured."""
    json: Path | None = None
    """Write the results here: a list with one object for each game and one for the mix."""
    quiet: bool = False
    """No progress."""


@dataclass(frozen=True)
class BenchReplayOptions:
    """Measure how fast replay stores steps and draws batches here, with Atari's frames."""

    runs: Sizes = "1,8,24"
    """Population sizes to measure."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""
    envs: int = 8
    """Environments of each run."""
    transitions: int = 10_000
    """Capacity of each run's replay, which is filled first."""
    batch_size: int = 32
    """Transitions per batch."""
    seconds: float = 2.0
    """How long storing and drawing are each measured."""
    json: Path | None = None
    """Write the results here: a list with one object for each population size."""
    quiet: bool = False
    """No progress."""
