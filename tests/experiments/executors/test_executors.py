"""Behaviour of every executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_experiments.executors import Done, Executor, ExecutorSettings, open_executor
from support import executor_tasks as given

pytestmark = pytest.mark.slow


def test_each_task_has_one_outcome(executor: Executor) -> None:
    """Results belong to their tasks, in whatever order they complete."""
    assert executor.workers == 2
    found = sorted(executor.run(given.square, range(40)))
    assert found == [Done(number, number * number, "") for number in range(40)]


def test_no_tasks_are_no_outcomes(executor: Executor) -> None:
    """An empty sequence of tasks ends at once."""
    assert list(executor.run(given.square, [])) == []


def test_an_exception_is_one_line(executor: Executor) -> None:
    """The error of a task names the exception and its place; other tasks have results."""
    found = sorted(executor.run(given.inverse, [1, 0, 2]))
    assert [done.result for done in found] == [1, None, 0.5]
    assert found[1].error.startswith(
        "ZeroDivisionError: division by zero (in inverse, executor_tasks.py:"
    )


def test_a_result_that_cannot_be_pickled_is_an_error(executor: Executor) -> None:
    """The executor goes on with other tasks."""
    (found,) = executor.run(given.unpicklable, [1])
    assert found.error.startswith("the result cannot be pickled: ")
    assert [done.result for done in executor.run(given.square, [3])] == [9]


def test_the_tasks_of_a_lost_worker_run_again(executor: Executor, tmp_path: Path) -> None:
    """All tasks have results although some workers are killed."""
    tasks = [tmp_path / str(number) for number in range(6)]
    for path in tasks[2:]:
        path.touch()
    found = sorted(executor.run(given.die_once, tasks))
    assert found == [Done(number, str(number), "") for number in range(6)]


def test_a_worker_has_one_thread(executor: Executor) -> None:
    """Linear algebra and torch use one thread in workers."""
    assert {done.result for done in executor.run(given.environment, ["OMP_NUM_THREADS"])} == {"1"}


def test_tasks_read_input_files(settings: ExecutorSettings, tmp_path: Path) -> None:
    """Paths of the driver lead to the files."""
    path = tmp_path / "log.swf"
    path.write_text("12345")
    with open_executor(settings, [path]) as executor:
        assert [done.result for done in executor.run(given.size, [path])] == [5]


def test_files_find_each_other_by_relative_paths(
    settings: ExecutorSettings, tmp_path: Path
) -> None:
    """A file leads to another one by its path relative to the first."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "logs").mkdir()
    scenario, log = tmp_path / "scenarios" / "a.yaml", tmp_path / "logs" / "a.swf"
    scenario.write_text("../logs/a.swf")
    log.write_text("jobs")
    with open_executor(settings, [log, scenario]) as executor:
        (found,) = executor.run(given.read_beside, [scenario])
    assert found == Done(0, "jobs", "")


def test_messages_have_the_paths_of_the_driver(executor: Executor, tmp_path: Path) -> None:
    """Messages with paths are the same on all executors."""
    (found,) = executor.run(given.missing, [tmp_path / "a.swf"])
    assert found.result == f"{tmp_path / 'a.swf'}: no such log"
    (error,) = executor.run(given.size, [tmp_path / "a.swf"])
    assert f"No such file or directory: '{tmp_path / 'a.swf'}'" in error.error


def test_folders_are_named_by_environment_variables(
    settings: ExecutorSettings, tmp_path: Path
) -> None:
    """A worker finds the folder of input files in the variable."""
    path = tmp_path / "logs" / "log.swf"
    path.parent.mkdir()
    path.write_text("12345")
    folders = {"HPCOSIM_TEST_LOGS": path.parent}
    with open_executor(settings, [path], folders) as executor:
        (found,) = executor.run(given.size_in, [("HPCOSIM_TEST_LOGS", "log.swf")])
    assert found == Done(0, 5, "")
