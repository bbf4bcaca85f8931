"""Worker processes end with whoever started them, and say why when they end before."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idqn.envs import RunEnvs, VectorEnv
from idqn.errors import UserError
from tests.envs.alone import BREAKOUT, MINI
from tests.envs.film_env import BROKEN_ID, SURROUNDINGS_ID

BROKEN = replace(MINI, id=BROKEN_ID)
NOTHING = np.zeros(4, np.int64)


@pytest.fixture(autouse=True)
def no_hanging_no_leftovers() -> Iterator[None]:
    def out_of_time(*_: object) -> None:
        raise TimeoutError("this test hangs")

    before = signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert multiprocessing.active_children() == []


def started(workers: int = 2) -> VectorEnv:
    vector = VectorEnv([RunEnvs(MINI, 0)], 4, workers)
    vector.start()
    return vector


def kill_one_worker() -> None:
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()


# --- failures inside workers


def test_a_worker_that_died_between_steps() -> None:
    with started() as vector:
        vector.step(NOTHING)
        kill_one_worker()
        for _ in range(2):  # and it stays that way
            with pytest.raises(RuntimeError, match="worker process died"):
                vector.step(NOTHING)


def test_a_worker_that_died_in_a_step() -> None:
    with started() as vector:
        workers = [child.pid for child in multiprocessing.active_children()]
        os.kill(workers[0], signal.SIGSTOP)  # type: ignore[arg-type]  # so that it cannot answer
        vector.send(NOTHING)
        os.kill(workers[0], signal.SIGKILL)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="worker process died"):
            vector.recv()


def test_a_worker_that_died_before_the_start() -> None:
    with VectorEnv([RunEnvs(MINI, 0)], 4, 2) as vector:
        kill_one_worker()
        with pytest.raises(RuntimeError, match="worker process died"):
            vector.start()


def test_an_environment_that_raises_in_a_worker_shows_its_traceback() -> None:
    with VectorEnv([RunEnvs(BROKEN, 0)], 4, 2) as vector:
        vector.start()
        vector.step(NOTHING)
        vector.step(NOTHING)
        with pytest.raises(RuntimeError) as error:
            vector.step(NOTHING)
    message = str(error.value)
    assert "ZeroDivisionError: the third step of a broken environment" in message
    assert "film_env.py" in message


def test_an_environment_that_raises_with_another_turn_on_its_way() -> None:
    with VectorEnv([RunEnvs(BROKEN, 0)], 4, 2, turns=2) as vector:
        vector.start()
        two = np.zeros(2, np.int64)
        for _ in range(2):
            vector.send(two, 0)
            vector.recv(0)
        vector.send(two, 0)
        vector.send(two, 1)
        with pytest.raises(RuntimeError, match="ZeroDivisionError: the third step"):
            vector.recv(0)


def test_an_environment_that_raises_without_workers_just_raises() -> None:
    with VectorEnv([RunEnvs(BROKEN, 0)], 4, 0) as vector:
        vector.start()
        vector.step(NOTHING)
        vector.step(NOTHING)
        with pytest.raises(ZeroDivisionError, match="the third step"):
            vector.step(NOTHING)


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "when the worker has long ended"])
def test_a_users_mistake_that_shows_only_in_a_worker(wait: bool) -> None:
    mistake = replace(MINI, sticky_probability=0.25)
    with VectorEnv([RunEnvs(MINI, 0), RunEnvs(mistake, 0)], 2, 2) as vector:
        while wait and len(multiprocessing.active_children()) > 1:
            time.sleep(0.02)
        with pytest.raises(UserError, match=r"env\.sticky_probability works for Atari"):
            vector.start()


# --- how many, and how they end


def test_there_are_as_many_workers_as_asked_but_none_without_an_environment() -> None:
    for asked, expected in ((None, 0), (0, 0), (1, 1), (3, 3), (9, 4)):
        with VectorEnv([RunEnvs(MINI, 0)], 4, asked):
            assert len(multiprocessing.active_children()) == expected
        assert multiprocessing.active_children() == []
    with VectorEnv([RunEnvs(BREAKOUT, 0)], 2, None):
        assert len(multiprocessing.active_children()) == min(os.cpu_count() or 1, 2)


def test_turns_share_workers_unless_there_is_one_for_each_environment() -> None:
    for asked, expected in ((3, 2), (4, 4), (9, 4)):
        with VectorEnv([RunEnvs(MINI, 0)], 4, asked, turns=2):
            assert len(multiprocessing.active_children()) == expected


def test_workers_keep_to_one_thread_and_leave_the_parents_surroundings_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENCV_FOR_THREADS_NUM", raising=False)
    with VectorEnv([RunEnvs(replace(MINI, id=SURROUNDINGS_ID), 0)], 2, 2) as vector:
        assert (vector.start() == 11).all()
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "OPENCV_FOR_THREADS_NUM" not in os.environ


def test_close_does_not_wait_for_an_answer_and_can_be_repeated() -> None:
    vector = started()
    vector.send(NOTHING)
    vector.close()
    assert multiprocessing.active_children() == []
    vector.close()


def test_workers_end_when_the_object_is_forgotten() -> None:
    vector = started()
    assert len(multiprocessing.active_children()) == 2
    del vector
    assert multiprocessing.active_children() == []


@pytest.fixture
def _ctrl_c_works() -> Iterator[None]:
    """A shell's background jobs ignore it, and so would the workers, whatever they do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_works")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_process_group_leaves_the_workers_playing(number: int) -> None:
    """Ctrl-C and a scheduler's SIGTERM reach them too; training still needs their last step."""
    with started() as vector:
        for child in multiprocessing.active_children():
            assert child.pid is not None
            os.kill(child.pid, number)
        time.sleep(0.1)  # for it to arrive
        vector.step(NOTHING)


# --- how programs end

PROGRAM = """
import multiprocessing, os, sys, time, weakref
class Early: pass
early = Early()
{first}
import numpy as np
from idqn.envs import RunEnvs, VectorEnv
from idqn.presets import preset

if __name__ == "__main__":
    vector = VectorEnv([RunEnvs(preset("paper", "idqn/MiniPacman-v0").env, 0)], 4, 2)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    {then}
"""


def write_program(folder: Path, then: str, first: str = "") -> list[str]:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(then=then, first=first))
    return [sys.executable, str(path)]


def surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize(
    "then",
    [
        "time.sleep(60)",
        "vector.start(); print('started', flush=True); time.sleep(60)",
        "vector.start(); print('started', flush=True)\n"
        "    while True: vector.step(np.zeros(4, np.int64))",
    ],
    ids=["starting", "idle", "playing"],
)
def test_no_worker_outlives_a_killed_program(tmp_path: Path, then: str) -> None:
    command = write_program(tmp_path, then)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=surroundings(), text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        if "started" in then:
            assert parent.stdout.readline() == "started\n"
        assert len(workers) == 2
        assert all(alive(pid) for pid in workers)
        parent.kill()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "an orphan is left"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Zombies are not: whether orphans are reaped is the machine's affair."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("then", "first", "code"),
    [
        ("vector.start()", "", 0),
        ("vector.start(); vector.send(np.zeros(4, np.int64))", "", 0),
        ("vector.start(); sys.exit(3)", "", 3),
        # the standard library runs all finalizers where the first of them was registered
        ("vector.start()", "weakref.finalize(early, print)", 0),
    ],
    ids=["forgotten", "in a step", "exit", "after an early finalizer"],
)
def test_forgetting_close_does_not_hang(tmp_path: Path, then: str, first: str, code: int) -> None:
    command = write_program(tmp_path, then, first)
    done = subprocess.run(
        command, env=surroundings(), timeout=20, check=False, capture_output=True, text=True
    )
    assert done.returncode == code
    assert done.stderr == ""


def test_workers_do_not_run_the_users_script_again(tmp_path: Path) -> None:
    """Few scripts have the guard that multiprocessing asks for."""
    path = tmp_path / "unguarded.py"
    path.write_text(
        "from idqn.envs import RunEnvs, VectorEnv\n"
        "from idqn.presets import preset\n"
        "config = preset('paper', 'idqn/MiniPacman-v0').env\n"
        "with VectorEnv([RunEnvs(config, 0)], 2, workers=2) as vector:\n"
        "    print(vector.start().shape, __file__)\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)], env=surroundings(), timeout=20, capture_output=True, text=True
    )
    assert done.stdout == f"(2, 1, 33, 33) {path}\n"
    assert done.stderr == ""
