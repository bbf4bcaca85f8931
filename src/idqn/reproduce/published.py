"""Every published number that we compare with, as data, each with its source."""

from __future__ import annotations

from typing import NamedTuple

from idqn.config import AgentName
from idqn.presets import PAPER_GAMES

PAPER = "Annasamy & Sycara, Towards Better Interpretability in Deep Q-Networks, AAAI 2019"
PAPER_FRAMES = 40_000_000
"""The paper's "10M frames" in emulator frames: its authors' code counts agent steps, of 4 each."""


class Column(NamedTuple):
    """A column of Table 1."""

    name: str
    agent: AgentName
    """Ours of the same kind."""
    frames: int
    """Emulator frames of training."""
    scores: dict[str, float]


def _column(name: str, agent: AgentName, frames: int, *scores: float) -> Column:
    return Column(name, agent, frames, dict(zip(PAPER_GAMES, scores, strict=True)))


_FINAL = 200_000_000

# The paper's Table 1: "Training scores (averaged over 100 episodes, 3 seeds)", of which the text
# says that they are the best results of individual runs. The first two are the paper's own; it
# took DDQN, Distributional and Noisy DQN after 200M frames from Hessel et al. 2017, Q-ensembles
# (40M frames) from Chen et al. 2018, and Bootstrap DQN from Osband et al. 2016.
# fmt: off
IDQN = _column("i-DQN", "idqn", PAPER_FRAMES,
               2380.72, 28.79, 3968.45, 517.33, 6132.21, 19137.6, 979.45, 985.11)
DDQN = _column("DDQN", "ddqn", PAPER_FRAMES,
               1533.45, 22.5, 754.48, 279.89, 2251.43, 10226.93, 563.2, 70.87)
TABLE_1 = (
    IDQN,
    DDQN,
    _column("DDQN, final", "ddqn", _FINAL,
            3747.7, 33.3, 1683.3, 412, 2711.4, 15088.5, 2525.5, 98),
    _column("Distrib. DQN, final", "c51", _FINAL,
            4055.8, 33.6, 3938.2, 681, 3769.2, 16956.0, 6869.1, 1107.0),
    _column("Q-ensemble, final", "ensemble", PAPER_FRAMES,
            2817.6, 33.96, 1903.0, 318, 3425.4, 14198.25, 2626.55, 67),
    _column("Bootstrap DQN, final", "bootstrap", _FINAL,
            2436.6, 33.9, 2181.4, 286.1, 2983.3, 15092.7, 2893, 212.5),
    _column("Noisy DQN, final", "noisy", _FINAL,
            2394.9, 32, 583.6, 443.5, 2501.6, 15276.3, 2145.5, 0),
)
# fmt: on


def of_agent(agent: str, game: str) -> Column | None:
    """The first column of Table 1 that our agent's score in a game can be held against."""
    fitting = (column for column in TABLE_1 if column.agent == agent and game in column.scores)
    return next(fitting, None)


DECODERS: dict[str, tuple[str, float | None]] = {
    "AE": ("ae", None),
    "VAE, β = 0": ("vae", 0.0),
    "VAE, β = 0.01": ("vae", 0.01),
    "Dense VAE, β = 0": ("dense-vae", 0.0),
}
"""agent.decoder and agent.beta of the paper's Table 2."""

# The paper's Table 2: Agreement in percent, on MsPacman, over 5 rollouts.
TABLE_2 = {
    "colour 210×160": dict(zip(DECODERS, (30.76, 29.78, 16.8, 23.73), strict=True)),
    "grey 84×84": dict(zip(DECODERS, (19.87, 18.14, 10.97, 14.56), strict=True)),
}


class Weights(NamedTuple):
    """A setting of the paper's section "Sensitivity to hyperparameters"."""

    bellman: float  # λ1
    distributional: float  # λ2
    reconstruction: float  # λ3
    exploration: float | None = None  # λexp; None is the preset's own


# On MsPacman, averaged over 3 trials. Of λexp 0.1, 0.01 and 0.001 the paper says only that they
# made no significant difference. The default is Table 1's; the section itself speaks of drops by
# about 45 % (to 3,245.3 and 3,013.1) and 12 % (to 5,267.15), as from about 5,900.
SENSITIVITY: dict[Weights, float | None] = {
    Weights(1.0, 1.0, 0.05): IDQN.scores["MsPacman"],
    Weights(1.0, 1.0, 0.5): 3245.3,
    Weights(1.0, 1.0, 5.0): 3013.1,
    Weights(10.0, 10.0, 0.05): 5267.15,
    Weights(1.0, 10.0, 0.05): 4916.0,
    Weights(10.0, 1.0, 0.05): 4053.6,
    Weights(1.0, 1.0, 0.05, 0.1): None,
    Weights(1.0, 1.0, 0.05, 0.001): None,
}

# The paper's figure "Understanding the effect of different losses", on Pong: curves, no numbers.
# λ2 and λ3; Bellman and diversity losses are in all.
ABLATION = {
    "diversity + Bellman": (False, False),
    "+ distributional": (True, False),
    "+ reconstruction": (True, True),
}


class Dopamine(NamedTuple):
    """Dopamine's published training curves, at so many emulator frames: sticky actions with
    probability 0.25, mean of 5 seeds (Castro et al. 2018)."""

    c51: float
    rainbow: float


DOPAMINE: dict[int, dict[str, Dopamine]] = {
    10_000_000: {
        "Alien": Dopamine(988, 1220),
        "Freeway": Dopamine(29.0, 32.2),
        "Frostbite": Dopamine(1097, 2510),
        "Gravitar": Dopamine(84, 202),
        "MsPacman": Dopamine(2257, 2348),
        "Qbert": Dopamine(3002, 5354),
        "SpaceInvaders": Dopamine(686, 744),
        "Venture": Dopamine(17, 20),
        "Pong": Dopamine(-6.1, 15.2),
    },
    40_000_000: {
        "Alien": Dopamine(1728, 1765),
        "Freeway": Dopamine(33.3, 33.2),
        "Frostbite": Dopamine(2949, 5144),
        "Gravitar": Dopamine(327, 773),
        "MsPacman": Dopamine(2777, 3059),
        "Qbert": Dopamine(9563, 15751),
        "SpaceInvaders": Dopamine(1446, 1644),
        "Venture": Dopamine(31, 1342),
        "Pong": Dopamine(16.9, 19.3),
    },
}


class Scale(NamedTuple):
    """Scores of random actions and of a person who tests games for a living, between which scores
    are normalised, as they stand in the tables of Wang et al. 2016 (Dueling Network Architectures)
    for games that begin with up to 30 no-ops. Mnih et al. 2015 have the same random scores, but
    other persons' (Alien 6,875, MsPacman 15,693, Pong 9.3)."""

    random: float
    human: float


SCALES = {
    "Alien": Scale(227.8, 7127.7),
    "Freeway": Scale(0.0, 29.6),
    "Frostbite": Scale(65.2, 4334.7),
    "Gravitar": Scale(173.0, 3351.4),
    "MsPacman": Scale(307.3, 6951.6),
    "Qbert": Scale(163.9, 13455.0),
    "SpaceInvaders": Scale(148.0, 1668.7),
    "Venture": Scale(0.0, 1187.5),
    "Pong": Scale(-20.7, 14.6),
}
