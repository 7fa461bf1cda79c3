"""Builder of a job table from job lines and job profiles."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from hpcosim_protocol import Dependency, JobRequest, Placement
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.dependencies import (
    MOST_JOB_ID,
    MOST_REFERENCES,
    MOST_TASKS,
    ArrayText,
    Clause,
    DependencyText,
    Reference,
    parse_array,
    parse_dependency,
)
from hpcosim_workloads.logs.job_line import (
    MAX_OPS,
    NO_PROFILE,
    NO_PROFILES,
    RUN_TIME_OPS_PER_S,
    JobLine,
    JobProfile,
)
from hpcosim_workloads.logs.requirements import NO_REQUEST, NodesOf, memory_per_core_mb, request_of
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table

# Job arrays and dependencies: expansion of arrays, and references between jobs as job numbers.

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


T = TypeVar("T")

OWN = ("name", "priority", "nice", "hold", "begin_s", "reservation", "array_id")
"""Fields of a job line that a request has under the same name, and a profile has not."""

own_of = attrgetter(*OWN, "array_index", "array_limit")
NOTHING_OWN = ("", None, 0, False, None, "", None, 0, 0)


class JobLines:
    """Builder of a job table from job lines.

    Args:
        placement: placement of jobs that state none and whose profile states none.
        profiles: job profiles by name.
        nodes_of: returns the nodes of a host list; None: nodes have no names.
    """

    def __init__(
        self,
        placement: Placement = "cores",
        profiles: Mapping[str, JobProfile] = NO_PROFILES,
        nodes_of: NodesOf | None = None,
    ) -> None:
        self._placement = placement
        self._profiles = profiles
        self._nodes_of = nodes_of
        self._jobs: dict[int, JobSpec] = {}
        self._linked: dict[int, LinkedLine] = {}

    def add(self, line: JobLine, place: int = 0) -> None:
        """Add a job, or the tasks of an array.

        Args:
            line: the line.
            place: place of the line, for errors that `table` finds.

        Raises:
            LineError: the job number is not unique, the profile is unknown, a required value is
                missing, or values contradict each other.
        """
        if line.job_id in self._jobs:
            raise LineError(f"a second job has the number {line.job_id}", "job_id")
        job = self._job(line)
        if (line.dependency, line.array, line.array_id) != (None, None, None):
            self._linked[line.job_id] = _linked_line(line, place)
        self._jobs[line.job_id] = job

    def table(self, drop: Drop | None = None) -> JobTable:
        """Return the jobs by submission time; jobs of the same time keep the order of the lines.

        Args:
            drop: called for each invalid dependency, which is then removed; None: it is an error.

        Raises:
            LineError: a dependency or an array is invalid; has the place of the line.
        """
        jobs = linked(self._jobs, self._linked, drop)
        jobs.sort(key=lambda job: job.submit_s)
        columns: dict[str, Any] = {
            name: [getattr(job, name) for job in jobs] for name in JobSpec._fields
        }
        columns["profile"], profiles = coded(columns["profile"])
        names = {}
        for name in NAMED:
            columns[name], names[name] = coded(columns[name])
        requests = tuple(request for request in columns["request"] if request is not None)
        rows = iter(range(len(requests)))
        columns["request"] = [-1 if each is None else next(rows) for each in columns["request"]]
        columns["placement"] = [PLACEMENTS.index(name) for name in columns["placement"]]
        return job_table(profiles=profiles, names=names, requests=requests, **columns)

    def _job(self, line: JobLine) -> JobSpec:
        profile = self._profile_of(line)

        def value(name: str) -> Any:
            own = getattr(line, name)
            return getattr(profile, name) if own is None else own

        if value("cores") is None:
            raise _missing("cores", "cores", line)
        run_s, ops = _work(line, profile)
        if value("requested_s") is None and ops:
            raise _missing("requested_s", "requested_s, because it has req_ops", line)
        if line.deadline_s is not None and line.deadline_s <= line.submit_s:
            what = f"expected a time after submit_s, {line.submit_s:g} s, got {line.deadline_s:g} s"
            raise LineError(what, "deadline_s")
        cores = value("cores")
        return JobSpec(
            job_id=line.job_id,
            submit_s=line.submit_s,
            run_s=run_s,
            requested_s=value("requested_s") or run_s,
            cores=cores,
            placement=value("placement") or self._placement,
            ops=ops,
            memory_mb=memory_per_core_mb(line, profile, cores),
            memory_volume_mb=value("memory_volume_mb") or 0.0,
            max_energy_j=value("max_energy_j") or math.inf,
            profile=line.profile,
            deadline_s=math.inf if line.deadline_s is None else line.deadline_s,
            request=request_of(line, profile, cores, _own(line), self._nodes_of),
            fails=line.fails,
            **{name: _text_of(line, name) for name in NAMED},
        )

    def _profile_of(self, line: JobLine) -> JobProfile:
        if not line.profile:
            return NO_PROFILE
        if line.profile in self._profiles:
            return self._profiles[line.profile]
        if self._profiles:
            advice = nearest(line.profile, tuple(self._profiles))
            raise LineError(f"there is no profile {line.profile!r}; {advice}", "profile")
        _check_printable(line.profile, "profile")
        return NO_PROFILE


def _own(line: JobLine) -> dict[str, Any]:
    """Return the attributes of a request that a job has itself, not by its profile."""
    if own_of(line) == NOTHING_OWN:  # fast path: most jobs
        return {}
    own = {name: value for name in OWN if (value := getattr(line, name))}
    if line.priority == 0:
        own["priority"] = 0  # Slurm's priority of a held job
    if line.array_id is not None:
        own["array_id"] = line.array_id
        own |= {name: getattr(line, name) for name in ("array_index", "array_limit")}
    elif line.array_index or line.array_limit:
        raise LineError("array_index and array_limit need array_id; add it", "array_id")
    for name in ("name", "reservation"):
        _check_printable(getattr(line, name), name)
    return own


def _text_of(line: JobLine, field: str) -> str:
    """Return a name or number as text; empty: unknown."""
    value = getattr(line, field)
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    _check_printable(value, field)
    if field == "partition" and value and not all(value.split(",")):
        raise LineError(f"expected names separated by commas, got {value!r}", field)
    return str(value)


def _check_printable(text: str, field: str) -> None:
    if not text.isprintable():
        raise LineError(f"expected a name of printable characters, got {text!r}", field)


def _linked_line(line: JobLine, place: int) -> LinkedLine:
    """Return the references of a line."""
    array = dependency = None
    if line.array is not None:
        if line.array_id is not None:
            what = "expected array (a whole array) or array_id (one task of it), got both"
            raise LineError(what, "array")
        array = _parsed(parse_array, str(line.array), "array")
    if line.dependency is not None:
        dependency = _parsed(parse_dependency, line.dependency, "dependency")
    return LinkedLine(place, dependency, array)


def _parsed(parse: Callable[[str], T], text: str, field: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise LineError(str(error), field) from None


def _work(line: JobLine, profile: JobProfile) -> tuple[float, float]:
    """Return the run time and the operations of each task; operations 0: the job has `run_s`."""
    source = profile if line.run_s is None and line.req_ops is None else line
    if source.run_s is not None:
        if line.ipc is not None:
            what = f"ipc requires req_ops, but profile {line.profile!r} has run_s"
            raise LineError(what, "ipc")
        return source.run_s, 0.0
    if source.req_ops is None:
        raise _missing("run_s", "run_s or req_ops", line)
    ipc = line.ipc if line.ipc is not None else profile.ipc
    ops = source.req_ops / (1.0 if ipc is None else ipc)
    if ops > MAX_OPS:
        raise LineError(f"req_ops / ipc is {ops:g}; it must be at most {MAX_OPS:g}", "ipc")
    ops = float(max(math.ceil(ops), 1))
    return ops / RUN_TIME_OPS_PER_S, ops


def _missing(field: str, what: str, line: JobLine) -> LineError:
    where = f"here or in profile {line.profile!r}" if line.profile else "here or in a profile"
    return LineError(f"job {line.job_id} needs {what}, {where}", field)


@functools.lru_cache(maxsize=256)  # every line of a file may have the same unknown profile
def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return a hint for an unknown name: the nearest known name, or the known names."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", ..." if len(known) > 10 else ""
    return f"expected {', '.join(map(repr, known[:10]))}{more}"
