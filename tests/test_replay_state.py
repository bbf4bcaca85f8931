"""Replay alone, in a population and restored: the same draws."""

import pytest
import torch
from torch import Tensor

from tests.replay_world import RUNS, World, assert_same_batch, one_run


@pytest.mark.parametrize("run", range(RUNS))
def test_a_run_in_a_population_is_the_run_alone(run: int) -> None:
    world = World(capacity=20, stack=4, truncating=0.3)
    alone = world.new_replay(slice(run, run + 1))
    newest = world.replay.observation()[run, :, -1:].numpy()
    alone.start(newest)

    for t in range(60):
        alone.append(*one_run(world, *world.step(), run))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[run], right[0])
        assert torch.equal(world.replay.observation()[run], alone.observation()[0])
        assert torch.equal(world.replay.mean_observation()[run], alone.mean_observation()[0])


@pytest.mark.parametrize("steps", [0, 3, 45])
def test_a_restored_replay_goes_on_identically(steps: int) -> None:
    world = World(capacity=20, stack=4, terminating=0.15, truncating=0.15)
    for _ in range(steps):
        world.step()
    restored = world.new_replay()
    for run in range(RUNS):
        restored.load_state(run, world.replay.state(run))
    assert torch.equal(restored.observation(), world.replay.observation())

    for t in range(30):
        restored.append(*world.step())
        assert len(restored) == len(world.replay)
        assert torch.equal(restored.observation(), world.replay.observation())
        assert_same_batch(restored.sample(16, draw=t), world.replay.sample(16, draw=t))
        world.check(restored.sample(16, draw=t))


def test_a_run_restored_alone_goes_on_as_in_its_population() -> None:
    world = World(capacity=20, stack=2, truncating=0.2)
    for _ in range(25):
        world.step()
    alone = world.new_replay(slice(1, 2))
    alone.load_state(0, world.replay.state(1))

    for t in range(25):
        alone.append(*one_run(world, *world.step(), 1))
        together, own = world.replay.sample(16, draw=t), alone.sample(16, draw=t)
        for left, right in zip(together, own, strict=True):
            assert torch.equal(left[1], right[0])


def test_state_is_plain_tensors_of_one_run() -> None:
    world = World(capacity=20, stack=2)
    world.step()

    for tensor in world.replay.state(1).values():
        assert isinstance(tensor, Tensor)
        assert tensor.device.type == "cpu"
    assert world.replay.state(1)["frames"].shape == world.replay.frames.shape[1:]
