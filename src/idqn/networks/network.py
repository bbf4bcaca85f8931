"""Q-networks: an encoder, the head that makes the agent, and for i-DQN a decoder."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from idqn.config import AgentConfig
from idqn.networks.decoder import Decoder
from idqn.networks.encoder import Encoder, choose_layers
from idqn.networks.heads import (
    CategoricalHead,
    LinearHead,
    ManyHeads,
    NoisyHead,
    mean_and_spread,
)
from idqn.networks.memory import KeyValueMemory, make_values
from idqn.types import QOutput

Shape = tuple[int, int, int]
Head = KeyValueMemory | LinearHead | CategoricalHead | NoisyHead | ManyHeads


def normalize(observation: Tensor, mean_image: Tensor) -> Tensor:
    """Pixels to network units: what the encoder reads and the decoder reproduces."""
    return (observation.float() - mean_image) / 255


class QNetwork(nn.Module):
    """uint8 observations [B, C, H, W] in, `QOutput` out. A variational encoder gives the mean and
    then the log-variance of an embedding; everything here goes by the mean."""

    mean_image: Tensor

    def __init__(
        self, config: AgentConfig, observation_shape: Shape, num_actions: int, generator: Generator
    ) -> None:
        super().__init__()
        dense = config.decoder == "dense-vae"
        layers = choose_layers(config.encoder, *observation_shape[1:], dense=dense)
        size, std = config.embedding_size, config.linear_init_std
        self.variational = config.decoder in ("vae", "dense-vae")
        encoded: int | None = 2 * size if self.variational else size
        if config.name == "noisy" or config.shares_torso:
            encoded = None  # their heads begin with a hidden layer of their own
        values = None
        if config.name in ("idqn", "c51"):  # drawn before the weights
            count = config.keys if config.name == "idqn" else config.atoms
            low, high = config.value_min, config.value_max
            values = make_values(count, low, high, config.value_spacing, generator)
        self.encoder = Encoder(observation_shape, layers, encoded, std, generator)
        features = self.encoder.embedding_size
        self.head = _make_head(config, num_actions, features, values, generator)
        self.decoder = None
        if config.decoder != "none":
            self.decoder = Decoder(observation_shape, layers, size, std, generator)
        self.register_buffer("mean_image", torch.zeros(observation_shape))

    @property
    def action_parameters(self) -> frozenset[str]:
        """Parameters with one row per action, padded where games of a population differ in
        actions."""
        return frozenset(f"head.{name}" for name in self.head.action_parameters)

    def normalize(self, observation: Tensor) -> Tensor:
        """Pixels to network units."""
        return normalize(observation, self.mean_image)

    def forward(self, observation: Tensor, decode: bool = True) -> QOutput:
        embedding: Tensor = self.encoder(self.normalize(observation))
        if self.variational:
            embedding = embedding.chunk(2, -1)[0]
        parts = {"embedding": embedding, **self.head(embedding)._asdict()}
        if decode and self.decoder is not None:
            parts["reconstruction"] = self.decoder(embedding)
        return QOutput(**parts)


class Ensemble(nn.Module):
    """K networks that share nothing."""

    def __init__(
        self, config: AgentConfig, observation_shape: Shape, num_actions: int, generator: Generator
    ) -> None:
        super().__init__()
        own = (config, observation_shape, num_actions, generator)
        self.members = nn.ModuleList(QNetwork(*own) for _ in range(config.heads))

    def forward(self, observation: Tensor, decode: bool = True) -> QOutput:
        outputs: list[QOutput] = [member(observation, decode) for member in self.members]
        embedding = torch.cat([out.embedding for out in outputs], -1)
        head_q = torch.stack([out.q for out in outputs], -1)
        q, uncertainty = mean_and_spread(head_q)
        return QOutput(embedding, q, uncertainty, head_q=head_q)


def _make_head(
    config: AgentConfig,
    num_actions: int,
    features: int,
    values: Tensor | None,
    generator: Generator,
) -> Head:
    size, std = config.embedding_size, config.linear_init_std
    if config.name == "noisy":
        return NoisyHead(num_actions, features, size, config.noise_sigma, generator)
    if config.shares_torso:
        return ManyHeads(num_actions, config.heads, features, size, std, generator)
    if values is None:
        return LinearHead(num_actions, size, std, generator)
    if config.name == "c51":
        return CategoricalHead(num_actions, values, size, std, generator)
    return KeyValueMemory(num_actions, values, size, config.key_init_std, generator)


def members(network: QNetwork | Ensemble) -> list[QNetwork]:
    """The networks that learn each for itself."""
    if isinstance(network, QNetwork):
        return [network]
    return [member for member in network.members if isinstance(member, QNetwork)]


def build_network(
    config: AgentConfig, observation_shape: Shape, num_actions: int, seed: int
) -> QNetwork | Ensemble:
    """A freshly initialised network, the same for the same seed whatever else happens."""
    apart = config.name == "ensemble" and not config.shares_torso
    kind = Ensemble if apart else QNetwork
    return kind(config, observation_shape, num_actions, Generator().manual_seed(seed))
