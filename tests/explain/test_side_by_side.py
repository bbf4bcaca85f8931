"""Jobs side by side: what they find, what is shown meanwhile, and what becomes of the others if one
fails."""

from __future__ import annotations

from threading import Event, current_thread, main_thread

import pytest

from idqn.errors import UserError
from idqn.explain.progress import Progress
from idqn.explain.side_by_side import side_by_side


def test_all_are_found_in_order_and_only_the_first_under_way_is_shown() -> None:
    second_is_done = Event()

    def first(progress: Progress) -> str:
        assert current_thread() is not main_thread()
        second_is_done.wait(10)
        progress("first", 1, 1)
        return "first"

    def second(progress: Progress) -> str:
        progress("second", 1, 1)  # the first is under way
        second_is_done.set()
        return "second"

    shown: list[str] = []
    found = side_by_side([first, second], lambda doing, done, total: shown.append(doing))
    assert found == ["first", "second"]
    assert shown == ["first"]
    assert side_by_side([]) == []


@pytest.mark.parametrize("failing", [0, 1])
def test_one_that_fails_stops_the_others_and_is_told_of(failing: int) -> None:
    steps = [0]

    def fails(progress: Progress) -> None:
        raise UserError("no such thing")

    def goes_on(progress: Progress) -> None:
        while True:
            steps[0] += 1
            progress("going on", 0, 1)

    jobs = [goes_on, goes_on]
    jobs[failing] = fails
    with pytest.raises(UserError, match="no such thing"):
        side_by_side(jobs)
    assert steps[0] < 10_000_000


def test_whoever_waits_is_woken_if_another_fails() -> None:
    answer = Event()

    def waits(progress: Progress) -> None:
        assert answer.wait(60)

    def fails(progress: Progress) -> None:
        raise UserError("no such thing")

    with pytest.raises(UserError, match="no such thing"):
        side_by_side([waits, fails], give_up=answer.set)
    assert answer.is_set()


def test_whoever_interrupts_the_display_stops_all() -> None:
    def goes_on(progress: Progress) -> None:
        while True:
            progress("going on", 0, 1)

    def interrupted(doing: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([goes_on, goes_on], interrupted)
