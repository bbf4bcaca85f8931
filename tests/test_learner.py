from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import vmap

from idqn.config import Config
from idqn.learner import Learner
from idqn.losses import bellman_loss, distributional_loss, diversity_loss, reconstruction_loss
from idqn.networks import build_network
from idqn.objective import Heads, Objective, Outcome
from idqn.projection import project
from idqn.types import Batch, Seen

SHAPE = (2, 11, 11)
CPU = torch.device("cpu")


def make_batch(runs: int, actions: int, size: int = 6, seed: int = 0) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def pixels() -> torch.Tensor:
        return torch.randint(0, 256, (runs, size, *SHAPE), dtype=torch.uint8, generator=g)

    return Batch(
        observation=pixels(),
        action=torch.randint(0, actions, (runs, size), generator=g),
        reward=4 * torch.randn(runs, size, generator=g),
        next_observation=pixels(),
        terminated=torch.rand(runs, size, generator=g) < 0.3,
    )


def only(batch: Batch, run: int) -> Batch:
    return Batch(*(tensor[run : run + 1] for tensor in batch))


def with_vmap(learner: Learner) -> Learner:
    """The GPU's way of mapping over runs, on the CPU."""
    learner._choose = vmap(learner.objective.act)
    learner._gradients = vmap(learner.objective.gradients)
    learner._pixels = vmap(learner.objective.reconstruction_gradient)
    return learner


def three(tiny: Config, **changes: Any) -> list[Config]:
    """Runs that differ in everything runs may differ in."""
    own: list[dict[str, Any]] = [
        {"train.seed": 0},
        {"train.seed": 1, "loss.diversity": 0.5, "optimizer.learning_rate": 1e-3},
        {"train.seed": 2, "train.clip_rewards": True, "agent.value_spacing": "uniform"},
    ]
    return [tiny.replace(**changes, **o) for o in own]


ACTIONS = [5, 3, 4]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss.diversity_rows": "all", "optimizer.clip_scope": "layer"},
        {"train.bootstrap": "target", "loss.bellman_kind": "squared"},
        {"train.bootstrap": "online", "loss.distributional_log_epsilon": 1e-6},
    ],
)
def test_a_population_of_three_equals_three_single_runs_to_the_bit(
    tiny: Config, changes: dict[str, Any]
) -> None:
    configs = three(tiny, **changes)
    # rows over all actions grow with the widest game, and with them the order of additions
    actions = [3, 3, 3] if changes.get("loss.diversity_rows") == "all" else ACTIONS
    together = Learner(configs, SHAPE, actions, CPU)
    alone = [Learner([c], SHAPE, [a], CPU) for c, a in zip(configs, actions, strict=True)]
    for update in range(5):
        batch = make_batch(3, 3, seed=update)
        measured = together.update(batch)
        for run, single in enumerate(alone):
            own = single.update(only(batch, run))
            for name in own:
                if name != "key_hits":
                    assert torch.equal(measured[name][run], own[name][0]), name
    for run, single in enumerate(alone):
        assert together.weights(run).keys() == single.weights(0).keys()
        for name, tensor in single.weights(0).items():
            assert torch.equal(together.weights(run)[name], tensor), name
        for name, tensor in single.state(0).items():
            assert torch.equal(together.state(run)[name], tensor), name
        observation = make_batch(3, 3, seed=9).observation
        acted = together.act(observation)[run]
        assert torch.equal(acted, single.act(observation[run : run + 1])[0])
        assert int(acted.max()) < actions[run]


def test_absent_actions_add_nothing_to_diversity_over_all_actions(tiny: Config) -> None:
    configs = three(tiny, **{"loss.diversity_rows": "all"})
    batch = make_batch(3, 3)
    together = Learner(configs, SHAPE, ACTIONS, CPU).update(batch)
    for run, (config, actions) in enumerate(zip(configs, ACTIONS, strict=True)):
        alone = Learner([config], SHAPE, [actions], CPU).update(only(batch, run))
        torch.testing.assert_close(together["loss/diversity"][run], alone["loss/diversity"][0])


def test_vmap_and_the_loop_compute_the_same(tiny: Config) -> None:
    configs = three(tiny)
    looped = Learner(configs, SHAPE, ACTIONS, CPU)
    mapped = with_vmap(Learner(configs, SHAPE, ACTIONS, CPU))
    for update in range(3):
        batch = make_batch(3, 3, seed=update)
        first, second = looped.update(batch), mapped.update(batch)
        for name in first:
            torch.testing.assert_close(first[name], second[name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(looped.online, mapped.online, rtol=1e-3, atol=1e-5)
    observation = make_batch(3, 3).observation
    assert torch.equal(looped.act(observation), mapped.act(observation))


def test_the_optimiser_is_torchs_adam_with_clipping(tiny: Config) -> None:
    config = tiny.replace(**{"optimizer.clip_norm": 0.5, "optimizer.learning_rate": 3e-3})
    learner = Learner([config], SHAPE, [3], CPU)
    parameter = torch.nn.Parameter(learner.online[0].clone())
    adam = torch.optim.Adam([parameter], lr=3e-3, betas=(0.9, 0.999), eps=1e-8)
    for update in range(4):
        batch = make_batch(1, 3, seed=update)
        gradient, _ = learner.gradient(batch)
        parameter.grad = gradient[0].clone()
        norm = torch.nn.utils.clip_grad_norm_([parameter], 0.5)
        adam.step()
        measured = learner.update(batch)
        torch.testing.assert_close(measured["gradient_norm"][0], norm)
        torch.testing.assert_close(learner.online[0], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_the_learning_rate_halves_and_stops_at_its_floor(tiny: Config) -> None:
    """With one gradient, Adam's first step is the learning rate in every coordinate."""
    changes = {"optimizer.halve_every_steps": 100, "optimizer.min_learning_rate": 1e-4}
    for steps, rate in ((99, 1e-3), (100, 5e-4), (299, 2.5e-4), (10_000, 1e-4)):
        config = tiny.replace(**changes, **{"optimizer.learning_rate": 1e-3})
        learner = Learner([config], SHAPE, [3], CPU)
        before = learner.online.clone()
        learner.schedule(steps)
        learner._adam(torch.ones_like(before), torch.ones(1), limit=1.0)
        torch.testing.assert_close(before - learner.online, torch.full_like(before, rate))


def test_layer_clipping_leaves_the_keys_alone(tiny: Config) -> None:
    config = tiny.replace(**{"optimizer.clip_scope": "layer", "optimizer.clip_norm": 1.0})
    learner = Learner([config], SHAPE, [3], CPU)
    gradient = torch.full_like(learner.online, 2.0)
    learner._clip_layers(gradient)
    for name, columns in learner.rows.columns.items():
        piece = gradient[:, columns]
        if name == "memory.keys":
            assert torch.equal(piece, torch.full_like(piece, 2.0))
        else:
            assert float(piece.norm()) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
@pytest.mark.parametrize("rows", ["chosen", "all"])
def test_the_gradient_is_that_of_the_plain_module(tiny: Config, bootstrap: str, rows: str) -> None:
    """One loss through one `nn.Module` and autograd, against rows, stacks and two half ways."""
    changes = {"train.bootstrap": bootstrap, "train.discount": 0.9, "loss.diversity_rows": rows}
    config = tiny.replace(**changes)
    learner = Learner([config], SHAPE, [3], CPU)
    online = build_network(config.agent, SHAPE, 3, config.train.seed)
    other = build_network(config.agent, SHAPE, 3, seed=77)
    learner.target[0] = learner.rows.pack(dict(other.named_parameters()))
    batch = make_batch(1, 3)
    gradient, measured = learner.gradient(batch)

    b = Batch(*(tensor[0] for tensor in batch))
    with torch.no_grad():
        by_online, by_target = online(b.next_observation), other(b.next_observation)
    valuing, choosing = {
        "double": (by_target, by_online),
        "target": (by_target, by_target),
        "online": (by_online, by_online),
    }[bootstrap]
    best = choosing.q.argmax(-1)
    samples = torch.arange(len(best))
    discount = 0.9 * (~b.terminated)
    out = online(b.observation)
    attention = out.attention[samples, b.action]
    target = project(
        valuing.attention[samples, best],
        b.reward[:, None] + discount[:, None] * online.memory.values,
        online.memory.values,
    )
    losses = {
        "bellman": bellman_loss(
            out.q[samples, b.action],
            b.reward + discount * valuing.q[samples, best],
            config.loss.bellman_kind,
        ),
        "distributional": distributional_loss(out.log_attention[samples, b.action], target),
        "reconstruction": reconstruction_loss(out.reconstruction, online.normalize(b.observation)),
        "diversity": diversity_loss(attention if rows == "chosen" else out.attention.flatten(1)),
    }
    sum(getattr(config.loss, name) * loss for name, loss in losses.items()).backward()
    for name, loss in losses.items():
        torch.testing.assert_close(measured[f"loss/{name}"][0], loss.detach())
    for name, parameter in online.named_parameters():
        own = learner.rows.named(gradient)[name][0]
        torch.testing.assert_close(own, parameter.grad, rtol=1e-4, atol=1e-6, msg=name)


def aim_of(config: Config, batch: Batch, target_seed: int) -> Any:
    """Targets for one run, of the objective itself, and the two plain networks."""
    online = build_network(config.agent, SHAPE, 3, config.train.seed)
    target = build_network(config.agent, SHAPE, 3, seed=target_seed)
    kind, after = config.train.bootstrap, batch.next_observation[0]
    own = Learner([config], SHAPE, [3], CPU).per_run
    with torch.no_grad():
        here = online(batch.observation[0]).embedding
        choosing = (target if kind == "target" else online)(after).embedding
        valuing = (online if kind == "online" else target)(after).embedding
        seen = Seen(here, choosing, valuing)
        aim = Objective(config, online.memory).aim(
            Heads(
                dict(online.memory.named_parameters()),
                dict(target.memory.named_parameters()),
                dict(online.memory.named_buffers()),
            ),
            seen,
            Outcome(batch.action[0], batch.reward[0], batch.terminated[0]),
            type(own)(*(column[0] for column in own)),
        )
    return aim, online, target


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
def test_targets_by_hand(tiny: Config, bootstrap: str) -> None:
    """Independent arithmetic: loops and plain modules instead of gathers and rows."""
    config = tiny.replace(**{"train.bootstrap": bootstrap, "train.discount": 0.9})
    batch = make_batch(1, 3)
    aim, online, other = aim_of(config, batch, target_seed=77)
    with torch.no_grad():
        by_online, by_target = online(batch.next_observation[0]), other(batch.next_observation[0])
    choice = by_target if bootstrap == "target" else by_online
    value = by_online if bootstrap == "online" else by_target
    atoms = online.memory.values.tolist()
    for i in range(batch.action.shape[1]):
        best = max(range(3), key=lambda a: float(choice.q[i, a]))
        reward = float(batch.reward[0, i])
        discount = 0.0 if batch.terminated[0, i] else 0.9
        expected_q = reward + discount * float(value.q[i, best])
        assert float(aim.q[i]) == pytest.approx(expected_q, rel=1e-5)
        moved = [min(max(reward + discount * z, atoms[0]), atoms[-1]) for z in atoms]
        mean = sum(p * z for p, z in zip(value.attention[i, best].tolist(), moved, strict=True))
        assert float((aim.attention[i] * online.memory.values).sum()) == pytest.approx(
            mean, abs=1e-4
        )


def test_clipping_rewards_happens_in_the_learner(tiny: Config) -> None:
    batch = make_batch(1, 3)._replace(
        reward=torch.tensor([[10.0, -400.0, 0.5, 0.0, 1.0, -1.0]]),
        terminated=torch.ones(1, 6, dtype=torch.bool),
    )
    aim, _, _ = aim_of(tiny.replace(**{"train.clip_rewards": True}), batch, target_seed=1)
    assert aim.q.tolist() == [1.0, -1.0, 0.5, 0.0, 1.0, -1.0]


def test_weights_load_into_the_plain_module_and_back(tiny: Config) -> None:
    configs = three(tiny)
    learner = Learner(configs, SHAPE, ACTIONS, CPU)
    learner.set_mean_image(torch.rand(3, *SHAPE) * 255)
    learner.update(make_batch(3, 3))
    fresh = Learner(configs, SHAPE, ACTIONS, CPU)
    for run, config in enumerate(configs):
        network = build_network(config.agent, SHAPE, ACTIONS[run], seed=123)
        network.load_state_dict(learner.weights(run))
        observation = make_batch(3, 3, seed=4).observation
        own = learner.per_run.exploration_factor[run]
        out = network(observation[run])
        expected = (out.q + own * out.uncertainty).argmax(-1)
        assert torch.equal(learner.act(observation)[run], expected)
        fresh.load(run, learner.weights(run), learner.state(run))
    for name in ("online", "target", "adam_mean", "adam_square"):
        assert torch.equal(getattr(fresh, name), getattr(learner, name)), name
    assert torch.equal(fresh.buffers["mean_image"], learner.buffers["mean_image"])


def test_key_hits_count_the_most_attended_key_of_the_chosen_action(tiny: Config) -> None:
    learner = Learner([tiny], SHAPE, [3], CPU)
    batch = make_batch(1, 3)
    network = build_network(tiny.agent, SHAPE, 3, tiny.train.seed)
    attention = network(batch.observation[0]).attention
    expected = torch.zeros(1, 3, tiny.agent.keys)
    for i, action in enumerate(batch.action[0].tolist()):
        expected[0, action, int(attention[i, action].argmax())] += 1
    assert torch.equal(learner.update(batch)["key_hits"], expected)
