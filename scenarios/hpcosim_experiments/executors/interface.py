"""What all executors have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class InputFiles(Protocol):
    """Access of a task to the input files."""

    def local(self, path: Path) -> Path:
        """Return the path on this machine of a file of the driver.

        Relative paths from one input file to another are the same as on the driver.

        Args:
            path: path on the driver: one of the input files, or a folder that contains some.
        """
        ...

    def original(self, text: str) -> str:
        """Return a text, such as a message, with the driver's paths in place of local ones.

        Messages then are the same on all executors. Errors of tasks pass through this function.
        """
        ...


class Done(NamedTuple, Generic[Result]):
    """Outcome of a task.

    Attributes:
        index: position of the task in the sequence of tasks, from 0.
        result: value that the function returned; None if there is an error.
        error: one line: the exception of the function, or how its workers were lost. Empty: the
            task has a result.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    result: Result | None
    error: str


class Executor(Protocol):
    """Runs independent tasks. Each worker runs one task at a time, in one thread."""

    @property
    def workers(self) -> int:
        """Largest number of tasks that run at a time."""
        ...

    def run(
        self, function: Callable[[Task, InputFiles], Result], tasks: Sequence[Task]
    ) -> Iterator[Done[Result]]:
        """Call a function for each task; yield the outcomes in the order of their completion.

        The tasks of a lost worker run again, after all others and at most `MAX_TRIES` times in
        all. At most one call of `run` of an executor may be in progress.

        Args:
            function: a function that workers can import, or a `functools.partial` of one.
            tasks: first arguments of its calls. They are pickled, and so are the results.
        """
        ...
