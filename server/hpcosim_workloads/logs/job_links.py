"""Job arrays and dependencies: expansion of arrays, and references between jobs as job numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import Dependency, JobRequest
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.dependencies import (
    MOST_JOB_ID,
    MOST_REFERENCES,
    MOST_TASKS,
    ArrayText,
    Clause,
    DependencyText,
    Reference,
)
from hpcosim_workloads.logs.requirements import NO_REQUEST
from hpcosim_workloads.table import JobSpec

MOST_EDGES = 20_000_000  # references of all jobs, after the expansion of arrays


class LinkedLine(NamedTuple):
    """The references of a job line.

    Attributes:
        place: place of the line, for errors.
        dependency: its dependency; None: none.
        array: the array that the line describes; None: the line is one job.
    """

    place: int
    dependency: DependencyText | None = None
    array: ArrayText | None = None


Drop = Callable[[LineError, JobSpec], None]
"""Takes the error of a dependency that is dropped, and its job."""


def linked(
    jobs: Mapping[int, JobSpec], lines: Mapping[int, LinkedLine], drop: Drop | None = None
) -> list[JobSpec]:
    """Return the jobs with expanded arrays, and with dependencies on job numbers.

    The first task of an array has the number of its line. The other tasks have the numbers after
    the greatest one of the workload, in the order of the lines.

    Args:
        jobs: the job of each line by number, in the order of the lines.
        lines: the references of the lines that have any, by number of the job.
        drop: called for each invalid dependency, which is then removed; None: it is an error.

    Raises:
        LineError: an array is invalid, or a dependency names an unknown job, its own job, or is
            part of a cycle. It has the place of the line.
    """
    if not lines:
        return list(jobs.values())
    expanded = list(_expanded(jobs, lines))
    links = _Links(expanded, drop)
    for line, job in expanded:
        if line is not None and line.dependency is not None:
            links.add(line, job)
    links.check_cycles()
    return [links.job(job) for _, job in expanded]


def _expanded(
    jobs: Mapping[int, JobSpec], lines: Mapping[int, LinkedLine]
) -> Iterator[tuple[LinkedLine | None, JobSpec]]:
    """Yield every job with the line it is from, the tasks of arrays one by one."""
    fresh, tasks = max(jobs) + 1, 0
    for number, job in jobs.items():
        line = lines.get(number)
        if line is None or line.array is None:
            yield line, job
            continue
        indices, limit = line.array
        tasks += len(indices)
        if tasks > MOST_TASKS or fresh + len(indices) > MOST_JOB_ID:
            what = f"expected at most {MOST_TASKS} tasks of arrays in a workload, and job numbers"
            raise LineError(f"{what} below 2**63 - 1", "array", line.place)
        base = replace(job.request or NO_REQUEST, array_id=number, array_limit=limit)
        for position, index in enumerate(indices):
            task_id = fresh + position - 1 if position else number
            request = replace(base, array_index=index)
            yield line, job._replace(job_id=task_id, request=request)
        fresh += len(indices) - 1


class _Links:
    """The dependencies of the jobs of a workload.

    Args:
        jobs: every job with its line.
        drop: see `linked`.
    """

    def __init__(
        self, jobs: list[tuple[LinkedLine | None, JobSpec]], drop: Drop | None = None
    ) -> None:
        self._drop = drop
        self._jobs = {job.job_id: job for _, job in jobs}
        self._tasks: dict[int, dict[int, int]] = {}  # job numbers by index, by array
        self._places: dict[int, int] = {}
        self._requests: dict[int, JobRequest] = {}
        self._edges: dict[int, tuple[int, ...]] = {}
        self._count = 0
        for line, job in jobs:
            self._index(line, job)

    def _index(self, line: LinkedLine | None, job: JobSpec) -> None:
        request = job.request
        if request is None or request.array_id is None:
            return
        tasks = self._tasks.setdefault(request.array_id, {})
        if request.array_index in tasks:
            what = f"a second task of array {request.array_id} has the index {request.array_index}"
            raise LineError(what, "array_index", line.place if line else None)
        tasks[request.array_index] = job.job_id

    def add(self, line: LinkedLine, job: JobSpec) -> None:
        """Resolve the dependency of a job."""
        assert line.dependency is not None
        clauses, any_of = line.dependency
        self._places[job.job_id] = line.place
        try:
            dependencies = tuple(self._resolved(clause, job) for clause in clauses)
            edges = tuple(number for each in dependencies for number in each.job_ids)
            self._check_edges(job.job_id, edges)
        except LineError as error:
            self._invalid(LineError(error.what, "dependency", line.place), job)
            return
        self._edges[job.job_id] = edges
        request = job.request or NO_REQUEST
        self._requests[job.job_id] = replace(
            request, dependencies=dependencies, any_dependency=any_of
        )

    def job(self, job: JobSpec) -> JobSpec:
        """Return a job with its dependencies."""
        request = self._requests.get(job.job_id)
        return job if request is None else job._replace(request=request)

    def _resolved(self, clause: Clause, job: JobSpec) -> Dependency:
        if clause.kind == "singleton":
            if job.request is None or not job.request.name:
                raise LineError("singleton needs the name of the job; add name", "dependency")
            return Dependency("singleton")
        numbers: dict[int, None] = {}  # ordered, each once
        for reference in clause.references:
            numbers |= dict.fromkeys(self._numbers(clause.kind, reference, job))
        kind = "afterok" if clause.kind == "aftercorr" else clause.kind
        return Dependency(kind, tuple(numbers), clause.delay_s)  # type: ignore[arg-type]

    def _numbers(self, kind: str, reference: Reference, job: JobSpec) -> tuple[int, ...]:
        """Return the job numbers that a reference stands for."""
        number, index = reference.job_id, reference.task
        tasks = self._tasks.get(number)
        if kind == "aftercorr" and index is None and tasks is not None:
            request = job.request
            if request is not None and request.array_id is not None:
                index = request.array_index
        if tasks is None and index is None and number in self._jobs:
            return (number,)
        if tasks is None:
            what = "job" if index is None else "array"
            raise LineError(f"there is no {what} {number} in the workload", "dependency")
        if index is None:
            return tuple(tasks.values())
        if index not in tasks:
            raise LineError(f"array {number} has no task {index}", "dependency")
        return (tasks[index],)

    def _check_edges(self, number: int, edges: tuple[int, ...]) -> None:
        if number in edges:
            raise LineError(f"job {number} depends on itself", "dependency")
        if len(edges) > MOST_REFERENCES:
            what = f"expected at most {MOST_REFERENCES} jobs in a dependency, got {len(edges)}"
            raise LineError(what, "dependency")
        self._count += len(edges)
        if self._count > MOST_EDGES:
            what = f"expected at most {MOST_EDGES} references between the jobs of a workload"
            raise LineError(what, "dependency")

    def check_cycles(self) -> None:
        """Check that no job waits for itself through other jobs.

        Raises:
            LineError: one does, unless dependencies are dropped.
        """
        done: set[int] = set()
        for start in self._edges:
            if start not in done:
                self._search(start, done)

    def _search(self, start: int, done: set[int]) -> None:
        """Search cycles in the jobs that a job depends on, depth first."""
        path, on_path = [start], {start}
        rest = [iter(self._edges[start])]
        while path:
            following = next((n for n in rest[-1] if n in self._edges and n not in done), None)
            if following is None:
                rest.pop()
                number = path.pop()
                on_path.discard(number)
                done.add(number)
            elif following in on_path:
                self._found_cycle([*path[path.index(following) :], following])
                rest[-1] = iter(())
            else:
                path.append(following)
                on_path.add(following)
                rest.append(iter(self._edges[following]))

    def _found_cycle(self, cycle: list[int]) -> None:
        last = cycle[-2]  # its dependency closes the cycle
        shown = cycle if len(cycle) <= 6 else [*cycle[:3], "...", *cycle[-2:]]
        what = f"the dependencies form a cycle: {' -> '.join(map(str, shown))}"
        error = LineError(what, "dependency", self._places[last])
        del self._requests[last]
        self._edges[last] = ()
        self._invalid(error, self._jobs[last])

    def _invalid(self, error: LineError, job: JobSpec) -> None:
        if self._drop is None:
            raise error
        self._drop(error, job)
