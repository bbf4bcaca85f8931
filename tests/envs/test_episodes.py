"""Seeds of episodes, and replaying actions with a group that writes down what it is told."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from idqn.envs.episodes import UNSEEDED, EnvPositions, episode_seed, replay_actions

# --- seeds


def test_seeds_differ_across_runs_environments_and_episodes() -> None:
    keys = [(r, e, k) for r in (0, 1, 2, 2**31 - 1) for e in range(16) for k in range(40)]
    assert len({episode_seed(*key) for key in keys}) == len(keys)


def test_seeds_do_not_depend_on_the_sum_or_the_order_of_the_numbers() -> None:
    keys = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (1, 1, 1), (3, 0, 0)]
    assert len({episode_seed(*key) for key in keys}) == len(keys)


def test_seeds_fill_31_bits_and_never_change() -> None:
    seeds = [episode_seed(0, e, k) for e in range(20) for k in range(20)]
    assert all(isinstance(seed, int) and 0 <= seed < 2**31 for seed in seeds)
    assert max(seeds) > 0.99 * 2**31
    assert min(seeds) < 0.01 * 2**31
    # half of all seeds have any given bit: of 400, 200 +- 5 standard deviations
    for bit in range(31):
        assert 150 < sum(seed >> bit & 1 for seed in seeds) < 250
    # resuming a run needs the very same episodes in every later version
    assert (episode_seed(0, 0, 0), episode_seed(3, 1, 2)) == (1484405855, 810105224)


# --- replay

LONG = 1_000


class Recorder:
    """A group whose frames say how each environment came to be: seed (and resets after it), and
    actions since.

    Environment i's episodes last `lengths[i]` steps. As in the native Atari group, one that is
    stepped after its end begins an episode that nobody asked for: it shows seed 99.
    """

    def __init__(self, *lengths: int, episodes_per_seed: int = 1) -> None:
        self.episodes_per_seed = episodes_per_seed
        self.calls: list[tuple[str, list[int]]] = []
        self.seeded: list[int] = []
        self._lengths = lengths
        self._past: list[list[int]] = [[] for _ in lengths]

    def reset(self, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.uint8]:
        self.calls.append(("reset", np.flatnonzero(mask).tolist()))
        self.seeded += np.flatnonzero(mask & (seeds != UNSEEDED)).tolist()
        for i in np.flatnonzero(mask):
            self._begin(self._past[i], int(seeds[i]))
        return self._frames(shown=mask)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        assert actions.dtype == np.int64
        self.calls.append(("step", actions.tolist()))
        for past, length, action in zip(self._past, self._lengths, actions.tolist(), strict=True):
            if len(past) > length:
                past[:] = [99]
            past.append(action)
        ends = zip(self._past, self._lengths, strict=True)
        over = np.array([len(past) > length for past, length in ends])
        odd = np.arange(len(over)) % 2 == 1  # both ways to end
        frames = self._frames(shown=np.ones(len(over), bool))
        return frames, np.zeros(len(over), np.float32), over & odd, over & ~odd

    def close(self) -> None: ...

    def _begin(self, past: list[int], seed: int) -> None:
        """A further reset adds 100 to the seed that it comes after."""
        if seed == UNSEEDED:
            assert self.episodes_per_seed > 1
            past[:] = [past[0] + 100 if past else 99]
        else:
            past[:] = [seed]

    def _frames(self, shown: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """[n, 1, 1, 16]: the past, then zeros; unspecified where not `shown`."""
        frames = np.full((len(self._past), 1, 1, 16), 77, np.uint8)
        for i in np.flatnonzero(shown):
            frames[i] = picture(self._past[i])
        return frames


def picture(past: list[int]) -> NDArray[np.uint8]:
    return np.array([[past + [0] * (16 - len(past))]]).astype(np.uint8)


def replay(group: Recorder, *logs: list[int]) -> NDArray[np.uint8]:
    seeds = np.arange(11, 11 + len(logs))
    arrays = [np.array(log, np.uint16) for log in logs]
    return replay_actions(group, seeds, np.zeros_like(seeds), arrays)


def expected(*logs: list[int]) -> list[NDArray[np.uint8]]:
    return [picture([seed, *log]) for seed, log in enumerate(logs, 11)]


def test_the_shorter_logs_wait_and_all_arrive_at_once() -> None:
    group = Recorder(LONG, LONG, LONG, LONG)
    logs = [4, 5, 6], [7], [], [8, 9]
    np.testing.assert_array_equal(replay(group, *logs), expected(*logs))
    assert group.calls == [
        ("reset", [0, 1, 2, 3]),
        ("step", [4, 0, 0, 0]),
        ("reset", [3]),
        ("step", [5, 0, 0, 8]),
        ("reset", [1]),
        ("step", [6, 7, 0, 9]),
        ("reset", [2]),
    ]


def test_logs_of_one_length_need_one_reset() -> None:
    group = Recorder(LONG, LONG)
    np.testing.assert_array_equal(replay(group, [1, 2], [3, 4]), expected([1, 2], [3, 4]))
    assert group.calls == [("reset", [0, 1]), ("step", [1, 3]), ("step", [2, 4])]


def test_empty_logs_are_a_plain_reset() -> None:
    group = Recorder(LONG, LONG)
    np.testing.assert_array_equal(replay(group, [], []), expected([], []))
    assert group.calls == [("reset", [0, 1])]


def test_who_loses_while_waiting_is_reset_before_the_next_step() -> None:
    group = Recorder(LONG, 2, 2)
    logs = [1, 1, 1, 1, 1], [2], []
    np.testing.assert_array_equal(replay(group, *logs), expected(*logs))
    assert group.calls == [
        ("reset", [0, 1, 2]),
        ("step", [1, 0, 0]),
        ("step", [1, 0, 0]),
        ("reset", [1, 2]),
        ("step", [1, 0, 0]),
        ("step", [1, 0, 0]),
        ("reset", [1, 2]),
        ("step", [1, 2, 0]),
        ("reset", [2]),
    ]


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7])
def test_how_often_those_who_wait_lose_does_not_matter(length: int) -> None:
    group = Recorder(LONG, length, length, length, length)
    logs = [1, 2, 3, 4, 5, 6, 7, 8], [1], [1, 2], [], [3, 2]
    np.testing.assert_array_equal(replay(group, *logs), expected(*logs))


def test_the_frames_are_the_callers_own() -> None:
    """Groups may write every frame into the same memory."""

    class OneBuffer(Recorder):
        def _frames(self, shown: NDArray[np.bool_]) -> NDArray[np.uint8]:
            if not hasattr(self, "buffer"):
                self.buffer = super()._frames(shown)
            self.buffer[...] = super()._frames(shown)
            return self.buffer

    group = OneBuffer(LONG, LONG, LONG)
    logs = [1, 2], [3], []
    frames = replay(group, *logs)
    np.testing.assert_array_equal(frames, expected(*logs))
    group.step(np.zeros(3, np.int64))
    np.testing.assert_array_equal(frames, expected(*logs))


def test_actions_beyond_a_byte() -> None:
    group = Recorder(LONG)
    replay(group, [300])
    assert group.calls[-1] == ("step", [300])


# --- seasons


def replay_season(
    group: Recorder, resets: list[int], *logs: list[int]
) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]]]:
    """What comes, and what should."""
    seeds = np.arange(11, 11 + len(logs))
    arrays = [np.array(log, np.uint16) for log in logs]
    starts = seeds + 100 * np.array(resets)
    wanted = [picture([int(start), *log]) for start, log in zip(starts, logs, strict=True)]
    return replay_actions(group, seeds, np.array(resets), arrays), wanted


def test_each_is_seeded_once_and_reset_as_often_as_needed() -> None:
    group = Recorder(LONG, LONG, LONG, LONG, episodes_per_seed=256)
    frames, wanted = replay_season(group, [1, 2, 0, 2], [4, 5], [6], [], [7, 8])
    np.testing.assert_array_equal(frames, wanted)
    assert group.calls == [
        ("reset", [0, 1, 2, 3]),  # the second and third unseeded
        ("reset", [0, 3]),
        ("reset", [3]),
        ("step", [4, 0, 0, 7]),
        ("reset", [1]),
        ("reset", [1]),
        ("reset", [1]),
        ("step", [5, 6, 0, 8]),
        ("reset", [2]),
    ]
    assert group.seeded == [0, 3, 1, 2]


def test_those_at_a_start_are_reset_together() -> None:
    group = Recorder(LONG, LONG, LONG, episodes_per_seed=4)
    frames, wanted = replay_season(group, [1, 0, 2], [], [], [])
    np.testing.assert_array_equal(frames, wanted)
    assert group.calls == [("reset", [0, 1, 2]), ("reset", [0, 2]), ("reset", [2])]


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7])
def test_losing_while_waiting_does_not_count_as_a_reset(length: int) -> None:
    group = Recorder(LONG, length, length, length, length, episodes_per_seed=3)
    logs = [1, 2, 3, 4, 5, 6, 7, 8], [1], [1, 2], [], [3, 2]
    frames, wanted = replay_season(group, [2, 1, 0, 2, 1], *logs)
    np.testing.assert_array_equal(frames, wanted)
    assert sorted(group.seeded) == [0, 1, 2, 3, 4]


def test_taking_some_positions() -> None:
    logs = [np.array(log, np.uint16) for log in ([1], [2, 3], [])]
    some = EnvPositions(np.array([5, 6, 7]), logs).take(np.array([2, 0]))
    assert some.episode.tolist() == [7, 5]
    assert [log.tolist() for log in some.actions] == [[], [1]]
