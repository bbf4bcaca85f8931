import subprocess
import sys

import pytest

from idqn.envs.atari_ids import atari_ids, rom_name
from idqn.errors import UserError


@pytest.mark.parametrize(
    ("env_id", "rom"),
    [
        ("ALE/MsPacman-v5", "ms_pacman"),
        ("ALE/Pong-v5", "pong"),
        ("ALE/Qbert-v5", "qbert"),
        ("ALE/SpaceInvaders-v5", "space_invaders"),
    ],
)
def test_rom_name(env_id: str, rom: str) -> None:
    assert rom_name(env_id) == rom


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ("ALE/MsPackman-v5", "ALE/MsPacman-v5"),
        ("MsPacman", "ALE/MsPacman-v5"),
        ("mspacman", "ALE/MsPacman-v5"),
        ("ms_pacman", "ALE/MsPacman-v5"),
        ("PongNoFrameskip-v4", "ALE/Pong-v5"),
        ("QbertDeterministic-v0", "ALE/Qbert-v5"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
        ("ale/pong-v5", "ALE/Pong-v5"),
        ("ALE/SpaceInvader-v5", "ALE/SpaceInvaders-v5"),
    ],
)
def test_unknown_ids_get_a_suggestion(given: str, suggested: str) -> None:
    with pytest.raises(UserError) as error:
        rom_name(given)
    assert given in str(error.value)
    assert f"did you mean '{suggested}'" in str(error.value)


@pytest.mark.parametrize("given", ["", "CartPole-v1", "qqqqqq"])
def test_hopeless_ids_are_still_user_errors(given: str) -> None:
    with pytest.raises(UserError, match="not an Atari id"):
        rom_name(given)


def test_only_v5_ids_are_known() -> None:
    known = atari_ids()
    assert len(known) > 50
    assert all(env_id.startswith("ALE/") and env_id.endswith("-v5") for env_id in known)


def test_neither_torch_nor_an_emulator_is_imported_with_the_module() -> None:
    code = (
        "import sys, idqn.envs.atari_ids; assert not {'torch', 'ale_py'} & set(sys.modules); "
        "import idqn.envs.editable; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
