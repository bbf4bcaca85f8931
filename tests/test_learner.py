from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import vmap

from idqn.agents.idqn import IDQN
from idqn.agents.objective import Heads, Outcome
from idqn.chance import Chance
from idqn.config import Config
from idqn.learner import Learner
from idqn.losses import bellman_loss, distributional_loss, diversity_loss, reconstruction_loss
from idqn.networks import build_network
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
        discount=0.9 * (torch.rand(runs, size, generator=g) >= 0.3),
        place=torch.randint(0, 300, (runs, size), generator=g),
        weight=0.5 + torch.rand(runs, size, generator=g),
    )


def only(batch: Batch, run: int) -> Batch:
    return Batch(*(tensor[run : run + 1] for tensor in batch))


def with_vmap(learner: Learner) -> Learner:
    """The GPU's way of mapping over runs, on the CPU."""
    learner.map_with(vmap)
    return learner


def three(tiny: Config, **changes: Any) -> list[Config]:
    """Runs that differ in everything runs may differ in."""
    own: list[dict[str, Any]] = [
        {"train.seed": 0},
        {"train.seed": 1, "loss.diversity": 0.5, "optimizer.learning_rate": 1e-3},
        {"train.seed": 2, "agent.exploration_factor": 0.5, "agent.value_spacing": "uniform"},
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
        found = together.update(batch)
        for run, single in enumerate(alone):
            own = single.update(only(batch, run))
            assert torch.equal(found.surprise[run], own.surprise[0])
            assert found.measured.keys() == own.measured.keys()
            for name in own.measured:
                if name != "key_hits":
                    assert torch.equal(found.measured[name][run], own.measured[name][0]), name
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
    together = Learner(configs, SHAPE, ACTIONS, CPU).update(batch).measured
    for run, (config, actions) in enumerate(zip(configs, ACTIONS, strict=True)):
        alone = Learner([config], SHAPE, [actions], CPU).update(only(batch, run)).measured
        torch.testing.assert_close(together["loss/diversity"][run], alone["loss/diversity"][0])


def test_vmap_and_the_loop_compute_the_same(tiny: Config) -> None:
    configs = three(tiny)
    looped = Learner(configs, SHAPE, ACTIONS, CPU)
    mapped = with_vmap(Learner(configs, SHAPE, ACTIONS, CPU))
    for update in range(3):
        batch = make_batch(3, 3, seed=update)
        first, second = looped.update(batch), mapped.update(batch)
        torch.testing.assert_close(first.surprise, second.surprise, rtol=1e-4, atol=1e-5)
        assert first.measured.keys() == second.measured.keys()
        for name, value in first.measured.items():
            torch.testing.assert_close(value, second.measured[name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(looped.online, mapped.online, rtol=1e-3, atol=1e-5)
    observation = make_batch(3, 3).observation
    assert torch.equal(looped.act(observation), mapped.act(observation))


def test_a_run_that_never_acts_at_random_may_be_beside_one_that_does(tiny: Config) -> None:
    always = tiny.replace(**{"agent.epsilon_start": 1.0, "agent.epsilon_end": 1.0})
    configs = [tiny, always, always.replace(**{"agent.epsilon_end": 0.0, "train.seed": 1})]
    together = Learner(configs, SHAPE, [3, 3, 3], CPU)
    alone = [Learner([config], SHAPE, [3], CPU) for config in configs]
    observation = make_batch(3, 3, size=400).observation
    for choice in range(3):
        acted = together.act(observation)
        assert int(together.choices) == choice + 1
        for run, single in enumerate(alone):
            assert torch.equal(acted[run], single.act(observation[run : run + 1])[0])
    # every action of the second: 133 ± 5 standard deviations of √(400·⅓·⅔) = 9.4
    assert ((acted[1].bincount(minlength=3) - 400 / 3).abs() < 47).all()
    network = build_network(tiny.agent, SHAPE, 3, tiny.train.seed)
    out = network(observation[0])
    expected = (out.q + tiny.agent.exploration_factor * out.uncertainty).argmax(-1)
    assert torch.equal(acted[0], expected)


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
        measured = learner.update(batch).measured
        torch.testing.assert_close(measured["gradient_norm"][0], norm)
        torch.testing.assert_close(learner.online[0], parameter.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
@pytest.mark.parametrize("rows", ["chosen", "all"])
def test_the_gradient_is_that_of_the_plain_module(tiny: Config, bootstrap: str, rows: str) -> None:
    """One loss through one `nn.Module` and autograd, against rows, stacks and two half ways."""
    config = tiny.replace(**{"train.bootstrap": bootstrap, "loss.diversity_rows": rows})
    learner = Learner([config], SHAPE, [3], CPU)
    online = build_network(config.agent, SHAPE, 3, config.train.seed)
    other = build_network(config.agent, SHAPE, 3, seed=77)
    learner.target[0] = learner.rows.pack(dict(other.named_parameters()))
    batch = make_batch(1, 3)
    gradient, found = learner.gradient(batch)

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
    out = online(b.observation)
    attention = out.attention[samples, b.action]
    target = project(
        valuing.attention[samples, best],
        b.reward[:, None] + b.discount[:, None] * online.head.values,
        online.head.values,
    )
    chosen_q, target_q = out.q[samples, b.action], b.reward + b.discount * valuing.q[samples, best]
    bellman = bellman_loss(chosen_q, target_q, config.loss.bellman_kind)
    distributional = distributional_loss(out.log_attention[samples, b.action], target)
    losses = {
        "bellman": (b.weight * bellman).mean(),
        "distributional": (b.weight * distributional).mean(),
        "reconstruction": reconstruction_loss(out.reconstruction, online.normalize(b.observation)),
        "diversity": diversity_loss(attention if rows == "chosen" else out.attention.flatten(1)),
    }
    total = sum(getattr(config.loss, name) * loss for name, loss in losses.items())
    total.backward()
    for name, loss in (losses | {"total": total}).items():
        torch.testing.assert_close(found.measured[f"loss/{name}"][0], loss.detach())
    torch.testing.assert_close(found.surprise[0], (target_q - chosen_q).abs().detach())
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
        none = torch.zeros(0)
        aim = IDQN([config], online.head).aim(
            Heads(
                dict(online.head.named_parameters()),
                dict(target.head.named_parameters()),
                dict(online.head.named_buffers()),
            ),
            seen,
            Outcome(batch.action[0], batch.reward[0], batch.discount[0], batch.weight[0]),
            Chance(none, none, none, torch.zeros(())),
            type(own)(*(column[0] for column in own)),
        )
    return aim, online, target


@pytest.mark.parametrize("bootstrap", ["double", "target", "online"])
def test_targets_by_hand(tiny: Config, bootstrap: str) -> None:
    """Independent arithmetic: loops and plain modules instead of gathers and rows."""
    config = tiny.replace(**{"train.bootstrap": bootstrap})
    batch = make_batch(1, 3)
    assert batch.discount.unique().tolist() == pytest.approx([0.0, 0.9])
    aim, online, other = aim_of(config, batch, target_seed=77)
    with torch.no_grad():
        by_online, by_target = online(batch.next_observation[0]), other(batch.next_observation[0])
    choice = by_target if bootstrap == "target" else by_online
    value = by_online if bootstrap == "online" else by_target
    atoms = online.head.values.tolist()
    for i in range(batch.action.shape[1]):
        best = max(range(3), key=lambda a: float(choice.q[i, a]))
        reward = float(batch.reward[0, i])
        discount = float(batch.discount[0, i])
        expected_q = reward + discount * float(value.q[i, best])
        assert float(aim.q[i]) == pytest.approx(expected_q, rel=1e-5)
        moved = [min(max(reward + discount * z, atoms[0]), atoms[-1]) for z in atoms]
        mean = sum(p * z for p, z in zip(value.attention[i, best].tolist(), moved, strict=True))
        assert float((aim.attention[i] * online.head.values).sum()) == pytest.approx(mean, abs=1e-4)


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
    for name in ("online", "target"):
        assert torch.equal(getattr(fresh, name), getattr(learner, name)), name
    for name in ("mean", "square"):
        assert torch.equal(getattr(fresh.optimizer, name), getattr(learner.optimizer, name)), name
    assert torch.equal(fresh.buffers["mean_image"], learner.buffers["mean_image"])


def test_key_hits_count_the_most_attended_key_of_the_chosen_action(tiny: Config) -> None:
    learner = Learner([tiny], SHAPE, [3], CPU)
    batch = make_batch(1, 3)
    network = build_network(tiny.agent, SHAPE, 3, tiny.train.seed)
    attention = network(batch.observation[0]).attention
    expected = torch.zeros(1, 3, tiny.agent.keys)
    for i, action in enumerate(batch.action[0].tolist()):
        expected[0, action, int(attention[i, action].argmax())] += 1
    assert torch.equal(learner.update(batch).measured["key_hits"], expected)
