from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import idqn
from idqn.config import Config
from idqn.errors import UserError
from idqn.train import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    config = idqn.preset("quick", "idqn/MiniPacman-v0").replace(
        **{
            "train.frames": 400,
            "replay.learning_starts_steps": 320,
            "agent.embedding_size": 16,
            "agent.keys": 6,
            "system.threads": 1,
            "system.device": "cpu",
            "system.checkpoint_every_frames": 200,
        }
    )
    train([config], [path])
    return path


@pytest.fixture
def agent(run: Path) -> idqn.Agent:
    return idqn.load(run)


def test_look_names_everything(agent: idqn.Agent) -> None:
    env = agent.make_env()
    observation = env.reset(seed=3)
    assert observation.shape == agent.observation_shape == (2, 33, 33)
    out = agent.look(observation)
    assert out.embedding.shape == (16,)
    assert out.attention.shape == (5, 6)
    assert out.q.shape == out.uncertainty.shape == (5,)
    assert out.reconstruction is not None
    assert out.reconstruction.shape == (2, 33, 33)
    torch.testing.assert_close(out.attention.sum(-1), torch.ones(5))
    torch.testing.assert_close(out.q, out.attention @ agent.values)
    assert agent.act(observation) == int(out.q.argmax())
    assert 0 <= float(out.reconstruction.min()) <= float(out.reconstruction.max()) <= 255
    assert float(out.reconstruction.max()) > 20  # pixels, not fractions of them


def test_a_batch_gets_a_batch_of_the_same_answers(agent: idqn.Agent) -> None:
    batch = np.random.default_rng(0).integers(0, 256, (3, 2, 33, 33), dtype=np.uint8)
    actions = agent.act(batch)
    assert actions.shape == (3,)
    assert actions.dtype == np.int64
    out = agent.look(torch.from_numpy(batch))
    for i in range(3):
        one = agent.look(batch[i])
        torch.testing.assert_close(out.q[i], one.q)
        assert agent.act(batch[i]) == actions[i]
        assert isinstance(agent.act(batch[i]), int)


def test_keys_values_and_decoding(agent: idqn.Agent) -> None:
    assert agent.keys.shape == (5, 6, 16)
    torch.testing.assert_close(agent.values, torch.linspace(-25, 25, 6))
    pictures = agent.decode(agent.keys)
    assert pictures.shape == (5, 6, 2, 33, 33)
    torch.testing.assert_close(pictures[2, 4], agent.decode(agent.keys[2, 4]))
    observation = agent.make_env().reset(seed=1)
    out = agent.look(observation)
    assert out.reconstruction is not None
    torch.testing.assert_close(agent.decode(out.embedding), out.reconstruction)
    assert agent.action_names == ("NOOP", "UP", "RIGHT", "LEFT", "DOWN")


def test_wrong_observations_are_explained(agent: idqn.Agent) -> None:
    right = np.zeros((2, 33, 33), np.uint8)
    for wrong in (right.astype(np.float32), right[0], right[:, :-1], right[None, None]):
        with pytest.raises(UserError, match=r"uint8 \[2, 33, 33\] or a batch of them, got"):
            agent.act(wrong)
    with pytest.raises(UserError, match="embeddings have 16 numbers"):
        agent.decode(torch.zeros(3, 8))


def test_checkpoints_can_be_chosen(run: Path) -> None:
    early, late = idqn.load(run, 200), idqn.load(run)
    assert not torch.equal(early.keys, late.keys)
    assert torch.equal(idqn.load(run, 400).keys, late.keys)


def test_the_weights_of_another_run_are_refused(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    config = Config.replace(idqn.load(run).config, **{"agent.keys": 9})
    from idqn.config import to_json

    (other / "config.json").write_text(to_json(config))
    with pytest.raises(UserError, match=r"do not fit its config\.json"):
        idqn.load(other)


def test_weights_and_config_alone_are_enough(run: Path, tmp_path: Path) -> None:
    slim = tmp_path / "slim"
    shutil.copytree(run, slim)
    for folder in (slim / "checkpoints").iterdir():
        for name in ("training.safetensors", "training.json", "replay.zst"):
            (folder / name).unlink(missing_ok=True)
    assert torch.equal(idqn.load(slim).keys, idqn.load(run).keys)
