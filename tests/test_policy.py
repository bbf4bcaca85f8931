"""The choice of an action: from Q and U, by chance, and by a vote."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from idqn.agents.idqn import IDQN
from idqn.agents.objective import Heads
from idqn.agents.per_run import PerRun
from idqn.chance import Chance
from idqn.config import Config
from idqn.networks.memory import Recall
from idqn.policy import best_action, epsilon, epsilon_greedy, majority_vote

Q = torch.tensor([[1.0, 2.0, 3.0], [5.0, 4.9, -1.0]])
U = torch.tensor([[300.0, 150.0, 40.0], [10.0, 30.0, 200.0]])


class Opinionated(IDQN):
    """Knows Q and U whatever it sees."""

    def __init__(self, q: Tensor, uncertainty: Tensor) -> None:
        super().__init__([Config()], nn.Identity())
        self._recall = Recall(q[..., None], q[..., None], q, uncertainty)

    def answer(self, *_: Any) -> Recall:
        return self._recall


def directed_action(
    q: Tensor, uncertainty: Tensor, factor: Tensor | float, legal: Tensor | None = None
) -> Tensor:
    """What i-DQN does, with all of its own machinery."""
    own = {name: torch.tensor(0.0) for name in PerRun._fields}
    own["exploration_factor"] = torch.as_tensor(factor)
    own["legal"] = torch.ones(q.shape[1], dtype=torch.bool) if legal is None else legal
    none = torch.zeros(len(q), 0)
    chance = Chance(none, none, none, torch.zeros(()))
    return Opinionated(q, uncertainty).act(Heads({}, {}, {}), none, chance, PerRun(**own))


def test_no_bonus_takes_the_largest_q() -> None:
    assert directed_action(Q, U, 0.0).tolist() == [2, 0]


def test_bonus_is_added_to_q() -> None:
    # Q + 0.01 U: 4, 3.5, 3.4 and 5.1, 5.2, 1
    assert directed_action(Q, U, 0.01).tolist() == [0, 1]


def test_a_negative_factor_shuns_uncertainty() -> None:
    # Q - 0.1 U: -29, -13, -1 and 4, 1.9, -21
    assert directed_action(Q, U, -0.1).tolist() == [2, 0]


def test_the_factor_may_be_a_tensor() -> None:
    # Q + 0.1 U: 31, 17, 7 and 6, 7.9, 19
    assert directed_action(Q, U, torch.tensor(0.1)).tolist() == [0, 2]


def test_illegal_actions_are_never_taken() -> None:
    legal = torch.tensor([False, True, True])

    # Q + 0.01 U: -, 3.5, 3.4 and -, 5.2, 1
    assert directed_action(Q, U, 0.01, legal).tolist() == [1, 1]
    assert directed_action(Q, U, 0.0, legal).tolist() == [2, 1]
    assert directed_action(Q, U, 0.0, torch.tensor([True, False, False])).tolist() == [0, 0]


def test_an_illegal_action_loses_even_to_hopeless_legal_ones() -> None:
    q = torch.tensor([[1e30, -1e30]])

    assert directed_action(q, torch.zeros(1, 2), 0.0, torch.tensor([False, True])).tolist() == [1]


def test_without_a_mask_all_actions_are_legal() -> None:
    everything = torch.tensor([True, True, True])
    score = Q + 0.01 * U

    assert best_action(score).tolist() == [0, 1]
    assert torch.equal(best_action(score), best_action(score, everything))
    assert torch.equal(best_action(score), directed_action(Q, U, 0.01, everything))


def test_scores_are_not_written_into_q() -> None:
    before = Q.clone()
    directed_action(Q, U, 0.5, torch.tensor([False, True, True]))
    best_action(Q, torch.tensor([False, True, True]))

    assert torch.equal(before, Q)


def test_epsilon_goes_in_a_straight_line_and_stays() -> None:
    def after(steps: float, start: float = 1.0, end: float = 0.01) -> float:
        numbers = torch.tensor([start, end, 1_000_000.0, steps])
        return float(epsilon(*numbers))

    # 1 - 0.99·steps/1M
    expected = {0: 1.0, 100_000: 0.901, 500_000: 0.505, 1_000_000: 0.01, 7_000_000: 0.01}
    for steps, probability in expected.items():
        assert after(steps) == pytest.approx(probability)
    assert after(250_000, start=0.0, end=0.4) == pytest.approx(0.1)  # upwards, too
    assert after(123_456, start=0.3, end=0.3) == pytest.approx(0.3)


def roll(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(seed))


def test_never_and_always_random() -> None:
    action, legal = torch.full((6_000,), 2), torch.tensor([True, True, True, False])
    dice = roll(6_000)

    assert torch.equal(epsilon_greedy(action, dice, torch.tensor(0.0), legal), action)
    counts = epsilon_greedy(action, dice, torch.tensor(1.0), legal).bincount(minlength=4)
    assert counts[3] == 0
    # each of 3 legal ones: 2000 ± 5 standard deviations of √(6000·⅓·⅔) = 36.5
    assert ((counts[:3] - 2_000).abs() < 183).all()


def test_as_often_random_as_asked() -> None:
    action, legal = torch.full((20_000,), 4), torch.ones(5, dtype=torch.bool)

    counts = epsilon_greedy(action, roll(20_000), torch.tensor(0.25), legal).bincount()

    # 0.25 / 5 for each of the others: 1000 ± 5 deviations of √(20000·0.05·0.95) = 30.8
    assert ((counts[:4] - 1_000).abs() < 154).all()
    # 0.75 + 0.05 for the action itself, which is among the random ones
    assert abs(int(counts[4]) - 16_000) < 5 * 57


def test_the_dice_decide_by_hand() -> None:
    action, legal = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([True, True, True, False])
    dice = torch.tensor([[0.29, 0.99], [0.31, 0.99], [0.0, 0.0], [0.1, 0.34], [0.1, 0.99999997]])

    # below 0.3: 3·0.99 = 2.97 to 2; 0.31 is not; 0; 3·0.34 = 1.02 to 1; all but 1 is never 3
    expected = [2, 0, 0, 1, 2]
    assert epsilon_greedy(action, dice, torch.tensor(0.3), legal).tolist() == expected


def test_one_legal_action_leaves_no_choice() -> None:
    action, legal = torch.zeros(100, dtype=torch.int64), torch.tensor([True, False])

    assert not epsilon_greedy(action, roll(100), torch.tensor(1.0), legal).any()


def test_majority_vote_by_hand() -> None:
    head_q = torch.tensor(
        [
            # actions x heads; two heads prefer action 1, though action 0 has the highest mean
            [[9.0, 1.0, 1.0], [0.0, 2.0, 2.0], [0.0, 0.0, 0.0]],
            # one vote each: of equals, the highest mean is that of action 2
            [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]],
            # all agree
            [[-3.0, -4.0, -5.0], [-2.0, -2.0, -2.0], [-9.0, -9.0, -9.0]],
        ]
    )

    assert majority_vote(head_q).tolist() == [1, 2, 1]


def test_a_tie_goes_to_the_higher_mean_not_to_the_unchosen() -> None:
    # 4 heads, 2 votes for action 0 and 2 for action 3; action 1 has no votes and the highest mean
    head_q = torch.tensor(
        [[[5.0, 5.0, 0.0, 0.0], [4.9, 4.9, 4.9, 4.9], [0.0] * 4, [0.0, 0.0, 5.0, 5.1]]]
    )

    assert majority_vote(head_q).tolist() == [3]
    assert majority_vote(head_q.flip(1)).tolist() == [0]
    assert majority_vote(head_q * torch.tensor([2.0, 1.0, 1.0, 1.0])).tolist() == [0]


def test_the_vote_is_that_of_counting_in_python() -> None:
    def count(head_q: Tensor) -> int:
        choices, mean = head_q.argmax(0).tolist(), head_q.mean(1).tolist()
        return max(range(6), key=lambda action: (choices.count(action), mean[action]))

    head_q = torch.randn(200, 6, 10, generator=torch.Generator().manual_seed(3))
    expected = [count(sample) for sample in head_q]

    assert majority_vote(head_q).tolist() == expected
    assert expected != head_q.mean(-1).argmax(-1).tolist()  # a vote is not the mean's choice
