"""A trained agent, loaded from its run directory, to play with and to look into."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn import checkpoint
from idqn.config import Config
from idqn.envs import describe
from idqn.envs.single import SingleEnv, make_single
from idqn.errors import UserError
from idqn.networks import IDQN, build_network
from idqn.policy import directed_action
from idqn.run_dir import RunDir
from idqn.system import resolve_device
from idqn.types import EnvSpec, QOutput


class Agent:
    """Observations are uint8 [C, H, W] or [B, C, H, W]: stacked frames, oldest first. A single
    observation gets a single answer, a batch a batch of them."""

    def __init__(self, network: IDQN, config: Config, spec: EnvSpec, device: torch.device) -> None:
        self.network = network.to(device).eval().requires_grad_(False)
        self.config = config
        self.spec = spec
        self.device = device

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.spec.action_names

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        return self.spec.observation_shape(self.config.env.frame_stack)

    @property
    def keys(self) -> Tensor:
        """[A, N, E]: key n of action a is what the agent compares states with."""
        return self.network.memory.keys.detach()

    @property
    def values(self) -> Tensor:
        """[N]: the return each key stands for."""
        return self.network.memory.values

    def act(self, observation: NDArray[np.uint8] | Tensor) -> Any:
        """The greedy action: an int for one observation, an int64 array for a batch."""
        batch, single = self._batched(observation)
        with torch.no_grad():
            out = self.network(batch, decode=False)
        action = directed_action(out.q, out.uncertainty, 0.0).cpu().numpy()
        return int(action[0]) if single else action

    def look(self, observation: NDArray[np.uint8] | Tensor) -> QOutput:
        """Everything the network says: embedding, attention [action, key], q, uncertainty, and the
        reconstruction in pixels (0 to 255)."""
        batch, single = self._batched(observation)
        with torch.no_grad():
            out = self.network(batch)
        out = out._replace(reconstruction=self._pixels(out.reconstruction))
        return QOutput(*(tensor[0] for tensor in out)) if single else out

    def decode(self, embedding: Tensor | NDArray[np.float32]) -> Tensor:
        """The image an embedding [..., E] stands for, in pixels, [..., C, H, W]."""
        embedding = torch.as_tensor(embedding)
        size = self.config.agent.embedding_size
        if embedding.shape[-1:] != (size,):
            raise UserError(f"embeddings have {size} numbers, got shape {tuple(embedding.shape)}")
        with torch.no_grad():
            image = self.network.decoder(embedding.to(self.device).reshape(-1, size))
        return self._pixels(image).reshape(*embedding.shape[:-1], *self.observation_shape)

    def make_env(self) -> SingleEnv:
        """An environment with the observations this agent was trained on."""
        return make_single(self.config.env)

    def _pixels(self, image: Tensor) -> Tensor:
        return (image * 255 + self.network.mean_image).clamp(0, 255)

    def _batched(self, observation: NDArray[np.uint8] | Tensor) -> tuple[Tensor, bool]:
        tensor = torch.as_tensor(observation)
        shape = self.observation_shape
        if tensor.dtype != torch.uint8 or tensor.shape[-3:] != shape or tensor.ndim not in (3, 4):
            raise UserError(
                f"observations of this agent are uint8 {list(shape)} or a batch of them, got "
                f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            )
        single = tensor.ndim == 3
        return (tensor[None] if single else tensor).to(self.device), single


def load(
    run: str | os.PathLike[str], checkpoint_name: str | int = "latest", device: str = "cpu"
) -> Agent:
    """Load the agent of a run directory, from its "latest" or "best" checkpoint or one at so many
    frames."""
    directory = RunDir.open(run)
    config = directory.config()
    weights = checkpoint.load_weights(directory, checkpoint.find(directory, checkpoint_name))
    spec = describe(config.env)
    shape = spec.observation_shape(config.env.frame_stack)
    network = build_network(config.agent, shape, spec.num_actions, config.train.seed)
    try:
        network.load_state_dict({name: w.float() for name, w in weights.items()})
    except RuntimeError as error:
        raise UserError(
            f"the weights in '{run}' do not fit its config.json ({config.env.id}, "
            f"{config.agent.keys} keys, embedding {config.agent.embedding_size}): they come from "
            f"another run"
        ) from error
    return Agent(network, config, spec, resolve_device(device))
