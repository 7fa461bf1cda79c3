"""LSF's accounting, `lsb.acct`.

A line is a record: blanks separate fields, texts are in double quotes, and `""` within a text is a
quote. Two lists of hosts make the number of fields vary. docs/reference/accounting.md has the table
of fields with their sources.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from hpcosim_workloads.accounting.record import (
    MOST_HOSTS,
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
from hpcosim_workloads.logs.quantities import MOST_S, FieldError

ADVICE = 'a record of lsb.acct, such as `"JOB_FINISH" "10.1" 1772445600 101 1000 ...`'
OTHERS = frozenset(
    (
        *("EVENT_ADRSV_FINISH", "JOB_RESIZE", "JOB_FINISH2", "JOB_ARRAY_ELEMENT", "JOB_NEW"),
        *("JOB_START", "JOB_STATUS", "JOB_EXECUTE", "JOB_SIGNAL", "JOB_MODIFY2"),
    )
)

# Fields before the lists of hosts.
EVENT_S, JOB, CORES, SUBMIT, BEGIN, START = 2, 3, 6, 7, 8, 10
USER, QUEUE, RESOURCES, DEPENDENCY, ASKED = 11, 12, 13, 14, 22
# Fields after the lists of hosts, from `jStatus` on.
STATUS, JOB_NAME = 0, 2
PROJECT, INDEX, RESERVATION, EXIT_INFO, EXTENSION = 24, 29, 34, 38, 53
FEWEST_FIELDS = EXIT_INFO + 1
# Fields after the lists of used resources, from the run limit on.
RUN_LIMIT, EFFECTIVE, RUN_TIME = 0, 3, 13
NUMBERS, TEXTS = (1, 2, 5, 7, 8, 10, 11), (3, 4, 6)

EXIT, DONE = 32, 64  # bits of jStatus
STATES = {
    1: "PREEMPTED",
    5: "TIMEOUT",
    6: "DEADLINE",
    **dict.fromkeys((10, 11), "REQUEUED"),
    16: "OUT_OF_MEMORY",
    **dict.fromkeys((19, 22, 34), "NODE_FAIL"),
    **dict.fromkeys((2, 3, 8, 9, 14, 15, 23, 26, 27, 30), "CANCELLED"),
}
"""States by exitInfo of jobs that exited; others failed."""

_LIMIT = re.compile(r".*\](?:%(\d{1,9}))?")
_SPAN = re.compile(r"span\[([^\]]{0,200})\]")
_RUSAGE = re.compile(r"rusage\[([^\]]{0,2000})\]")
_GPUS = re.compile(r"ngpus_physical=(\d{1,6})(?:\.0*)?(?![\d.])")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(?==)")
_CLAUSE = re.compile(r"(?:(done|ended|exit|started)\()?(\d{1,18}(?:\[\d{1,10}\])?)\)?")
CONDITIONS = {
    "": "afterok",
    "done": "afterok",
    "ended": "afterany",
    "exit": "afternotok",
    "started": "after",
}


def read_lsf(lines: Lines, report: Report, limits: dict[int, int]) -> Iterator[Record]:
    """Yield the finished jobs, and runs of requeued ones.

    Args:
        limits: gets the limit of running tasks of each array that states one.
    """
    for place, line in lines:
        if not line or line.isspace() or line.startswith("#"):
            continue
        fields = _fields(line)
        kind = fields[0] if fields else ""
        if kind != "JOB_FINISH":
            known = kind in OTHERS
            what = "records of other events" if known else f"lines that are not {ADVICE}"
            report.add("dropped", what, place)
            continue
        try:
            record = _record(fields, place, report, limits)
        except FieldError as error:
            drop_invalid(error, place, report)
        except IndexError:
            report.add("dropped", "truncated records", place)
        else:
            yield record


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader((line,), delimiter=" ", skipinitialspace=True), [])
    except csv.Error:
        return []


def _record(fields: Sequence[str], place: Place, report: Report, limits: dict[int, int]) -> Record:
    asked = whole(fields[ASKED], "numAskedHosts", MOST_HOSTS)
    at = ASKED + 1 + asked
    count = whole(fields[at], "numExHosts", MOST_HOSTS)
    rest = fields[at + 1 + count :]
    if len(rest) < FEWEST_FIELDS:
        raise IndexError
    hosts = hosts_or_none(_hosts(tuple(fields[at + 1 : at + 1 + count])), place, report)
    end_s, submit_s = unix_s(fields[EVENT_S], "eventTime"), unix_s(fields[SUBMIT], "submitTime")
    if submit_s is None or end_s is None:
        raise FieldError("submitTime: expected a Unix time, got none")
    start_s = unix_s(fields[START], "startTime")
    if start_s is not None and end_s < start_s:
        raise FieldError(f"eventTime: expected a time from the start, {start_s:g}, on")
    job_id, index = whole(fields[JOB], "jobId", 10**15), whole(rest[INDEX], "idx")
    name = rest[JOB_NAME]
    if index:
        name, bracket, listed = name.partition("[")
        if bracket and (found := _LIMIT.fullmatch(listed)) is not None and found[1]:
            limits[job_id] = int(found[1])
    limit_s, ran_s, effective = _limits(rest)
    run_s = None if start_s is None else end_s - start_s
    if run_s is not None and ran_s is not None and ran_s < run_s:
        report.add("guessed", "run times of suspended jobs: without the suspension", place)
        run_s = ran_s
    requested, options = _requests(fields, effective, hosts, place, report)
    if fields[DEPENDENCY] and (text := _dependency(fields[DEPENDENCY], place, report)):
        options["dependency"] = text
    if rest[RESERVATION]:
        report.add("not modelled", "reservations of jobs", place)
    return Record(
        line=place,
        raw_id=job_id,
        named=JobId(job_id, index or None),
        name=name,
        user=fields[USER],
        account=rest[PROJECT] if rest[PROJECT] != "default" else "",
        partition=fields[QUEUE],
        nodes=",".join(each.host for each in hosts),
        state=_state(rest),
        submit_s=submit_s,
        eligible_s=unix_s(fields[BEGIN], "beginTime"),
        start_s=start_s,
        end_s=end_s,
        run_s=run_s,
        limit_s=limit_s,
        requested=requested,
        node_count=len(hosts),
        options=options,
        allocated=hosts,
    )


def _state(rest: Sequence[str]) -> str:
    status = whole(rest[STATUS], "jStatus")
    if status & DONE:
        return "COMPLETED"
    if not status & EXIT:
        raise FieldError(f"jStatus: expected {EXIT} (EXIT) or {DONE} (DONE), got {status}")
    return STATES.get(whole(rest[EXIT_INFO], "exitInfo"), "FAILED")


@lru_cache(maxsize=4096)
def _hosts(texts: tuple[str, ...]) -> tuple[Allocation, ...] | None:
    """Return the slots on each host: each host once for each slot, or `16*n1`."""
    found = []
    for text in texts:
        count, star, host = text.partition("*")
        if star:
            found.append(Allocation(host, whole(count, "execHosts")))
        else:
            found.append(Allocation(text, 1))
    return merged(found)


def _limits(rest: Sequence[str]) -> tuple[float | None, float | None, str]:
    """Return the requested run time, the time in state RUN, s, and the effective resources.

    They follow a list of key-value pairs and a list of used resources of hosts, whose number of
    fields depends on the version. None and empty: the record has them not where they are expected.
    """
    try:
        at = EXTENSION + 1 + 2 * whole(rest[EXTENSION], "submitExt")
        hosts = whole(rest[at], "numHostRusage", MOST_HOSTS)
    except (IndexError, FieldError):
        return None, None, ""
    for width in (6, 5) if hosts else (0,):
        tail = rest[at + 1 + width * hosts :]
        try:
            limit_s, ran_s = float(tail[RUN_LIMIT]), float(tail[RUN_TIME])
            for place in NUMBERS:
                int(tail[place])
        except (IndexError, ValueError):
            continue
        if not any(tail[place].isdecimal() for place in TEXTS):
            return (
                limit_s if 0 < limit_s <= MOST_S else None,
                ran_s if ran_s > 0 else None,
                tail[EFFECTIVE],
            )
    return None, None, ""


def _requests(
    fields: Sequence[str],
    effective: str,
    hosts: tuple[Allocation, ...],
    place: Place,
    report: Report,
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the requested resources, and the layout as options of `sbatch`."""
    cores = whole(fields[CORES], "numProcessors") or sum(each.cores for each in hosts)
    if not cores:
        raise FieldError("numProcessors: expected a number of cores above 0, got 0")
    requested = {"cpu": float(cores)}
    options: dict[str, str] = {}
    text = effective or fields[RESOURCES]
    if not text:
        return requested, options
    span, gpus, others = _parsed(text)
    if span == "hosts=1":
        options["nodes"] = "1"
    elif span.startswith("ptile=") and span[6:].isdecimal():
        options["ntasks-per-node"] = span[6:]
    elif span:
        report.add("not modelled", f"requests of span[{span.partition('=')[0][:20]}]", place)
    for name in others:
        report.add("not modelled", f"requests of rusage[{name}]", place)
    if gpus:  # on each host
        requested["gres/gpu"] = float(gpus * max(len(hosts), 1))
        options["gres"] = "gpu"
    if "select[" in fields[RESOURCES]:
        report.add("not modelled", "requests of select[...]", place)
    return requested, options


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, int, tuple[str, ...]]:
    """Return span, GPUs of each host and names of the other resources of a requirement."""
    span = _SPAN.search(text)
    usage = _RUSAGE.search(text)
    if usage is None:
        return (span[1].strip() if span else ""), 0, ()
    gpus = _GPUS.search(usage[1])
    names = dict.fromkeys(_NAME.findall(usage[1]))
    others = tuple(name for name in names if name != "ngpus_physical" or gpus is None)
    return (span[1].strip() if span else ""), int(gpus[1]) if gpus else 0, others


def _dependency(text: str, place: Place, report: Report) -> str:
    """Return a condition such as `done(101) && ended(102)` as Slurm states it; empty: it is other.

    A job may be named by its name, of which several jobs may have the same.
    """
    separator = "||" if "||" in text else "&&"
    clauses = []
    for part in text.split(separator):
        match = _CLAUSE.fullmatch(part.strip().strip('"'))
        if match is None:
            report.add("not modelled", "dependencies on names, or of another form", place)
            return ""
        number = match[2].replace("[", "_").rstrip("]")
        clauses.append(f"{CONDITIONS[match[1] or '']}:{number}")
    return ("?" if separator == "||" else ",").join(clauses)
