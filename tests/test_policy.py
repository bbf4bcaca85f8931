"""The choice of an action from Q and U."""

import torch

from idqn.policy import directed_action

Q = torch.tensor([[1.0, 2.0, 3.0], [5.0, 4.9, -1.0]])
U = torch.tensor([[300.0, 150.0, 40.0], [10.0, 30.0, 200.0]])


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

    assert torch.equal(directed_action(Q, U, 0.01), directed_action(Q, U, 0.01, everything))


def test_scores_are_not_written_into_q() -> None:
    before = Q.clone()
    directed_action(Q, U, 0.5, torch.tensor([False, True, True]))

    assert torch.equal(before, Q)
