"""What can be edited in each game: one module of data per game."""

from __future__ import annotations

from importlib import import_module

from idqn.envs.edits import GameEdits, Pokes, Ram, game_edits

ATARI = {
    "ALE/Alien-v5": "alien",
    "ALE/Freeway-v5": "freeway",
    "ALE/Frostbite-v5": "frostbite",
    "ALE/Gravitar-v5": "gravitar",
    "ALE/MsPacman-v5": "mspacman",
    "ALE/Pong-v5": "pong",
    "ALE/Qbert-v5": "qbert",
    "ALE/SpaceInvaders-v5": "spaceinvaders",
    "ALE/Venture-v5": "venture",
}


def edits_for(env_id: str) -> GameEdits[Ram, Pokes]:
    """An Atari game's edits; none for a game whose memory nobody has mapped."""
    if env_id not in ATARI:
        return game_edits(())
    game: GameEdits[Ram, Pokes] = import_module(f"{__name__}.{ATARI[env_id]}").GAME
    return game
