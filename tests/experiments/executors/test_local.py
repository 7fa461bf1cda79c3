"""Execution of tasks in processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcosim_experiments.executors import Done, Local, LostTaskError, open_executor, results_of
from support import executor_tasks as given
from support.processes import alive, eventually

pytestmark = pytest.mark.slow
TWO = Local(workers=2)


def outcomes(function: Callable[..., Any], tasks: Sequence[Any]) -> list[Done[Any]]:
    """Return the outcomes of tasks on two workers, in the order of the tasks."""
    with open_executor(TWO) as executor:
        return sorted(executor.run(function, tasks))


def test_workers_stay_for_the_next_tasks() -> None:
    """Two calls of `run` use the same two processes, and start none for a single task."""
    with open_executor(TWO) as executor:
        one = {done.result for done in executor.run(given.process, [0])}
        first = {done.result for done in executor.run(given.process, range(20))}
        second = {done.result for done in executor.run(given.process, range(20))}
    assert one < first == second
    assert len(first) == 2


def test_workers_end_with_the_context() -> None:
    """No process of the pool is left."""
    found = [done.result for done in outcomes(given.process, range(4))]
    eventually(lambda: not any(alive(int(each or 0)) for each in found))


def test_a_task_that_kills_its_worker_costs_no_other() -> None:
    """Tasks that always kill their workers are given up; all others have results."""
    found = outcomes(given.die_if_odd, range(10))
    assert [done.result for done in found if not done.index % 2] == [0, 2, 4, 6, 8]
    assert {done.error for done in found if done.index % 2} == {
        "its worker process was killed by SIGKILL, probably because memory ran out "
        "(use fewer workers); tried 3 times"
    }


def test_results_in_order_raise_exceptions() -> None:
    """`results_of` raises the exception of a task with the traceback of the worker."""
    with open_executor(TWO) as executor:
        assert results_of(executor, abs, [-1, -2, -3]) == [1, 2, 3]
        with pytest.raises(ValueError, match="invalid literal") as caught:
            results_of(executor, int, ["1", "x"])
        with pytest.raises(
            LostTaskError, match=r"task 1 of 1 has no result: its worker process ended with exit"
        ):
            results_of(executor, os._exit, [1])
    assert "in a worker" in caught.value.__notes__[0]


def test_this_process_is_an_executor() -> None:
    """With 0 workers, tasks run in this process."""
    with open_executor(Local(workers=0)) as executor:
        assert [done.result for done in executor.run(given.process, [0])] == [os.getpid()]


DRIVER = """
import sys
from pathlib import Path
from hpcosim_experiments.executors import Local, open_executor
from support.executor_tasks import wait_for_ever
if __name__ == "__main__":
    with open_executor(Local(workers=2)) as executor:
        list(executor.run(wait_for_ever, [Path(sys.argv[1])] * 4))
"""


def test_a_script_without_a_guard_is_one_error(tmp_path: Path) -> None:
    """A script that every worker would run again is told what to do."""
    script = tmp_path / "driver.py"
    script.write_text(
        "from hpcosim_experiments.executors import Local, open_executor\n"
        "with open_executor(Local(workers=2)) as executor:\n"
        "    list(executor.run(abs, [1, 2]))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr.splitlines()[-1].startswith(
        "hpcosim_experiments.executors.interface.ExecutorError: a worker process ended while it "
        "started"
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_its_driver(tmp_path: Path, number: int) -> None:
    """Workers end in the middle of a task when the driver is killed or interrupted."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    folder = tmp_path / "workers"
    folder.mkdir()
    path = os.pathsep.join(sys.path)
    driver = subprocess.Popen(
        [sys.executable, script, folder], env={**os.environ, "PYTHONPATH": path}, stderr=-3
    )
    workers = eventually(lambda: len(found := list(folder.iterdir())) == 2 and found)
    driver.send_signal(number)
    driver.wait(60)
    eventually(lambda: not any(alive(int(each.name)) for each in workers))
