"""Accounting logs of PBS Pro, OpenPBS and Torque.

A line is `MM/DD/YYYY HH:MM:SS;TYPE;ID;KEY=VALUE KEY=VALUE ...`. The day and time are local and are
not used: the values have Unix times. docs/reference/accounting.md has the table of fields with
their sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from hpcosim_workloads.accounting.record import (
    Allocation,
    JobId,
    Lines,
    Place,
    Record,
    Report,
    drop_invalid,
    hosts_or_none,
    merged,
    unix_s,
    whole,
)
from hpcosim_workloads.logs.quantities import FieldError, shown

ADVICE = (
    "a line of PBS's accounting log, such as "
    "`03/02/2026 08:00:00;E;101.head;user=ada ... end=1772445600 Exit_status=0`"
)

RUNS = frozenset("ER")
"""Types of records that state a run: ended, and rerun."""
WITHOUT_JOB = frozenset("ULYBFKkPp")
"""Types of records of licences, reservations and provisioning."""
PROGRESS = frozenset("CTMacesuzr")
"""Types of records that say nothing that the end does not say, but for suspension."""
TRANSLATED = frozenset(
    (
        *("ncpus", "nodect", "nodes", "select", "place", "mem", "walltime", "ngpus"),
        *("neednodes", "preempt_targets"),  # copies of `nodes`, and what the scheduler did
    )
)
SIGNAL = 256  # added to the number of the signal that ended the job
WALLTIME = -29  # Exit_status of a job that exceeded its walltime
RERUNS = frozenset((-3, -11, -14, -15, -16, -18, -20))
AT_LIMIT_S = 1.0
"""A failed job that ran up to this before its limit, or longer, was ended by it."""
KB = {"b": 1 / 1024, "kb": 1.0, "mb": 1024.0, "gb": 1024.0**2, "tb": 1024.0**3, "pb": 1024.0**4}
WORD_BYTES = 8
QUOTES = "\"'"

_HEAD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d")
_ID = re.compile(r"(\d{1,18})(?:\[(\d{0,10})\])?(?:\.\S*)?")
_QUOTED = re.compile(r"""(?:^|\s)([^\s=]++)=("[^"]*"|'[^']*'|\S*)""")
_SIZE = re.compile(r"(\d{1,15})(?:([kmgtp]?)([bw]))?", re.IGNORECASE)
_TIME = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,12})(?:\.\d{0,9})?")
_VNODES = re.compile(r"\(([^()]*)\)")
_STATUS = re.compile(r"-?\d{1,9}")
_KIND = re.compile(r"[a-z]{2,16}")
_OTHER_JOB = re.compile(r"(\d{1,18}(?:\[\d{0,10}\])?)(?:\.\S*)?")
DEPENDENCIES = frozenset(("after", "afterok", "afternotok", "afterany"))


@dataclass(slots=True)
class _Job:
    """What the records say of a job that has not ended, by its identifier.

    Attributes:
        deleted: whether a user, an operator or the server deleted it.
        dependency: as Slurm states it; empty: none.
        starts, runs: how often it started, and the runs that are known.
    """

    place: Place
    queued: bool = False
    started: bool = False
    suspended: bool = False
    deleted: bool = False
    dependency: str = ""
    ended: bool = False
    starts: int = 0
    runs: int = 0


@dataclass(slots=True)
class _Log:
    report: Report
    jobs: dict[str, _Job] = field(default_factory=dict)

    def job(self, text: str, place: Place) -> _Job:
        found = self.jobs.get(text)
        if found is None:
            found = self.jobs[text] = _Job(place)
        return found


def read_pbs(lines: Lines, report: Report, limits: dict[int, int]) -> Iterator[Record]:
    """Yield the runs of jobs that ended.

    Args:
        lines: lines of one or several logs, in the order of time.
        limits: gets the limit of running tasks of each array that states one.
    """
    log = _Log(report)
    for place, line in lines:
        if not line or line.isspace():
            continue
        parts = line.split(";", 3)
        if len(parts) < 4 or len(parts[1]) != 1 or _HEAD.fullmatch(parts[0]) is None:
            report.add("dropped", f"lines that are not {ADVICE}", place)
            continue
        kind, text = parts[1], parts[2]
        if kind in WITHOUT_JOB:
            report.add("dropped", "records of reservations, licences and provisioning", place)
            continue
        try:
            record = _record(kind, text, parts[3], place, log, limits)
        except FieldError as error:
            drop_invalid(error, place, report)
            continue
        if record is not None:
            yield record
    _report_open(log)


def _record(
    kind: str, text: str, values: str, place: Place, log: _Log, limits: dict[int, int]
) -> Record | None:
    """Return the run that a record states; None: it states none."""
    if kind == "Q":
        job = log.job(text, place)
        if job.ended:  # the number is used again
            job = log.jobs[text] = _Job(place)
        job.queued = True
        if "depend=" in values:
            job.dependency = _dependency(_pairs(values).get("depend", ""), place, log.report)
        return None
    if kind == "S":
        job = log.job(text, place)
        job.started, job.ended = True, False
        job.starts += 1
        return None
    if kind in "DA":
        log.job(text, place).deleted = True
        return None
    if kind in "zr":
        log.job(text, place).suspended = True
        return None
    if kind not in RUNS:
        if kind not in PROGRESS:
            log.report.add("dropped", "records of an unknown type", place)
        return None
    match = _ID.fullmatch(text)
    if match is None:
        raise FieldError(f"ID: expected a number such as 101.head or 7[3].head, got {shown(text)}")
    job = log.job(text, place)
    if match[2] == "":
        job.ended = True
        pairs = _pairs(values)
        if (most := pairs.get("max_run_subjobs", "")).isdecimal() and len(most) < 10:
            limits[int(match[1])] = int(most)
        log.report.add("dropped", "records of whole arrays: their subjobs are the jobs", place)
        return None
    named = JobId(int(match[1]), None if match[2] is None else int(match[2]))
    pairs = _pairs(values)
    record = _run(named, pairs, job, place, log.report)
    job.runs += 1
    if kind == "R" or record.state == "REQUEUED":
        record.state, job.started = "REQUEUED", False
    else:
        job.ended = True
        if pairs.get("run_count", "").isdecimal():
            job.starts = max(job.starts, int(pairs["run_count"][:9]))
    return record


def _pairs(text: str) -> dict[str, str]:
    """Return the values of a record by key; of a key that is there twice, the last.

    PBS puts values with blanks into double quotes, or into single ones if they have double ones.
    """
    words = text.split()
    try:
        found = dict([word.split("=", 1) for word in words])
    except ValueError:  # words without `=`
        found = dict([word.split("=", 1) for word in words if "=" in word])
    if '"' not in text and "'" not in text:
        return found
    for key, value in found.items():
        if value.startswith(('"', "'")):
            if len(value) < 2 or value[-1] != value[0]:
                return {key: value.strip(QUOTES) for key, value in _QUOTED.findall(text)}
            found[key] = value[1:-1]
    return found


def _run(named: JobId, pairs: Mapping[str, str], job: _Job, place: Place, report: Report) -> Record:
    get = pairs.get
    submit_s = unix_s(get("ctime", ""), "ctime") or unix_s(get("qtime", ""), "qtime")
    if submit_s is None:
        raise FieldError("ctime: expected a Unix time, got none")
    start_s, end_s = unix_s(get("start", ""), "start"), unix_s(get("end", ""), "end")
    if end_s is None:
        raise FieldError("end: expected a Unix time, got none")
    if start_s is not None and end_s < start_s:
        raise FieldError(f"end: expected a time from the start, {start_s:g}, on, got {end_s:g}")
    run_s = None if start_s is None else end_s - start_s
    if job.suspended and run_s is not None:
        wall_s = _seconds(get("resources_used.walltime", ""), "resources_used.walltime")
        if wall_s is not None and wall_s < run_s:
            run_s = wall_s
            report.add("guessed", "run times of suspended jobs: without the suspension", place)
    limit_s = _seconds(get("Resource_List.walltime", ""), "Resource_List.walltime")
    hosts = _hosts(get("exec_host", ""), get("exec_vnode", ""))
    allocated = hosts_or_none(hosts, place, report)
    requested, options = _requests(pairs, allocated)
    _list_others(pairs, place, report)
    if job.dependency:
        options["dependency"] = job.dependency
    return Record(
        line=place,
        raw_id=named.job_id,
        named=named,
        name=get("jobname", ""),
        user=get("user", ""),
        group=get("group", ""),
        account=get("account", "") or _project(get("project", "")),
        partition=get("queue", ""),
        nodes=",".join(each.host for each in allocated),
        state=_state(get("Exit_status", ""), run_s, limit_s, job, start_s),
        submit_s=submit_s,
        eligible_s=unix_s(get("etime", ""), "etime"),
        start_s=start_s,
        end_s=end_s,
        run_s=run_s,
        limit_s=limit_s or None,
        requested=requested,
        node_count=len(allocated),
        options=options,
        allocated=allocated,
    )


def _project(text: str) -> str:
    return "" if text == "_pbs_project_default" else text


def _state(
    status: str, run_s: float | None, limit_s: float | None, job: _Job, start_s: float | None
) -> str:
    """Return the state in which a run ended."""
    if not status:
        return "CANCELLED" if job.deleted or start_s is None else "COMPLETED"
    if status == "0":
        return "COMPLETED"
    if not _STATUS.fullmatch(status):
        raise FieldError(f"Exit_status: expected a number, got {shown(status)}")
    code = int(status)
    if code == WALLTIME or (limit_s and run_s is not None and run_s >= limit_s - AT_LIMIT_S):
        return "TIMEOUT"
    if job.deleted:
        return "CANCELLED"
    if code in RERUNS:
        return "REQUEUED"
    return "CANCELLED" if code > SIGNAL and start_s is None else "FAILED"


@lru_cache(maxsize=4096)
def _seconds(text: str, name: str) -> float | None:
    """Return a duration `HH:MM:SS`, `MM:SS` or `SS`, s; None: the text is empty."""
    if not text:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise FieldError(f"{name}: expected a duration such as 01:30:00, got {shown(text)}")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600.0 + minutes * 60.0 + seconds


@lru_cache(maxsize=4096)
def _megabytes(text: str) -> float:
    """Return a size such as `16gb`, `4000mb`, `100kb` or `512` (bytes), MB."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise FieldError(f"Resource_List.mem: expected a size such as 16gb, got {shown(text)}")
    number, prefix, unit = match[1], (match[2] or "").lower(), (match[3] or "b").lower()
    kilobytes = float(number) * KB[prefix + "b"]
    return kilobytes / 1024.0 * (WORD_BYTES if unit == "w" else 1)


@lru_cache(maxsize=4096)
def _hosts(exec_host: str, exec_vnode: str) -> tuple[Allocation, ...] | None:
    """Return what a run had on its hosts: PBS Pro `n1/0*8+n2/0*8`, Torque `n1/0-7+n2/0`.

    None: a name cannot be that of a node.
    """
    if not exec_host:
        return ()
    chunks = _VNODES.findall(exec_vnode)
    items = exec_host.split("+")
    same = len(chunks) == len(items)
    found = []
    for place, item in enumerate(items):
        host, _, slots = item.partition("/")
        cores = _slots(slots)
        gpus = _sum_of("ngpus", chunks[place]) if same else 0
        if same and "ncpus=" in chunks[place]:
            cores = _sum_of("ncpus", chunks[place])
        found.append(Allocation(host, cores, gpus))
    return merged(found)


def _slots(text: str) -> int:
    """Return the cores of a host: `0*8` has 8, `0-3,6` has 5, `2` has 1."""
    _, star, count = text.partition("*")
    if star:
        return whole(count, "exec_host")
    cores = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if dash:
            cores += max(whole(last, "exec_host") - whole(first, "exec_host") + 1, 0)
        else:
            cores += 1
    return cores


def _sum_of(resource: str, chunk: str) -> int:
    """Return the amount of a resource in a chunk such as `n1:ncpus=4+n2:ncpus=4`."""
    total = 0
    for part in chunk.split("+"):
        for each in part.split(":")[1:]:
            name, _, value = each.partition("=")
            if name == resource:
                total += whole(value, "exec_vnode")
    return total


def _requests(
    pairs: Mapping[str, str], allocated: tuple[Allocation, ...]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the requested resources, and the layout as options of `sbatch`."""
    get = pairs.get
    select, nodes = get("Resource_List.select", ""), get("Resource_List.nodes", "")
    chunks, cores, per_chunk = _chunks(select or nodes, torque=not select)
    if text := get("Resource_List.ncpus", ""):
        stated = whole(text, "Resource_List.ncpus")
        cores = stated if select or not nodes else max(cores, stated)
    cores = cores or sum(each.cores for each in allocated)
    if not cores:
        raise FieldError("Resource_List.ncpus: expected a number of cores above 0, got none")
    requested: dict[str, float] = {"cpu": float(cores)}
    options: dict[str, str] = {}
    if per_chunk > 1 and per_chunk * chunks == cores:
        options["cpus-per-task"] = str(per_chunk)
    place = get("Resource_List.place", "").split(":")
    if "scatter" in place or "vscatter" in place:
        requested["node"] = float(chunks)
        options["nodes"] = str(chunks)
        if per_chunk > 1:
            options["ntasks-per-node"] = "1"
    elif "pack" in place:
        options["nodes"] = "1"
    if "excl" in place or "exclhost" in place:
        options["exclusive"] = ""
    if text := get("Resource_List.mem", ""):
        requested["mem"] = _megabytes(text)
    if (text := get("Resource_List.ngpus", "")) and (gpus := whole(text, "Resource_List.ngpus")):
        requested["gres/gpu"] = float(gpus)
        if "node" in requested:  # chunks on different hosts
            options["gres"] = "gpu"
    return requested, options


@lru_cache(maxsize=4096)
def _chunks(text: str, *, torque: bool) -> tuple[int, int, int]:
    """Return chunks, cores in all, and cores of each chunk (0: they differ).

    Args:
        text: `2:ncpus=8+1:ncpus=4` (select), or `2:ppn=8+n7` (nodes, of Torque).
    """
    name = "Resource_List.nodes" if torque else "Resource_List.select"
    key = "ppn" if torque else "ncpus"
    total = cores = 0
    sizes = set()
    for part in filter(None, text.split("+")):
        first, *rest = part.split(":")
        count, properties = (whole(first, name), rest) if first.isdecimal() else (1, [first, *rest])
        stated = (each.partition("=")[2] for each in properties if each.partition("=")[0] == key)
        size = whole(next(stated, "1"), name)
        total += count
        cores += count * size
        sizes.add(size)
    return total, cores, sizes.pop() if len(sizes) == 1 else 0


def _list_others(pairs: Mapping[str, str], place: Place, report: Report) -> None:
    """List the requests of a job that are not translated."""
    for what in _untranslated(tuple(pairs)):
        report.add("not modelled", what, place)


@lru_cache(maxsize=4096)
def _untranslated(keys: tuple[str, ...]) -> tuple[str, ...]:
    requests = (key for key in keys if key.startswith("Resource_List."))
    others = [key for key in requests if key.partition(".")[2] not in TRANSLATED]
    found = [f"requests of {key[:60]}" for key in others]
    if "resvID" in keys or "resvname" in keys:
        found.append("reservations of jobs")
    return tuple(found)


def _dependency(text: str, place: Place, report: Report) -> str:
    """Return a dependency as Slurm states it; empty: it is of another kind."""
    clauses = []
    for part in text.split(","):
        kind, *others = part.split(":")
        jobs = [match[1] for other in others if (match := _OTHER_JOB.fullmatch(other))]
        if kind not in DEPENDENCIES or not jobs or len(jobs) != len(others):
            what = kind if _KIND.fullmatch(kind) else "of another form"
            report.add("not modelled", f"dependencies: {what}", place)
            continue
        numbers = (job.replace("[]", "").replace("[", "_").rstrip("]") for job in jobs)
        clauses.append(":".join((kind, *numbers)))
    return ",".join(clauses)


def _report_open(log: _Log) -> None:
    """Count the jobs without an end."""
    for job in log.jobs.values():
        if job.ended:
            if job.starts > job.runs > 0:
                what = "jobs that started several times: the runs that the log states"
                log.report.add("guessed", what, job.place)
        elif job.deleted and not job.started:
            log.report.add("dropped", "jobs cancelled while pending", job.place)
        elif job.started:
            log.report.add("dropped", "jobs without an end in the files", job.place)
        elif job.queued:
            log.report.add("dropped", "jobs that still waited", job.place)
