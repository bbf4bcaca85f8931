"""i-DQN's decoders: shapes, colour, and what is decoded."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from idqn.agent import load
from idqn.config import Config, EnvConfig
from idqn.envs import describe
from idqn.errors import UserError
from idqn.learner import Learner
from idqn.networks import build_network
from idqn.presets import preset
from idqn.train import train
from tests.agents.plain import (
    CPU,
    Recorder,
    agent_of,
    embedding,
    learner_of,
    make_batch,
    online,
    pixels,
)
from tests.agents.plain_idqn import (
    DECODERS,
    KEYS,
    SIZE,
    VALUES,
    attention_of,
    decode,
    idqn,
    q_of,
)
from tests.comparison import metrics

MINI = preset("quick", "idqn/MiniPacman-v0").env
SETTINGS: dict[str, tuple[int, int, int]] = {
    "atari": describe(EnvConfig()).observation_shape(4),
    "atari in colour, not resized": describe(
        EnvConfig(color=True, frame_height=None, frame_width=None)
    ).observation_shape(4),
    "minipacman": describe(MINI).observation_shape(2),
    "odd": (3, 37, 53),
    "smaller and odd": (2, 21, 19),
    "smallest": (1, 5, 7),
}


def test_these_are_the_shapes_in_question() -> None:
    assert SETTINGS["atari"] == (4, 84, 84)
    assert SETTINGS["atari in colour, not resized"] == (12, 210, 160)
    assert SETTINGS["minipacman"] == (2, 33, 33)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_reconstructions_have_the_shape_of_observations(
    tiny: Config, decoder: str, setting: str
) -> None:
    shape = SETTINGS[setting]
    config = idqn(tiny, decoder, {"agent.embedding_size": 4})
    observation = torch.randint(0, 256, (1, *shape), dtype=torch.uint8)

    with torch.no_grad():
        out = build_network(config.agent, shape, 2, seed=0)(observation)

    assert out.reconstruction.shape == (1, *shape)
    assert out.embedding.shape == (1, 4)
    assert out.attention.shape == (1, 2, KEYS)


@pytest.mark.parametrize("decoder", DECODERS)
def test_an_update_on_whole_screens_in_colour(tiny: Config, decoder: str) -> None:
    shape = SETTINGS["atari in colour, not resized"]
    config = idqn(tiny, decoder, {"agent.embedding_size": 4})
    learner = Learner([config], shape, [3], CPU)
    g = torch.Generator().manual_seed(0)
    screens = torch.randint(0, 256, (2, 1, 2, *shape), dtype=torch.uint8, generator=g)
    batch = make_batch(2)._replace(observation=screens[0], next_observation=screens[1])
    before = learner.weights(0)

    learner.update(batch)

    after = learner.weights(0)
    for name in learner.rows.shapes:
        assert not torch.equal(before[name], after[name]), name


@pytest.mark.parametrize("decoder", ["ae", "vae"])
def test_training_in_colour(tiny: Config, tmp_path: Path, decoder: str) -> None:
    changes = {
        "env.color": True,
        "env.frame_height": None,
        "env.frame_width": None,
        "train.frames": 112,  # two updates
        "system.log_every_frames": 112,
    }
    train([idqn(tiny, decoder, changes)], [tmp_path / "run"])

    row = metrics(tmp_path / "run")[-1]
    assert row["updates"] == 2
    assert math.isfinite(row["loss/reconstruction"])
    assert ("loss/divergence" in row) == (decoder == "vae")
    agent = load(tmp_path / "run")
    assert agent.observation_shape == (6, 33, 33)
    env = agent.make_env()
    observation = env.reset(0)
    env.close()
    assert observation.shape == (6, 33, 33)
    red, green, blue = observation[3:].astype(int)  # the newest frame
    assert (red != blue).any()
    assert (red != green).any()
    look = agent.look(observation)
    assert look.reconstruction.shape == (6, 33, 33)
    torch.testing.assert_close(agent.decode(look.embedding), look.reconstruction)
    fresh = build_network(agent.config.agent, (6, 33, 33), 5, agent.config.train.seed)
    moved = dict(agent.network.named_parameters())
    for name, parameter in fresh.named_parameters():
        assert not torch.equal(parameter, moved[name]), name


def test_without_a_decoder_nothing_is_decoded(tiny: Config, tmp_path: Path) -> None:
    config = idqn(tiny, "none", {"train.frames": 120})
    train([config], [tmp_path / "run"])

    row = metrics(tmp_path / "run")[-1]
    assert row["updates"] > 0
    assert "loss/bellman" in row
    assert not {"loss/reconstruction", "loss/divergence"} & row.keys()
    agent = load(tmp_path / "run")
    assert agent.network.decoder is None
    assert not any("decoder" in name for name in agent.network.state_dict())
    look = agent.look(torch.zeros(agent.observation_shape, dtype=torch.uint8))
    assert "reconstruction" not in look
    with pytest.raises(UserError, match="idqn agents with a decoder do"):
        _ = look.reconstruction
    with pytest.raises(UserError, match="decoder = 'none'"):
        agent.decode(torch.zeros(SIZE))


@pytest.mark.parametrize("decoder", ["vae", "dense-vae"])
def test_everything_but_the_decoders_lesson_goes_by_the_mean(tiny: Config, decoder: str) -> None:
    learner = learner_of(idqn(tiny, decoder, {"agent.exploration_factor": 0.3}))
    observation = pixels(60)
    w = {name: own.detach() for name, own in online(learner).items()}
    h = embedding(w, observation[0])
    assert h.shape == (60, 2 * SIZE)
    mean = h[:, :SIZE]

    look = agent_of(learner).look(observation[0])

    attention = attention_of(w, mean)
    torch.testing.assert_close(look.embedding.double(), mean, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(look.attention.double(), attention, atol=1e-4, rtol=0)
    image = (255 * decode(w, mean) + w["mean_image"]).clamp(0, 255)
    torch.testing.assert_close(look.reconstruction.double(), image, atol=1e-2, rtol=1e-4)
    q = q_of(attention)
    values = torch.tensor(VALUES, dtype=torch.float64)
    deviation = (attention * (values - q[..., None]) ** 2).sum(-1).sqrt()
    assert learner.act(observation)[0].tolist() == (q + 0.3 * deviation).argmax(-1).tolist()
    # the log-variance may be anything
    weights = learner.weights(0)
    weights["encoder.linear.weight"][SIZE:] += 1
    learner.load(0, weights, learner.state(0))
    assert torch.equal(agent_of(learner).look(observation[0]).attention, look.attention)
    assert learner.act(observation)[0].tolist() == (q + 0.3 * deviation).argmax(-1).tolist()


def test_every_update_draws_other_codes(tiny: Config) -> None:
    learner = learner_of(idqn(tiny, "vae"), idqn(tiny, "vae", {"train.seed": 1}))
    calls = Recorder()
    learner.map_with(calls)
    for _ in range(4):
        learner.update(make_batch(runs=2))

    noise = torch.stack([calls.arguments("draw_code", call)[1] for call in range(4)]).flatten(0, 1)

    assert noise.shape == (8, 12 * SIZE)
    assert float(noise.mean()) == pytest.approx(0, abs=4 / noise.numel() ** 0.5)
    assert float(noise.var()) == pytest.approx(1, abs=0.15)
    assert float(torch.corrcoef(noise).fill_diagonal_(0).abs().max()) < 4.5 / noise.shape[1] ** 0.5
