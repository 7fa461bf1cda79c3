"""Jobs and nodes of a run at a time, as Slurm's `squeue` and `sinfo` print them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size

from hpcosim_protocol.hosts import compress, expand
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_view.errors import SelectionError
from hpcosim_view.run.extracts import (
    Placements,
    clean,
    last_period_of,
    nodes_of,
    printable,
    starts_of,
)
from hpcosim_view.run.frame import Frame, periods_of
from hpcosim_view.run.moment import Moment, RunningJobs, moment
from hpcosim_workloads.table import PLACEMENTS

DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60


SUFFIXES: Mapping[str, str] = {
    "on": "",
    "sleeping": "~",
    "switching_on": "#",
    "switching_off": "%",
}
"""Suffix of the state by power state of the node."""
ORDER = ("mix", "alloc", "idle", "drng", "drain", "down")
AVAILABLE: Mapping[str, str] = {"up": "up", "down": "down", "drain": "drain", "inactive": "inact"}
"""Slurm's word for the state of a partition."""


# Times of a run from text.

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
EXPECTED = (
    "expected seconds, 90m, 36h, 2d, 1w, M:SS, H:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or a part of "
    "the run such as 50%"
)
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]\+?(\d{1,2}))?\s*([smhdw%]?)", re.ASCII)
_DAYS = re.compile(r"(\d{1,9})-(\d{1,9})(?::([0-5]?\d))?(?::([0-5]?\d))?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):([0-5]?\d)", re.ASCII)


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        width: number of characters; 0: as long as the text. Longer texts are cut off.
        left: whether texts begin at the left edge.
        whole: whether longer texts widen the column instead: a part of a number is another number.
    """

    title: str
    width: int
    left: bool = False
    whole: bool = False


def lines(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, titles first."""
    table = [[column.title for column in columns], *rows]
    sized = []
    for number, column in enumerate(columns):
        widest = max(cell_len(row[number]) for row in table)
        width = max(column.width, widest) if column.whole else column.width
        sized.append(column._replace(width=width))
    return [
        " ".join(_cell(*each) for each in zip(sized, row, strict=True)).rstrip() for row in table
    ]


def word(text: str) -> str:
    """Return text as one word, so that programs can split a line; `-`: it is empty."""
    return printable("-".join(text.split())) or "-"


def duration(seconds: float) -> str:
    """Return a duration as `M:SS`, `H:MM:SS` or `D-HH:MM:SS`; `N/A`: it is not known."""
    if not math.isfinite(seconds):
        return "N/A"
    minutes, second = divmod(int(max(seconds, 0)), MINUTE_S)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def node_list(intervals: Iterable[tuple[int, int]], names: Sequence[str] = ()) -> str:
    """Return nodes as `node7` or `node[0-3,7]`; empty: there are none.

    Args:
        intervals: first and last node of each interval, ascending.
        names: name of each node; empty: the nodes have none.
    """
    if names:
        named = (name for first, last in intervals for name in names[first : last + 1])
        return printable(compress(named))
    parts = [f"{first}-{last}" if last > first else f"{first}" for first, last in intervals]
    if len(parts) == 1 and "-" not in parts[0]:
        return f"node{parts[0]}"
    return f"node[{','.join(parts)}]" if parts else ""


def node_names(frame: Frame) -> Sequence[str]:
    """Return the names of the nodes of a run; empty: they have none."""
    text = frame.about.get("node_names")
    return expand(text) if text else ()


def intervals_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as intervals."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _cell(column: Column, text: str) -> str:
    if not column.width:
        return text
    size = min(cell_len(text), column.width)
    shown, blank = set_cell_size(text, size), " " * (column.width - size)
    return shown + blank if column.left else blank + shown


class NodesInState(NamedTuple):
    """The nodes of a partition that have the same state.

    Attributes:
        partition: name of the partition or of the node group; `*` marks the default partition.
        state: state with suffix.
        intervals: the nodes; first and last of each interval.
        hosts: the nodes as a host list.
        avail: state of the partition.
        limit_s: longest requested run time, s; infinity: no limit.
    """

    partition: str
    state: str
    intervals: Sequence[tuple[int, int]]
    hosts: str
    avail: str = "up"
    limit_s: float = math.inf

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(last - first + 1 for first, last in self.intervals)


def nodes_at(frame: Frame, at_s: float) -> list[NodesInState]:
    """Return the nodes at a time, by partition and state; nodes that are not on come first."""
    then = moment(frame, at_s).nodes
    states = []
    for power, cores, allocated, _, drained in zip(
        *(column.tolist() for column in then), strict=True
    ):
        state = "idle" if not allocated else "alloc" if allocated >= cores else "mix"
        if drained:
            state = "drng" if allocated else "drain"
        name = POWER_STATES[power]
        states.append("down" if name == "down" else state + SUFFIXES[name])
    names = node_names(frame)
    return [
        row
        for part in _partitions(frame, then.group.tolist())
        for row in _rows(part, states, names)
    ]


class _Part(NamedTuple):
    """A partition or a node group: its name, nodes, state, and longest requested time, s."""

    name: str
    nodes: Sequence[int]
    avail: str = "up"
    limit_s: float = math.inf


def _partitions(frame: Frame, group: Sequence[int]) -> Iterator[_Part]:
    """Yield the partitions of a run or, without any, its node groups."""
    parts = frame.about.get("node_partitions")
    if not parts:
        for number, (_, _, name) in enumerate(frame.about["nodes"]):
            yield _Part(clean(name), [node for node, each in enumerate(group) if each == number])
        return
    for name, ranges, state, limit_s, default in parts:
        nodes = sorted({node for first, last in ranges for node in range(first, last + 1)})
        title = f"{clean(name)}{'*' if default else ''}"
        limit = math.inf if limit_s is None else float(limit_s)
        yield _Part(title, nodes, AVAILABLE.get(state, "up"), limit)


def _rows(part: _Part, states: Sequence[str], names: Sequence[str]) -> Iterator[NodesInState]:
    """Yield the nodes of a partition by state."""
    members: dict[str, list[int]] = {}
    for node in part.nodes:
        members.setdefault(states[node], []).append(node)
    for state in sorted(members, key=_place):
        intervals = intervals_of(members[state])
        hosts = node_list(intervals, names)
        yield NodesInState(part.name, state, intervals, hosts, part.avail, part.limit_s)


def sinfo(groups: Iterable[NodesInState]) -> list[str]:
    """Return the lines of the table."""
    rows = [
        (
            *(word(each.partition), each.avail),
            "infinite" if each.limit_s == math.inf else duration(each.limit_s),
            *(str(each.nodes), each.state, each.hosts),
        )
        for each in groups
    ]
    width = max([9, *(min(len(row[0]), 30) for row in rows)])
    columns = (
        *(Column("PARTITION", width, left=True), Column("AVAIL", 5), Column("TIMELIMIT", 10)),
        *(Column("NODES", 6), Column("STATE", 6), Column("NODELIST", 0)),
    )
    return lines(columns, rows)


def _place(state: str) -> tuple[bool, int, str]:
    return state in ORDER, ORDER.index(state.rstrip("~#%")), state


def time_in(frame: Frame, text: str) -> float:
    """Return a simulated time in a run, s.

    Args:
        text: seconds; a number with a unit, such as `36h`; `M:SS`, `H:MM:SS`, `D-HH`, `D-HH:MM`
            or `D-HH:MM:SS`; or a percentage of the time from the begin to the end of the run. A
            time in the second of the begin is the begin, since tables print whole seconds.

    Raises:
        SelectionError: the text is no time, or not one of the run.
    """
    start_s, now_s = float(frame.about["start_s"]), float(frame.about["now_s"])
    at_s = _seconds(text.strip(), start_s, now_s)
    if at_s == math.floor(start_s):
        at_s = start_s
    if not start_s <= at_s <= now_s:
        raise SelectionError(
            f"--at {text:.60}: {at_s:.15g} s is not in the run, which goes from {start_s:.15g} s "
            f"(0%) to {now_s:.15g} s (100%)"
        )
    return at_s


def _seconds(text: str, start_s: float, now_s: float) -> float:
    if match := _DAYS.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return hours * 3600.0 + minutes * 60.0 + seconds
    if not (match := _NUMBER.fullmatch(text)):
        raise SelectionError(f"--at: {text!r:.60} is no time; {EXPECTED}")
    number, exponent, unit = match.groups()
    value = float(number) * 10.0 ** int(exponent or 0)
    if unit == "%":
        return start_s + (now_s - start_s) * value / 100 if value != 100 else now_s
    return value * SECONDS.get(unit, 1.0) if math.isfinite(value) else math.inf


CODES: Mapping[str, tuple[str, str]] = {
    "waiting": ("PD", "PENDING"),
    "running": ("R", "RUNNING"),
    "suspended": ("S", "SUSPENDED"),
    "completed": ("CD", "COMPLETED"),
    "timeout": ("TO", "TIMEOUT"),
    "killed": ("CA", "CANCELLED"),
    "node_failed": ("NF", "NODE_FAIL"),
    "rejected": ("CA", "CANCELLED"),
    "failed": ("F", "FAILED"),
    "cancelled": ("CA", "CANCELLED"),
    "preempted": ("PR", "PREEMPTED"),
    "deadline": ("DL", "DEADLINE"),
}
"""Slurm's short and long name of each state of a job."""
ACTIVE = ("waiting", "running", "suspended")
IN_ORDER = tuple(CODES)
TIME_LIMIT = "TimeLimit"
NO_REASON = "None"  # Slurm's word for a job that it has not looked at yet
ONE_NODE = PLACEMENTS.index("one_node")

_FIRST = (
    Column("JOBID", 18, whole=True),
    *(Column("PARTITION", 9), Column("NAME", 8), Column("USER", 8)),
)
_TIME, _NODES = Column("TIME", 10, whole=True), Column("NODES", 6, whole=True)
_LAST = Column("NODELIST(REASON)", 0)
SHORT = (*_FIRST, Column("ST", 2), _TIME, _NODES, _LAST)
LONG = (*_FIRST, Column("STATE", 8), _TIME, Column("TIME_LIMI", 9, whole=True), _NODES, _LAST)
START = (
    *(*_FIRST, Column("ST", 2), Column("START_TIME", 19, whole=True), _NODES),
    *(Column("SCHEDNODES", 20, left=True), _LAST),
)
NO_NODES = "(null)"  # Slurm's word for nodes that are not planned; schedulers tell no nodes


class QueuedJob(NamedTuple):
    """A job at a time.

    Attributes:
        job_id: job id.
        partition, user: names; empty: unknown. A job that states no partition has the default one.
        state: one of `STATES`, or `suspended`.
        submit_s: submission time, s.
        start_s: start of the last run, s; NaN: not started.
        expected_start_s: start that the scheduler expects of a waiting job, s; NaN: none.
        used_s: time for which the last run has computed, s; 0: not started.
        requested_s: requested run time, s; NaN: unknown.
        cores: requested cores.
        nodes: number of nodes; of a waiting job the least number that can hold it; 0: it ended
            without a start.
        intervals: its nodes; first and last of each interval.
        hosts: its nodes as a host list.
        reason: why it waits; empty: the scheduler gave no reason, or the job does not wait.
    """

    job_id: int
    partition: str
    user: str
    state: str
    submit_s: float
    start_s: float
    expected_start_s: float
    used_s: float
    requested_s: float
    cores: int
    nodes: int
    intervals: Sequence[tuple[int, int]]
    hosts: str
    reason: str

    @property
    def where(self) -> str:
        """The node list, or the reason in parentheses."""
        if self.state == "waiting":
            return f"({word(self.reason) if self.reason else NO_REASON})"
        if self.state == "timeout":
            return f"({TIME_LIMIT})"
        return self.hosts


def states_named(text: str) -> set[str]:
    """Return the states in a comma-separated list of Slurm's names, short or long.

    Raises:
        SelectionError: a name is unknown.
    """
    if text.strip().lower() == "all":
        return set(CODES)
    found: set[str] = set()
    for name in text.upper().split(","):
        named = {state for state, names in CODES.items() if name.strip() in names}
        if not named:
            known = ", ".join(dict.fromkeys(short for short, _ in CODES.values()))
            raise SelectionError(
                f"--states: unknown state {name.strip()!r:.40}; expected all, or of {known}"
            )
        found |= named
    return found


def queue_at(frame: Frame, at_s: float, states: Collection[str] = ACTIVE) -> list[QueuedJob]:
    """Return the jobs at a time: by partition, waiting jobs first, then by submission.

    Args:
        at_s: simulated time, s.
        states: states of the jobs; jobs that are over are those that ended up to this time.
    """
    then = moment(frame, at_s)
    jobs = [*_waiting(frame, then), *_placed(frame, then.running, "running")]
    jobs += _placed(frame, then.suspended, "suspended")
    if not set(states) <= set(ACTIVE):
        jobs += _over(frame, at_s)
    chosen = [job for job in jobs if job.state in states]
    return sorted(chosen, key=lambda job: (job.partition, IN_ORDER.index(job.state)))


def squeue(jobs: Iterable[QueuedJob], *, long: bool = False, start: bool = False) -> list[str]:
    """Return the lines of the table.

    Args:
        long: also print the requested time, and states in full.
        start: print waiting jobs with their expected start, in this order.
    """
    if start:
        waiting = [job for job in jobs if job.state == "waiting"]
        waiting.sort(key=lambda job: (math.isnan(job.expected_start_s), job.expected_start_s))
        rows = (_row(job, duration(job.expected_start_s)) for job in waiting)
        return lines(START, ((*row[:-1], NO_NODES, row[-1]) for row in rows))
    if long:
        return lines(LONG, (_long_row(job) for job in jobs))
    return lines(SHORT, (_row(job, duration(job.used_s)) for job in jobs))


def _row(job: QueuedJob, time: str) -> Sequence[str]:
    first = (str(job.job_id), word(job.partition), f"job{job.job_id}", word(job.user))
    return (*first, CODES[job.state][0], time, str(job.nodes), job.where)


def _long_row(job: QueuedJob) -> Sequence[str]:
    row, state = _row(job, duration(job.used_s)), CODES[job.state][1]
    return (*row[:4], state, row[5], duration(job.requested_s), *row[6:])


def _waiting(frame: Frame, then: Moment) -> Iterator[QueuedJob]:
    largest = sorted((node.cores for node in nodes_of(frame)), reverse=True)
    held = np.cumsum(largest)
    reasons = [clean(name) for name in frame.about["reasons"]]
    facts = _Facts(frame)
    columns = zip(*(column.tolist() for column in then.waiting), strict=True)
    for row, reason, expected_s in columns:
        least = int(np.searchsorted(held, frame.columns["job.cores"][row])) + 1
        one = frame.columns["job.placement"][row] == ONE_NODE
        nodes = 1 if one else min(least, len(largest))
        why = reasons[reason] if reason >= 0 else ""
        yield facts.job(row, "waiting", expected_s, 0.0, nodes, (), why)


def _placed(frame: Frame, jobs: RunningJobs, state: str) -> Iterator[QueuedJob]:
    facts = _Facts(frame)
    columns = (jobs.job.tolist(), jobs.start_s.tolist(), jobs.used_s.tolist(), jobs.nodes)
    for row, start_s, used, nodes in zip(*columns, strict=True):
        count = sum(last - first + 1 for first, last in nodes)
        yield facts.job(row, state, start_s, used, count, nodes, "")


def _over(frame: Frame, at_s: float) -> Iterator[QueuedJob]:
    columns, facts, places = frame.columns, _Facts(frame), Placements(frame)
    periods = periods_of(frame)
    last = last_period_of(periods).tolist()
    start_s = starts_of(periods, last_period_of(periods)).tolist()
    used_s = [*periods.computed_s(columns["start.time_s"], at_s).tolist(), 0.0]
    ends = zip(
        *(columns[f"end.{name}"].tolist() for name in ("job", "time_s", "state")), strict=True
    )
    for row, end_s, state in sorted(ends):
        if end_s <= at_s:
            used = used_s[last[row]]
            nodes = [place.node for place in places.of(last[row])] if last[row] >= 0 else []
            held = intervals_of(nodes)
            yield facts.job(row, STATES[state], start_s[row], used, len(nodes), held, "")


class _Facts:
    """The columns of jobs that do not change, as Python values."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._node_names = node_names(frame)
        self._users = [clean(name) for name in frame.about["users"]]
        self._partitions = [clean(name) for name in frame.about["partitions"]]
        parts = frame.about.get("node_partitions", ())
        self._default = next((clean(name) for name, *_, default in parts if default), "")

    def job(
        self,
        row: int,
        state: str,
        start_s: float,
        used_s: float,
        nodes: int,
        intervals: Sequence[tuple[int, int]],
        reason: str,
    ) -> QueuedJob:
        """Return a job; see `QueuedJob`. The start of a waiting job is the expected one."""
        waits = state == "waiting"
        columns = self._frame.columns
        user, partition = int(columns["job.user"][row]), int(columns["job.partition"][row])
        return QueuedJob(
            job_id=int(columns["job.id"][row]),
            partition=self._partitions[partition] if partition >= 0 else self._default,
            user=self._users[user] if user >= 0 else "",
            state=state,
            submit_s=float(columns["job.submit_s"][row]),
            start_s=math.nan if waits else start_s,
            expected_start_s=start_s if waits else math.nan,
            used_s=used_s if math.isfinite(used_s) else 0.0,
            requested_s=float(columns["job.requested_s"][row]),
            cores=int(columns["job.cores"][row]),
            nodes=nodes,
            intervals=intervals,
            hosts=node_list(intervals, self._node_names),
            reason=reason,
        )
