"""What each command takes and does. Heavy imports wait until a command needs them."""

from __future__ import annotations

from idqn.commands.explaining import AttackOptions, ExplainOptions, attack, explain
from idqn.commands.listing import RunsOptions, runs
from idqn.commands.playing import EvalOptions, PlayOptions, evaluate, play
from idqn.commands.training import (
    ConfigOptions,
    PresetName,
    ResumeOptions,
    TrainOptions,
    config,
    resume,
    train,
)

__all__ = [
    "AttackOptions",
    "ConfigOptions",
    "EvalOptions",
    "ExplainOptions",
    "PlayOptions",
    "PresetName",
    "ResumeOptions",
    "RunsOptions",
    "TrainOptions",
    "attack",
    "config",
    "evaluate",
    "explain",
    "play",
    "resume",
    "runs",
    "train",
]
