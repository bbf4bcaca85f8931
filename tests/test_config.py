"""The config: to text and back, and every way of getting it wrong."""

import dataclasses
import json
import tomllib
from typing import Any, get_args

import pytest

from idqn.config import (
    AgentConfig,
    AgentName,
    Config,
    EnvConfig,
    TrainConfig,
    field_names,
    from_dict,
    to_dict,
    to_json,
    to_toml,
)
from idqn.errors import UserError
from idqn.presets import PRESETS, preset

UNUSUAL = Config().replace(
    **{
        "env.id": 'odd "id" with \\ and é',
        "env.frame_height": None,
        "env.max_episode_frames": None,
        "env.color": True,
        "env.sticky_probability": 0.25,
        "agent.value_min": -1e-7,
        "agent.value_max": 1e22,
        "agent.value_spacing": "uniform",
        "agent.linear_init_std": None,
        "agent.decoder": "dense-vae",
        "agent.epsilon_start": 1 / 3,
        "loss.bellman": 1 / 3,
        "optimizer.learning_rate": 1e-300,
        "optimizer.min_learning_rate": 1e-301,
        "optimizer.halve_every_steps": 7,
        "train.seed": 2**31 - 1,
        "system.workers": 0,
        "system.threads": 3,
    }
)
AGENTS = get_args(AgentName)
CONFIGS = {name: preset(name, "ALE/Pong-v5") for name in PRESETS} | {
    **{agent: preset("paper", "ALE/Pong-v5", agent) for agent in AGENTS},
    "mini": preset("quick", "idqn/MiniPacman-v0"),
    "unusual": UNUSUAL,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_json_round_trip(name: str) -> None:
    assert from_dict(json.loads(to_json(CONFIGS[name]))) == CONFIGS[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_toml_round_trip(name: str) -> None:
    # laid over a base in which every optional field is set, so that 'none' has to be said
    base = Config().replace(
        **{"system.workers": 1, "system.threads": 1, "optimizer.halve_every_steps": 1}
    )

    assert from_dict(tomllib.loads(to_toml(CONFIGS[name])), base) == CONFIGS[name]


def test_field_names_are_those_of_the_tree() -> None:
    flat = [f"{g}.{n}" for g, fields in to_dict(Config()).items() for n in fields]

    assert field_names() == flat
    assert {"env.id", "agent.keys", "train.seed", "system.device"} <= set(flat)


def test_partial_data_is_laid_over_the_base() -> None:
    base = Config().replace(**{"train.seed": 5, "loss.diversity": 0.5})

    config = from_dict({"train": {"envs": 2}, "loss": {"diversity": 0}}, base)

    assert config.train.seed == 5
    assert config.train.envs == 2
    assert config.loss.diversity == 0.0
    assert base.train.envs == 16
    assert from_dict({}) == Config()


@pytest.mark.parametrize("nothing", ["none", None])
@pytest.mark.parametrize(
    "dotted",
    [
        "env.frame_height",
        "env.frame_width",
        "env.max_episode_frames",
        "agent.linear_init_std",
        "optimizer.halve_every_steps",
        "train.turns",
        "system.workers",
        "system.threads",
    ],
)
def test_optional_fields_take_none(dotted: str, nothing: Any) -> None:
    some = Config().replace(**{dotted: 4})
    group, name = dotted.split(".")

    config = some.replace(**{dotted: nothing})

    assert getattr(getattr(some, group), name) == 4
    assert getattr(getattr(config, group), name) is None


@pytest.mark.parametrize("dotted", ["env.frame_stack", "agent.keys", "optimizer.learning_rate"])
@pytest.mark.parametrize("nothing", ["none", None])
def test_other_fields_do_not(dotted: str, nothing: Any) -> None:
    with pytest.raises(UserError, match=dotted):
        Config().replace(**{dotted: nothing})


@pytest.mark.parametrize(
    ("data", "given", "suggested"),
    [
        ({"train": {"sed": 1}}, "train.sed", "train.seed"),
        ({"loss": {"diversty": 1.0}}, "loss.diversty", "loss.diversity"),
        ({"optimiser": {}}, "optimiser", "optimizer"),
        ({"learning_rate": 0.1}, "learning_rate", "optimizer.learning_rate"),
        ({"train": {"learning_rate": 0.1}}, "train.learning_rate", "optimizer.learning_rate"),
        ({"ENV": {"id": "x"}}, "ENV", "env"),
    ],
)
def test_an_unknown_key_names_the_nearest(data: dict[str, Any], given: str, suggested: str) -> None:
    with pytest.raises(UserError) as caught:
        from_dict(data)

    assert f"unknown key '{given}'" in str(caught.value)
    assert f"'{suggested}'" in str(caught.value)


def test_a_key_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(UserError, match=r"unknown key 'train\.qqqqqqqqqqq'$"):
        from_dict({"train": {"qqqqqqqqqqq": 1}})


@pytest.mark.parametrize(
    ("dotted", "value", "wanted"),
    [
        ("train.envs", True, "an integer"),
        ("train.envs", "8", "an integer"),
        ("train.envs", 8.0, "an integer"),
        ("train.envs", [8], "an integer"),
        ("env.frame_height", 84.0, "an integer or 'none'"),
        ("env.frame_height", False, "an integer or 'none'"),
        ("env.frame_height", "84", "an integer or 'none'"),
        ("agent.exploration_factor", "0.01", "a number"),
        ("agent.exploration_factor", True, "a number"),
        ("env.color", 1, "true or false"),
        ("env.color", "true", "true or false"),
        ("env.id", 5, "a string"),
        ("agent.encoder", "huge", "one of 'auto', 'nature', 'small', 'tiny'"),
        ("agent.encoder", 1, "one of 'auto'"),
        ("agent.name", "dqn", "one of 'idqn', 'ddqn', 'c51', 'noisy', 'bootstrap', 'ensemble'"),
        ("agent.decoder", True, "one of 'ae', 'vae', 'dense-vae', 'none'"),
        ("agent.decoder", None, "one of 'ae', 'vae', 'dense-vae', 'none'"),
        ("agent.linear_init_std", "wide", "a number or 'none'"),
        ("agent.heads", 2.0, "an integer"),
        ("loss.bellman_kind", "l1", "one of 'smooth_l1', 'squared'"),
        ("train.seed", {"low": 1}, "an integer"),
    ],
)
def test_a_wrong_type_is_refused(dotted: str, value: Any, wanted: str) -> None:
    with pytest.raises(UserError) as caught:
        Config().replace(**{dotted: value})

    assert f"'{dotted}' must be {wanted}" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [5, "x", None, [1]])
def test_a_group_must_be_a_table(value: Any) -> None:
    with pytest.raises(UserError, match="'train' must be a table"):
        from_dict({"train": value})


def test_an_integer_passes_for_a_number() -> None:
    factor = Config().replace(**{"agent.exploration_factor": 1}).agent.exploration_factor

    assert factor == 1.0
    assert type(factor) is float


IMPOSSIBLE: list[dict[str, Any]] = [
    *({f"env.{n}": 0} for n in ("frame_height", "frame_width", "frame_stack", "frame_skip")),
    {"env.noop_max": -1},
    {"env.sticky_probability": -0.1},
    {"env.sticky_probability": 1.0},
    {"env.max_episode_frames": 3},  # less than one step of 4
    {"agent.keys": 1},
    {"agent.keys": 0},
    {"agent.embedding_size": 0},
    {"agent.value_min": 25.0},  # equal to value_max
    {"agent.value_max": -26.0},
    {"agent.key_init_std": 0.0},
    {"agent.linear_init_std": -0.1},
    {"agent.noise_sigma": 0.0},
    {"agent.atoms": 1},
    {"agent.heads": 1},
    {"agent.beta": -0.01},
    {"agent.epsilon_start": 1.01},
    {"agent.epsilon_start": -0.1},
    {"agent.epsilon_end": 1.5},
    {"agent.epsilon_end": -1e-9},
    {"agent.epsilon_steps": 0},
    {"agent.mask_probability": 0.0},  # no head would ever learn
    {"agent.mask_probability": 1.1},
    {"loss.bellman": -1.0},
    {"loss.distributional": -1.0},
    {"loss.reconstruction": -1.0},
    {"loss.diversity": -1.0},
    {"loss.distributional_log_epsilon": -1e-6},
    {"optimizer.learning_rate": 0.0},
    {"optimizer.beta1": 1.0},
    {"optimizer.beta2": -0.1},
    {"optimizer.epsilon": 0.0},
    {"optimizer.clip_norm": 0.0},
    {"optimizer.halve_every_steps": 0},
    {"optimizer.min_learning_rate": 0.0},
    {"replay.transitions": 0},
    {"replay.batch_size": 0},
    {"replay.batch_size": 10_001},  # more than 10,000 transitions
    {"replay.transitions": 31},  # less than a batch of 32
    {"replay.learning_starts_steps": 31},  # less than a batch of 32
    {"replay.priority_exponent": -0.1},
    {"replay.priority_correction": -0.1},
    {"replay.priority_correction": 1.1},
    {"replay.priority_correction_steps": 0},
    {"train.envs": 10_001},  # more than replay.transitions
    {"train.turns": 0},
    {"train.turns": 3},  # of 16 environments
    {"train.n_step": 0},
    {"train.n_step": 625},  # of 16 environments: all of the 10,000 transitions
    {"train.frames": 0},
    {"train.envs": 0},
    {"train.train_every_steps": 0},
    {"train.target_sync_steps": 0},
    {"train.seed": -1},
    {"train.seed": 2**31},
    {"train.discount": 1.0},
    {"train.discount": -0.1},
    {"system.workers": -1},
    {"system.threads": 0},
    {"system.log_every_frames": 0},
    {"system.checkpoint_every_frames": 0},
    {"system.keep_checkpoints": 0},
]


@pytest.mark.parametrize("changes", IMPOSSIBLE, ids=str)
def test_the_impossible_is_refused_by_name(changes: dict[str, Any]) -> None:
    ((dotted, value),) = changes.items()

    with pytest.raises(UserError) as caught:
        Config().replace(**changes)

    message = str(caught.value)
    assert dotted in message
    assert str(value) in message


FLOATS = [
    f"{group}.{name}"
    for group, fields in to_dict(Config()).items()
    for name, value in fields.items()
    if isinstance(value, float)
]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("dotted", FLOATS)
def test_numbers_must_be_finite(dotted: str, value: float) -> None:
    with pytest.raises(UserError) as caught:
        Config().replace(**{dotted: value})

    assert dotted in str(caught.value)


POSSIBLE: list[dict[str, Any]] = [
    {"agent.keys": 2},
    {"agent.exploration_factor": -0.01},  # shuns uncertainty
    {"agent.mask_probability": 1.0},
    {"agent.epsilon_start": 1.0},
    {"agent.epsilon_end": 0.0},
    {"agent.epsilon_steps": 1},
    {"agent.beta": 0.0},
    {"agent.heads": 2},
    {"agent.decoder": "none"},
    {"loss.bellman": 0.0},
    {"replay.priority_exponent": 0.0},
    {"replay.priority_correction": 1.0},
    {"train.n_step": 624},
    {"train.turns": 16},
    {"env.max_episode_frames": 4},
    {"env.noop_max": 0},
    {"optimizer.beta1": 0.0},
    {"replay.transitions": 32},
    {"replay.learning_starts_steps": 32},
    {"train.discount": 0.0},
    {"train.seed": 2**31 - 1},
    {"system.workers": 0},
]


@pytest.mark.parametrize("changes", POSSIBLE, ids=str)
def test_the_edge_of_the_possible_is_accepted(changes: dict[str, Any]) -> None:
    ((dotted, value),) = changes.items()
    group, name = dotted.split(".")

    assert getattr(getattr(Config().replace(**changes), group), name) == value


def test_construction_checks_too() -> None:
    with pytest.raises(UserError, match=r"agent\.keys"):
        AgentConfig(keys=1)
    with pytest.raises(UserError, match=r"train\.envs"):
        TrainConfig(envs=0)
    with pytest.raises(UserError, match=r"env\.frame_stack"):
        EnvConfig(frame_stack=0)


def test_replace_changes_a_copy() -> None:
    before = Config()

    after = before.replace(**{"train.seed": 1, "train.envs": 4, "loss.diversity": 0.5})

    assert before == Config()
    assert after.train == dataclasses.replace(before.train, seed=1, envs=4)
    assert after.loss == dataclasses.replace(before.loss, diversity=0.5)
    assert after.env == before.env
    assert before.replace() == before


def test_replace_judges_all_changes_together() -> None:
    # each alone would be impossible beside the default of the other
    config = Config().replace(**{"agent.value_min": 30.0, "agent.value_max": 40.0})

    assert (config.agent.value_min, config.agent.value_max) == (30.0, 40.0)


def test_replace_refuses_unknown_names() -> None:
    with pytest.raises(UserError, match=r"did you mean 'train\.frames'"):
        Config().replace(**{"train.frame": 1})


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().train.seed = 3  # type: ignore[misc]


@pytest.mark.parametrize("agent", [name for name in AGENTS if name != "idqn"])
@pytest.mark.parametrize("decoder", ["ae", "vae", "dense-vae"])
def test_only_idqn_has_a_decoder(agent: str, decoder: str) -> None:
    config = preset("paper", "ALE/Pong-v5", agent)

    with pytest.raises(UserError, match=rf"decoder must be 'none' for {agent}.*got '{decoder}'"):
        config.replace(**{"agent.decoder": decoder})
    with pytest.raises(UserError, match=r"agent\.decoder must be 'none'"):
        Config().replace(**{"agent.name": agent})  # i-DQN's, with another name
    assert Config().replace(**{"agent.decoder": decoder}).agent.decoder == decoder


def test_a_sum_of_rewards_must_be_there_when_learning_starts() -> None:
    changes = {"train.n_step": 5, "replay.learning_starts_steps": 64}

    with pytest.raises(UserError, match=r"learning_starts_steps must be more than .* \(4 x 16\)"):
        Config().replace(**changes)
    assert Config().replace(**{**changes, "replay.learning_starts_steps": 65})


@pytest.mark.parametrize(
    ("agent", "shared_torso", "shares"),
    [
        ("bootstrap", False, True),
        ("ensemble", True, True),
        ("ensemble", False, False),
        ("ddqn", True, False),
    ],
)
def test_who_shares_convolutions(agent: Any, shared_torso: bool, shares: bool) -> None:
    config = AgentConfig(name=agent, decoder="none", shared_torso=shared_torso)

    assert config.shares_torso == shares


def test_any_random_action_is_dithering() -> None:
    assert not AgentConfig().dithers
    assert AgentConfig(epsilon_start=0.1).dithers
    assert AgentConfig(epsilon_end=0.1).dithers
