"""The agent, its losses and their optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from idqn.config.checks import require

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
        require(self.keys >= 2, f"agent.keys must be at least 2 (one per value), got {self.keys}")
        require(
            self.value_min < self.value_max,
            f"agent.value_min must be below agent.value_max, got {self.value_min} and "
            f"{self.value_max}",
        )
        require(
            self.embedding_size >= 1,
            f"agent.embedding_size must be at least 1, got {self.embedding_size}",
        )
        for name in ("key_init_std", "linear_init_std", "noise_sigma"):
            value = getattr(self, name)
            require(value is None or value > 0, f"agent.{name} must be positive, got {value}")
        for name in ("atoms", "heads"):
            value = getattr(self, name)
            require(value >= 2, f"agent.{name} must be at least 2, got {value}")
        require(self.beta >= 0, f"agent.beta must not be negative, got {self.beta}")
        for name in ("epsilon_start", "epsilon_end"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"agent.{name} must be a probability, got {value}")
        require(
            0 < self.mask_probability <= 1,
            f"agent.mask_probability must be in (0, 1], got {self.mask_probability}",
        )
        require(
            self.epsilon_steps >= 1, f"agent.epsilon_steps must be >= 1, got {self.epsilon_steps}"
        )
        require(
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
            require(value >= 0, f"loss.{name} must not be negative, got {value}")


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
            require(value > 0, f"optimizer.{name} must be positive, got {value}")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"optimizer.{name} must be in [0, 1), got {value}")
        require(
            self.halve_every_steps is None or self.halve_every_steps >= 1,
            f"optimizer.halve_every_steps must be at least 1, got {self.halve_every_steps}",
        )
        require(
            self.min_learning_rate <= self.learning_rate or self.halve_every_steps is None,
            f"optimizer.min_learning_rate must not be above optimizer.learning_rate "
            f"({self.learning_rate}), got {self.min_learning_rate}",
        )
