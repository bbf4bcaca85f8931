"""Replay alone, in a population and restored: the same draws."""

from typing import Any

import pytest
import torch
from torch import Tensor

from idqn.capture import Captured
from idqn.priorities import Priorities
from idqn.replay import Replay, Returns
from idqn.types import Batch
from tests.replay_world import RUNS, World, assert_same_batch, one_run

THREE = Returns(3, [0.9, 0.5], [True, False])
OPTIONS = pytest.mark.parametrize(
    "options",
    [{}, {"returns": THREE}, {"returns": THREE, "priorities": Priorities(0.6, 0.4, 40)}],
    ids=["plain", "n-step", "prioritized"],
)


def learn(replay: Replay, batch: Batch) -> None:
    """As surprising as it looks: any function of the batch alone will do."""
    replay.learned(batch.place, batch.reward + batch.action * batch.discount)


@OPTIONS
@pytest.mark.parametrize("capacity", [20, 37])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_run_in_a_population_is_the_run_alone(
    run: int, capacity: int, options: dict[str, Any]
) -> None:
    world = World(capacity, stack=4, truncating=0.3, **options)
    alone = world.new_replay(slice(run, run + 1))
    newest = world.replay.observation()[run, :, -1:].numpy()
    alone.start(newest)

    for t in range(60):
        alone.append(*one_run(world, *world.step(), run))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[run], right[0])
        learn(world.replay, together)
        learn(alone, own)
        assert torch.equal(world.replay.observation()[run], alone.observation()[0])
        assert torch.equal(world.replay.episode()[run], alone.episode()[0])
        assert torch.equal(world.replay.mean_observation()[run], alone.mean_observation()[0])


@OPTIONS
@pytest.mark.parametrize("steps", [0, 3, 45])
def test_a_restored_replay_goes_on_identically(steps: int, options: dict[str, Any]) -> None:
    world = World(capacity=20, stack=4, terminating=0.15, truncating=0.15, **options)
    for t in range(steps):
        world.step()
        learn(world.replay, world.replay.sample(16, draw=t))
    restored = world.new_replay()
    for run in range(RUNS):
        restored.load_state(run, world.replay.state(run))
    assert torch.equal(restored.observation(), world.replay.observation())

    for t in range(30):
        restored.append(*world.step())
        assert len(restored) == len(world.replay)
        assert torch.equal(restored.observation(), world.replay.observation())
        assert torch.equal(restored.episode(), world.replay.episode())
        batch = world.replay.sample(16, draw=t)
        assert_same_batch(restored.sample(16, draw=t), batch)
        if steps + t >= 3:
            world.check(batch)
        learn(world.replay, batch)
        learn(restored, batch)


@OPTIONS
def test_a_run_restored_alone_goes_on_as_in_its_population(options: dict[str, Any]) -> None:
    world = World(capacity=20, stack=2, truncating=0.2, **options)
    for t in range(25):
        world.step()
        learn(world.replay, world.replay.sample(16, draw=t))
    alone = world.new_replay(slice(1, 2))
    alone.load_state(0, world.replay.state(1))

    for t in range(25):
        alone.append(*one_run(world, *world.step(), 1))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[1], right[0])
        learn(world.replay, together)
        learn(alone, own)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@OPTIONS
def test_a_gpu_draws_the_same(options: dict[str, Any]) -> None:
    world = World(capacity=37, stack=2, truncating=0.2, envs=4, turns=2, **options)
    there = world.new_replay(device="cuda")
    there.start(world.replay.observation()[:, :, -1:].flatten(0, 1).numpy())
    draws = torch.zeros((), dtype=torch.int64, device="cuda")

    def update() -> Batch:
        batch = there.sample(16, draws)
        learn(there, batch)
        draws.add_(1)
        return batch

    captured = Captured(update, there.device)
    for t in range(100):
        turn = t % 2
        there.append(*world.step(turn), turn)
        torch.cuda.synchronize()  # training has read actions before it appends again
        if t >= 8:
            here = world.replay.sample(16, draw=t - 8)
            for left, right in zip(here, captured(), strict=True):
                torch.testing.assert_close(left, right.cpu())
            learn(world.replay, here)
        assert torch.equal(world.replay.episode(turn), there.episode(turn).cpu())


def test_state_is_plain_tensors_of_one_run() -> None:
    world = World(capacity=20, stack=2, priorities=Priorities(0.6, 0.4, 40))
    world.step()

    for tensor in world.replay.state(1).values():
        assert isinstance(tensor, Tensor)
        assert tensor.device.type == "cpu"
        assert tensor.ndim > 0
    added = {"priority", "highest_priority"}
    assert world.replay.state(1).keys() - added == World(20, 2).replay.state(1).keys()
    assert world.replay.state(1)["frames"].shape == world.replay.frames.shape[1:]
