"""The i-DQN: encoder, key-value memory and decoder around one embedding (paper, Fig. 1)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from idqn.config import AgentConfig
from idqn.networks.decoder import Decoder
from idqn.networks.encoder import Encoder, choose_layers
from idqn.networks.memory import KeyValueMemory, Recall, make_values
from idqn.types import QOutput


def normalize(observation: Tensor, mean_image: Tensor) -> Tensor:
    """Pixels to network units: what the encoder reads and the decoder reproduces."""
    return (observation.float() - mean_image) / 255


class IDQN(nn.Module):
    """uint8 observations [B, C, H, W] in, `QOutput` out."""

    action_parameters: ClassVar[frozenset[str]] = frozenset({"memory.keys"})
    """Parameters with one row per action, padded where games of a population differ in actions."""

    mean_image: Tensor

    def __init__(
        self,
        config: AgentConfig,
        observation_shape: tuple[int, int, int],
        num_actions: int,
        generator: Generator,
    ) -> None:
        super().__init__()
        layers = choose_layers(config.encoder, *observation_shape[1:])
        size, std = config.embedding_size, config.linear_init_std
        values = make_values(
            config.keys, config.value_min, config.value_max, config.value_spacing, generator
        )
        self.encoder = Encoder(observation_shape, layers, size, std, generator)
        self.memory = KeyValueMemory(num_actions, values, size, config.key_init_std, generator)
        self.decoder = Decoder(observation_shape, layers, size, std, generator)
        self.register_buffer("mean_image", torch.zeros(observation_shape))

    def normalize(self, observation: Tensor) -> Tensor:
        """Pixels to network units."""
        return normalize(observation, self.mean_image)

    def forward(self, observation: Tensor, decode: bool = True) -> QOutput:
        embedding = self.encoder(self.normalize(observation))
        reconstruction = self.decoder(embedding) if decode else None
        recall: Recall = self.memory(embedding)
        return QOutput(embedding, **recall._asdict(), reconstruction=reconstruction)


def build_network(
    config: AgentConfig, observation_shape: tuple[int, int, int], num_actions: int, seed: int
) -> IDQN:
    """A freshly initialised network, the same for the same seed whatever else happens."""
    return IDQN(config, observation_shape, num_actions, Generator().manual_seed(seed))
