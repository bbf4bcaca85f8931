"""Keys out, keys exchanged: Q by hand, and an agent that stays as it was."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from idqn.agent import Agent
from idqn.errors import UserError
from idqn.explain import States, Surgery, collect, surgery
from idqn.explain.arena import Arena
from idqn.explain.operations import (
    CONTROL,
    REMOVE_ACTION,
    REMOVE_KEY,
    REMOVE_VALUE,
    SWAP_ACTIONS,
    SWAP_KEYS,
    Operation,
    operated_q,
    scores,
)
from idqn.explain.surgery import changed_actions, choose_operations, effect_on, key_use
from idqn.run_dir import RunDir
from tests.explain.untrained import untrained

VALUES = torch.tensor([-10.0, 0.0, 10.0])
NONE = Operation.none(2, 3)
# attention 1/4, 1/4, 1/2 of action 0; all to key 2 of action 1
SCORE = torch.tensor([[[0.0, 0.0, math.log(2.0)], [-1000.0, -1000.0, 0.0]]])


def q(operation: Operation) -> list[float]:
    found: list[float] = operated_q(SCORE, operation.order, operation.removed, VALUES)[0].tolist()
    return found


def test_nothing_changes_nothing() -> None:
    assert q(NONE) == pytest.approx([2.5, 10.0])


def test_without_the_key_that_has_all_attention_the_others_share_it() -> None:
    assert q(NONE.without_key(1, 2)) == pytest.approx([2.5, -5.0])
    assert q(NONE.without_key(0, 2)) == pytest.approx([-5.0, 10.0])
    assert q(NONE.without_key(0, 0)) == pytest.approx([20 / 3, 10.0])


def test_without_a_key_that_nobody_attends_to_nothing_changes() -> None:
    assert q(NONE.without_key(1, 0)) == q(NONE)


def test_without_a_value_or_an_action() -> None:
    assert q(NONE.without_value(2)) == pytest.approx([-5.0, -5.0])
    assert q(NONE.without_action(1)) == [pytest.approx(2.5), -math.inf]


def test_keys_are_swapped_at_one_value() -> None:
    # action 0 gets a key of score 0 at value 10, action 1 one of log 2
    assert q(NONE.with_keys_swapped(0, 1, 2)) == pytest.approx([0.0, 10.0])
    # action 0: e^-1000, 1, 2 -> 20/3; action 1: 1, e^-1000, 1 -> 0
    assert q(NONE.with_keys_swapped(0, 1, 0)) == pytest.approx([20 / 3, 0.0])
    assert q(NONE.with_actions_swapped(0, 1)) == pytest.approx([10.0, 2.5])


@pytest.mark.parametrize("twice", ["keys", "actions"])
def test_a_swap_done_twice_is_none(twice: str) -> None:
    if twice == "keys":
        done = NONE.with_keys_swapped(0, 1, 1).with_keys_swapped(0, 1, 1)
    else:
        done = NONE.with_actions_swapped(0, 1).with_actions_swapped(0, 1)
    assert torch.equal(done.order, NONE.order)
    assert q(done) == q(NONE)


def test_each_of_a_batch_has_its_own_operation() -> None:
    operations = [NONE, NONE.without_key(1, 2), NONE.with_actions_swapped(0, 1)]
    found = operated_q(
        SCORE.expand(3, -1, -1),
        torch.stack([o.order for o in operations]),
        torch.stack([o.removed for o in operations]),
        VALUES,
    )
    for row, operation in zip(found.tolist(), operations, strict=True):
        assert row == pytest.approx(q(operation))


# ------------------------------------------------------------------ of an agent


@pytest.fixture(scope="module")
def agent() -> Agent:
    return untrained(agent__key_init_std=1.0, agent__linear_init_std=0.5)


@pytest.fixture(scope="module")
def states(agent: Agent) -> States:
    return collect(agent, episodes=2, max_steps=10)


@pytest.fixture(scope="module")
def found(agent: Agent, states: States) -> Surgery:
    return surgery(agent, states, episodes=3, max_steps=12, seed=4, workers=0)


def test_without_an_operation_the_network_says_the_same(agent: Agent, states: States) -> None:
    look = agent.look(states.observations(slice(0, 5)))
    none = Operation.none(*agent.keys.shape[:2])
    own = operated_q(scores(look.embedding, agent.keys), none.order, none.removed, agent.values)
    torch.testing.assert_close(own, look.q)


def test_the_agent_stays_as_it_was(states: States) -> None:
    agent = untrained()
    before = {name: w.clone() for name, w in agent.network.state_dict().items()}
    surgery(agent, states, episodes=1, max_steps=3, workers=0)
    for name, weight in agent.network.state_dict().items():
        assert torch.equal(weight, before[name])


def test_returns_are_those_of_an_agent_with_other_keys(agent: Agent, found: Surgery) -> None:
    """Exchanged in its weights, and played the ordinary way."""
    i = found.what.index(SWAP_KEYS)
    a, b, n = (int(found.action[i]), int(found.partner[i]), int(found.value[i]))
    other = untrained(agent__key_init_std=1.0, agent__linear_init_std=0.5)
    other.network.load_state_dict(agent.network.state_dict())
    keys = other.network.get_parameter("head.keys")
    keys.data[[a, b], n] = keys.data[[b, a], n]
    for player, returns in ((agent, found.unchanged), (other, found.returns[i])):
        with Arena(agent.config.env, 3, 4, 0) as arena:
            act = player.act
            own = arena.play(lambda seen, games, steps, act=act: act(seen), np.arange(3), 12)
        np.testing.assert_allclose(own.returns, returns)


def test_games_played_alike_count_as_one() -> None:
    own = np.array([5.0, 5, 5, 5, 5, 7, 9])
    its = own - np.array([3, 3, 3, 3, 3, 0, -3])
    effect, low, high = effect_on(own, its)
    assert effect == pytest.approx(-12 / 7)
    assert low == pytest.approx(-3)
    assert high == pytest.approx(3)  # as if the last game alone were drawn three times
    apart = effect_on(np.arange(7.0), np.arange(7.0) + its - own)
    assert apart[2] < 1


def test_effects_are_sorted_differences(found: Surgery) -> None:
    assert (np.diff(found.effect[:, 0]) >= 0).all()
    np.testing.assert_allclose(found.effect[:, 0], (found.returns - found.unchanged).mean(1))
    assert (found.effect[:, 1] <= found.effect[:, 0]).all()
    assert (found.effect[:, 0] <= found.effect[:, 2]).all()


def test_every_kind_is_tried_and_named(found: Surgery) -> None:
    kinds = {REMOVE_KEY, REMOVE_VALUE, REMOVE_ACTION, SWAP_KEYS, SWAP_ACTIONS, CONTROL}
    assert set(found.what) == kinds
    for i, what in enumerate(found.what):
        assert (found.action[i] >= 0) == (what != REMOVE_VALUE)
        assert (found.partner[i] >= 0) == (what in (SWAP_KEYS, SWAP_ACTIONS))
        assert (found.value[i] >= 0) == (what not in (REMOVE_ACTION, SWAP_ACTIONS))
        if what == CONTROL:
            assert found.used[i] == found.use.min() / found.states


def test_use_is_counted_by_the_action_taken(states: States) -> None:
    use, attention = key_use(states)
    assert states.attention is not None
    slow = np.zeros_like(use)
    for t in range(len(states)):
        action = states.action[t]
        slow[action, states.attention[t, action].argmax()] += 1
    np.testing.assert_array_equal(use, slow)
    np.testing.assert_allclose(attention.sum(1), 1, rtol=1e-5)


def test_shares_of_changed_actions_are_those_of_a_loop(agent: Agent, states: States) -> None:
    operations = choose_operations(states, *key_use(states))
    changed = changed_actions(agent, states, operations)
    for operation, share in zip(operations, changed, strict=True):
        different = 0
        for t in range(len(states)):
            score = scores(torch.from_numpy(states.embedding[t : t + 1]), agent.keys)
            its = operated_q(score, operation.order, operation.removed, agent.values).argmax()
            different += int(its) != states.action[t]
        assert share == pytest.approx(different / len(states))


def test_controls_are_the_keys_that_get_the_least_attention(states: States) -> None:
    use, attention = key_use(states)
    # four keys are on top nowhere; two of them get some attention all the same
    use = np.full_like(use, 3)
    use[[0, 1, 1, 2], [2, 0, 4, 1]] = 0
    attention = np.full_like(attention, 0.2)
    attention[[0, 1, 1, 2], [2, 0, 4, 1]] = (0.3, 0.01, 0.1, 0.02)
    chosen = [o for o in choose_operations(states, use, attention) if o.what == CONTROL]
    assert [(o.action, o.value) for o in chosen] == [(1, 0), (2, 1)]


def test_no_swap_is_tried_twice(states: States) -> None:
    swaps = [o for o in choose_operations(states, *key_use(states)) if o.what == SWAP_KEYS]
    pairs = {(frozenset((o.action, o.partner)), o.value) for o in swaps}
    assert len(pairs) == len(swaps)


def test_it_is_kept_and_read_again(found: Surgery, tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    found.save(run)
    loaded = Surgery.load(run)
    assert (loaded.what, loaded.about) == (found.what, found.about)
    np.testing.assert_array_equal(loaded.effect, found.effect)
    with pytest.raises(ValueError, match="not today's"):
        replace(found, what=("remove an unused key",) * len(found.what))


def test_bad_input(agent: Agent, states: States) -> None:
    with pytest.raises(UserError, match="only idqn agents have them"):
        surgery(untrained("ddqn"))
    with pytest.raises(UserError, match="play at least 1 of each"):
        surgery(agent, states, episodes=0)
    with pytest.raises(UserError, match="play at least 1 of each"):
        surgery(agent, states, max_steps=0)
    empty = replace(states, action=states.action[:0])
    with pytest.raises(UserError, match="the rollout is empty"):
        surgery(agent, empty, episodes=1)
