"""The accounting file of Grid Engine: Sun, Oracle, Univa, Open Grid Scheduler, Son of Grid Engine.

A line is a record of 43 fields or more, separated by colons. A parallel job may have a record of
its own for each task on another host. docs/reference/accounting.md has the table of fields with
their sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
from hpcosim_workloads.logs.quantities import FieldError

ADVICE = (
    "a line of Grid Engine's file `accounting`, 43 fields or more separated by colons, which begin "
    "with queue, host, group, owner, job name and job number"
)
(QUEUE, HOST, GROUP, OWNER, NAME, NUMBER, ACCOUNT) = range(7)
(SUBMIT, START, END, FAILED, EXIT_STATUS) = range(8, 13)
PROJECT, PARALLEL, SLOTS, TASK, CATEGORY = 31, 33, 34, 35, 39
FEWEST_FIELDS = 43
NOTHING = frozenset(("", "NONE", "none", "UNKNOWN", "defaultdepartment", "sge", "0"))
MILLISECONDS_FROM = 10**11  # Univa Grid Engine 8.2 and later has times in ms

BEFORE_JOB = frozenset((*range(1, 12), 21, *range(26, 37), 38))
"""Values of `failed` of a run that did not reach the job: the job is started again."""
AGAIN = frozenset((24, 25))  # migrated, or rescheduled
LIMIT = 37  # the master enforced the limit of the run time
LOST = frozenset((19, 22))  # no exit status, or the execution daemon lost the job
BY_SIGNAL = 100
SIGNALLED = 128  # exit_status of a job that a signal ended: this and the signal
KILL, TERM, XCPU, USR1, USR2 = 9, 15, 24, 10, 12
AT_LIMIT_S = 1.0

_OPTION = re.compile(r"(?:^| )-(l|pe|q|hard|soft|ar) ([^ ]*)")
_LIMITS = re.compile(r"(?:^|[ ,])([hs])_rt=(\d{1,9}(?::\d\d:\d\d)?)(?![\d.])")


def read_grid_engine(lines: Lines, report: Report, limits: dict[int, int]) -> Iterator[Record]:
    """Yield the runs of jobs that ended.

    Hosts of tasks of a parallel job are those of the job. The records are yielded at the end, as
    the tasks of a job may follow it.

    Args:
        limits: not used: the accounting does not state limits of arrays.
    """
    records: list[Record] = []
    hosts: dict[tuple[int, int], dict[str, None]] = {}
    for place, line in lines:
        if len(line) < 2 or line.isspace() or line.startswith("#"):
            continue
        fields = line.split(":")
        if len(fields) < FEWEST_FIELDS:
            full = len(fields) > NUMBER and fields[NUMBER].isdecimal()
            what = "truncated records" if full else f"lines that are not {ADVICE}"
            report.add("dropped", what, place)
            continue
        try:
            after = _category_end(fields)
            if len(fields) > after + 1 and fields[after + 1] not in NOTHING:
                report.add("dropped", "records of tasks of parallel jobs", place)
                hosts.setdefault(_key(fields), {})[fields[HOST]] = None
                continue
            records.append(_record(fields, after, place, report))
        except FieldError as error:
            drop_invalid(error, place, report)
    for record in records:
        key = (record.raw_id, record.named.task or 0)
        if key in hosts and record.allocated:
            _add_hosts(record, hosts[key], report)
        yield record


def _category_end(fields: Sequence[str]) -> int:
    """Return the place of the field after the category, in which times may have colons."""
    at = CATEGORY + 1
    while at < len(fields) - 1 and not _is_real(fields[at]):
        at += 1
    return at if at < len(fields) - 1 else CATEGORY + 1


def _key(fields: Sequence[str]) -> tuple[int, int]:
    return whole(fields[NUMBER], "job_number", 10**15), whole(fields[TASK], "task_number")


def _is_real(text: str) -> bool:
    return ("." in text and text.replace(".", "", 1).isdecimal()) or text == "0"


def _add_hosts(record: Record, hosts: Mapping[str, None], report: Report) -> None:
    names = dict.fromkeys((record.allocated[0].host, *hosts))
    cores = 0 if len(names) > 1 else record.allocated[0].cores
    found = merged(Allocation(name, cores) for name in names)
    record.allocated = hosts_or_none(found, record.line, report)
    record.nodes = ",".join(each.host for each in record.allocated)
    record.node_count = len(record.allocated)


def _time(text: str, name: str) -> float | None:
    if 11 < len(text) < 19 and text.isdecimal() and int(text) > MILLISECONDS_FROM:
        return unix_s(str(int(text) / 1000), name)
    return unix_s(text, name)


def _text(text: str) -> str:
    return "" if text in NOTHING else text


def _record(fields: Sequence[str], after: int, place: Place, report: Report) -> Record:
    submit_s = _time(fields[SUBMIT], "submission_time")
    start_s, end_s = _time(fields[START], "start_time"), _time(fields[END], "end_time")
    if submit_s is None:
        raise FieldError("submission_time: expected a Unix time, got none")
    if start_s is not None and (end_s is None or end_s < start_s):
        raise FieldError("end_time: expected a time from start_time on")
    number, task = _key(fields)
    slots = whole(fields[SLOTS], "slots")
    if not slots:
        raise FieldError("slots: expected a number above 0, got 0")
    limit_s, others = _requests(":".join(fields[CATEGORY:after]))
    for name in others:
        report.add("not modelled", f"requests of {name}", place)
    parallel = fields[PARALLEL] not in NOTHING
    if parallel and slots > 1:
        what = "jobs in a parallel environment: cores on any nodes, its rule is not stated"
        report.add("guessed", what, place)
    run_s = None if start_s is None or end_s is None else end_s - start_s
    known = not parallel or slots == 1
    host = () if fields[HOST] in NOTHING else (Allocation(fields[HOST], slots if known else 0),)
    allocated = hosts_or_none(merged(host), place, report)
    return Record(
        line=place,
        raw_id=number,
        named=JobId(number, task or None),
        name=fields[NAME],
        user=fields[OWNER],
        group=fields[GROUP],
        account=_text(fields[PROJECT]) or _text(fields[ACCOUNT]),
        partition=_text(fields[QUEUE]),
        nodes=",".join(each.host for each in allocated) if start_s is not None else "",
        state=_state(fields, run_s, limit_s),
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        run_s=run_s,
        limit_s=limit_s,
        requested={"cpu": float(slots)},
        node_count=0 if parallel else len(allocated),
        allocated=allocated,
    )


def _state(fields: Sequence[str], run_s: float | None, limit_s: float | None) -> str:
    """Return the state in which a run ended."""
    failed = whole(fields[FAILED].partition(" ")[0], "failed")
    status = whole(fields[EXIT_STATUS], "exit_status", 2**32)
    if not failed and not status:
        return "COMPLETED"
    if failed == LIMIT or (limit_s and run_s is not None and run_s >= limit_s - AT_LIMIT_S):
        return "TIMEOUT"
    if run_s is None:
        return "CANCELLED" if failed == BY_SIGNAL else "BOOT_FAIL"
    if failed in BEFORE_JOB:
        return "BOOT_FAIL"
    if failed in AGAIN:
        return "REQUEUED"
    if failed in LOST:
        return "NODE_FAIL"
    if failed == BY_SIGNAL and status - SIGNALLED in (KILL, TERM, XCPU, USR1, USR2):
        return "CANCELLED"
    return "FAILED"


@lru_cache(maxsize=4096)
def _requests(text: str) -> tuple[float | None, tuple[str, ...]]:
    """Return the requested run time, s, and the names of requests that are not translated.

    Args:
        text: the category, such as `-l h_rt=3600,h_vmem=4G -pe mpi 16`.
    """
    found = dict(_LIMITS.findall(text))
    limit = found.get("h") or found.get("s")
    limit_s = None
    if limit:
        hours, minutes, seconds = (["0", "0", *limit.split(":")])[-3:]
        limit_s = int(hours) * 3600.0 + int(minutes) * 60.0 + int(seconds)
    others: dict[str, None] = {}
    for option, value in _OPTION.findall(text):
        if option == "l":
            names = (each.partition("=")[0] for each in value.split(","))
            others |= dict.fromkeys(name[:40] for name in names if name not in ("h_rt", "s_rt", ""))
        elif option in ("soft", "ar"):
            others[f"-{option}"] = None
    return limit_s or None, tuple(others)
