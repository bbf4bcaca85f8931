"""The configuration of one run: a tree of frozen dataclasses, checked on construction.

Every place where the paper's text and its authors' code differ is a field here (see
`docs/paper.md`); `presets.py` gathers the choices. Frames are emulator frames, steps are agent
steps: with `frame_skip = 4`, one step is four frames.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from idqn.errors import UserError, nearest

_checking = True


def _require(condition: bool, message: str) -> None:
    if _checking and not condition:
        raise UserError(message)


@contextmanager
def unchecked() -> Iterator[None]:
    """Let configs be built that make no sense yet: a command line is read in two passes."""
    global _checking
    _checking = False
    try:
        yield
    finally:
        _checking = True


@dataclass(frozen=True)
class EnvConfig:
    id: tyro.conf.Suppress[str] = "ALE/MsPacman-v5"
    """Environment id: ALE/NAME-v5, idqn/MiniPacman-v0, or any Gymnasium id with image
    observations and discrete actions."""
    frame_height: int | None = 84
    """Height frames are resized to; None keeps the environment's own (210 for Atari)."""
    frame_width: int | None = 84
    """Width frames are resized to; None keeps the environment's own (160 for Atari)."""
    color: bool = False
    """Keep colour; otherwise RGB frames become grey."""
    frame_stack: int = 4
    """Consecutive frames that make one observation; zeros before an episode's first frame."""
    frame_skip: int = 4
    """Frames each action is repeated for."""
    max_pool: bool = True
    """Take the pixel-wise maximum of the last two skipped frames (Atari sprites blink)."""
    noop_max: int = 30
    """Start each episode with a random number of no-op frames, up to this many (Atari)."""
    fire_on_reset: bool = True
    """Press FIRE once after a reset, in games that have it (Atari)."""
    sticky_probability: float = 0.0
    """Probability that the emulator repeats the previous action instead (Atari)."""
    full_action_space: bool = False
    """Offer all 18 joystick actions instead of the game's own (Atari)."""
    max_episode_frames: int | None = 108_000
    """Truncate episodes here (108,000 frames are 30 minutes of Atari); None never does."""

    def __post_init__(self) -> None:
        for name in ("frame_height", "frame_width", "frame_stack", "frame_skip"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"env.{name} must be at least 1, got {value}")
        _require(self.noop_max >= 0, f"env.noop_max must be at least 0, got {self.noop_max}")
        _require(
            0.0 <= self.sticky_probability < 1.0,
            f"env.sticky_probability must be in [0, 1), got {self.sticky_probability}",
        )
        _require(
            self.max_episode_frames is None or self.max_episode_frames >= self.frame_skip,
            f"env.max_episode_frames must be at least one step ({self.frame_skip} frames), "
            f"got {self.max_episode_frames}",
        )

    @property
    def is_atari(self) -> bool:
        return self.id.startswith("ALE/")

    @property
    def steps_per_second(self) -> float:
        """How fast a person would see it played, in agent steps."""
        return 60 / self.frame_skip if self.is_atari else 8.0


AgentName = Literal["idqn", "ddqn", "c51", "noisy", "bootstrap", "ensemble"]


@dataclass(frozen=True)
class AgentConfig:
    name: Annotated[AgentName, tyro.conf.arg(aliases=["--agent"])] = "idqn"
    """The agent to train; presets give each its own values of what follows."""
    keys: int = 20
    """i-DQN: keys per action (the paper's N), one for each value."""
    embedding_size: int = 256
    """Dimensions of state embeddings and keys; for agents without keys, of the hidden layer."""
    decoder: Literal["ae", "vae", "dense-vae", "none"] = "ae"
    """i-DQN: what embeddings are decoded with. ae, the encoder mirrored; vae, the same with
    variational embeddings, of which the memory sees the mean; dense-vae, that with deeper and
    wider convolutions both ways; none, no reconstruction at all."""
    beta: float = 0.01
    """i-DQN: weight of the divergence from a standard normal in the VAEs' reconstruction loss."""
    encoder: Literal["auto", "nature", "small", "tiny"] = "auto"
    """Convolutions: nature is the paper's (32 8x8/4, 64 4x4/2, 64 3x3/1), for frames of at least
    36 pixels; small (32 4x4/2, 64 4x4/2, 64 3x3/1) for at least 18; tiny (32 3x3/1, 64 3x3/1) for
    at least 5; auto takes the first that fits."""
    value_min: float = -25.0
    """i-DQN, C51: smallest return a key or an atom can stand for."""
    value_max: float = 25.0
    """i-DQN, C51: largest return a key or an atom can stand for."""
    value_spacing: Literal["linspace", "uniform"] = "linspace"
    """i-DQN, C51: values evenly spaced (the authors' code) or drawn uniformly at random once (the
    text)."""
    key_init_std: float = 0.1
    """Standard deviation of the initial keys (the authors' code had 1.0, through a bug)."""
    linear_init_std: float | None = 0.1
    """Standard deviation of the initial weights of linear layers; None draws them uniformly
    within ±1/√inputs."""
    atoms: int = 51
    """C51: values of the return's distribution."""
    noise_sigma: float = 0.5
    """Noisy: the noise's initial scale σ0, divided by √inputs."""
    heads: int = 10
    """Bootstrap, ensemble: Q-functions."""
    mask_probability: float = 0.5
    """Bootstrap: probability that a head learns from a transition."""
    shared_torso: bool = False
    """Ensemble: one set of convolutions for all Q-functions, instead of one for each."""
    exploration_factor: float = 0.01
    """i-DQN, ensemble: λ of the exploration bonus; the agent takes argmax Q + λ·U."""
    epsilon_start: float = 0.0
    """Probability of a random action, at first."""
    epsilon_end: float = 0.0
    """Probability of a random action, at last; evaluation takes none."""
    epsilon_steps: int = 1_000_000
    """Agent steps from the first of these to the last, in a straight line."""
    subtract_mean_image: bool = True
    """Subtract the mean of the first states from every state (kept with the weights)."""

    def __post_init__(self) -> None:
        _require(self.keys >= 2, f"agent.keys must be at least 2 (one per value), got {self.keys}")
        _require(
            self.value_min < self.value_max,
            f"agent.value_min must be below agent.value_max, got {self.value_min} and "
            f"{self.value_max}",
        )
        _require(
            self.embedding_size >= 1,
            f"agent.embedding_size must be at least 1, got {self.embedding_size}",
        )
        for name in ("key_init_std", "linear_init_std", "noise_sigma"):
            value = getattr(self, name)
            _require(value is None or value > 0, f"agent.{name} must be positive, got {value}")
        for name in ("atoms", "heads"):
            value = getattr(self, name)
            _require(value >= 2, f"agent.{name} must be at least 2, got {value}")
        _require(self.beta >= 0, f"agent.beta must not be negative, got {self.beta}")
        for name in ("epsilon_start", "epsilon_end"):
            value = getattr(self, name)
            _require(0 <= value <= 1, f"agent.{name} must be a probability, got {value}")
        _require(
            0 < self.mask_probability <= 1,
            f"agent.mask_probability must be in (0, 1], got {self.mask_probability}",
        )
        _require(
            self.epsilon_steps >= 1, f"agent.epsilon_steps must be >= 1, got {self.epsilon_steps}"
        )
        _require(
            self.name == "idqn" or self.decoder == "none",
            f"agent.decoder must be 'none' for {self.name}: only idqn reconstructs what it sees; "
            f"got '{self.decoder}'",
        )

    @property
    def shares_torso(self) -> bool:
        """Whether several Q-functions share their convolutions."""
        return self.name == "bootstrap" or (self.name == "ensemble" and self.shared_torso)

    @property
    def dithers(self) -> bool:
        """Whether some actions are random."""
        return max(self.epsilon_start, self.epsilon_end) > 0


@dataclass(frozen=True)
class LossConfig:
    bellman: float = 1.0
    """i-DQN: λ1, weight of the Bellman loss; 0 switches any of these four off."""
    distributional: float = 1.0
    """i-DQN: λ2, weight of the distributional loss."""
    reconstruction: float = 0.05
    """i-DQN: λ3, weight of the reconstruction loss, and of the VAEs' divergence with it."""
    diversity: float = 0.01
    """i-DQN: λ4, weight of the diversity loss."""
    bellman_kind: Literal["smooth_l1", "squared"] = "smooth_l1"
    """Smooth L1 (the authors' code) or squared error (the text)."""
    distributional_log_epsilon: float = 0.0
    """Cross-entropy against log(w + this); 0 uses the exact log-softmax (the code had 1e-6)."""
    diversity_rows: Literal["chosen", "all"] = "chosen"
    """Attention of the chosen action (the text) or of all actions in one row (the code)."""
    diversity_per_sample: bool = False
    """Divide the diversity loss by the batch size (the code) instead of summing over the batch
    (the text)."""

    def __post_init__(self) -> None:
        for name in (
            "bellman",
            "distributional",
            "reconstruction",
            "diversity",
            "distributional_log_epsilon",
        ):
            value = getattr(self, name)
            _require(value >= 0, f"loss.{name} must not be negative, got {value}")


@dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: float = 2.5e-4
    """Adam's step size."""
    beta1: float = 0.9
    """Adam's decay of the mean gradient."""
    beta2: float = 0.999
    """Adam's decay of the mean squared gradient."""
    epsilon: float = 1e-8
    """Added to Adam's denominator."""
    clip_norm: float = 10.0
    """Largest gradient norm; larger gradients are scaled down to it."""
    clip_scope: Literal["global", "layer"] = "global"
    """One norm for all parameters, or one per parameter tensor with the keys left out (the
    authors' code)."""
    halve_every_steps: int | None = None
    """Halve the learning rate each time this many agent steps have passed; None never does."""
    min_learning_rate: float = 1e-6
    """Halving stops here."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epsilon", "clip_norm", "min_learning_rate"):
            value = getattr(self, name)
            _require(value > 0, f"optimizer.{name} must be positive, got {value}")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _require(0 <= value < 1, f"optimizer.{name} must be in [0, 1), got {value}")
        _require(
            self.halve_every_steps is None or self.halve_every_steps >= 1,
            f"optimizer.halve_every_steps must be at least 1, got {self.halve_every_steps}",
        )
        _require(
            self.min_learning_rate <= self.learning_rate or self.halve_every_steps is None,
            f"optimizer.min_learning_rate must not be above optimizer.learning_rate "
            f"({self.learning_rate}), got {self.min_learning_rate}",
        )


@dataclass(frozen=True)
class ReplayConfig:
    transitions: int = 10_000
    """Capacity; the oldest transitions are forgotten."""
    batch_size: int = 32
    """Transitions per update."""
    learning_starts_steps: int = 10_000
    """Agent steps taken before the first update (by the agent's own policy)."""
    prioritized: bool = False
    """Draw transitions the more often the larger their last error was (Schaul et al. 2016),
    instead of uniformly."""
    priority_exponent: float = 0.6
    """Prioritized: α, how far errors decide; 0 is uniform, 1 in proportion to the error."""
    priority_correction: float = 0.4
    """Prioritized: initial β of the importance weights, which undo the bias in full at 1."""
    priority_correction_steps: int = 2_500_000
    """Prioritized: agent steps over which β rises to 1, in a straight line."""

    def __post_init__(self) -> None:
        _require(self.transitions >= 1, f"replay.transitions must be >= 1, got {self.transitions}")
        _require(
            1 <= self.batch_size <= self.transitions,
            f"replay.batch_size must be between 1 and replay.transitions "
            f"({self.transitions}), got {self.batch_size}",
        )
        _require(
            self.learning_starts_steps >= self.batch_size,
            f"replay.learning_starts_steps must be at least replay.batch_size "
            f"({self.batch_size}), got {self.learning_starts_steps}",
        )
        _require(
            self.priority_exponent >= 0,
            f"replay.priority_exponent must not be negative, got {self.priority_exponent}",
        )
        _require(
            0 <= self.priority_correction <= 1,
            f"replay.priority_correction must be in [0, 1], got {self.priority_correction}",
        )
        _require(
            self.priority_correction_steps >= 1,
            f"replay.priority_correction_steps must be at least 1, "
            f"got {self.priority_correction_steps}",
        )


@dataclass(frozen=True)
class TrainConfig:
    frames: Annotated[int, tyro.conf.arg(aliases=["--frames"])] = 10_000_000
    """Emulator frames to train for, counted as agent steps x frame_skip."""
    seed: tyro.conf.Suppress[int] = 0
    """Seed of everything random in the run."""
    envs: int = 16
    """Environments this run plays at once; does not change the replay ratio."""
    turns: int | None = None
    """Equal parts in which the environments take turns: while those of one part step, actions
    are chosen for another. None means 1 where emulators are not in processes of their own, 2 for
    Atari, and 4 for large populations on a GPU, if that divides the environments."""
    discount: float = 0.99
    """γ."""
    n_step: int = 1
    """Steps of reward before the next state is valued."""
    train_every_steps: int = 4
    """Agent steps per update."""
    target_sync_steps: int = 1_000
    """Agent steps between copies of the online network into the target network."""
    bootstrap: Literal["double", "target", "online"] = "double"
    """Who values the next state: double, the online network chooses the action and the target
    network values it (the code); target, the target network does both; online, the online
    network does both (the text, read literally)."""
    clip_rewards: bool = False
    """Learn from rewards clipped to [-1, 1]; statistics always see raw ones."""
    bootstrap_on_truncation: bool = True
    """Value the state after a time limit; the authors' code treated it as terminal."""

    def __post_init__(self) -> None:
        for name in ("frames", "envs", "n_step", "train_every_steps", "target_sync_steps"):
            value = getattr(self, name)
            _require(value >= 1, f"train.{name} must be at least 1, got {value}")
        _require(
            self.turns is None or (self.turns >= 1 and self.envs % self.turns == 0),
            f"train.turns must divide train.envs ({self.envs}), got {self.turns}",
        )
        _require(
            0 <= self.seed < 2**31, f"train.seed must be between 0 and 2**31 - 1, got {self.seed}"
        )
        _require(
            0.0 <= self.discount < 1.0, f"train.discount must be in [0, 1), got {self.discount}"
        )


@dataclass(frozen=True)
class SystemConfig:
    device: Annotated[str, tyro.conf.arg(aliases=["--device"])] = "auto"
    """cpu, cuda, cuda:N, or auto: CUDA where there is one."""
    workers: int | None = None
    """Emulator processes; 0 steps the environments in the training process, None uses one per
    CPU core for Atari and 0 otherwise. Never changes results."""
    threads: int | None = None
    """Torch CPU threads; None means all cores on the CPU and 1 beside a GPU. Part of what makes
    CPU results repeatable to the bit."""
    matmul_precision: Literal["highest", "high", "medium"] = "medium"
    """Precision of products on a GPU, in torch's words: float32, TF32 or bfloat16; sums,
    parameters and the memory are float32 always. A CPU computes everything in float32."""
    log_every_frames: int = 10_000
    """Frames between rows of metrics."""
    checkpoint_every_frames: int = 500_000
    """Frames between checkpoints."""
    keep_checkpoints: int = 3
    """Checkpoints kept, besides the best one."""

    def __post_init__(self) -> None:
        for name in ("log_every_frames", "checkpoint_every_frames", "keep_checkpoints"):
            value = getattr(self, name)
            _require(value >= 1, f"system.{name} must be at least 1, got {value}")
        _require(
            self.workers is None or self.workers >= 0,
            f"system.workers must be at least 0, got {self.workers}",
        )
        _require(
            self.threads is None or self.threads >= 1,
            f"system.threads must be at least 1, got {self.threads}",
        )


@dataclass(frozen=True)
class Config:
    """Everything that defines one run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    system: SystemConfig = field(default_factory=SystemConfig)

    def __post_init__(self) -> None:
        for group, fields in to_dict(self).items():
            for name, value in fields.items():
                finite = not isinstance(value, float) or math.isfinite(value)
                _require(finite, f"{group}.{name} must be a finite number, got {value}")
        n_step, envs = self.train.n_step, self.train.envs
        _require(
            self.replay.transitions > n_step * envs,
            f"replay.transitions must be more than train.n_step x train.envs ({n_step} x {envs}), "
            f"got {self.replay.transitions}",
        )
        _require(
            self.replay.learning_starts_steps > (n_step - 1) * envs,
            f"replay.learning_starts_steps must be more than (train.n_step - 1) x train.envs "
            f"({n_step - 1} x {envs}), so that there is a sum of {n_step} rewards to learn from; "
            f"got {self.replay.learning_starts_steps}",
        )

    def replace(self, **changes: Any) -> Config:
        """A copy with dotted fields changed: `config.replace(**{"train.seed": 1})`."""
        tree: dict[str, Any] = {}
        for dotted, value in changes.items():
            *parents, leaf = dotted.split(".")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[leaf] = value
        return from_dict(tree, base=self)


def to_dict(config: Config) -> dict[str, Any]:
    return dataclasses.asdict(config)


def to_json(config: Config) -> str:
    return json.dumps(to_dict(config), indent=2) + "\n"


def to_toml(config: Config) -> str:
    """The config as TOML that `from_dict` reads back."""
    lines: list[str] = []
    for group, fields in to_dict(config).items():
        lines += ["", f"[{group}]"]
        for name, value in fields.items():
            lines.append(f"{name} = {json.dumps('none' if value is None else value)}")
    return "\n".join(lines).lstrip() + "\n"


def from_dict(data: Mapping[str, Any], base: Config | None = None) -> Config:
    """Lay `data` (nested, may be partial) over `base`; unknown keys and wrong types are errors."""
    result = _overlay(base if base is not None else Config(), data, "")
    assert isinstance(result, Config)
    return result


def field_names(node: Any = Config, prefix: str = "") -> list[str]:
    """All dotted field names of the tree, in order."""
    names: list[str] = []
    hints = get_type_hints(node)
    for f in dataclasses.fields(node):
        if dataclasses.is_dataclass(hints[f.name]):
            names += field_names(hints[f.name], f"{prefix}{f.name}.")
        else:
            names.append(prefix + f.name)
    return names


def _overlay(base: Any, data: Any, path: str) -> Any:
    if not isinstance(data, Mapping):
        raise UserError(f"config: '{path.rstrip('.')}' must be a table of fields, got {data!r}")
    hints = get_type_hints(type(base))
    changes: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            known = [*(path + n for n in hints), *field_names()]
            raise UserError(f"config: unknown key '{path}{name}'{nearest(path + name, known)}")
        current = getattr(base, name)
        if dataclasses.is_dataclass(current):
            changes[name] = _overlay(current, value, f"{path}{name}.")
        else:
            changes[name] = _checked(value, hints[name], path + name)
    return dataclasses.replace(base, **changes)


def _checked(value: Any, hint: Any, path: str) -> Any:
    """`value` if it fits the type `hint`; floats are no integers, bools no numbers."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value == "none" and type(None) in options:  # TOML has no null
        return None
    for option in options:
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if option in (int, float) and isinstance(value, bool):
            continue
        if option is float and isinstance(value, int):
            return float(value)
        if isinstance(option, type) and isinstance(value, option):
            return value
    wanted = " or ".join(_describe(option) for option in options)
    raise UserError(f"config: '{path}' must be {wanted}, got {value!r}")


def _describe(option: Any) -> str:
    if get_origin(option) is Literal:
        return "one of " + ", ".join(repr(a) for a in get_args(option))
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(option, "'none'")
