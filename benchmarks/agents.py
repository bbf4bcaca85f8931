"""All agents side by side: the same games, seeds and frames; scores, and what they cost.

    python benchmarks/agents.py --frames 3_000_000 --runs-dir runs/agents --out agents

Each agent's games and seeds are one population, trained by idqn's own `train`, one agent after
another. With `--minutes`, or after SIGTERM or Ctrl-C, it stops with checkpoints written and exit
code 75; the same command goes on from there. `benchmarks/README.md` says more.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

# threads that wait by spinning stall each other where cores are shared; before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import torch
from curves import curve, scores, speed
from report import hardware, versions

from idqn import checkpoint
from idqn.bench.parts import learner_us
from idqn.config import AgentName, Config
from idqn.console import TrainingDisplay
from idqn.errors import DivergenceError, UserError
from idqn.export import export, size_mb
from idqn.presets import preset
from idqn.reproduce.deadline import UNFINISHED, Deadline, OutOfTimeError, require_frames
from idqn.reproduce.evaluating import evaluate, evaluation_of
from idqn.reproduce.settings import changes, check_same, game_of
from idqn.reproduce.training import release_memory
from idqn.run_dir import RunDir, write_atomically
from idqn.system import resolve_device
from idqn.train import resume, train

_REFERENCE = "ddqn"
_AGENTS = (_REFERENCE, *(name for name in get_args(AgentName) if name != _REFERENCE))


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parse(arguments)
    try:
        _run(args, Deadline(args.minutes))
    except OutOfTimeError as stopped:
        print(f"{stopped}; the same command goes on", flush=True)
        return UNFINISHED
    except (UserError, DivergenceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(args: argparse.Namespace, deadline: Deadline) -> None:
    machine = hardware(_gpu(args.device))
    args.out.mkdir(parents=True, exist_ok=True)
    result = _known(args)
    for agent in args.agents:
        if agent in result["agents"]:
            print(f"{agent}: in {_results_file(args)} already", flush=True)
            continue
        runs = _trained(agent, args, deadline)
        result["agents"][agent] = own = _measured(runs, args, deadline) | {"hardware": machine}
        _compare(result["agents"])
        _write(_results_file(args), result)
        print(_line(agent, own), flush=True)
        release_memory()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=3_000_000, help="of each run")
    parser.add_argument("--games", nargs="+", default=["ALE/Pong-v5", "ALE/MsPacman-v5"])
    parser.add_argument("--agents", nargs="+", choices=_AGENTS, default=list(_AGENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--preset", default="paper")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="FIELD=VALUE",
        help="of the config, for all agents, for example train.envs=32",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--episodes", type=int, default=10, help="of each run's evaluation")
    parser.add_argument("--learner-seconds", type=float, default=5.0, help="of the learner alone")
    parser.add_argument("--weights-mb", type=float, default=8.0, help="keep no larger weights")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/agents"))
    parser.add_argument("--out", type=Path, required=True, help="agents.json and AGENT.tar")
    return parser.parse_args(arguments)


def _trained(agent: str, args: argparse.Namespace, deadline: Deadline) -> list[RunDir]:
    """The agent's population, trained to the end, by this command or by one before."""
    configs = [_config(agent, game, seed, args) for game in args.games for seed in args.seeds]
    paths = [args.runs_dir / _run_name(config) for config in configs]
    known = [RunDir(path) for path in paths if RunDir(path).config_file.exists()]
    for run in known:
        check_same(run, next(c for c in configs if _run_name(c) == run.name), "--runs-dir")
    if known and len(known) < len(paths):
        raise UserError(
            f"of {agent}'s runs only {', '.join(run.name for run in known)} exist in "
            f"'{args.runs_dir}'; choose another --runs-dir, or the --games and --seeds they have"
        )
    if known and all(checkpoint.find(run) >= args.frames for run in known):
        return known
    deadline.require(f"for {agent}")
    with TrainingDisplay() as display:
        watch = deadline.watching(display)
        print(f"{agent}: {'going on with' if known else 'training'} {len(paths)} runs", flush=True)
        outcome = (
            resume(paths[0], watch, frames=args.frames) if known else train(configs, paths, watch)
        )
    require_frames(agent, outcome.frames, args.frames)
    return outcome.runs


def _config(agent: str, game: str, seed: int, args: argparse.Namespace) -> Config:
    return preset(args.preset, game, agent).replace(
        **{
            "train.frames": args.frames,
            "train.seed": seed,
            "system.device": args.device,
            "system.keep_checkpoints": 1,
            **changes(args.set),
        }
    )


def _run_name(config: Config) -> str:
    return f"{game_of(config.env.id)}-{config.agent.name}-s{config.train.seed}"


def _measured(runs: list[RunDir], args: argparse.Namespace, deadline: Deadline) -> dict[str, Any]:
    """What the runs' own metrics say, their agents' games, and the learner's speed alone."""
    evaluations = [_evaluated(run, args, deadline) for run in runs]
    configs = [run.config() for run in runs]
    metrics = [run.metrics() for run in runs]
    agent = configs[0].agent.name
    sizes = _packed(runs, args.out / f"{agent}.tar", args.weights_mb)
    found = {
        **speed(metrics),
        "time_ratio": None,
        "learner_us_per_run_update": None,
        "learner_time_ratio": None,
        "envs": configs[0].train.envs,
        "runs": [
            {
                "game": config.env.id,
                "seed": config.train.seed,
                **scores(own),
                "evaluation": evaluation,
                "weights": f"{agent}.tar" if sizes[run.name] <= args.weights_mb else None,
                "weights_mb": sizes[run.name],
                "curve": curve(own),
            }
            for run, config, own, evaluation in zip(
                runs, configs, metrics, evaluations, strict=True
            )
        ],
    }
    if args.learner_seconds > 0:
        release_memory()
        found["learner_us_per_run_update"] = learner_us(configs, args.learner_seconds)
    return found


def _packed(runs: list[RunDir], target: Path, most_mb: float) -> dict[str, float]:
    """Export the newest checkpoints into a tar; returns the MB (of 2**20 bytes) of each run, of
    which those above `most_mb` were left out; no tar if all were."""
    with tempfile.TemporaryDirectory(prefix="idqn-agents-") as folder:
        small = [export(run, checkpoint.find(run), Path(folder, run.name)) for run in runs]
        sizes = {run.name: round(size_mb(run), 1) for run in small}
        kept = [run for run in small if sizes[run.name] <= most_mb]
        if kept:
            temporary = target.with_name(f".{target.name}")
            with tarfile.open(temporary, "w") as tar:
                for run in kept:
                    tar.add(run.path, run.name)
            temporary.replace(target)
    return sizes


def _evaluated(run: RunDir, args: argparse.Namespace, deadline: Deadline) -> dict[str, Any] | None:
    """Games without exploration, played once for each checkpoint."""
    if args.episodes == 0:
        return None
    frames = checkpoint.find(run)
    known = evaluation_of(run, frames, args.episodes)
    if known is None:
        deadline.require(f"to evaluate {run.name}")
        print(f"{run.name} plays {args.episodes} games", flush=True)
        evaluate(run, frames, args.episodes, args.device, deadline)
        return _evaluated(run, args, deadline)
    return {name: known[name] for name in ("episodes", "mean", "interval", "median", "distinct")}


def _compare(agents: dict[str, Any]) -> None:
    """How many times as long as Double DQN each takes: in all, and its learner alone."""
    if _REFERENCE not in agents:
        return
    reference = agents[_REFERENCE]
    for own in agents.values():
        own["time_ratio"] = round(reference["frames_per_s"] / own["frames_per_s"], 2)
        alone = [each["learner_us_per_run_update"] for each in (own, reference)]
        if None not in alone:
            own["learner_time_ratio"] = round(alone[0] / alone[1], 2)


def _line(agent: str, own: dict[str, Any]) -> str:
    scores = ", ".join(f"{r['game']} {r['final_100']} (best {r['best_100']})" for r in own["runs"])
    return f"{agent}: {own['frames_per_s']:,.0f} frames/s, ratio {own['time_ratio']}; {scores}"


def _known(args: argparse.Namespace) -> dict[str, Any]:
    """Results so far, if they are of the same settings, or none."""
    settings = {
        "frames": args.frames,
        "games": args.games,
        "seeds": args.seeds,
        "preset": args.preset,
        "set": args.set,
    }
    file = _results_file(args)
    if file.exists():
        result: dict[str, Any] = json.loads(file.read_text())
        if result["settings"] != settings:
            raise UserError(f"'{file}' has other settings; choose another --out")
        return result
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "what": "frames/s are of all runs of a population together, the median of its rows of "
        "metrics; ratios are to ddqn's time, end to end and the learner alone; final and best are "
        "means of 100 training episodes, evaluations are without exploration",
        "versions": versions(("idqn", "torch", "numpy", "gymnasium", "ale-py")),
        "settings": settings,
        "agents": {},
    }


def _results_file(args: argparse.Namespace) -> Path:
    file: Path = args.out / "agents.json"
    return file


def _write(path: Path, result: dict[str, Any]) -> None:
    text = json.dumps(result, indent=1)
    # lists of numbers on one line each
    text = re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda f: f"[{' '.join(f[1].split())}]", text)
    write_atomically(path, f"{text}\n".encode())


def _gpu(device: str) -> str | None:
    found = resolve_device(device)
    return torch.cuda.get_device_name(found) if found.type == "cuda" else None


if __name__ == "__main__":
    sys.exit(main())
