"""Builder of a job table from job lines and job profiles."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.dependencies import parse_array, parse_dependency
from hpcosim_workloads.logs.job_line import (
    MAX_OPS,
    NO_PROFILE,
    NO_PROFILES,
    RUN_TIME_OPS_PER_S,
    JobLine,
    JobProfile,
)
from hpcosim_workloads.logs.job_links import Drop, LinkedLine, linked
from hpcosim_workloads.logs.requirements import NodesOf, memory_per_core_mb, request_of
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table

T = TypeVar("T")


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
        if line.dependency or line.array or line.array_id is not None:
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
    names = ("name", "priority", "nice", "hold", "begin_s", "reservation", "array_id")
    own = {name: value for name in names if (value := getattr(line, name))}
    if line.priority == 0:
        own["priority"] = 0  # Slurm's priority of a held job
    if line.array_id is not None:
        own["array_id"] = line.array_id
        own |= {name: getattr(line, name) for name in ("array_index", "array_limit")}
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
        array = _parsed(parse_array, line.array, "array")
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
