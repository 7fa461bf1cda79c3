"""Behaviour of every executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_executors import Done, ExecutorSettings, Local, open_executor
from support import executor_tasks as given

pytestmark = pytest.mark.slow


@pytest.fixture(params=["local"])
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    """Return settings of each executor, with two workers."""
    return Local(workers=2)


def test_each_task_has_one_outcome(settings: ExecutorSettings) -> None:
    """Results belong to their tasks, in whatever order they complete."""
    with open_executor(settings) as executor:
        assert executor.workers == 2
        found = sorted(executor.run(given.square, range(40)))
    assert found == [Done(number, number * number, "") for number in range(40)]


def test_no_tasks_are_no_outcomes(settings: ExecutorSettings) -> None:
    """An empty sequence of tasks ends at once."""
    with open_executor(settings) as executor:
        assert list(executor.run(given.square, [])) == []


def test_an_exception_is_one_line(settings: ExecutorSettings) -> None:
    """The error of a task names the exception and its place; other tasks have results."""
    with open_executor(settings) as executor:
        found = sorted(executor.run(given.inverse, [1, 0, 2]))
    assert [done.result for done in found] == [1, None, 0.5]
    assert found[1].error.startswith(
        "ZeroDivisionError: division by zero (in inverse, executor_tasks.py:"
    )


def test_a_result_that_cannot_be_pickled_is_an_error(settings: ExecutorSettings) -> None:
    """The executor goes on with other tasks."""
    with open_executor(settings) as executor:
        (found,) = executor.run(given.unpicklable, [1])
        assert found.error.startswith("the result cannot be pickled: ")
        assert [done.result for done in executor.run(given.square, [3])] == [9]


def test_the_tasks_of_a_lost_worker_run_again(settings: ExecutorSettings, tmp_path: Path) -> None:
    """All tasks have results although some workers are killed."""
    tasks = [tmp_path / str(number) for number in range(6)]
    for path in tasks[2:]:
        path.touch()
    with open_executor(settings) as executor:
        found = sorted(executor.run(given.die_once, tasks))
    assert found == [Done(number, str(number), "") for number in range(6)]


def test_a_worker_has_one_thread(settings: ExecutorSettings) -> None:
    """Linear algebra and torch use one thread in workers."""
    with open_executor(settings) as executor:
        assert {done.result for done in executor.run(given.environment, ["OMP_NUM_THREADS"])} == {
            "1"
        }


def test_tasks_read_input_files(settings: ExecutorSettings, tmp_path: Path) -> None:
    """Paths of the driver lead to the files."""
    path = tmp_path / "log.swf"
    path.write_text("12345")
    with open_executor(settings, [path]) as executor:
        assert [done.result for done in executor.run(given.size, [path])] == [5]


def test_folders_are_named_by_environment_variables(
    settings: ExecutorSettings, tmp_path: Path
) -> None:
    """A worker finds the folder of input files in the variable."""
    path = tmp_path / "logs" / "log.swf"
    path.parent.mkdir()
    path.write_text("12345")
    folders = {"HPCOSIM_TEST_LOGS": path.parent}
    with open_executor(settings, [path], folders) as executor:
        (found,) = executor.run(given.environment, ["HPCOSIM_TEST_LOGS"])
        (there,) = executor.run(given.size, [Path(str(found.result)) / "log.swf"])
    assert there.result == 5
