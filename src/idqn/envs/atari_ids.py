"""From Gymnasium's names of the Atari games to the emulator's."""

from __future__ import annotations

import re

from idqn.errors import UserError, nearest


def atari_ids() -> dict[str, str]:
    """ROM name of every id we accept: `{"ALE/Pong-v5": "pong", ...}`."""
    # Late imports: asking for a name should not load an emulator into every command.
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    return {
        env_id: spec.kwargs["game"]
        for env_id, spec in gymnasium.registry.items()
        if spec.namespace == "ALE" and spec.version == 5
    }


def rom_name(env_id: str) -> str:
    """The emulator's name of a game: `"ALE/MsPacman-v5"` is `"ms_pacman"`."""
    roms = atari_ids()
    if env_id in roms:
        return roms[env_id]
    # People bring ids of other versions (PongNoFrameskip-v4), bare names (Pong, ms_pacman) and
    # typing errors: write what they meant as a v5 id, then look for the nearest one.
    name = re.sub(r"^.*/|-v\d+$", "", env_id)
    name = re.sub(r"NoFrameskip|Deterministic|-?ram$|[_\s]", "", name, flags=re.IGNORECASE)
    wanted = f"ALE/{name}-v5"
    meant = [known for known in roms if known.lower() == wanted.lower()]
    raise UserError(
        f"'{env_id}' is not an Atari id like 'ALE/MsPacman-v5'{nearest(wanted, meant or roms)}"
    )
