"""A dump of OAR's database as SQL text: of `pg_dump` or `mysqldump`.

Read are tables in the form `COPY table (columns) FROM stdin;` with tabs between the values, and
`INSERT INTO table ... VALUES (...), (...);`. docs/reference/accounting.md has the table of fields
with their sources.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    "a dump of OAR's database with the tables jobs, moldable_job_descriptions, assigned_resources "
    "and resources, as `pg_dump oar` or `mysqldump oar` writes it"
)
TABLES: Mapping[str, tuple[str, ...]] = {
    "jobs": (
        *("job_id", "array_id", "array_index", "job_name", "state", "job_user", "project"),
        *("exit_code", "queue_name", "reservation", "submission_time", "start_time", "stop_time"),
        *("assigned_moldable_job", "properties"),
    ),
    "moldable_job_descriptions": ("moldable_id", "moldable_job_id", "moldable_walltime"),
    "assigned_resources": ("moldable_job_id", "resource_id"),
    "resources": ("resource_id", "type", "network_address"),
    "job_types": ("job_id", "type"),
    "event_logs": ("job_id", "type"),
    "job_dependencies": ("job_id", "job_id_required"),
    "job_state_logs": ("job_id", "job_state", "date_start", "date_stop"),
    "job_resource_groups": ("res_group_id", "res_group_moldable_id"),
    "job_resource_descriptions": (
        *("res_job_group_id", "res_job_resource_type", "res_job_value", "res_job_order"),
    ),
}
"""Columns that are read, by table."""
NEEDED = ("jobs", "moldable_job_descriptions", "assigned_resources")

ENDED = frozenset(("Terminated", "Error"))
STARTED = frozenset(("Running", "Suspended", "Resuming", "Finishing"))
KILLS = {
    "WALLTIME": "TIMEOUT",
    "BESTEFFORT_KILL": "PREEMPTED",
    "FRAG_JOB_REQUEST": "CANCELLED",
}
"""States by event, the first of these that a job has."""
NOT_TRANSLATED = frozenset(("besteffort", "timesharing", "deploy", "cosystem", "noop", "inner"))
HOST_TYPES = frozenset(("host", "network_address", "nodes"))
MOST_JOINED_LINES = 200  # of a row whose texts have line ends
MOST_JOINED = 2**20  # characters of it
MOST_COLUMNS = 500
MOST_ID = 2**62

_COPY = re.compile(r'COPY (?:"?\w+"?\.)?"?(\w+)"? \(([^()]*)\) FROM stdin;', re.IGNORECASE)
_CREATE = re.compile(
    r'CREATE TABLE (?:IF NOT EXISTS )?(?:["`]?\w+["`]?\.)?["`]?(\w+)["`]? \(', re.IGNORECASE
)
_INSERT = re.compile(
    r'INSERT (?:IGNORE )?INTO (?:["`]?\w+["`]?\.)?["`]?(\w+)["`]?\s*+(?:\(([^()]*)\)\s*+)?VALUES\b',
    re.IGNORECASE,
)
_COLUMN = re.compile(r'\s*["`]?(\w+)["`]?\s')
_NO_COLUMN = frozenset(("PRIMARY", "KEY", "UNIQUE", "INDEX", "CONSTRAINT", "CHECK", "FOREIGN"))
_STATEMENT = re.compile(r"INSERT |COPY |CREATE |--|/\*!|SET |ALTER |SELECT ", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}
# Possessive, so that a damaged row takes no longer than its length.
_MYSQL = r"(?:'(?:[^'\\]|\\.|'')*+'|[^',()]*+)"
_POSTGRES = r"(?:'(?:[^']|'')*+'|[^',()]*+)"

Values = Sequence[str | None]
"""The values of a row, in the order of `TABLES`."""
Row = Mapping[str, str | None]


class _Source:
    """Lines of a dump, of which the last one can be put back."""

    def __init__(self, lines: Lines) -> None:
        self._lines = iter(lines)
        self._back: list[tuple[Place, str]] = []

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> tuple[Place, str]:
        return self._back.pop() if self._back else next(self._lines)

    def put_back(self, line: tuple[Place, str]) -> None:
        """Let a line be the next one again."""
        self._back.append(line)


@dataclass(slots=True)
class _Dump:
    """The tables of a dump, as far as they are of use."""

    jobs: list[tuple[Place, Values]] = field(default_factory=list)
    walltime_s: dict[int, int] = field(default_factory=dict)
    moldable_of: dict[int, int] = field(default_factory=dict)  # the first of each job
    resources_of: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    hosts: dict[int, tuple[str, str]] = field(default_factory=dict)  # type and address
    types_of: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    events_of: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    required_by: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    suspended_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    groups_of: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    requests: defaultdict[int, list[tuple[int, str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    seen: set[str] = field(default_factory=set)


def read_oar(lines: Lines, report: Report, limits: dict[int, int]) -> Iterator[Record]:
    """Yield the jobs that ended.

    Args:
        limits: not used: OAR has no limits of arrays.

    Raises:
        FieldError: the dump lacks tables or columns.
    """
    dump = _Dump()
    for table, place, values in _rows(lines, report, dump):
        try:
            _keep(dump, table, place, values)
        except FieldError as error:
            name = str(error).partition(":")[0]
            report.add("dropped", f"rows of {table} with an invalid field ({name})", place)
    missing = [name for name in NEEDED if name not in dump.seen]
    if missing:
        raise FieldError(f"the tables {', '.join(missing)} are missing; expected {ADVICE}")
    if not dump.hosts:
        report.add("guessed", "the table resources is missing: nodes are unknown")
    sizes: defaultdict[int, int] = defaultdict(int)
    for _, values in dump.jobs:
        if (array := _row("jobs", values)["array_id"]) and len(array) < 18 and array.isdecimal():
            sizes[int(array)] += 1
    for place, values in dump.jobs:
        try:
            record = _record(values, place, dump, sizes, report)
        except FieldError as error:
            drop_invalid(error, place, report)
            continue
        if record is not None:
            yield record


def _rows(lines: Lines, report: Report, dump: _Dump) -> Iterator[tuple[str, Place, Values]]:
    """Yield the rows of the tables that are of use, with the columns of `TABLES`."""
    columns: dict[str, list[str]] = {}
    source = _Source(lines)
    for place, line in source:
        if (copy := _COPY.match(line)) is not None:
            table = copy[1].lower()
            if table in TABLES:
                names = [name.strip().strip('"').lower() for name in copy[2].split(",")]
                yield from _copied(source, table, _picked(table, names), len(names), report, dump)
            else:
                for _, text in source:
                    if text == "\\.":
                        break
        elif (create := _CREATE.match(line)) is not None:
            columns[create[1].lower()] = _created(source)
        elif (insert := _INSERT.match(line)) is not None and insert[1].lower() in TABLES:
            table = insert[1].lower()
            listed = insert[2]
            names = columns.get(table, [])
            if listed is not None:
                names = [name.strip().strip('"`').lower() for name in listed.split(",")]
            if not names:
                what = f"the columns of {table} are not stated before its rows"
                raise FieldError(f"{what}; expected {ADVICE}")
            dump.seen.add(table)
            rest, mysql = line[insert.end() :], "`" in insert[0]
            yield from _inserted(source, table, place, rest, tuple(names), report, mysql=mysql)


def _picked(table: str, names: Sequence[str]) -> list[int]:
    """Return the places of the columns of `TABLES` in the columns of a table."""
    if len(names) > MOST_COLUMNS:
        what = f"expected at most {MOST_COLUMNS} columns in the table {table}, got {len(names)}"
        raise FieldError(f"{what}; expected {ADVICE}")
    missing = [name for name in TABLES[table] if name not in names]
    if missing:
        raise FieldError(f"the table {table} has no column {missing[0]}; expected {ADVICE}")
    return [names.index(name) for name in TABLES[table]]


def _created(source: _Source) -> list[str]:
    names = []
    for _, text in source:
        if text.startswith(")"):
            break
        match = _COLUMN.match(text)
        if match is not None and match[1].upper() not in _NO_COLUMN:
            names.append(match[1].lower())
    return names


def _copied(
    source: _Source,
    table: str,
    picked: Sequence[int],
    width: int,
    report: Report,
    dump: _Dump,
) -> Iterator[tuple[str, Place, Values]]:
    dump.seen.add(table)
    for place, text in source:
        if text == "\\.":
            return
        parts = text.split("\t")
        if len(parts) != width:
            report.add("dropped", f"truncated rows of {table}", place)
            continue
        values = [parts[each] for each in picked]
        if "\\" in text:
            yield table, place, [None if each == "\\N" else _unescaped(each) for each in values]
        else:
            yield table, place, values
    report.add("dropped", f"the rest of {table}: the dump ends within it")


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)


@lru_cache(maxsize=64)
def _row_pattern(
    table: str, names: tuple[str, ...], *, mysql: bool
) -> tuple[re.Pattern[str], tuple[int, ...]]:
    """Return a pattern of a row, and the group of each column of `TABLES`, from 0."""
    value = _MYSQL if mysql else _POSTGRES
    picked = _picked(table, names)
    parts = (f"({value})" if place in picked else value for place in range(len(names)))
    pattern = re.compile(r"\s*+\(\s*+" + r"\s*+,\s*+".join(parts) + r"\s*+\)\s*+", re.DOTALL)
    return pattern, tuple(sorted(picked).index(place) for place in picked)


def _inserted(
    source: _Source,
    table: str,
    place: Place,
    text: str,
    names: tuple[str, ...],
    report: Report,
    *,
    mysql: bool,
) -> Iterator[tuple[str, Place, Values]]:
    """Yield the rows of a statement, which may go on in the following lines."""
    row, groups = _row_pattern(table, names, mysql=mysql)
    at, joined = 0, 0
    while True:
        match = row.match(text, at)
        if match is not None:
            found = match.groups()
            yield table, place, [_literal(found[group], mysql=mysql) for group in groups]
            at, joined = match.end(), 0
            if text.startswith(";", at):
                return
            if text.startswith(",", at):
                at += 1
                continue
        following = next(source, None)
        if following is not None and _STATEMENT.match(following[1]):
            source.put_back(following)
            following = None
        rest = text[at:]
        if following is None or joined >= MOST_JOINED_LINES or len(rest) > MOST_JOINED:
            break
        if rest.isspace() or not rest:
            (place, text), at = following, 0
        else:
            text, at, joined = f"{rest}\n{following[1]}", 0, joined + 1
    report.add("dropped", f"truncated rows of {table}", place)


def _literal(text: str, *, mysql: bool) -> str | None:
    """Return the value of an SQL literal; None: NULL."""
    text = text.strip()
    if not text.startswith("'"):
        return None if text.upper() == "NULL" else text
    text = text[1:-1].replace("''", "'")
    return _unescaped(text) if mysql else text


def _row(table: str, values: Values) -> Row:
    """Return the values of a row by column."""
    return dict(zip(TABLES[table], values, strict=True))


def _number(row: Row, name: str) -> int:
    """Return a whole number; 0: NULL."""
    text = row[name]
    return 0 if text is None else whole(text, name, MOST_ID)


def _keep(dump: _Dump, table: str, place: Place, values: Values) -> None:
    """Add a row to the tables of a dump."""
    if table == "jobs":
        dump.jobs.append((place, values))
        return
    row = _row(table, values)
    if table == "assigned_resources":
        dump.resources_of[_number(row, "moldable_job_id")].append(_number(row, "resource_id"))
    elif table == "moldable_job_descriptions":
        moldable = _number(row, "moldable_id")
        dump.walltime_s[moldable] = _number(row, "moldable_walltime")
        dump.moldable_of.setdefault(_number(row, "moldable_job_id"), moldable)
    elif table == "resources":
        resource = _number(row, "resource_id")
        dump.hosts[resource] = (row["type"] or "", row["network_address"] or "")
    elif table == "job_types":
        dump.types_of[_number(row, "job_id")].append(row["type"] or "")
    elif table == "event_logs":
        job, event = _number(row, "job_id"), row["type"]
        if event in KILLS:
            dump.events_of[job].add(event)
    elif table == "job_dependencies":
        dump.required_by[_number(row, "job_id")].append(_number(row, "job_id_required"))
    elif table == "job_state_logs":
        job = _number(row, "job_id")
        if row["job_state"] == "Suspended":
            away_s = _number(row, "date_stop") - _number(row, "date_start")
            dump.suspended_s[job] += max(away_s, 0)
    elif table == "job_resource_groups":
        group = _number(row, "res_group_id")
        dump.groups_of[_number(row, "res_group_moldable_id")].append(group)
    else:
        group, order = _number(row, "res_job_group_id"), _number(row, "res_job_order")
        count = row["res_job_value"] or ""
        if count != "-1":  # all
            request = (order, row["res_job_resource_type"] or "", whole(count, "res_job_value"))
            dump.requests[group].append(request)


def _record(
    values: Values, place: Place, dump: _Dump, sizes: Mapping[int, int], report: Report
) -> Record | None:
    """Return the record of a job; None: it is none, or has not ended."""
    row = _row("jobs", values)
    state, job_id = row["state"] or "", _number(row, "job_id")
    kinds = dump.types_of.get(job_id, [])
    if state not in ENDED:
        started = state in STARTED
        what = "jobs without an end in the files" if started else "jobs that still waited"
        report.add("dropped", what, place)
        return None
    if "container" in kinds:
        report.add("dropped", "jobs of type container: the jobs in them are imported", place)
        return None
    for kind in kinds:
        name = kind.partition("=")[0]
        if name in NOT_TRANSLATED:
            report.add("not modelled", f"jobs of type {name}", place)
    submit_s, start_s, end_s = (
        unix_s(row[name] or "", name) for name in ("submission_time", "start_time", "stop_time")
    )
    if submit_s is None:
        raise FieldError("submission_time: expected a Unix time, got none")
    if start_s is not None and (end_s is None or end_s < start_s):
        raise FieldError("stop_time: expected a time from start_time on")
    run_s = None if start_s is None or end_s is None else end_s - start_s
    if run_s is not None and (away_s := dump.suspended_s.get(job_id)):
        run_s = max(run_s - away_s, 0.0)
        report.add("guessed", "run times of suspended jobs: without the suspension", place)
    moldable = _number(row, "assigned_moldable_job") or dump.moldable_of.get(job_id, 0)
    allocated = _allocated(moldable, dump, place, report)
    cores = sum(each.cores for each in allocated) or len(dump.resources_of.get(moldable, ()))
    requested, options = _requests(moldable, dump, cores)
    if required := dump.required_by.get(job_id):
        options["dependency"] = "afterany:" + ":".join(map(str, required))
    array_id, index = _number(row, "array_id"), _number(row, "array_index")
    if row["properties"]:
        report.add("not modelled", "requests of properties", place)
    return Record(
        line=place,
        raw_id=job_id,
        named=JobId(array_id, index) if sizes.get(array_id, 0) > 1 else JobId(job_id),
        name=row["job_name"] or "",
        user=row["job_user"] or "",
        account="" if row["project"] in (None, "default") else row["project"] or "",
        partition=row["queue_name"] or "",
        nodes=",".join(each.host for each in allocated),
        state=_state(state, row["exit_code"], dump.events_of.get(job_id, set()), start_s),
        submit_s=submit_s,
        # An advance reservation has a start of its own.
        eligible_s=None if row["reservation"] in (None, "None") else start_s,
        start_s=start_s,
        end_s=end_s,
        run_s=run_s,
        limit_s=float(dump.walltime_s.get(moldable, 0)) or None,
        requested=requested,
        node_count=len(allocated),
        options=options,
        allocated=allocated,
    )


def _allocated(moldable: int, dump: _Dump, place: Place, report: Report) -> tuple[Allocation, ...]:
    """Return the resources of a job by host; one resource is a core."""
    found = []
    for number in dump.resources_of.get(moldable, ()):
        kind, host = dump.hosts.get(number, ("default", ""))
        if kind != "default":
            report.add("not modelled", f"resources of type {kind[:40]}", place)
        elif host:
            found.append(Allocation(host, 1))
    return hosts_or_none(merged(found), place, report)


def _requests(moldable: int, dump: _Dump, cores: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return the requested resources, and the layout as options of `sbatch`.

    A request such as `/nodes=2/core=4` is a hierarchy: 2 nodes, and 4 cores on each.
    """
    groups = dump.groups_of.get(moldable, [])
    wanted = sorted(dump.requests.get(groups[0], [])) if len(groups) == 1 else []
    nodes = wanted[0][2] if wanted and wanted[0][1] in HOST_TYPES else 0
    each = 1
    for _, _, amount in wanted[1 if nodes else 0 :]:
        each *= amount
    if not cores:
        cores = each * max(nodes, 1) if wanted else 0
    if not 0 < cores <= MOST_ID:
        raise FieldError("assigned_resources: expected at least one resource, got none")
    requested, options = {"cpu": float(cores)}, {}
    if nodes and nodes <= cores:
        requested["node"] = float(nodes)
        options["nodes"] = str(nodes)
        if each > 1 and each * nodes == cores:
            options["ntasks-per-node"] = str(each)
    return requested, options


def _state(state: str, code: str | None, events: set[str], start_s: float | None) -> str:
    """Return the state in which a job ended."""
    for event, found in KILLS.items():
        if event in events and (start_s is not None or event == "FRAG_JOB_REQUEST"):
            return found
    if state == "Terminated" and code in (None, "0", ""):
        return "COMPLETED"
    if code is not None and not re.fullmatch(r"-?\d{0,9}", code):
        raise FieldError(f"exit_code: expected a number, got {shown(code)}")
    return "FAILED"
