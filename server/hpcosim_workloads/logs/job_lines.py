"""Job lines and job profiles, hpcosim's own workload format, and the job table made from them.

An invalid line, dependency or array is a `LineError`, which `read_jsonl` raises as `WorkloadError`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from hpcosim_protocol import Dependency, JobRequest, Placement
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs import requirements
from hpcosim_workloads.logs.log_file import line_blocks, numbered_lines
from hpcosim_workloads.logs.quantities import (
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
from hpcosim_workloads.table import (
    COLUMNS,
    MAX_CORES,
    MAX_TIME_S,
    NAMED,
    PLACEMENTS,
    AppliedRules,
    JobSpec,
    JobTable,
    coded,
    job_table,
)

RUN_TIME_OPS_PER_S = 1e9  # speed for which `JobTable.run_s` of a job with operations holds
MAX_OPS = MAX_TIME_S * RUN_TIME_OPS_PER_S
MAX_J = 1e18
MAX_NAME_LENGTH = 200

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = Annotated[float, Meta(ge=0, le=MAX_TIME_S)]
Duration = Annotated[float, Meta(gt=0, le=MAX_TIME_S)]
Operations = Annotated[float, Meta(gt=0, le=MAX_OPS)]
Joules = Annotated[float, Meta(gt=0, le=MAX_J)]
Text = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
NameOrNumber = Number | Text
LongText = Annotated[str, Meta(min_length=1, max_length=200_000)]


# Job arrays and dependencies: expansion of arrays, and references between jobs as job numbers.

MOST_EDGES = 20_000_000  # references of all jobs, after the expansion of arrays


BATSIM = "expected one job per line; a Batsim workload runs with `hpcosim batsim -w`"


class JobProfile(
    requirements.Requirements, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False
):
    """Default values of the jobs that name this profile. A value of the job has priority.

    Attributes:
        cores: requested cores, one task per core.
        run_s: true run time, s.
        req_ops: operations of each task before division by `ipc`, instead of `run_s`. The run
            time follows from the speed of the node.
        ipc: instructions per cycle: a task has `ceil(req_ops / ipc)` operations. Default: 1.
        requested_s: requested run time, s. Default: `run_s`; required with `req_ops`.
        placement: placement, see `hpcosim_protocol.JobSubmitted`. Default: the scenario's.
        memory_mb: requested memory of each core, MB. Default: unknown.
        memory_volume_mb: data that each task transfers to and from memory, MB. Default: 0.
        max_energy_j: upper limit of the job's estimated energy, J. Default: no limit.
    """

    cores: Annotated[int, Meta(gt=0, le=MAX_CORES)] | None = None
    run_s: Duration | None = None
    req_ops: Operations | None = None
    ipc: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    requested_s: Duration | None = None
    placement: Placement | None = None
    memory_mb: requirements.Megabytes | None = None
    memory_volume_mb: requirements.Megabytes | None = None
    max_energy_j: Joules | None = None

    def __post_init__(self) -> None:
        if self.run_s is None:
            return
        for name in ("req_ops", "ipc"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"expected either run_s or req_ops (with ipc), got run_s and {name}"
                )


class JobLine(JobProfile, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """A job. `cores`, and `run_s` or `req_ops`, are required here or in the job's profile.

    Attributes:
        job_id: number of the job, unique in the workload.
        submit_s: submission time, s.
        profile: name of the profile with the default values of the job. Without any profile in
            the scenario, the name is a label.
        user: name or number of the user who submitted the job. Default: unknown.
        group: name or number of the user's group. Default: unknown.
        account: name or number of the account that pays for the job. Default: unknown.
        qos: name or number of the quality of service. Default: unknown.
        partition: name or number of the partition that the job is submitted to, or several names
            separated by commas. It has no effect on a platform without partitions. Default: the
            default partition.
        deadline_s: time by which the job should have ended, s, on the clock of `submit_s` and after
            it. A window or another load moves the deadline with the submission. Default: none.
        name: name of the job. Default: none.
        priority: priority that an administrator set. Default: none.
        nice: number that lowers the priority. Default: 0.
        hold: whether the job is held until an action releases it. Default: false.
        begin_s: earliest start, s, on the clock of `submit_s`. It moves with the submission as
            `deadline_s`. Default: none.
        dependency: conditions on other jobs as in Slurm's `--dependency`, such as
            `afterok:1005_3:1006,after:7+5` or `singleton`: `,`: all must be met, `?`: one is
            sufficient, `+`: a delay in minutes. Default: none.
        array: indices of a job array as in Slurm's `--array`, such as `0-9%3`: one job for each
            index, of which at most 3 run at once. The first task has the number `job_id`, the
            others have the numbers after the greatest one of the workload.
        array_id: number of the array, of a line that describes one task. Default: none.
        array_index: index of the task, with `array_id`. Default: 0.
        array_limit: maximum number of tasks that run at once, with `array_id`. Default: no limit.
        reservation: name of the reservation in which the job runs. Default: none.
        fails: whether the job fails at its end. Default: false.
    """

    job_id: Number
    submit_s: Time
    profile: Text = ""
    user: NameOrNumber | None = None
    group: NameOrNumber | None = None
    partition: NameOrNumber | None = None
    deadline_s: Time | None = None
    account: NameOrNumber | None = None
    qos: NameOrNumber | None = None
    name: Text = ""
    priority: Annotated[int, Meta(ge=0, le=2**32)] | None = None
    nice: Annotated[int, Meta(ge=-(2**31), le=2**31)] = 0
    hold: bool = False
    begin_s: requirements.Seconds | None = None
    dependency: LongText | None = None
    array: requirements.Count | LongText | None = None
    array_id: Number | None = None
    array_index: requirements.Count = 0
    array_limit: requirements.Count = 0
    reservation: Text = ""
    fails: bool = False


class PlainLine(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """A `JobLine` of the most frequent fields only, of which lines are read by column."""

    job_id: Number
    submit_s: Time
    cores: Annotated[int, Meta(gt=0, le=MAX_CORES)]
    run_s: Duration
    requested_s: Duration | None = None
    placement: Placement | None = None
    memory_mb: requirements.Megabytes | None = None
    profile: Text = ""
    user: NameOrNumber | None = None
    group: NameOrNumber | None = None
    partition: NameOrNumber | None = None
    account: NameOrNumber | None = None
    qos: NameOrNumber | None = None


PLAIN_LINES = msgspec.json.Decoder(PlainLine)

NO_PROFILES: Mapping[str, JobProfile] = MappingProxyType({})
NO_PROFILE = JobProfile()

# Fields that a log states for each job; a profile of a log's jobs must not set them.
LOG_FIELDS = ("cores", "run_s", "req_ops", "ipc", "requested_s")


def log_field_message(field: str) -> str:
    """Return the error message for a field of `LOG_FIELDS` in a profile of a log's jobs."""
    others = "such as placement, memory_mb, max_energy_j or gres_per_node"
    what = f"the log states {field} of each job; a profile of a log's jobs may set "
    return f"{what}other keys, {others}"


class LinkedLine(NamedTuple):
    """The references of a job line.

    Attributes:
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
        drop: called for each invalid dependency, which is then removed; None: it is an error.
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
        base = replace(job.request or requirements.NO_REQUEST, array_id=number, array_limit=limit)
        for position, index in enumerate(indices):
            task_id = fresh + position - 1 if position else number
            request = replace(base, array_index=index)
            yield line, job._replace(job_id=task_id, request=request)
        fresh += len(indices) - 1


class _Links:
    """The dependencies of the jobs of a workload."""

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
        request = job.request or requirements.NO_REQUEST
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
        """Check that no job waits for itself through other jobs."""
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
    """Builder of a job table from job lines."""

    def __init__(
        self,
        placement: Placement = "cores",
        profiles: Mapping[str, JobProfile] = NO_PROFILES,
        nodes_of: requirements.NodesOf | None = None,
    ) -> None:
        self._placement = placement
        self._profiles = profiles
        self._nodes_of = nodes_of
        self._plain: list[JobTable] = []  # before any other line
        self._plain_ids: set[int] = set()
        self._jobs: dict[int, JobSpec] = {}
        self._linked: dict[int, LinkedLine] = {}

    def add_plain(self, texts: Sequence[bytes]) -> float | None:
        """Add the jobs of lines of text by column, as `add` does.

        Returns:
            Submission time of the last one, s; None: nothing was added, because a line is invalid
            or has more fields than `PlainLine`.
        """
        lines = _plain_lines(texts)
        table = _plain_table(lines, self._placement) if lines else None
        if table is None or (self._profiles and len(table.profiles) > 1):
            return None
        numbers = table.job_id.tolist()
        different = set(numbers)
        known = self._jobs.keys() or self._plain_ids
        if len(different) < len(numbers) or not different.isdisjoint(known):
            return None
        if self._jobs:
            self._jobs.update(zip(numbers, table.rows(), strict=True))
        else:
            self._plain.append(table)
            self._plain_ids |= different
        return lines[-1].submit_s

    def add(self, line: JobLine, place: int = 0) -> None:
        """Add a job, or the tasks of an array."""
        for table in self._plain:
            self._jobs.update(zip(table.job_id.tolist(), table.rows(), strict=True))
        self._plain.clear()
        if line.job_id in self._jobs:
            raise LineError(f"a second job has the number {line.job_id}", "job_id")
        job = self._job(line)
        if (line.dependency, line.array, line.array_id) != (None, None, None):
            self._linked[line.job_id] = _linked_line(line, place)
        self._jobs[line.job_id] = job

    def check_links(self, drop: Drop) -> None:
        """Check arrays, and drop the invalid dependencies as `table` does."""
        linked(self._jobs, self._linked, drop)

    def table(self, drop: Drop | None = None) -> JobTable:
        """Return the jobs by submission time; jobs of the same time keep the order of the lines."""
        if self._plain:
            return _joined(self._plain)
        jobs = linked(self._jobs, self._linked, drop)
        jobs.sort(key=lambda job: job.submit_s)
        columns: dict[str, Any] = dict.fromkeys(JobSpec._fields, ())
        columns |= zip(JobSpec._fields, zip(*jobs, strict=True), strict=False)
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
            memory_mb=requirements.memory_per_core_mb(line, profile, cores),
            memory_volume_mb=value("memory_volume_mb") or 0.0,
            max_energy_j=value("max_energy_j") or math.inf,
            profile=line.profile,
            deadline_s=math.inf if line.deadline_s is None else line.deadline_s,
            request=requirements.request_of(line, profile, cores, _own(line), self._nodes_of),
            fails=line.fails,
            **{name: _name_text(getattr(line, name), name) for name in NAMED},
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


def _plain_lines(texts: Sequence[bytes]) -> list[PlainLine]:
    """Return the job of each line that is not blank; none, if a line is no `PlainLine`."""
    content = b"".join(texts)
    try:
        lines = PLAIN_LINES.decode_lines(content)
    except ValueError:
        return []
    # Objects within a `PlainLine` are invalid, so each of these lines begins one and ends one.
    begins = content.startswith(b"{") + content.count(b"\n{")
    filled = len(texts) if begins == len(texts) else sum(not text.isspace() for text in texts)
    return lines if len(lines) == begins == filled else []


def _plain_table(lines: Sequence[PlainLine], placement: Placement) -> JobTable | None:
    """Return the jobs in the order of the lines; None: a name of one is invalid."""
    fields = PlainLine.__struct_fields__
    rows = map(msgspec.structs.astuple, lines)
    columns: dict[str, Any] = dict(zip(fields, zip(*rows, strict=True), strict=True))
    names = {}
    for name in ("profile", *NAMED):
        found = dict.fromkeys(columns[name])
        try:
            codes, names[name] = coded([_name_text(value, name) for value in found])
        except LineError:
            return None
        code_of = dict(zip(found, codes, strict=True))
        same = codes[0] if len(found) == 1 else None
        columns[name] = [code_of[each] for each in columns[name]] if same is None else same
    placed = {each: code for code, each in enumerate(PLACEMENTS)}
    columns["placement"] = [placed[each or placement] for each in columns["placement"]]
    requested_s, memory_mb = (
        np.array(columns[name], np.float64) for name in ("requested_s", "memory_mb")
    )
    columns["requested_s"] = np.where(np.isnan(requested_s), columns["run_s"], requested_s)
    columns["memory_mb"] = np.where(np.isnan(memory_mb), 0.0, memory_mb)
    return job_table(profiles=names.pop("profile"), names=names, **columns)


def _joined(tables: Sequence[JobTable]) -> JobTable:
    """Return the jobs of tables by submission time, with names in the order of their first job."""
    columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS}
    order = np.argsort(columns["submit_s"], kind="stable")
    ordered: dict[str, Any] = {name: column[order] for name, column in columns.items()}
    names = {}
    for name in ("profile", *NAMED):
        known: dict[str, int] = {}
        codes = []
        for table in tables:
            texts = table.profiles if name == "profile" else table.names[name]
            code_of = np.array([known.setdefault(text, len(known)) for text in texts])
            codes.append(code_of[getattr(table, name)])
        column: NDArray[np.int64] = np.concatenate(codes)[order]
        _, first = np.unique(column, return_index=True)
        texts = tuple(known)
        _, names[name] = coded(texts[code] for code in column[np.sort(first)].tolist())
        place = {text: code for code, text in enumerate(names[name])}
        ordered[name] = np.array([place.get(text, 0) for text in texts])[column]
    return job_table(profiles=names.pop("profile"), names=names, **ordered)


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


def _name_text(value: int | str | None, field: str) -> str:
    """Return a name or number as text; empty: unknown."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    _check_printable(value, field)
    if field == "partition" and value and not all(value.split(",")):
        raise LineError(f"expected names separated by commas, got {value!r}", field)
    return value


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


def read_jsonl(
    path: Path,
    *,
    placement: Placement = "cores",
    lenient: bool = False,
    profiles: Mapping[str, JobProfile] = NO_PROFILES,
    nodes_of: requirements.NodesOf | None = None,
) -> JobTable:
    """Return the jobs of a file in order of submission.

    Args:
        placement: placement of jobs that state none and whose profile states none.
        lenient: drop corrupt lines and invalid dependencies; `JobTable.skipped` counts them as
            `corrupt_lines` and `dependencies_dropped`. Default: the first one is an error.
        profiles: job profiles by name. If there are any, every `profile` of a line must be one.
        nodes_of: returns the nodes of a host list; None: lines state node numbers.

    Raises:
        WorkloadError: the file cannot be read, or a line is corrupt; the error names the line.
    """
    decoder = msgspec.json.Decoder(JobLine)
    jobs = JobLines(placement, profiles, nodes_of)
    line_s, corrupt_s = 0.0, array("d")
    for block in line_blocks(path):
        last_s = jobs.add_plain([text for _, text in block])
        if last_s is not None:
            line_s = last_s
            continue
        for number, text in block:
            if text.isspace():
                continue
            try:
                line = decoder.decode(text)
                jobs.add(line, number)
                line_s = line.submit_s
            except ValueError as error:
                if not lenient:
                    what = BATSIM if _is_batsim(path) else _with_hint(str(error))
                    raise WorkloadError(what, path, number) from None
                corrupt_s.append(line_s)
    dropped: list[JobSpec] = []
    try:
        table = jobs.table((lambda _, job: dropped.append(job)) if lenient else None)
    except LineError as error:
        raise WorkloadError(str(error), path, error.place) from None
    rows = np.searchsorted(table.submit_s, corrupt_s, side="right")
    rules = AppliedRules().plus("corrupt_lines", rows, corrupt_s)
    return dataclasses.replace(table, rules=_with_dropped(rules, table, dropped))


def _with_dropped(rules: AppliedRules, table: JobTable, dropped: Sequence[JobSpec]) -> AppliedRules:
    """Return the rules with the jobs whose dependency was dropped."""
    row_of = dict(zip(table.job_id.tolist(), range(len(table)), strict=True)) if dropped else {}
    rows = [row_of[job.job_id] for job in dropped]
    return rules.plus("dependencies_dropped", rows, [job.submit_s for job in dropped])


def _is_batsim(path: Path) -> bool:
    """Return whether the first lines of a file have the fields of a Batsim workload."""
    head = b"".join(text for _, text in islice(numbered_lines(path), 3))
    return re.search(rb'"nb_res"\s*:|"jobs"\s*:\s*\[', head) is not None


def _with_hint(what: str) -> str:
    """Return msgspec's message, and for an unknown field the nearest field."""
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown is None:
        return what
    near = difflib.get_close_matches(unknown[1], JobLine.__struct_fields__, n=1)
    return f"{what}; did you mean `{near[0]}`?" if near else what
