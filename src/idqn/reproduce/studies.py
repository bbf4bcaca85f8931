"""What there is to reproduce: each study is a list of cells, each cell a config and the published
number that its scores are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from idqn.config import Config, to_dict
from idqn.errors import UserError, nearest
from idqn.presets import PAPER_GAMES, preset
from idqn.reproduce import published
from idqn.reproduce.settings import game_of

Measure = Literal["best_100", "agreement"]


@dataclass(frozen=True)
class Reference:
    """A published number."""

    value: float
    whose: str
    """"the paper's", of "29 % of the paper's 6,132.21"."""
    frames: int
    """Emulator frames of its training."""


@dataclass(frozen=True)
class Cell:
    row: tuple[str, ...]
    """What it is called, under the study's headings."""
    run_name: str
    """Of its run directories, less the seed."""
    config: Config
    """Of every seed alike."""
    reference: Reference | None = None
    in_words: str | None = None

    @property
    def label(self) -> str:
        """What sentences call it."""
        return self.in_words or ", ".join(self.row)

    @property
    def game(self) -> str:
        return game_of(self.config.env.id)

    def of_seed(self, seed: int) -> Config:
        return self.config.replace(**{"train.seed": seed})

    def run_of(self, seed: int) -> str:
        return f"{self.run_name}-s{seed}"


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    headings: tuple[str, ...]
    cells: tuple[Cell, ...]
    measure: Measure = "best_100"
    evaluated: bool = True
    """Whether games without exploration are a part of it."""


@dataclass(frozen=True)
class Choices:
    """What a user may choose about all cells."""

    frames: int = 10_000_000
    preset: str = "paper"
    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the config, for every cell."""
    games: Sequence[str] = ()
    """None: all that the study has."""
    agents: Sequence[str] = ("idqn", "ddqn")
    device: str | None = None


def table1(choices: Choices) -> Study:
    cells = _games_and_agents(choices, PAPER_GAMES)
    return Study("table1", "Table 1: training scores", ("game", "agent"), cells)


def table2(choices: Choices) -> Study:
    full_size = {"env.color": True, "env.frame_height": None, "env.frame_width": None}
    cells = []
    for frames, row in published.TABLE_2.items():
        colour = frames.startswith("colour")
        for name, score in row.items():
            decoder, beta = published.DECODERS[name]
            fields: dict[str, Any] = {"agent.decoder": decoder, **(full_size if colour else {})}
            if beta is not None:
                fields["agent.beta"] = beta
            kind = decoder if beta is None else f"{decoder}-beta{beta:g}"
            variation = f"colour-{kind}" if colour else kind
            reference = Reference(score, "the paper's", published.PAPER_FRAMES)
            cells.append(
                _cell(choices, (frames, name), "MsPacman", "idqn", reference, fields, variation)
            )
    title = "Table 2: Agreement of keys and their pictures, on MsPacman"
    return Study("table2", title, ("frames", "decoder"), tuple(cells), "agreement", False)


_WEIGHTS = ("λ1", "λ2", "λ3", "λexp")


def sensitivity(choices: Choices) -> Study:
    cells = []
    for weights, score in published.SENSITIVITY.items():
        fields = {
            "loss.bellman": weights.bellman,
            "loss.distributional": weights.distributional,
            "loss.reconstruction": weights.reconstruction,
        }
        if weights.exploration is not None:
            fields["agent.exploration_factor"] = weights.exploration
        row = tuple("preset's" if weight is None else f"{weight:g}" for weight in weights)
        reference = None
        if score is not None:
            reference = Reference(score, "the paper's", published.PAPER_FRAMES)
        cell = _cell(choices, row, "MsPacman", "idqn", reference, fields)
        pairs = zip(_WEIGHTS, weights, strict=True)
        words = ", ".join(f"{name} = {weight:g}" for name, weight in pairs if weight is not None)
        cells.append(replace(cell, in_words=words))
    title = "Sensitivity to the losses' weights, on MsPacman"
    return Study("sensitivity", title, _WEIGHTS, tuple(cells))


def ablation(choices: Choices) -> Study:
    cells = []
    for name, (distributional, reconstruction) in published.ABLATION.items():
        fields: dict[str, Any] = {}
        if not distributional:
            fields["loss.distributional"] = 0.0
        if not reconstruction:
            fields["loss.reconstruction"] = 0.0
        cells.append(_cell(choices, (name,), "Pong", "idqn", None, fields))
    return Study("ablation", "Ablation: loss by loss, on Pong", ("losses",), tuple(cells))


GAMES_OF_CURVES = (*PAPER_GAMES, "Pong")


def curves(choices: Choices) -> Study:
    cells = _games_and_agents(choices, GAMES_OF_CURVES, PAPER_GAMES)
    return Study("curves", "Training curves", ("game", "agent"), cells, evaluated=False)


STUDIES: dict[str, Callable[[Choices], Study]] = {
    "table1": table1,
    "table2": table2,
    "sensitivity": sensitivity,
    "ablation": ablation,
    "curves": curves,
}


def _games_and_agents(
    choices: Choices, known: Sequence[str], usual: Sequence[str] | None = None
) -> tuple[Cell, ...]:
    games = [_game(name, known) for name in choices.games] or usual or known
    if not choices.agents:
        raise UserError("--agents needs at least one agent, for example: --agents idqn ddqn")
    return tuple(
        _cell(choices, (game, agent), game, agent, _of_table_1(game, agent))
        for game in dict.fromkeys(games)
        for agent in dict.fromkeys(choices.agents)
    )


def _game(name: str, known: Sequence[str]) -> str:
    """MsPacman, of that or of ALE/MsPacman-v5."""
    game = game_of(name)
    if game not in known:
        hint = nearest(game, known)
        if game in GAMES_OF_CURVES:
            hint = "; `idqn reproduce curves` has it, and `ablation`"
        raise UserError(f"this study has no game '{name}'{hint} (it has {', '.join(known)})")
    return game


def _of_table_1(game: str, agent: str) -> Reference | None:
    column = published.of_agent(agent, game)
    if column is None:
        return None
    own = column in (published.IDQN, published.DDQN)
    whose = "the paper's" if own else "the published final"
    return Reference(column.scores[game], whose, column.frames)


_OTHERS = {
    "env.id": "--games",
    "agent.name": "--agents",
    "train.seed": "--seeds",
    "train.frames": "--frames",
    "system.device": "--device",
}


def _cell(
    choices: Choices,
    row: tuple[str, ...],
    game: str,
    agent: str,
    reference: Reference | None,
    fields: dict[str, Any] | None = None,
    variation: str | None = None,
) -> Cell:
    """The preset, the user's changes, then what the study is about. The run's name says what the
    study changed; without a change it is the one of the other studies, which share the run."""
    fields = fields or {}
    for name in choices.changes:
        if name in _OTHERS:
            raise UserError(f"--set cannot change {name}, which is for {_OTHERS[name]}")
        if name in fields:
            raise UserError(f"--set cannot change {name}: it is what the study is about")
    machine = {} if choices.device is None else {"system.device": choices.device}
    base = preset(choices.preset, f"ALE/{game}-v5", agent).replace(
        **{"train.frames": choices.frames, **machine, **choices.changes}
    )
    config = base.replace(**fields)
    parts = [game, agent]
    if choices.preset != "paper":
        parts.append(choices.preset)
    if config != base:
        parts.append(variation or _variation(base, config, fields))
    return Cell(row, "-".join(parts), config, reference)


def _variation(base: Config, config: Config, fields: dict[str, Any]) -> str:
    """The fields that changed: bellman10-distributional10."""
    before, after = to_dict(base), to_dict(config)
    parts = []
    for name in fields:
        group, leaf = name.split(".")
        if before[group][leaf] != after[group][leaf]:
            parts.append(f"{leaf}{after[group][leaf]:g}")
    return "-".join(parts)
