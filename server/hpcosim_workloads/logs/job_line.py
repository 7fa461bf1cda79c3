"""A job as one line says it, in a file or in a scenario, and the kinds of jobs lines can name."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpcosim_protocol import Placement
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.table import LATEST_S, MOST_CORES, PLACEMENTS, JobSpec, JobTable, job_table

RUN_TIME_OPS_PER_S = 1e9  # by which the table's `run_s` of a job that has operations is told
MOST_OPS = LATEST_S * RUN_TIME_OPS_PER_S
MOST_MB = 1e12
MOST_J = 1e18
MOST_LETTERS = 200

Time = Annotated[float, Meta(ge=0, le=LATEST_S)]
Duration = Annotated[float, Meta(gt=0, le=LATEST_S)]
Operations = Annotated[float, Meta(gt=0, le=MOST_OPS)]
Megabytes = Annotated[float, Meta(ge=0, le=MOST_MB)]
Joules = Annotated[float, Meta(gt=0, le=MOST_J)]


class Profile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """What jobs of one kind have in common; a job that says otherwise goes before it.

    Attributes:
        cores: cores asked for, each for one task.
        run_s: true run time, seconds.
        req_ops: or operations of each task, before `ipc`: how long they take is up to the node.
        ipc: instructions a cycle; a task has `ceil(req_ops / ipc)` operations. Absent: 1.
        requested_s: run time asked for; absent: `run_s`. With `req_ops` it can't be.
        placement: as in `hpcosim_protocol.JobSubmitted`; absent: the scenario's.
        memory_mb: memory each task asks for, MB; absent: not told.
        memory_volume_mb: data each task moves to and from memory in all, MB; absent: none.
        max_energy_j: the most it may cost by estimate, J; absent: any.
    """

    cores: Annotated[int, Meta(gt=0, le=MOST_CORES)] | None = None
    run_s: Duration | None = None
    req_ops: Operations | None = None
    ipc: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    requested_s: Duration | None = None
    placement: Placement | None = None
    memory_mb: Megabytes | None = None
    memory_volume_mb: Megabytes | None = None
    max_energy_j: Joules | None = None

    def __post_init__(self) -> None:
        if self.run_s is None:
            return
        for name in ("req_ops", "ipc"):
            if getattr(self, name) is not None:
                raise ValueError(f"a job has run_s or req_ops (with ipc); here is run_s and {name}")


class JobLine(Profile, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """A job; `cores`, and `run_s` or `req_ops`, must stand here or in its profile.

    Attributes:
        job_id: unique among the lines.
        submit_s: submission time, seconds.
        profile: the kind of job. What the line does not say it has from the profile of that
            name; where the scenario has no profiles at all, the name is just a label.
    """

    job_id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    submit_s: Time
    profile: Annotated[str, Meta(max_length=MOST_LETTERS)] = ""


# A scenario may have none.
NO_PROFILES: Mapping[str, Profile] = MappingProxyType({})
NO_PROFILE = Profile()

# What a log says of each of its jobs, so that a profile of such jobs must not.
NOT_OF_LOGS = ("cores", "run_s", "req_ops", "ipc", "requested_s")


def not_of_logs(field: str) -> str:
    """Return what is wrong with a field of `NOT_OF_LOGS` in a profile of a log's jobs."""
    free = ", ".join(name for name in Profile.__struct_fields__ if name not in NOT_OF_LOGS)
    return f"a log's jobs have their {field} from the log; their profile may say {free}"


class JobLines:
    """Job lines, one after the other, on their way to a table.

    Args:
        placement: of the jobs that name none, and have none from their profile.
        profiles: by name.
    """

    def __init__(
        self, placement: Placement = "cores", profiles: Mapping[str, Profile] = NO_PROFILES
    ) -> None:
        self._placement = placement
        self._profiles = profiles
        self._jobs: dict[int, JobSpec] = {}

    def add(self, line: JobLine) -> None:
        """Add a job.

        Raises:
            LineError: it is there already, has an unknown profile, or lacks something even so.
        """
        if line.job_id in self._jobs:
            raise LineError(f"job {line.job_id} is there twice", "job_id")
        self._jobs[line.job_id] = self._job(line)

    def table(self) -> JobTable:
        """Return the jobs in order of submission, those of one time in order of the lines."""
        jobs = sorted(self._jobs.values(), key=lambda job: job.submit_s)
        columns: dict[str, Any] = {
            name: [getattr(job, name) for job in jobs] for name in JobSpec._fields
        }
        profiles = tuple(dict.fromkeys(["", *columns["profile"]]))
        codes = {name: code for code, name in enumerate(profiles)}
        columns["profile"] = [codes[name] for name in columns["profile"]]
        columns["placement"] = [PLACEMENTS.index(name) for name in columns["placement"]]
        return job_table(profiles=profiles, **columns)

    def _job(self, line: JobLine) -> JobSpec:
        kind = self._profile_of(line)

        def said(name: str) -> Any:
            own = getattr(line, name)
            return getattr(kind, name) if own is None else own

        if said("cores") is None:
            raise _missing("cores", "cores", line)
        run_s, ops = _work(line, kind)
        if said("requested_s") is None and ops:
            raise _missing("requested_s", "requested_s, as its work is req_ops", line)
        return JobSpec(
            job_id=line.job_id,
            submit_s=line.submit_s,
            run_s=run_s,
            requested_s=said("requested_s") or run_s,
            cores=said("cores"),
            placement=said("placement") or self._placement,
            ops=ops,
            memory_mb=said("memory_mb") or 0.0,
            memory_volume_mb=said("memory_volume_mb") or 0.0,
            max_energy_j=said("max_energy_j") or math.inf,
            profile=line.profile,
        )

    def _profile_of(self, line: JobLine) -> Profile:
        if not line.profile:
            return NO_PROFILE
        if line.profile in self._profiles:
            return self._profiles[line.profile]
        if self._profiles:
            advice = nearest(line.profile, tuple(self._profiles))
            raise LineError(f"there is no profile {line.profile!r}; {advice}", "profile")
        if not line.profile.isprintable():
            raise LineError(f"{line.profile!r} is no name: its letters can't be shown", "profile")
        return NO_PROFILE


def _work(line: JobLine, kind: Profile) -> tuple[float, float]:
    """Return run time and operations of each task, 0 where the run time is what is said."""
    source = kind if line.run_s is None and line.req_ops is None else line
    if source.run_s is not None:
        if line.ipc is not None:
            raise LineError(f"ipc goes with req_ops; profile {line.profile!r} has run_s", "ipc")
        return source.run_s, 0.0
    if source.req_ops is None:
        raise _missing("run_s", "run_s or req_ops", line)
    ipc = line.ipc if line.ipc is not None else kind.ipc
    ops = source.req_ops / (1.0 if ipc is None else ipc)
    if ops > MOST_OPS:
        raise LineError(f"req_ops / ipc is {ops:g}; {MOST_OPS:g} is the most", "ipc")
    ops = float(max(math.ceil(ops), 1))
    return ops / RUN_TIME_OPS_PER_S, ops


def _missing(field: str, what: str, line: JobLine) -> LineError:
    where = f"here or in profile {line.profile!r}" if line.profile else "here or in a profile"
    return LineError(f"job {line.job_id} needs {what}, {where}", field)


@functools.lru_cache(maxsize=256)  # a file may name one unknown profile in every line
def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return advice to whoever wrote a name that is not known."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", ..." if len(known) > 10 else ""
    return f"there is {', '.join(map(repr, known[:10]))}{more}"
