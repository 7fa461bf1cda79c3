"""The records of Slurm's accounting, their `sbatch` options, and those that are imported.

A text of another form is a `FieldError`, whose message begins with the column.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.tables import Row, read_table, require
from hpcosim_slurm.texts import consistent, moments_of
from hpcosim_workloads.accounting.record import (
    ARRAY_LIMIT,
    NO_OPTIONS,
    JobId,
    Record,
    never_started,
)
from hpcosim_workloads.logs.quantities import (
    FieldError,
    count_of,
    duration_s,
    is_unknown,
    memory_of,
    shown,
    tres_of,
)

NEEDED = (
    "JobID/JobIDRaw",
    "Submit",
    "Start",
    "End/ElapsedRaw/Elapsed",
    "State",
    "ReqTRES/ReqCPUS/AllocTRES/AllocCPUS/NCPUS",
)
"""Columns without which jobs cannot be imported; one of the names between slashes is enough."""

COLUMNS = (
    *("JobID", "JobIDRaw", "JobName", "User", "Group", "Account", "Partition", "QOS", "Submit"),
    *("Eligible", "Start", "End", "ElapsedRaw", "Suspended", "State", "ExitCode", "TimelimitRaw"),
    *("ReqTRES", "AllocTRES", "ReqMem", "NNodes", "NodeList", "Constraints", "Reservation"),
    "SubmitLine",
)
"""All columns that are of use."""

ADVICE = f"make the file with `sacct -a -X -P -D --format={','.join(COLUMNS)}`"

STATES = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "REQUEUED", "REQUEUE_FED"),
        *("REQUEUE_HOLD", "RESIZING", "REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT"),
        *("STAGE_OUT", "STOPPED", "SUSPENDED", "TIMEOUT"),
    }
)

Value = TypeVar("Value")

_ID = re.compile(
    r"(?P<id>\d{1,18})(?:_(?P<index>\d{1,10})|_\[(?P<tasks>[^\]]{0,2000})\]|\+(?P<part>\d{1,5}))?"
    r"(?:\.(?P<step>.{1,100}))?"
)

SHORT: Mapping[str, str] = {
    "A": "account",
    "C": "constraint",
    "L": "licenses",
    "N": "nodes",
    "a": "array",
    "c": "cpus-per-task",
    "d": "dependency",
    "n": "ntasks",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Long names of the options that have a short one and are of use here."""

OTHER_SHORT = frozenset("BDEGJMSbeikmop")
"""Short options with a value that are of no use here."""

FLAGS = frozenset(("exclusive", "requeue", "no-requeue"))
USED = frozenset(
    (
        *SHORT.values(),
        *FLAGS,
        *("gpus-per-node", "gpus-per-task", "gpus", "gres", "mem", "mem-per-cpu", "mem-per-gpu"),
        *("ntasks-per-node", "nice", "switches"),
    )
)
VALUED = (USED - FLAGS) | {
    *("account", "batch", "bb", "bbf", "begin", "chdir", "clusters", "comment", "container"),
    *("core-spec", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot", "distribution", "error"),
    *("export", "export-file", "extra", "gid", "gpu-bind", "gpu-freq", "gres-flags", "hint"),
    *("input", "job-name", "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label"),
    *("mem-bind", "mincpus", "network", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"),
    *("open-mode", "output", "partition", "power", "priority", "profile", "qos", "reservation"),
    *("signal", "sockets-per-node", "threads-per-core", "time-min", "tmp", "uid", "wckey", "wrap"),
}
"""Long options with a value; those that are not of use here are read over."""
LONGEST = 20_000  # characters; a longer command line is cut

FREE_TEXT = ("JobName", "Constraints", "SubmitLine", "Comment", "WorkDir")
MOST_TASKS = 4_000_000
_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def job_id_of(text: str) -> JobId:
    """Return the parts of an identifier such as `1001_3.batch`, `1001_[4-7%2]` or `1002+1`."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise FieldError(
            f"JobID: expected a number such as 1001, 1001_3 or 1002+1, got {shown(text)}"
        )
    return JobId(
        int(match["id"]),
        None if match["index"] is None else int(match["index"]),
        match["tasks"] or "",
        None if match["part"] is None else int(match["part"]),
        match["step"] or "",
    )


def identifier(row: Row) -> JobId:
    """Return the identifier of a record."""
    return job_id_of(row.values.get("JobID") or row.values.get("JobIDRaw", ""))


def record_of(row: Row, named: JobId, zone: ZoneInfo) -> Record:
    """Return the record of a job.

    Args:
        row: the row; its identifier is not that of a step.
    """
    values = row.values
    raw = values.get("JobIDRaw", "")
    raw_id = job_id_of(raw).job_id if raw else named.job_id
    run_s, suspended_s = _run_time(values), _seconds(values, "Suspended") or 0.0
    names = ("Submit", "Eligible", "Start", "End")
    candidates = [_field(values, name, lambda text: moments_of(text, zone)) or () for name in names]
    wall_s = None if run_s is None else run_s + suspended_s
    (submit_s, eligible_s, start_s, end_s), ambiguous = consistent(candidates, wall_s)
    if submit_s is None:
        raise FieldError("Submit: expected a time, got Unknown")
    if run_s is None and start_s is not None and end_s is not None:
        run_s = max(end_s - start_s - suspended_s, 0.0)
    limit_s, unlimited = _limit(values)
    requested, per_node_mb = _requested(values)

    def text(name: str) -> str:
        value = values.get(name, "")
        return "" if is_unknown(value) else value

    return Record(
        line=row.line,
        raw_id=raw_id,
        named=named,
        name=text("JobName"),
        user=text("User"),
        group=text("Group"),
        account=text("Account"),
        partition=text("Partition"),
        qos=text("QOS"),
        reservation=text("Reservation"),
        constraints=text("Constraints"),
        nodes=text("NodeList"),
        state=_state(values["State"]),
        submit_s=submit_s,
        eligible_s=eligible_s,
        start_s=start_s,
        end_s=end_s,
        ambiguous=ambiguous,
        run_s=run_s,
        limit_s=limit_s,
        unlimited=unlimited,
        requested=requested,
        allocated_mb=(_field(values, "AllocTRES", tres_of) or {}).get("mem", 0.0),
        memory_per_node_mb=per_node_mb,
        node_count=_count(values, ("NNodes", "AllocNodes")),
        options=options_of(line) if (line := values.get("SubmitLine", "")) else NO_OPTIONS,
    )


def _state(text: str) -> str:
    word = text.split(" ")[0].rstrip("+").upper()  # CANCELLED by 1000; sacct cuts with a `+`
    if word in STATES:
        return word
    full = [state for state in STATES if len(word) >= 2 and state.startswith(word)]
    if len(full) != 1:
        raise FieldError(f"State: expected a job state such as COMPLETED, got {shown(text)}")
    return full[0]


def _run_time(values: dict[str, str]) -> float | None:
    raw = values.get("ElapsedRaw", "")
    if raw and not is_unknown(raw):
        try:
            return float(count_of(raw))
        except FieldError as error:
            raise FieldError(f"ElapsedRaw: {error}") from None
    return _seconds(values, "Elapsed")


def _seconds(values: dict[str, str], name: str) -> float | None:
    return _field(values, name, duration_s)


def _limit(values: dict[str, str]) -> tuple[float | None, bool]:
    """Return the requested run time, s, and whether it is unlimited."""
    for name in ("TimelimitRaw", "Timelimit"):
        if name in values and not is_unknown(values[name]):
            limit_s = _seconds(values, name)  # TimelimitRaw is in minutes, as a bare number is
            return limit_s or None, limit_s is None
    return None, False


def _requested(values: dict[str, str]) -> tuple[dict[str, float], float]:
    """Return the requested resources, and the memory on each node, MB."""
    found: dict[str, float] = dict(_field(values, "ReqTRES", tres_of) or {})
    for name, columns in (("cpu", ("ReqCPUS",)), ("node", ("ReqNodes",))):
        if name not in found and (count := _count(values, columns)):
            found[name] = float(count)
    allocated = dict(_field(values, "AllocTRES", tres_of) or {})
    if not found.get("cpu"):
        cores = allocated.get("cpu") or float(_count(values, ("AllocCPUS", "NCPUS")))
        if not cores:
            raise FieldError("ReqTRES: expected a number of cores, cpu=..., above 0, got none")
        found["cpu"] = cores
    memory = _field(values, "ReqMem", memory_of)
    if memory is None or memory.per == "job":
        if memory is not None:
            found.setdefault("mem", memory.mb)
        return found, 0.0
    if memory.per == "core":
        found["mem"] = memory.mb * found["cpu"]
        return found, 0.0
    found.pop("mem", None)
    return found, memory.mb


def _field(values: dict[str, str], name: str, parse: Callable[[str], Value]) -> Value | None:
    """Return the parsed value of a column; None: it is missing or states nothing."""
    text = values.get(name, "")
    if is_unknown(text):
        return None
    try:
        return parse(text)
    except FieldError as error:
        raise FieldError(f"{name}: {error}") from None


def _count(values: dict[str, str], names: tuple[str, ...]) -> int:
    """Return the count in the first of the columns that states one; 0: none does."""
    return next((count for name in names if (count := _field(values, name, count_of))), 0)


def options_of(line: str) -> dict[str, str]:
    """Return the options of a command line by long name; flags have an empty value.

    Reading stops at the script. A line that is no command line has no options.

    Example:
        >>> options_of("sbatch -d afterok:7 --array=0-9%3 job.sh --array=1")
        {'dependency': 'afterok:7', 'array': '0-9%3'}
    """
    try:
        words = shlex.split(line[:LONGEST])
    except ValueError:
        return {}
    if not words or words[0].rpartition("/")[2] not in ("sbatch", "salloc", "srun"):
        return {}
    found: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name in VALUED and not equals:
                value = next(rest, "")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], ""), word[2:].removeprefix("=")
            if not value and (name or word[1] in OTHER_SHORT):
                value = next(rest, "")
        else:
            break
        if name in USED:
            found[name] = value
    return found


def records_of(
    path: Path, zone: ZoneInfo, limits: dict[int, int], report: ImportReport
) -> Iterator[Record]:
    """Yield the records of jobs, also of those that never started.

    Args:
        limits: gets the limit of running tasks of each array that states one.

    Raises:
        InputError: the file cannot be read or lacks columns.
    """
    checked = False

    def fits(values: dict[str, str]) -> bool:
        try:
            record_of(Row(0, values), identifier(Row(0, values)), zone)
        except (FieldError, KeyError):
            return False
        return True

    for row in read_table(path, report, free_text=FREE_TEXT, fits=fits, advice=ADVICE):
        if not checked:
            require(list(row.values), NEEDED, path, ADVICE)
            checked = True
        try:
            named = identifier(row)
            if named.step:
                report.add("dropped", "steps of jobs", row.line)
                continue
            record = record_of(row, named, zone)
        except FieldError as error:
            column = str(error).partition(":")[0]
            report.add("dropped", f"records with an invalid field ({column})", row.line)
            continue
        if (match := ARRAY_LIMIT.fullmatch(named.tasks)) is not None:
            limits.setdefault(named.job_id, int(match[1]))
        if record.ambiguous:
            report.add("guessed", "local times of the hour that is repeated", row.line)
        yield record


def started_records(
    path: Path, zone: ZoneInfo, limits: dict[int, int], report: ImportReport
) -> Iterator[Record]:
    """Yield the records of jobs that started; the others are dropped and counted.

    Args and errors: as of `records_of`.
    """
    for record in records_of(path, zone, limits, report):
        if reason := never_started(record):
            report.add("dropped", reason, record.line, _task_count(record.named))
        else:
            if record.named.part is not None:
                what = "components of heterogeneous jobs: a job each"
                report.add("guessed", what, record.line)
            yield record


def _task_count(named: JobId) -> int:
    """Return the number of jobs of a record: that of its tasks, or 1."""
    count = 0
    for span in named.tasks.partition("%")[0].split(","):
        match = _SPAN.fullmatch(span)
        if match is not None:
            first, last = int(match[1]), int(match[2] or match[1])
            count += max((last - first) // max(int(match[3] or 1), 1) + 1, 0)
    return min(max(count, 1), MOST_TASKS)
