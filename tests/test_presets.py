"""The presets hold what docs/paper.md's table says of the text and of the authors' code."""

from typing import Any

import pytest

from idqn.config import Config, EnvConfig, field_names, from_dict, to_dict
from idqn.errors import UserError
from idqn.presets import PRESETS, preset

PONG = "ALE/Pong-v5"

# row of the table, field, preset paper, preset authors
TABLE: list[tuple[str, str, Any, Any]] = [
    ("values: N", "agent.keys", 20, 20),
    ("values: spacing", "agent.value_spacing", "linspace", "linspace"),
    ("values: from", "agent.value_min", -25.0, -25.0),
    ("values: to", "agent.value_max", 25.0, 25.0),
    ("λ_exp", "agent.exploration_factor", 0.01, 0.001),
    ("distributional loss", "loss.distributional_log_epsilon", 0.0, 1e-6),
    ("Bellman loss", "loss.bellman_kind", "smooth_l1", "smooth_l1"),
    ("Bellman target", "train.bootstrap", "double", "double"),
    ("diversity rows", "loss.diversity_rows", "chosen", "all"),
    ("diversity divided by batch", "loss.diversity_per_sample", False, True),
    ("λ1", "loss.bellman", 1.0, 1.0),
    ("λ2", "loss.distributional", 1.0, 1.0),
    ("λ3", "loss.reconstruction", 0.05, 0.01),
    ("λ4", "loss.diversity", 0.01, 0.1),
    ("mean pixel image", "agent.subtract_mean_image", True, True),
    ("init: linear", "agent.linear_init_std", 0.1, 0.1),
    ("init: keys", "agent.key_init_std", 0.1, 1.0),
    ("gradient clip: norm", "optimizer.clip_norm", 10.0, 10.0),
    ("gradient clip: of what", "optimizer.clip_scope", "global", "layer"),
    ("learning rate", "optimizer.learning_rate", 2.5e-4, 2.5e-4),
    ("learning rate: β1", "optimizer.beta1", 0.9, 0.9),
    ("learning rate: β2", "optimizer.beta2", 0.999, 0.999),
    ("learning rate: schedule", "optimizer.halve_every_steps", None, 2_000_000),
    ("learning rate: floor", "optimizer.min_learning_rate", 1e-6, 1e-6),
    ("replay", "replay.transitions", 10_000, 10_000),
    ("start", "replay.learning_starts_steps", 10_000, 10_000),
    ("train", "train.train_every_steps", 4, 4),
    ("target sync", "train.target_sync_steps", 1_000, 1_000),
    ("rewards", "train.clip_rewards", False, False),
    ("10M frames", "train.frames", 10_000_000, 40_000_000),
    ("10M frames: skip", "env.frame_skip", 4, 4),
    ("fire", "env.fire_on_reset", True, True),
    ("no-ops", "env.noop_max", 30, 30),
    ("stickiness", "env.sticky_probability", 0.0, 0.0),
    ("time limit", "train.bootstrap_on_truncation", True, False),
    ("stack: all 4 frames", "env.frame_stack", 4, 4),
    ("grey 84x84: height", "env.frame_height", 84, 84),
    ("grey 84x84: width", "env.frame_width", 84, 84),
    ("grey 84x84: colour", "env.color", False, False),
]


def value_of(config: Config, dotted: str) -> Any:
    group, name = dotted.split(".")
    return to_dict(config)[group][name]


@pytest.mark.parametrize(
    ("dotted", "paper", "authors"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_table(dotted: str, paper: Any, authors: Any) -> None:
    assert value_of(preset("paper", PONG), dotted) == paper
    assert value_of(preset("authors", PONG), dotted) == authors


def test_authors_differ_from_paper_only_where_the_table_says() -> None:
    paper, authors = preset("paper", PONG), preset("authors", PONG)

    differing = {n for n in field_names() if value_of(paper, n) != value_of(authors, n)}

    assert differing == {row[1] for row in TABLE if row[2] != row[3]}


def test_paper_is_the_default() -> None:
    assert preset("paper", PONG) == Config(env=EnvConfig(id=PONG))


@pytest.mark.parametrize("env_id", [PONG, "idqn/MiniPacman-v0"])
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_for_the_environment_asked(name: str, env_id: str) -> None:
    config = preset(name, env_id)

    assert config.env.id == env_id
    assert from_dict(to_dict(config)) == config


def test_other_environments_are_taken_as_they_are() -> None:
    env = preset("paper", "idqn/MiniPacman-v0").env

    assert env == EnvConfig(
        id="idqn/MiniPacman-v0",
        frame_height=None,
        frame_width=None,
        color=False,
        frame_stack=2,
        frame_skip=1,
        max_pool=False,
        noop_max=0,
        fire_on_reset=False,
        sticky_probability=0.0,
        full_action_space=False,
        max_episode_frames=None,
    )


def test_quick_trains_within_its_few_frames() -> None:
    config = preset("quick", "idqn/MiniPacman-v0")

    steps = config.train.frames // config.env.frame_skip
    assert config.train.frames < preset("paper", PONG).train.frames / 100
    assert config.replay.learning_starts_steps < steps / 2
    assert config.system.checkpoint_every_frames < config.train.frames


def test_quick_for_atari_still_learns() -> None:
    config = preset("quick", PONG)

    assert config.replay.learning_starts_steps < config.train.frames // config.env.frame_skip


TUNED = {
    "train.n_step": 3,
    "replay.transitions": 100_000,
    "agent.epsilon_start": 1.0,
    "agent.epsilon_end": 0.01,
    "agent.epsilon_steps": 62_500,
    "agent.key_init_std": 0.01,
    "train.clip_rewards": True,
}


def changes(name: str, agent: str) -> dict[str, Any]:
    """What a preset does otherwise than `paper`."""
    theirs, ours = preset(name, PONG, agent), preset("paper", PONG, agent)
    names = (n for n in field_names() if value_of(theirs, n) != value_of(ours, n))
    return {n: value_of(theirs, n) for n in names}


def test_tuned_changes_what_docs_say() -> None:
    common = {"train.n_step": 3, "replay.transitions": 100_000}
    assert changes("tuned", "idqn") == TUNED
    for agent in ("ddqn", "c51"):
        assert changes("tuned", agent) == {**common, "agent.epsilon_steps": 62_500}
    for agent in ("noisy", "bootstrap", "ensemble"):
        assert changes("tuned", agent) == common


def test_tuned_keys_begin_short() -> None:
    """So that what is left in them is what was learnt."""
    for name, std in {"paper": 0.1, "tuned": 0.01, "quick": 0.01}.items():
        assert preset(name, PONG).agent.key_init_std == std


def test_unknown_preset_names_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"'papr'.*did you mean 'paper'") as caught:
        preset("papr", PONG)

    for name in PRESETS:
        assert name in str(caught.value)


BASELINES = ["ddqn", "c51", "noisy", "bootstrap", "ensemble"]

# what each agent's presets set besides what i-DQN's do
OF_BASELINES: dict[str, Any] = {
    "agent.decoder": "none",
    "agent.embedding_size": 512,
    "agent.linear_init_std": None,
    "optimizer.learning_rate": 1e-4,
    "train.clip_rewards": True,
}
DITHERING: dict[str, Any] = {"agent.epsilon_start": 1.0, "agent.epsilon_end": 0.01}
OF_AGENT: dict[str, dict[str, Any]] = {
    "idqn": {},
    "ddqn": {**OF_BASELINES, **DITHERING},
    "c51": {
        **OF_BASELINES,
        **DITHERING,
        "agent.value_min": -10.0,
        "agent.value_max": 10.0,
        "optimizer.learning_rate": 2.5e-4,
        "optimizer.epsilon": 0.01 / 32,
    },
    "noisy": OF_BASELINES,
    "bootstrap": OF_BASELINES,
    "ensemble": {**OF_BASELINES, "agent.exploration_factor": 0.1},
}


@pytest.mark.parametrize("agent", OF_AGENT)
def test_agents_differ_from_idqn_only_where_theirs_says(agent: str) -> None:
    config, idqn = preset("paper", PONG, agent), preset("paper", PONG)
    own = {"agent.name": agent, **OF_AGENT[agent]}

    assert {name: value_of(config, name) for name in own} == own
    differing = {n for n in field_names() if value_of(config, n) != value_of(idqn, n)}
    # C51's rate is i-DQN's, not the other baselines'
    assert differing == {n for n, value in own.items() if value != value_of(idqn, n)}


@pytest.mark.parametrize(
    ("agent", "dotted", "value"),
    [
        ("ddqn", "agent.epsilon_steps", 1_000_000),
        ("c51", "agent.epsilon_steps", 1_000_000),
        ("c51", "agent.atoms", 51),
        ("noisy", "agent.noise_sigma", 0.5),
        ("bootstrap", "agent.heads", 10),
        ("bootstrap", "agent.mask_probability", 0.5),
        ("ensemble", "agent.heads", 10),
        ("ensemble", "agent.shared_torso", False),
    ],
)
def test_what_agents_have_of_their_own(agent: str, dotted: str, value: Any) -> None:
    assert value_of(preset("paper", PONG, agent), dotted) == value


@pytest.mark.parametrize("agent", OF_AGENT)
def test_who_takes_random_actions(agent: str) -> None:
    assert preset("paper", PONG, agent).agent.dithers == (agent in ("ddqn", "c51"))


@pytest.mark.parametrize("env_id", [PONG, "idqn/MiniPacman-v0"])
@pytest.mark.parametrize("agent", BASELINES)
@pytest.mark.parametrize("name", ["paper", "tuned", "quick"])
def test_every_agents_presets_are_valid(name: str, agent: str, env_id: str) -> None:
    config = preset(name, env_id, agent)

    assert (config.env.id, config.agent.name) == (env_id, agent)
    assert from_dict(to_dict(config)) == config
    assert config.env == preset(name, env_id).env
    assert config.train.frames == preset(name, env_id).train.frames


@pytest.mark.parametrize("agent", OF_AGENT)
def test_quick_agents_come_to_their_senses_in_time(agent: str) -> None:
    config = preset("quick", "idqn/MiniPacman-v0", agent)

    assert config.agent.embedding_size == 64
    if config.agent.dithers:
        assert config.agent.epsilon_steps < config.train.frames / config.env.frame_skip / 2
        assert config.agent.epsilon_end == 0.05


def test_a_quick_ensemble_has_one_torso() -> None:
    """Members apart would be neither quick nor, with so few frames, any good."""
    for name in ("paper", "quick"):
        config = preset(name, "idqn/MiniPacman-v0", "ensemble")
        assert config.agent.shared_torso == (name == "quick")


def test_the_authors_had_a_ddqn() -> None:
    paper, authors = preset("paper", PONG, "ddqn"), preset("authors", PONG, "ddqn")

    differing = {n for n in field_names() if value_of(paper, n) != value_of(authors, n)}

    assert differing == {
        "train.frames",
        "train.bootstrap_on_truncation",
        "optimizer.clip_scope",
    }
    assert authors.agent.decoder == "none"


@pytest.mark.parametrize("agent", ["c51", "noisy", "bootstrap", "ensemble"])
def test_the_authors_had_no_other_agents(agent: str) -> None:
    with pytest.raises(UserError, match=rf"no {agent} agent, only idqn and ddqn; use --preset"):
        preset("authors", PONG, agent)


def test_unknown_agent_names_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"unknown agent 'bootstrp'; did you mean 'bootstrap'") as e:
        preset("paper", PONG, "bootstrp")

    for agent in OF_AGENT:
        assert agent in str(e.value)
