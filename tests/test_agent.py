from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import idqn
from idqn.config import Config
from idqn.envs import describe
from idqn.errors import UserError
from idqn.look import Look
from idqn.networks import build_network
from idqn.policy import majority_vote
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


def test_look_lists_what_it_has(agent: idqn.Agent) -> None:
    out = agent.look(agent.make_env().reset(seed=3))
    assert "attention" in out
    assert "reconstruction" in out
    assert "head_q" not in out
    assert "nonsense" not in out
    assert repr(out).startswith("Look(idqn: embedding [16], q [5], uncertainty [5], ")
    assert "attention [5, 6]" in repr(out)
    assert "reconstruction [2, 33, 33]" in repr(out)
    assert agent.name == "idqn"


def test_asking_for_what_is_missing_says_who_has_it(agent: idqn.Agent) -> None:
    out = agent.look(agent.make_env().reset(seed=3))
    with pytest.raises(UserError, match=r"this idqn agent has no head_q; bootstrap and ensemble"):
        _ = out.head_q
    with pytest.raises(UserError, match=r"no distribution; c51 agents do\. It has embedding, q, "):
        _ = out.distribution


PARTS = {
    "q": [],
    "embedding": [],
    "uncertainty": ["idqn", "c51", "bootstrap", "ensemble"],
    "attention": ["idqn"],
    "log_attention": ["idqn"],
    "distribution": ["c51"],
    "log_distribution": ["c51"],
    "head_q": ["bootstrap", "ensemble"],
    "reconstruction": ["idqn"],
}


@pytest.mark.parametrize("part", PARTS)
def test_look_gives_each_part_or_names_its_owners(part: str) -> None:
    tensor = torch.rand(3)
    full = Look("idqn", {name: tensor if name == part else torch.zeros(1) for name in PARTS})
    assert getattr(full, part) is tensor
    assert all(name in full for name in PARTS)
    bare = Look("ddqn", {"embedding": torch.zeros(2, 7), "q": torch.zeros(2, 3)})
    assert repr(bare) == "Look(ddqn: embedding [2, 7], q [2, 3])"
    assert (part in bare) == (part in ("q", "embedding"))
    if part not in bare:
        with pytest.raises(UserError, match=f"this ddqn agent has no {part}; ") as caught:
            getattr(bare, part)
        owners, has = str(caught.value).split("; ")[1].split(" do. ")
        assert all(owner in owners for owner in PARTS[part])
        assert "ddqn" not in owners
        assert has == "It has embedding, q"


def untrained(name: str, **changes: Any) -> idqn.Agent:
    config = idqn.preset("quick", "idqn/MiniPacman-v0", name).replace(
        **{"agent.embedding_size": 8, **changes}
    )
    spec = describe(config.env)
    network = build_network(config.agent, spec.observation_shape(2), spec.num_actions, seed=1)
    return idqn.Agent(network, config, spec, torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ddqn", {"embedding": [8], "q": [5]}),
        (
            "c51",
            {
                "embedding": [8],
                "q": [5],
                "uncertainty": [5],
                "log_distribution": [5, 51],
                "distribution": [5, 51],
            },
        ),
        ("noisy", {"embedding": [8], "q": [5]}),
        ("bootstrap", {"embedding": [80], "q": [5], "uncertainty": [5], "head_q": [5, 10]}),
        ("ensemble", {"embedding": [80], "q": [5], "uncertainty": [5], "head_q": [5, 10]}),
    ],
)
def test_what_other_agents_say(name: str, expected: dict[str, list[int]]) -> None:
    agent = untrained(name)
    observation = agent.make_env().reset(seed=3)
    out = agent.look(observation)
    parts = ", ".join(f"{part} {shape}" for part, shape in expected.items())
    assert repr(out) == f"Look({name}: {parts})"
    batch = agent.look(np.stack([observation, observation]))
    for part, shape in expected.items():
        assert list(getattr(batch, part).shape) == [2, *shape]
        torch.testing.assert_close(getattr(batch, part)[1], getattr(out, part))
    if name == "c51":
        torch.testing.assert_close(out.q, out.distribution @ agent.values)
    else:
        with pytest.raises(UserError, match=f"is an? {name} agent: it has no values; only idqn"):
            _ = agent.values
    own = "an ensemble" if name == "ensemble" else f"a {name}"
    with pytest.raises(UserError, match=f"^this is {own} agent: it has no keys; only idqn"):
        _ = agent.keys
    with pytest.raises(UserError, match=f"^this is {own} agent: it has no decoder; only idqn"):
        agent.decode(torch.zeros(8))
    if "head_q" in expected:
        torch.testing.assert_close(out.q, out.head_q.mean(-1))
        torch.testing.assert_close(out.uncertainty, out.head_q.std(-1, correction=0))
    if name != "bootstrap":
        assert agent.act(observation) == int(out.q.argmax())


def test_bootstrap_acts_by_a_vote() -> None:
    agent = untrained("bootstrap", **{"agent.linear_init_std": 1.0})
    batch = np.random.default_rng(0).integers(0, 256, (64, 2, 33, 33), dtype=np.uint8)
    out = agent.look(batch)
    assert agent.act(batch).tolist() == majority_vote(out.head_q).tolist()
    assert agent.act(batch).tolist() != out.q.argmax(-1).tolist()


@pytest.mark.parametrize("decoder", ["vae", "dense-vae"])
def test_variational_agents_decode_their_means(decoder: str) -> None:
    agent = untrained("idqn", **{"agent.decoder": decoder})
    out = agent.look(agent.make_env().reset(seed=3))
    assert out.embedding.shape == (8,)
    torch.testing.assert_close(agent.decode(out.embedding), out.reconstruction)


def test_an_idqn_without_a_decoder_says_so() -> None:
    agent = untrained("idqn", **{"agent.decoder": "none"})
    out = agent.look(agent.make_env().reset(seed=3))
    assert "reconstruction" not in out
    with pytest.raises(UserError, match="no reconstruction; idqn agents with a decoder do"):
        _ = out.reconstruction
    with pytest.raises(UserError, match=r"trained with agent\.decoder = 'none'"):
        agent.decode(agent.keys)


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
