"""From an environment id to what it is, or to the right id."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from idqn.config import EnvConfig
from idqn.envs import describe
from idqn.envs.registry import check_same_frames, make_group
from idqn.errors import UserError
from idqn.presets import preset
from idqn.types import EnvSpec

PONG = preset("paper", "ALE/Pong-v5").env
MINI = preset("paper", "idqn/MiniPacman-v0").env


# --- what it is


def test_atari_in_grey() -> None:
    names = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert describe(PONG) == EnvSpec((1, 84, 84), 6, names)


def test_atari_as_it_is_with_every_action() -> None:
    config = replace(PONG, color=True, frame_height=None, frame_width=None, full_action_space=True)
    spec = describe(config)
    assert spec.frame_shape == (3, 210, 160)
    assert spec.num_actions == len(spec.action_names) == 18
    assert spec.action_names[:6] == ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN")


def test_mini_pacman() -> None:
    assert describe(MINI) == EnvSpec((1, 33, 33), 5, ("NOOP", "UP", "RIGHT", "LEFT", "DOWN"))
    assert describe(replace(MINI, color=True)).frame_shape == (3, 33, 33)
    assert describe(replace(MINI, frame_height=11, frame_width=22)).frame_shape == (1, 11, 22)


@pytest.mark.parametrize(
    "config",
    [
        replace(PONG, frame_height=40, frame_width=60),
        replace(PONG, color=True, frame_height=None),
        MINI,
        replace(MINI, color=True),
    ],
    ids=["pong", "pong in colour", "mini", "mini in colour"],
)
def test_frames_have_the_shape_that_was_described(config: EnvConfig) -> None:
    group = make_group(config, 2)
    frames = group.reset(np.ones(2, bool), np.array([1, 2]))
    assert frames.shape == (2, *describe(config).frame_shape)
    assert frames.dtype == np.uint8
    stepped = group.step(np.full(2, describe(config).num_actions - 1))[0]
    assert stepped.shape == frames.shape
    group.close()


# --- what it is not


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ("idqn/MiniPackman-v0", "idqn/MiniPacman-v0"),
        ("MiniPacman", "idqn/MiniPacman-v0"),
        ("minipacman-v0", "idqn/MiniPacman-v0"),
        ("MsPacman", "ALE/MsPacman-v5"),
        ("MsPacman-v5", "ALE/MsPacman-v5"),
        ("mspackman", "ALE/MsPacman-v5"),
        ("ALE/MsPackman-v5", "ALE/MsPacman-v5"),
        ("ALE/MsPacman-v4", "ALE/MsPacman-v5"),
        ("Pon", "ALE/Pong-v5"),
        ("PongNoFrameskip-v4", "ALE/Pong-v5"),
        ("MsPacman-v0", "ALE/MsPacman-v5"),
        ("CartPol-v1", "CartPole-v1"),
    ],
)
def test_unknown_ids_get_a_suggestion(given: str, suggested: str) -> None:
    with pytest.raises(UserError) as error:
        describe(preset("paper", given).env)
    message = str(error.value)
    assert f"'{given}'" in message
    assert f"did you mean '{suggested}'" in message
    assert "\n" not in message


@pytest.mark.parametrize("given", ["", "qqqq", "no/such-v0", "Pon", "Gophr", "Qbet", "LunarLandr"])
def test_only_ids_that_exist_are_suggested(given: str) -> None:
    with pytest.raises(UserError) as error:
        describe(preset("paper", given).env)
    suggestion = re.search(r"did you mean (.*?)\?", str(error.value))
    for env_id in re.findall(r"'(.*?)'", suggestion[1]) if suggestion else ():
        assert env_id in gym.registry


def test_suggestions_do_not_depend_on_what_was_imported_before() -> None:
    code = (
        "from idqn.envs import describe; from idqn.presets import preset\n"
        "try: describe(preset('paper', 'PongNoFrameskip-v4').env)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("UserError 'PongNoFrameskip-v4'")
    assert "did you mean 'ALE/Pong-v5'" in done.stdout


@pytest.fixture
def homeless() -> Iterator[str]:
    """An environment whose package is not installed."""
    gym.register("test/Homeless-v0", entry_point="no_such_package.envs:Homeless")
    yield "test/Homeless-v0"
    del gym.registry["test/Homeless-v0"]


def test_a_missing_package_is_told(homeless: str) -> None:
    with pytest.raises(UserError) as error:
        describe(preset("paper", homeless).env)
    assert "'test/Homeless-v0' could not be made" in str(error.value)
    assert "no_such_package" in str(error.value)


def test_a_missing_module_of_ones_own_is_told() -> None:
    with pytest.raises(UserError, match=r"'no_such_package:Thing-v0' could not be made.*package"):
        describe(preset("paper", "no_such_package:Thing-v0").env)


def test_a_module_of_ones_own_is_imported() -> None:
    from tests.envs.film_env import BROKEN_ID

    assert describe(preset("paper", BROKEN_ID).env).frame_shape == (1, 5, 5)


# --- populations


def test_a_population_needs_one_frame_shape() -> None:
    configs = [PONG, PONG, MINI]
    specs, ids = [describe(config) for config in configs], [config.id for config in configs]
    check_same_frames(specs[:2], ids[:2])
    with pytest.raises(UserError) as error:
        check_same_frames(specs, ids)
    assert "'ALE/Pong-v5' has 84x84x1 and 'idqn/MiniPacman-v0' 33x33x1" in str(error.value)


def test_colour_and_grey_do_not_go_together() -> None:
    """Sizes agree; numpy would quietly repeat the grey channel."""
    specs = [describe(replace(MINI, color=True)), describe(MINI)]
    with pytest.raises(UserError, match=r"33x33x3 and 'b' 33x33x1.*--env\.color"):
        check_same_frames(specs, ["a", "b"])
