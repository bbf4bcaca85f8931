"""How long it takes to explain an agent: every explanation, the page, and saliency by itself."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from idqn.agent import Agent, Origin, load
from idqn.bench.process import Say, alone, tidy_when_terminated
from idqn.bench.saliency_loop import saliency_loop
from idqn.config import Config
from idqn.envs import describe
from idqn.envs.editing import NOOP
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.edited import AT_ONCE, heard
from idqn.explain.kinds import Settings, Subject, explain, usual
from idqn.explain.perturbation import Scale, perturb, squared_changes
from idqn.explain.states import States, about
from idqn.networks import build_network, members
from idqn.presets import preset
from idqn.report import write_page
from idqn.run_dir import RunDir
from idqn.system import resolve_device, system_info

_STATES_AT_ONCE = 8  # that saliency is measured with; the loop does the first of them
_STEPS_BEFORE_EDITS = 100  # the games' own openings are over by then
_ASKED = 10


class Work(NamedTuple):
    run: str | None
    device: str
    kinds: Sequence[str] | None
    """None: what a user who names none gets."""
    episodes: int
    max_steps: int
    repeats: int


def explaining_speed(work: Work, say: Say) -> dict[str, Any]:
    """Everything once, in a process of its own and into a temporary directory."""
    with (
        tidy_when_terminated(),
        tempfile.TemporaryDirectory(prefix="idqn-bench-") as folder,
    ):
        return alone(measure, work, Path(folder), say=say)


def measure(work: Work, folder: Path, say: Say) -> dict[str, Any]:
    agent = load(work.run, device=work.device) if work.run else untrained(device=work.device)
    run = RunDir.create_all([folder / "run"], [agent.config], system_info(agent.device))[0]
    settings = Settings(episodes=work.episodes, max_steps=work.max_steps)
    subject = Subject(agent, run, settings)
    seconds: dict[str, float] = {}
    refused: dict[str, str] = {}

    cpu_began = time.process_time()
    say("playing", "")
    seconds["states"] = _timed(lambda: subject.states)
    for kind in work.kinds or usual(subject):
        say(f"making {kind}", "")
        began = time.perf_counter()
        (explained,) = explain(subject, [kind])
        if explained.result is not None:
            explained.result.save(run)
            seconds[kind] = time.perf_counter() - began
        else:
            refused[kind] = str(explained.refusal)
    say("drawing the page", "")
    seconds["page"] = _timed(lambda: write_page(run, about(agent), refused))
    cpu_s = time.process_time() - cpu_began  # of all threads; what others keep waiting is not in it
    memory = _memory(agent.device)  # before the loop has its own
    say("measuring saliency beside the loop", "")
    return {
        "run": work.run or "untrained",
        "env": agent.config.env.id,
        "agent": agent.name,
        "states": len(subject.states),
        "seconds": {what: round(spent, 3) for what, spent in seconds.items()},
        "refused": refused,
        "total_s": round(sum(seconds.values()), 3),
        "total_cpu_s": round(cpu_s, 3),
        "page_mb": round(run.report.stat().st_size / 2**20, 3),
        "report_mb": round(
            sum(file.stat().st_size for file in run.report.parent.iterdir()) / 2**20, 3
        ),
        **memory,
        "threads": torch.get_num_threads(),
        "saliency": saliency_speed(agent, subject.states, work.repeats),
        "edited_states": edited_states_speed(agent, work.repeats),
    }


def untrained(config: Config | None = None, device: str = "cpu") -> Agent:
    """An agent as it is before its first update; by default the paper's, of MsPacman."""
    config = config or preset("paper", "ALE/MsPacman-v5")
    spec = describe(config.env)
    shape = spec.observation_shape(config.env.frame_stack)
    network = build_network(config.agent, shape, spec.num_actions, config.train.seed)
    return Agent(network, config, spec, resolve_device(device), Origin("untrained"))


def saliency_speed(agent: Agent, states: States, repeats: int) -> dict[str, Any]:
    """Seconds for one state, medians; every ratio is of times measured one after the other."""
    some = np.unique(np.linspace(0, len(states) - 1, _STATES_AT_ONCE).astype(np.int64))
    observations, action = states.observations(some), int(states.action[0])
    scale = Scale.of(*observations.shape[-2:])
    stride = -(-observations.shape[-2] // scale.rows)
    found = perturb(agent, observations)  # the first time, libraries prepare themselves
    plain = partial(
        saliency_loop,
        agent,
        observations[0],
        action,
        stride,
        scale.mask_sigma,
        scale.blur_sigma,
    )
    batched, loop, decoding = [], [], []
    for _ in range(repeats):
        each = _timed(lambda: squared_changes(perturb(agent, observations))) / len(some)
        batched.append(each)
        loop.append(_timed(plain))
        if members(agent.network)[0].decoder is not None:
            decoding.append(_timed(lambda: plain(decode=True)))
    return {
        "masks": scale.rows * scale.columns,
        "actions": found.q.shape[1],
        "batched_s": _median(batched),
        "loop_s": _median(loop),
        "ratio": _ratio(loop, batched),
        "loop_with_decoder_s": _median(decoding) if decoding else None,
        "ratio_with_decoder": _ratio(decoding, batched) if decoding else None,
        "repeats": repeats,
        "states_at_once": len(some),
        "loop": "as the authors': per mask the mask and the blurred frame made anew, and one "
        "forward pass, for one action; OpenCV for scipy. Batched: all actions",
    }


def edited_states_speed(agent: Agent, repeats: int) -> dict[str, Any] | None:
    """How fast the search for adversarial states makes edited states, by one emulator on one core,
    and asks the agent about them; None for a game that cannot be edited."""
    try:
        env = make_editable(agent.config.env)
    except UserError:
        return None
    try:
        if not env.edits:
            return None
        env.reset(EVALUATION_SEED)
        for _ in range(_STEPS_BEFORE_EDITS):
            if any(env.step(NOOP)[2:]):
                env.reset(EVALUATION_SEED)
                break
        choices = [(name, params) for name in env.edits for params in env.choices(name)]
        rng = np.random.default_rng(EVALUATION_SEED)
        trials = [[choices[i]] for i in rng.integers(len(choices), size=AT_ONCE)]
        made = [settled.observation for settled in env.try_edits(trials)]
        heard(agent, made)  # the first time, libraries prepare themselves
        stepping, making, asking = [], [], []
        for _ in range(repeats):
            stepping.append(_timed(lambda: list(env.try_edits(trials, [NOOP]))))
            making.append(_timed(lambda: list(env.try_edits(trials))))
            asking.append(_timed(lambda: [heard(agent, made) for _ in range(_ASKED)]) / _ASKED)
        return {
            "edited_and_stepped_per_s_per_core": round(AT_ONCE / statistics.median(stepping), 1),
            "edited_and_settled_per_s_per_core": round(AT_ONCE / statistics.median(making), 1),
            "scored_per_s": round(AT_ONCE / statistics.median(asking), 1),
            "settle_steps": env.settle_steps,
            "states_at_once": AT_ONCE,
        }
    finally:
        env.close()


def _timed(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 5)


def _ratio(slow: list[float], fast: list[float]) -> float:
    return round(statistics.median(s / f for s, f in zip(slow, fast, strict=True)), 2)


def _memory(device: torch.device) -> dict[str, float | None]:
    """The most that this process took until now; MB are 2**20 bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 2**10
    tensors = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    return {"peak_memory_mb": round(most * unit / 2**20, 1), "peak_gpu_memory_mb": tensors}
