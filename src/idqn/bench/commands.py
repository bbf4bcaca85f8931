"""What `idqn bench ...` does and prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idqn import presets
from idqn.bench.options import (
    ATARI_GAMES,
    BenchEnvOptions,
    BenchReplayOptions,
    BenchTrainOptions,
)
from idqn.bench.record import check_place, load_average, write
from idqn.bench.record import machine as machine_of
from idqn.config import Config, field_names, to_dict
from idqn.errors import UserError


def bench_train(options: BenchTrainOptions) -> int:
    sizes, games = _sizes(options.runs), options.envs or ATARI_GAMES
    _check(options.seconds, options.json)
    agent = options.tree.agent.name
    overrides = _overrides(options.tree, presets.preset(options.preset, games[0], agent))
    if overrides.pop("train.frames", None) is not None:
        warnings.warn("train.frames does not matter: it is --seconds that counts", stacklevel=2)
    from idqn import console
    from idqn.bench.population import population_speed
    from idqn.system import resolve_device

    population = [options.tree.replace(**{"env.id": game}) for game in games]
    _describe(population)
    resolve_device(options.tree.system.device)
    results: list[dict[str, Any]] = []
    try:
        with console.Activity(options.quiet) as activity:
            for runs in sizes:
                configs = [
                    population[run % len(games)].replace(**{"train.seed": run // len(games)})
                    for run in range(runs)
                ]
                load = load_average()
                speed = population_speed(
                    configs,
                    frozenset(overrides),
                    options.seconds,
                    activity.about(_runs(runs)),
                )
                measured = dataclasses.asdict(speed)
                machine = machine_of(measured.pop("system"))
                about = {
                    "games": list(dict.fromkeys(config.env.id for config in configs)),
                    "agent": agent,
                    "preset": options.preset,
                    "overrides": overrides,
                    "load_average_1_min": load,
                }
                results.append(measured | about | machine)
                write(results, options.json)
    finally:
        if results:  # what was measured before something went wrong, too
            _print_populations(results)
    return 0


def bench_env(options: BenchEnvOptions) -> int:
    games = options.games
    if not games:
        raise UserError("--games needs at least one environment, for example: ALE/Pong-v5")
    if options.envs < len(games):
        raise UserError(
            f"--envs must be at least the number of games ({len(games)}), got {options.envs}"
        )
    _check(options.seconds, options.json)
    changes = {"system.workers": options.workers}
    base = presets.preset("paper", games[0]).replace(**changes)
    population = [base.replace(**{"env.id": game}) for game in games]
    from idqn import console
    from idqn.bench.parts import emulator_speed
    from idqn.system import resolve_device, system_info

    _describe(population)
    machine = machine_of(system_info(resolve_device("cpu")))
    measured = {game: [config] for game, config in zip(games, population, strict=True)}
    if len(measured) > 1:
        measured["mix"] = population
    results: list[dict[str, Any]] = []
    with console.Activity(options.quiet) as activity:
        for name, configs in measured.items():
            activity(f"measuring {name}")
            envs = options.envs // len(configs)
            turns = 2 if envs % 2 == 0 else 1
            share = {"train.envs": envs, "train.turns": turns}
            load = load_average()
            speed = emulator_speed([config.replace(**share) for config in configs], options.seconds)
            result = {
                "games": [config.env.id for config in configs],
                "emulator_frames_per_s": speed.frames_per_s,
                "envs": envs * len(configs),
                "turns": turns,
                "workers": speed.workers,
                "load_average_1_min": load,
            }
            results.append(result | machine)
            write(results, options.json)
    rows = [
        [name, f"{r['emulator_frames_per_s']:,.0f}", str(r["envs"]), str(r["workers"])]
        for name, r in zip(measured, results, strict=True)
    ]
    console.print_table(["game", "frames/s", "environments", "workers"], rows)
    return 0


def bench_replay(options: BenchReplayOptions) -> int:
    sizes = _sizes(options.runs)
    _check(options.seconds, options.json)
    turns = 2 if options.envs % 2 == 0 else 1
    config = presets.preset("paper", ATARI_GAMES[0]).replace(
        **{
            "train.envs": options.envs,
            "train.turns": turns,
            "replay.transitions": options.transitions,
            "replay.batch_size": options.batch_size,
            "replay.learning_starts_steps": max(options.batch_size, options.transitions),
            "system.device": options.device,
        }
    )
    from idqn import console
    from idqn.bench.parts import replay_speed
    from idqn.system import resolve_device, system_info

    machine = machine_of(system_info(resolve_device(options.device)))
    results: list[dict[str, Any]] = []
    with console.Activity(options.quiet) as activity:
        for runs in sizes:
            activity(f"{_runs(runs)}: filling replay, storing and drawing")
            load = load_average()
            speed = replay_speed(config, runs, options.seconds)
            about = {
                "envs": options.envs,
                "turns": turns,
                "transitions": options.transitions,
                "batch_size": options.batch_size,
                "load_average_1_min": load,
            }
            results.append({"runs": runs} | speed._asdict() | about | machine)
            write(results, options.json)
    headings = ["runs", "store a step, µs", "per agent step", "draw a batch, µs", "per run"]
    names = ("append_us", "append_us_per_agent_step", "sample_us", "sample_us_per_run")
    rows = [[str(r["runs"]), *(f"{r[name]:,.2f}" for name in names)] for r in results]
    console.print_table(headings, rows)
    return 0


def _print_populations(results: list[dict[str, Any]]) -> None:
    from idqn import console

    headings = [
        "runs",
        "frames/s in all",
        "per run",
        "learner µs/run-update",
        "emulators frames/s",
        "waiting for emulators",
        "waiting for device",
        "GPU MB/run",
        "start s",
    ]
    rows = []
    for r in results:
        memory, learner = r["gpu_memory_mb_per_run"], r["learner_us_per_run_update"]
        rows.append(
            [
                str(r["runs"]),
                f"{r['end_to_end_frames_per_s']:,.0f}",
                f"{r['frames_per_s_per_run']:,.0f}",
                f"{learner:,.1f}" if learner < 1000 else f"{learner:,.0f}",
                f"{r['emulator_frames_per_s']:,.0f}",
                f"{r['share_waiting_for_envs']:.0%}",
                f"{r['share_waiting_for_device']:.0%}",
                "-" if memory is None else f"{memory:,.0f}",
                f"{r['startup_s']:.1f}",
            ]
        )
    console.print_table(headings, rows)


def _runs(runs: int) -> str:
    return f"{runs} run" if runs == 1 else f"{runs} runs"


def _sizes(text: str) -> list[int]:
    """`1,8,24` as numbers."""
    example = "for example: --runs 1,8,24"
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--runs takes whole numbers, got '{text}'; {example}") from None
    if min(sizes) < 1:
        raise UserError(f"--runs must be at least 1 each, got '{text}'; {example}")
    return sizes


def _check(seconds: float, json: Path | None) -> None:
    """What would otherwise be found out when all has been measured."""
    if not (seconds > 0 and math.isfinite(seconds)):
        raise UserError(f"--seconds must be a positive number, got {seconds}")
    check_place(json)


def _describe(population: Sequence[Config]) -> None:
    """Find out about wrong games before anything slow."""
    from idqn.envs import describe
    from idqn.envs.registry import check_same_frames

    specs = [describe(config.env) for config in population]
    check_same_frames(specs, [config.env.id for config in population])


def _overrides(config: Config, preset: Config) -> dict[str, Any]:
    """The fields that a file or a flag changed."""
    chosen, given = to_dict(config), to_dict(preset)
    changed = {}
    for name in field_names():
        group, leaf = name.split(".")
        if name != "env.id" and chosen[group][leaf] != given[group][leaf]:
            changed[name] = chosen[group][leaf]
    return changed
