"""A population in training: the one explicit state that holds everything a restart needs."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from idqn import checkpoint
from idqn.capture import Captured
from idqn.choice import Choice
from idqn.clock import Clock
from idqn.config import Config
from idqn.envs import EnvPositions, describe
from idqn.envs.registry import check_same_frames
from idqn.errors import DivergenceError, UserError
from idqn.learner import Learner
from idqn.metrics import EpisodeStatistics, MetricsWriter, UpdateMeans, record_step
from idqn.population import check_population, population_envs, population_replay
from idqn.positions import packed, unpacked
from idqn.run_dir import RunDir
from idqn.saving import Saving
from idqn.system import resolve_device, system_info, use_device
from idqn.types import Step


class Training:
    """A population in training."""

    def __init__(self, configs: list[Config]) -> None:
        check_population(configs)
        self.configs = configs
        self.config = config = configs[0]  # for what all runs share
        self.device = resolve_device(config.system.device)
        assert config.system.threads is not None
        torch.set_num_threads(config.system.threads)
        self._precision_before = torch.get_float32_matmul_precision()
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision(config.system.matmul_precision)
        specs = [describe(c.env) for c in configs]
        check_same_frames(specs, [c.env.id for c in configs])
        envs, turns = config.train.envs, config.train.turns
        assert turns is not None

        # first, because its processes take their time to start
        self.envs = population_envs(configs, self.device)
        use_device(self.device)
        shape = specs[0].observation_shape(config.env.frame_stack)
        actions = [spec.num_actions for spec in specs]
        self.learner = Learner(configs, shape, actions, self.device)
        self.replay = population_replay(configs, specs[0], self.envs.frame_shape, self.device)
        self.statistics = [EpisodeStatistics(envs) for _ in configs]
        self.means = UpdateMeans()
        self.steps = 0  # agent steps of each run
        self.updates = 0
        self.turn = 0  # whose environments act next
        self.pending: list[NDArray[np.int64] | None] = [None] * turns  # sent and not yet answered
        self._turn_envs = envs // turns
        self._choices = [Choice(self.learner, self.replay, turn) for turn in range(turns)]
        self._update = Captured(self._draw_and_learn, self.device)
        self._updates_logged = 0
        self.runs: list[RunDir] = []
        self._locks: list[IO[bytes]] = []
        self.writers: list[MetricsWriter] = []
        self._best: list[float | None] = [None for _ in configs]
        self._saved_frames: int | None = None
        on_gpu = self.device.type == "cuda"
        self._saving = Saving(beside=on_gpu, keep=config.system.keep_checkpoints)
        self._clock = Clock()

    @property
    def frames(self) -> int:
        """Emulator frames of each run."""
        return self.steps * self.config.env.frame_skip

    def create(self, paths: list[Path]) -> None:
        """Begin in new run directories."""
        self.runs = RunDir.create_all(paths, self.configs, system_info(self.device))
        self._locks = [run.lock() for run in self.runs]
        self.writers = [MetricsWriter(run) for run in self.runs]
        self.replay.start(self._start_envs())
        self.save()  # so that a run can be resumed from its first moment on

    def restore(self, runs: list[RunDir], frames: int) -> None:
        """Continue from the checkpoints at `frames`."""
        self._locks = [run.lock() for run in runs]
        saved = [checkpoint.load(run, frames) for run in runs]
        try:
            for run, own in enumerate(saved):
                self.learner.load(run, own.weights, own.training)
                self.replay.load_state(run, own.replay)
                self.statistics[run].load_state(own.state["statistics"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise UserError(
                f"the checkpoint at {frames:,} frames of '{runs[run].path}' does not fit its "
                f"config.json: it comes from another run"
            ) from error
        common = saved[0].state
        self.steps, self.updates = common["steps"], common["updates"]
        self.learner.updates.fill_(self.updates)
        self._updates_logged = common["updates_logged"]
        self.means.load_states([own.training for own in saved], self.device)
        self._best = [own.state["best_checkpoint_score"] for own in saved]
        self._clock.resume(common["elapsed_s"], self.frames)
        self._restore_envs(saved)
        for run_dir in runs:
            checkpoint.abandon_after(run_dir, frames)
        self.runs = runs
        self._saved_frames = frames
        self.writers = [
            MetricsWriter(run, own.state["metrics_bytes"], frames)
            for run, own in zip(runs, saved, strict=True)
        ]

    def warm_up(self) -> None:
        """Compile what there is to compile, before the first update."""
        if self.device.type == "cuda":
            batch = self.replay.sample(self.config.replay.batch_size, self.learner.updates)
            self.learner.warm_up(batch, self.replay.observation(0))

    def choose(self) -> None:
        """Begin to choose actions for the environments whose turn it is."""
        self._choices[self.turn].begin()

    def send(self) -> None:
        """Send them off, and give the turn to the next."""
        with self._clock.waiting("device"):
            actions = self._choices[self.turn].actions()
        self.envs.send(actions, self.turn)
        self.pending[self.turn] = actions
        self.turn = (self.turn + 1) % len(self.pending)

    def receive(self) -> None:
        """Store what came of the actions of those whose turn it is now, if they were sent."""
        actions = self.pending[self.turn]
        if actions is None:
            return
        with self._clock.waiting("envs"):
            step = self.envs.recv(self.turn)
        self.pending[self.turn] = None
        self.replay.append(actions, self._learnable(step), self.turn)
        record_step(self.statistics, step, self.turn * self._turn_envs)
        self.steps += self._turn_envs

    def update(self) -> None:
        """One update of every run."""
        self.learner.optimizer.schedule(self.steps)
        self._update()
        self.updates += 1

    def log(self) -> list[dict[str, Any]]:
        """Write one row of metrics per run and start new means."""
        rows = self._checked_means()
        time_row = self._clock.row(self.frames)
        for run, row in enumerate(rows):
            rows[run] = {
                "frames": self.frames,
                "agent_steps": self.steps,
                "updates": self.updates,
                **self.statistics[run].row(),
                **row,
                **time_row,
            }
            self.writers[run].write(rows[run])
        self.means.clear()
        self._updates_logged = self.updates
        return rows

    def save(self) -> None:
        """Write a checkpoint of every run, unless it is there or the numbers have gone bad."""
        if self._saved_frames == self.frames:
            return
        self._checked_means()
        for run, row in zip(self.runs, self.learner.online.view(len(self.runs), -1), strict=True):
            if not bool(row.isfinite().all()):
                raise self._divergence("a weight", run, "not finite")
        for writer in self.writers:
            writer.sync()
        positions = self.envs.positions()
        better = [number for number in range(len(self.runs)) if self._is_best(number)]
        for number in better:
            self._best[number] = self.statistics[number].last_mean
        self._saving.finish()
        checkpoints = [self._checkpoint(number, positions) for number in range(len(self.runs))]
        self._saving.begin(self.runs, self.frames, checkpoints, better)
        self._saved_frames = self.frames

    def finish(self) -> None:
        """Save, and wait until everything is on the disk."""
        self.save()
        self._saving.finish()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self._precision_before)  # what plays next has its own
        self.envs.close()
        self._saving.close()
        for writer in self.writers:
            writer.close()
        for lock in self._locks:
            lock.close()

    def _is_best(self, run: int) -> bool:
        """Whether a checkpoint made now would be the best one."""
        score, known = self.statistics[run].last_mean, self._best[run]
        if score is None or self.statistics[run].best is None:
            return False
        return known is None or score > known

    def _learnable(self, step: Step) -> Step:
        """The step as replay should see it."""
        if self.config.train.bootstrap_on_truncation:
            return step
        over = step.terminated | step.truncated
        return step._replace(terminated=over, truncated=np.zeros_like(over))

    def _draw_and_learn(self) -> None:
        """All that an update does on the device; nothing on the host."""
        batch = self.replay.sample(self.config.replay.batch_size, self.learner.updates)
        update = self.learner.update(batch)
        self.replay.learned(batch.place, update.surprise)
        self.means.add(update.measured)

    def _checkpoint(self, run: int, positions: EnvPositions) -> checkpoint.Checkpoint:
        envs = self.config.train.envs
        actions, standing = packed(positions, slice(run * envs, (run + 1) * envs))
        return checkpoint.Checkpoint(
            weights=self.learner.weights(run),
            training=self.learner.state(run) | self.means.state(run) | actions,
            replay=self.replay.state(run),
            state={
                "frames": self.frames,
                "steps": self.steps,
                "updates": self.updates,
                "updates_logged": self._updates_logged,
                "statistics": self.statistics[run].state(),
                "best_checkpoint_score": self._best[run],
                "metrics_bytes": self.writers[run].length,
                "elapsed_s": self._clock.elapsed,
                **standing,
                "turn": self.turn,
                "pending_actions": [
                    None if sent is None else sent.reshape(len(self.runs), -1)[run].tolist()
                    for sent in self.pending
                ],
                "population": [member.name for member in self.runs],
                "member": run,
            },
        )

    def _start_envs(self, positions: EnvPositions | None = None) -> NDArray[np.uint8]:
        self.envs.begin(positions)
        self.warm_up()  # in the meantime
        return self.envs.started()

    def _restore_envs(self, saved: list[checkpoint.Checkpoint]) -> None:
        """Rebuild the environments from their seeds and the actions since."""
        frame = self._start_envs(unpacked(saved))
        stored = self.replay.as_stored(frame)
        newest = self.replay.observation()[:, :, -stored.shape[1] :]
        if not torch.equal(newest.reshape(stored.shape), stored):
            warnings.warn(
                "the environments did not come back to where they were: they are not "
                "deterministic given their seed. Training goes on with new episodes, and will "
                "not be identical to a run that was never stopped",
                stacklevel=2,
            )
            self.replay.start(frame)
        self.turn = saved[0].state["turn"]
        for later in range(len(self.pending)):  # oldest first
            turn = (self.turn + later) % len(self.pending)
            sent = [own.state["pending_actions"][turn] for own in saved]
            if sent[0] is not None:
                self.pending[turn] = actions = np.array(sent, np.int64).flatten()
                self.envs.send(actions, turn)
        sent_off = sum(sent is not None for sent in self.pending)
        self.learner.choices.fill_(self.steps // self._turn_envs + sent_off)

    def _checked_means(self) -> list[dict[str, Any]]:
        count = self.updates - self._updates_logged
        rows: list[dict[str, Any]] = list(self.means.rows(len(self.configs), count))
        for run, row in zip(self.runs, rows, strict=True):
            bad = [name for name, value in row.items() if not math.isfinite(value)]
            if bad:
                raise self._divergence(bad[0], run, str(row[bad[0]]))
        return rows

    def _divergence(self, name: str, run: RunDir, value: str) -> DivergenceError:
        return DivergenceError(
            f"{name} of '{run.path}' became {value} before {self.frames:,} frames; the last good "
            f"checkpoint is at {checkpoint.find(run):,} frames. Try a lower "
            f"--optimizer.learning-rate, --train.clip-rewards, or a wider --agent.value-min and "
            f"--agent.value-max"
        )
