"""Training throughput of CleanRL's `c51_atari.py` or `dqn_atari.py` on CPU cores.

    python benchmarks/cleanrl.py CLEANRL/cleanrl/c51_atari.py --seconds 60 --json c51.json

The script runs as it is, in a process of its own. While it learns it prints a line at every
hundredth agent step; the moments at which those lines arrive are all that is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import STEPS_PER_UPDATE, WARM_UP_UPDATES, hardware, publish, rates, versions

_STEPS_PER_LINE = 100
_WARM_UP_LINES = WARM_UP_UPDATES * STEPS_PER_UPDATE // _STEPS_PER_LINE

# ale-py registers its games when it is imported, which the scripts leave to older versions of it.
_LAUNCHER = (
    "import ale_py, runpy, sys; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def script_flags(game: str) -> list[str]:
    """What differs from the script's defaults, and the defaults that the comparison rests on."""
    return [
        *("--env-id", no_frameskip_id(game)),
        *("--num-envs", "1"),
        *("--batch-size", "32"),
        *("--train-frequency", str(STEPS_PER_UPDATE)),
        *("--buffer-size", "100000"),
        *("--learning-starts", "1000"),
        # from the first step what end-e is: random actions need no network, and would flatter
        *("--start-e", "0.01"),
        "--no-cuda",
        "--no-track",
        "--no-capture-video",
    ]


def no_frameskip_id(game: str) -> str:
    """`ALE/Pong-v5` as the id whose frames are skipped by CleanRL's wrapper, not twice."""
    return game.removeprefix("ALE/").removesuffix("-v5") + "NoFrameskip-v4"


@contextmanager
def running(script: Path, flags: Sequence[str], threads: int) -> Iterator[Iterator[str]]:
    """The lines that `script` prints, as they come; it ends with the block."""
    environment = os.environ | {
        "PYTHONPATH": str(script.parent.parent),  # where cleanrl_utils is
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
    }
    with (
        tempfile.TemporaryDirectory() as scratch,  # the script writes its curves into runs/
        subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(script), *flags],
            cwd=scratch,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()
            process.wait()


def time_lines(lines: Iterator[str], seconds: float) -> list[float]:
    """Arrival times of the lines that mark hundred steps each, after warm-up, over `seconds`."""
    times: list[float] = []
    seen = 0
    last_words: deque[str] = deque(maxlen=20)
    for line in lines:
        now = time.perf_counter()
        last_words.append(line)
        if not line.startswith("SPS:"):
            continue
        seen += 1
        if seen > _WARM_UP_LINES:
            times.append(now)
        if times and now >= times[0] + seconds:
            return times
    raise SystemExit("the script ended before the window did; it said:\n" + "".join(last_words))


def measure(script: Path, game: str, seconds: float, threads: int) -> dict[str, Any]:
    machine = hardware()
    flags = script_flags(game)
    with running(script, flags, threads) as lines:
        times = time_lines(lines, seconds)
    steps = (len(times) - 1) * _STEPS_PER_LINE
    packages = ("torch", "numpy", "gymnasium", "ale-py", "opencv-python-headless")
    return {
        "peer": f"CleanRL {script.name}",
        "versions": versions(packages),
        "hardware": machine,
        "device": "cpu",
        "envs": 1,
        "game": game,
        **rates(times[-1] - times[0], steps, steps / STEPS_PER_UPDATE),
        "gpu_memory_mb": None,
        "settings": {
            "flags": flags,
            "torch_threads": threads,
            "script_sha256": hashlib.sha256(script.read_bytes()).hexdigest(),
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("script", type=Path, help="c51_atari.py or dqn_atari.py in a checkout")
    parser.add_argument("--game", default="ALE/Pong-v5", help="Gymnasium id, ALE/NAME-v5")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the window")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    args = parser.parse_args(arguments)
    script: Path = args.script.resolve()
    if not (script.parent.parent / "cleanrl_utils").is_dir():
        raise SystemExit(f"{args.script} is not in a checkout of CleanRL: no cleanrl_utils beside")
    publish(measure(script, args.game, args.seconds, args.threads), args.json)


if __name__ == "__main__":
    main()
