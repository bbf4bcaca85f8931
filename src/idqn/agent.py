"""A trained agent, loaded from its run directory, to play with and to look into."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn import checkpoint
from idqn.config import Config
from idqn.envs import describe
from idqn.envs.single import SingleEnv, make_single
from idqn.errors import UserError
from idqn.look import Look
from idqn.networks import Ensemble, QNetwork, build_network, members
from idqn.networks.decoder import Decoder
from idqn.networks.heads import CategoricalHead
from idqn.networks.memory import KeyValueMemory
from idqn.policy import best_action, majority_vote
from idqn.run_dir import RunDir
from idqn.system import resolve_device
from idqn.types import EnvSpec


class Origin(NamedTuple):
    """Where an agent was loaded from."""

    run: str = "-"
    run_id: str | None = None
    frames: int = 0


class Agent:
    """Observations are uint8 [C, H, W] or [B, C, H, W]: stacked frames, oldest first. A single
    observation gets a single answer, a batch a batch of them."""

    def __init__(
        self,
        network: QNetwork | Ensemble,
        config: Config,
        spec: EnvSpec,
        device: torch.device,
        origin: Origin | None = None,
    ) -> None:
        self.network = network.to(device).eval().requires_grad_(False)
        self.config = config
        self.spec = spec
        self.device = device
        self.origin = origin or Origin()

    @property
    def name(self) -> str:
        """idqn, ddqn, c51, noisy, bootstrap or ensemble."""
        return self.config.agent.name

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.spec.action_names

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        return self.spec.observation_shape(self.config.env.frame_stack)

    @property
    def keys(self) -> Tensor:
        """i-DQN only. [A, N, E]: key n of action a is what the agent compares states with."""
        head = self._first.head
        if not isinstance(head, KeyValueMemory):
            raise self._lacks("keys", "only idqn agents have them")
        return head.keys.detach()

    @property
    def values(self) -> Tensor:
        """i-DQN and C51 only. [N]: the return that each key or atom stands for."""
        head = self._first.head
        if not isinstance(head, KeyValueMemory | CategoricalHead):
            raise self._lacks("values", "only idqn and c51 agents have them")
        return head.values

    def act(self, observation: NDArray[np.uint8] | Tensor) -> Any:
        """The greedy action: an int for one observation, an int64 array for a batch. Of several
        heads, bootstrap takes a vote and ensemble the mean."""
        action: NDArray[np.int64] = self.choose(self.look(observation, decode=False))
        return int(action) if action.ndim == 0 else action

    def choose(self, look: Look) -> NDArray[np.int64]:
        """The greedy action, from what the agent said of an observation or of each of a batch."""
        vote = self.name == "bootstrap"
        score = look.head_q if vote else look.q
        batch = score if look.q.ndim == 2 else score[None]
        chosen = majority_vote(batch) if vote else best_action(batch)
        actions: NDArray[np.int64] = chosen.cpu().numpy()
        return actions.reshape(look.q.shape[:-1])

    def look(self, observation: NDArray[np.uint8] | Tensor, decode: bool = True) -> Look:
        """Everything the network says: `q` and `embedding` always, and what else the agent has;
        with `decode=False`, all but the reconstruction, which takes most of the time."""
        batch, single = self._batched(observation)
        with torch.no_grad():
            out = self.network(batch, decode)
        if out.reconstruction is not None:
            out = out._replace(reconstruction=self._pixels(out.reconstruction))
        found = {name: part for name, part in out._asdict().items() if part is not None}
        return Look(self.name, {n: part[0] if single else part for n, part in found.items()})

    def decode(self, embedding: Tensor | NDArray[np.float32]) -> Tensor:
        """The image an embedding [..., E] stands for, in pixels, [..., C, H, W]."""
        decoder = self._decoder()
        embedding = torch.as_tensor(embedding)
        size = self.config.agent.embedding_size
        if embedding.shape[-1:] != (size,):
            raise UserError(f"embeddings have {size} numbers, got shape {tuple(embedding.shape)}")
        with torch.no_grad():
            image = decoder(embedding.to(self.device).reshape(-1, size))
        return self._pixels(image).reshape(*embedding.shape[:-1], *self.observation_shape)

    def make_env(self) -> SingleEnv:
        """An environment with the observations this agent was trained on."""
        return make_single(self.config.env)

    @property
    def _first(self) -> QNetwork:
        return members(self.network)[0]

    def _decoder(self) -> Decoder:
        decoder = self._first.decoder
        if decoder is None and self.name == "idqn":
            raise self._lacks("decoder", "it was trained with agent.decoder = 'none'")
        if decoder is None:
            raise self._lacks("decoder", "only idqn agents have one")
        return decoder

    def _lacks(self, what: str, who_has: str) -> UserError:
        article = "an" if self.name in ("idqn", "ensemble") else "a"
        return UserError(f"this is {article} {self.name} agent: it has no {what}; {who_has}")

    def _pixels(self, image: Tensor) -> Tensor:
        return (image * 255 + self._first.mean_image).clamp(0, 255)

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
    frames; or one that comes with idqn, as "zoo:NAME"."""
    directory = RunDir.open(run, only_reading=True)
    config = directory.config()
    frames = checkpoint.find(directory, checkpoint_name)
    weights = checkpoint.load_weights(directory, frames)
    spec = describe(config.env)
    shape = spec.observation_shape(config.env.frame_stack)
    network = build_network(config.agent, shape, spec.num_actions, config.train.seed)
    try:
        network.load_state_dict({name: w.float() for name, w in weights.items()})
    except RuntimeError as error:
        raise UserError(
            f"the weights in '{run}' do not fit its config.json ({config.env.id}, "
            f"{config.agent.name}, {config.agent.keys} keys, embedding "
            f"{config.agent.embedding_size}): they come from another run"
        ) from error
    origin = Origin(directory.name, directory.identity, frames)
    return Agent(network, config, spec, resolve_device(device), origin)
