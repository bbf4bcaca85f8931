"""What `idqn bench explain` takes and prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from idqn.bench.record import check_place, load_average, machine, write
from idqn.errors import UserError, nearest
from idqn.run_dir import RunDir


@dataclass(frozen=True)
class BenchExplainOptions:
    """Measure how long explanations take here, and saliency beside its authors' loop.

    Everything that `idqn explain` makes is made, into a temporary directory. Without a RUN it is
    about an untrained i-DQN agent of MsPacman with the paper's settings.
    """

    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Run directory."""
    only: tuple[str, ...] | None = None
    """Make these explanations alone."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""
    episodes: int = 5
    """Games the agent plays, whose states are explained."""
    max_steps: int = 1_000
    """Agent steps of each game that are looked at."""
    repeats: int = 3
    """How often saliency and the loop are each measured, in turn."""
    json: Path | None = None
    """Write the results here: a list with one object."""
    quiet: bool = False
    """No progress."""


def bench_explain(options: BenchExplainOptions) -> int:
    if options.repeats < 1:
        raise UserError(f"--repeats must be at least 1, got {options.repeats}")
    check_place(options.json)
    run = None if options.run is None else str(RunDir.open(options.run).path)
    from idqn import console
    from idqn.bench.explaining import Work, explaining_speed
    from idqn.explain.kinds import KINDS
    from idqn.system import resolve_device, system_info

    for kind in options.only or ():
        if kind not in KINDS:
            raise UserError(f"unknown explanation '{kind}'{nearest(kind, KINDS)}")
    device = resolve_device(options.device)
    work = Work(
        run, str(device), options.only, options.episodes, options.max_steps, options.repeats
    )
    load = load_average()
    with console.Activity(options.quiet) as activity:
        speed = explaining_speed(work, say=activity)
    result = speed | {"load_average_1_min": load} | machine(system_info(device))
    write([result], options.json)
    _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    from idqn import console

    rows = [[what, f"{seconds:,.1f}"] for what, seconds in result["seconds"].items()]
    rows += [[f"{kind} (refused)", "-"] for kind in result["refused"]]
    rows += [["all", f"{result['total_s']:,.1f}"], ["of a core", f"{result['total_cpu_s']:,.1f}"]]
    console.print_table(["", "seconds"], rows)
    saliency = result["saliency"]
    print(
        f"page: {result['page_mb']:.1f} MB ({result['report_mb']:.1f} MB with what lies beside "
        f"it); memory: {result['peak_memory_mb']:,.0f} MB at most"
    )
    print(
        f"saliency of a state, {saliency['masks']} masks: {saliency['batched_s']:.3f} s; the "
        f"authors' loop: {saliency['loop_s']:.2f} s, {saliency['ratio']:.0f} times as long"
    )
    if edited := result["edited_states"]:
        print(
            f"edited states, per second: {edited['edited_and_stepped_per_s_per_core']:,.0f} made "
            f"and played for a step by a core, {edited['edited_and_settled_per_s_per_core']:,.0f} "
            f"until all frames show the edit; {edited['scored_per_s']:,.0f} scored by the agent"
        )
