"""The agents' networks, written out with torch's own functions in double precision: what their
gradients, targets and choices are compared with. Weights go by their names in a checkpoint."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor
from torch.func import vmap
from torch.nn.functional import conv2d, linear
from torch.utils import _pytree as pytree

from idqn.agent import Agent
from idqn.agents.objective import Outcome
from idqn.config import Config
from idqn.learner import Learner
from idqn.networks import build_network
from idqn.types import Batch, EnvSpec

SHAPE = (2, 11, 11)  # of observations, which get the "tiny" encoder: two convolutions
ACTIONS = 3
CPU = torch.device("cpu")
Named = dict[str, Tensor]


def variant(tiny: Config, name: str, changes: dict[str, Any] | None = None) -> Config:
    """The tiny config for another agent."""
    baseline: dict[str, Any] = {"agent.name": name, "agent.decoder": "none"}
    return tiny.replace(**baseline | (changes or {}))


def make_batch(size: int = 12, seed: int = 0, runs: int = 1) -> Batch:
    g = Generator().manual_seed(seed)
    terminated = torch.rand(runs, size, generator=g) < 0.3
    return Batch(
        observation=pixels(size, seed, runs),
        action=torch.randint(0, ACTIONS, (runs, size), generator=g),
        reward=torch.randn(runs, size, generator=g),
        next_observation=pixels(size, seed + 1000, runs),
        discount=torch.where(terminated, 0.0, 0.9),
        place=torch.randint(0, 300, (runs, size), generator=g),
        weight=torch.rand(runs, size, generator=g) + 0.2,
    )


def pixels(size: int, seed: int = 0, runs: int = 1) -> Tensor:
    """Observations of large patches, which networks tell apart better than noise."""
    g = Generator().manual_seed(seed)
    patches = torch.randint(0, 2, (runs, size, 2, 3, 3), generator=g).to(torch.uint8) * 255
    return patches.repeat_interleave(4, 3).repeat_interleave(4, 4)[..., :11, :11].contiguous()


def learner_of(*configs: Config) -> Learner:
    """With weights that make networks prefer different actions in different states, a target
    network unlike the online one, and a mean image."""
    learner = Learner(configs, SHAPE, [ACTIONS] * len(configs), CPU)
    generators = [Generator().manual_seed(5 + run) for run in range(len(configs))]
    mean_image = torch.stack([torch.rand(SHAPE, generator=g) for g in generators])
    learner.set_mean_image(100 + 50 * mean_image)
    for run, g in enumerate(generators):
        weights, state = learner.weights(run), learner.state(run)
        learned = [name.removeprefix("target.") for name in state if name.startswith("target.")]
        weights |= {name: _random_like(weights[name], name, g) for name in learned}
        state |= {f"target.{name}": _random_like(weights[name], name, g) for name in learned}
        learner.load(run, weights, state)
    return learner


def _random_like(parameter: Tensor, name: str, generator: Generator) -> Tensor:
    drawn = torch.randn(parameter.shape, generator=generator)
    if name.startswith("decoder."):
        return 0.06 * drawn
    if parameter.ndim == 4:
        return drawn * (2 / parameter[0].numel()) ** 0.5
    if parameter.ndim < 2:
        return 0.02 * drawn
    # what all inputs have in common would decide, whatever the state
    return (drawn - drawn.mean(-1, keepdim=True)) * (2 / parameter.shape[-1]) ** 0.5


def agent_of(learner: Learner) -> Agent:
    """What would be loaded from its checkpoint."""
    config = learner.config
    network = build_network(config.agent, SHAPE, ACTIONS, seed=123)
    network.load_state_dict(learner.weights(0))
    return Agent(network, config, EnvSpec((1, *SHAPE[1:]), ACTIONS, ("A", "B", "C")), CPU)


def online(learner: Learner) -> Named:
    """Weights of the first run, as leaves for autograd."""
    weights = learner.weights(0)
    return {name: w.double().requires_grad_(w.is_floating_point()) for name, w in weights.items()}


def target(learner: Learner) -> Named:
    state = learner.state(0)
    found = {name: w.double() for name, w in learner.weights(0).items()}
    for name in found:
        if f"target.{name}" in state:
            found[name] = state[f"target.{name}"].double()
    return found


def of_member(weights: Named, member: int) -> Named:
    prefix = f"members.{member}."
    return {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}


def aim_of(learner: Learner, batch: Batch) -> Any:
    """Targets of the first run, of the objective itself."""
    calls = Recorder()
    learner.map_with(calls)
    learner.gradient(batch)
    heads, seen, outcome, chance, own = first_run(calls.arguments("gradients"))
    assert isinstance(outcome, Outcome)
    with torch.no_grad():
        return learner.objective.aim(heads, seen, outcome, chance, own)


class Recorder:
    """Maps functions over runs as a GPU does, and keeps what they were given."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Any, ...]]] = defaultdict(list)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(*stacked: Any) -> Any:
            self.calls[function.__name__].append(pytree.tree_map(torch.clone, stacked))
            return vmap(function)(*stacked)

        return mapped

    def arguments(self, name: str, call: int = -1) -> tuple[Any, ...]:
        return self.calls[name][call]


def first_run(stacked: Any) -> Any:
    return pytree.tree_map(lambda tensor: tensor[0], stacked)


def assert_gradient(learner: Learner, gradient: Tensor, leaves: Named, row: int = 0) -> None:
    """The learner's gradient is what autograd left in the leaves, for every parameter."""
    named = learner.rows.named(gradient)
    assert named.keys() == learner.rows.shapes.keys()
    for name, own in named.items():
        expected = leaves[name].grad
        if expected is None:  # autograd did not get there
            expected = torch.zeros_like(leaves[name])
        largest = float(expected.abs().max())
        torch.testing.assert_close(
            own[row].double(),
            expected,
            rtol=1e-4,
            atol=1e-5 * largest + 1e-9,
            msg=lambda text, name=name: f"{name}: {text}",
        )


# networks, for observations [B, C, H, W]


def features(w: Named, observation: Tensor) -> Tensor:
    x = (observation.double() - w["mean_image"]) / 255
    for layer in ("encoder.convolutions.0", "encoder.convolutions.1"):
        x = conv2d(x, w[f"{layer}.weight"], w[f"{layer}.bias"]).relu()
    return x.flatten(1)


def embedding(w: Named, observation: Tensor) -> Tensor:
    flat = features(w, observation)
    return linear(flat, w["encoder.linear.weight"], w["encoder.linear.bias"])


def ddqn_q(w: Named, observation: Tensor) -> Tensor:
    return linear(embedding(w, observation).relu(), w["head.weight"], w["head.bias"])  # [B, A]


def c51_distribution(w: Named, observation: Tensor) -> Tensor:
    hidden = embedding(w, observation).relu()
    each = [linear(hidden, w["head.weight"][a], w["head.bias"][a]) for a in range(ACTIONS)]
    return torch.stack(each, 1).softmax(-1)  # [B, A, N]


def noisy_q(w: Named, observation: Tensor, noise: Tensor | None) -> Tensor:
    """One set of noise for all; its order is hidden inputs, outputs, last inputs, outputs."""
    x, start = features(w, observation), 0
    for layer in ("head.hidden", "head.out"):
        weight, bias = w[f"{layer}.weight"], w[f"{layer}.bias"]
        outputs, inputs = weight.shape
        if noise is not None:
            squashed = [math.copysign(math.sqrt(abs(e)), e) for e in noise.tolist()]
            f = torch.tensor(squashed, dtype=torch.float64)
            f_in, f_out = f[start : start + inputs], f[start + inputs : start + inputs + outputs]
            weight = weight + w[f"{layer}.weight_sigma"] * torch.outer(f_out, f_in)
            bias = bias + w[f"{layer}.bias_sigma"] * f_out
        x = linear(x, weight, bias)
        if layer == "head.hidden":
            x = x.relu()
        start += inputs + outputs
    return x  # [B, A]


def head_of_many(w: Named, flat: Tensor, head: int) -> Tensor:
    """One of K heads on the features [B, F] that they share."""
    hidden = linear(flat, w["head.hidden_weight"][head], w["head.hidden_bias"][head]).relu()
    return linear(hidden, w["head.weight"][:, head], w["head.bias"][:, head])  # [B, A]


def each_head_q(w: Named, observation: Tensor) -> list[Tensor]:
    heads = w["head.hidden_weight"].shape[0]
    return [head_of_many(w, features(w, observation), k) for k in range(heads)]


# losses, sample by sample


def best_of(q: Tensor) -> int:
    """The first action with the highest value; q [A]."""
    values = q.tolist()
    return values.index(max(values))


def smooth_l1(difference: Tensor) -> Tensor:
    size = difference.abs()
    return 0.5 * difference * difference if size.item() < 1 else size - 0.5


def project_slowly(
    probability: list[float], reward: float, discount: float, atoms: list[float]
) -> list[float]:
    """Bellemare et al. (2017), Algorithm 1, for evenly spaced atoms."""
    low, high = atoms[0], atoms[-1]
    gap = (high - low) / (len(atoms) - 1)
    mass = [0.0] * len(atoms)
    for p, z in zip(probability, atoms, strict=True):
        moved = min(max(reward + discount * z, low), high)
        b = (moved - low) / gap
        b = min(max(b, 0.0), len(atoms) - 1.0)
        below, above = math.floor(b), math.ceil(b)
        if below == above:  # the algorithm as printed would lose this mass
            mass[below] += p
        else:
            mass[below] += p * (above - b)
            mass[above] += p * (b - below)
    return mass
