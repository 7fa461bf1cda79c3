"""The queue of a cluster at any instant of the past, from its accounting alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.hosts import NodeNames, expand
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.record_jobs import (
    ONGOING,
    JobLinesSettings,
    array_limits,
    array_tasks,
    histories,
    job_line,
    job_numbers,
    uncollected,
)
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct_records import ADVICE, records_of
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode, LivePartition
from hpcosim_slurm.texts import zone_of
from hpcosim_twin.cluster.observation import UNLIMITED_S, EndedJob, Observation, Site
from hpcosim_workloads.accounting.record import Record, never_started

HISTORY_S = 30 * 86_400.0
"""Time before the instant from which ended jobs are the history, s."""
REMEMBERED_S = 14 * 86_400.0
"""Time before the instant from which jobs that are over are in the state, s.

Future submissions are drawn from them.
"""
OVERDUE_S = 86_400.0
"""Time after its limit after which a job that the accounting shows as running is over, s.

Slurm calls such records runaway jobs: their end was lost.
"""
GRAIN_S = 1.0
"""Grain of times in the accounting, s."""
MISSING_PARTITION = "jobs of partitions that slurm.conf does not have"


ENDED = frozenset(("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "DEADLINE"))
"""States of jobs whose end does not come from the cluster, such as from the failure of a node."""


class RecordedRun(NamedTuple):
    """A run of a job; Unix times, s.

    Attributes:
        end_s: infinity: it still ran when the accounting was written.
        nodes: names of its nodes; empty: unknown.
        state: Slurm's word for its end, such as `COMPLETED`.
    """

    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    state: str


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job of the accounting; Unix times, s.

    Attributes:
        asked: the job as it was submitted.
        runs: its runs in the order of time; empty: it never started.
        over_s: its last end, or when it was cancelled while it waited; infinity: not yet.
        state: Slurm's word for its last end, such as `COMPLETED`.
        ended: what a history has of it; None: nothing, such as before its end.
    """

    asked: LiveJob
    runs: tuple[RecordedRun, ...]
    over_s: float
    state: str
    ended: EndedJob | None

    @property
    def submit_s(self) -> float:
        """Time of the submission."""
        return self.asked.submitted_s

    @property
    def start_s(self) -> float:
        """Time of the first start; infinity: there is none."""
        return self.runs[0].start_s if self.runs else math.inf

    def at(self, now_s: float) -> LiveJob:
        """Return the job as Slurm would have shown it at an instant after its submission."""
        asked = self.asked
        if now_s >= self.over_s:
            last = self.runs[-1] if self.runs else None
            return replace(
                asked,
                state="over",
                slurm_state=self.state,
                started_s=last.start_s if last else None,
                ended_s=self.over_s,
                nodes=last.nodes if last else (),
            )
        for run in self.runs:
            if run.start_s <= now_s < run.end_s:
                return replace(
                    asked,
                    state="running",
                    slurm_state="RUNNING",
                    started_s=run.start_s,
                    nodes=run.nodes,
                )
        waits = asked.eligible_s is not None and asked.eligible_s > now_s
        return replace(asked, is_held=waits and not asked.dependency and not asked.array_limit)


class Accounting:
    """The jobs of a cluster's accounting with the configuration of the cluster.

    Attributes:
        jobs: in the order of submission.
        submit_s, over_s: float64[jobs], Unix times, s.
        last_s: the last time in the accounting: about when it was written, Unix time, s.
        nodes, partitions: as Slurm shows them, all available.
    """

    def __init__(self, site: Site, jobs: Sequence[RecordedJob]) -> None:
        self.site = site
        self.jobs = tuple(sorted(jobs, key=lambda job: (job.submit_s, job.asked.id)))
        self.submit_s: Floats = np.array([job.submit_s for job in self.jobs])
        self.over_s: Floats = np.array([job.over_s for job in self.jobs])
        times_s = (time_s for job in self.jobs for time_s in _times_s(job))
        self.last_s = max(filter(math.isfinite, times_s), default=0.0)
        self._by_end: Ints = np.argsort(self.over_s, kind="stable")
        self.nodes = _nodes(site)
        self.partitions = _partitions(site, list(self.nodes))
        self.usage = PastUsage(self.jobs, site.settings)

    def until(self, until_s: float) -> Accounting:
        """Return the accounting as it was written at an instant: later times are unknown."""
        jobs = []
        for job in self.jobs:
            if job.submit_s >= until_s:
                break
            runs = tuple(
                run if run.end_s <= until_s else run._replace(end_s=math.inf, state="RUNNING")
                for run in job.runs
                if run.start_s <= until_s
            )
            over = job.over_s <= until_s
            state = job.state if over else "RUNNING" if runs else "PENDING"
            over_s, ended = (job.over_s, job.ended) if over else (math.inf, None)
            jobs.append(replace(job, runs=runs, over_s=over_s, state=state, ended=ended))
        return Accounting(self.site, jobs)

    def ended_by(self, now_s: float, since_s: float = -math.inf) -> Iterator[RecordedJob]:
        """Yield the jobs whose last end is in (since_s, now_s], in the order of time."""
        ends_s = self.over_s[self._by_end]
        first, last = np.searchsorted(ends_s, (since_s, now_s), side="right")
        yield from (self.jobs[at] for at in self._by_end[first:last].tolist())

    def present(self, now_s: float) -> list[RecordedJob]:
        """Return the jobs that are submitted and not over at an instant."""
        chosen = np.flatnonzero((self.submit_s <= now_s) & (self.over_s > now_s))
        return [self.jobs[at] for at in chosen.tolist()]


def state_at(accounting: Accounting, now_s: float) -> Observation:
    """Return the cluster as it was at an instant, with what was known then.

    Jobs that were submitted and not over wait or run, those that run on their nodes. Ends after the
    instant are not in it. What the accounting does not have counts as follows: all nodes and
    partitions are up, the phase of the scheduler's work is unknown, and usage is that of the jobs
    of the accounting in CPU seconds. A job that became eligible later, by a begin time or a
    dependency that is not recorded, is held.

    Args:
        now_s: the instant, Unix time, s.
    """
    recent = list(accounting.ended_by(now_s, now_s - max(REMEMBERED_S, HISTORY_S)))
    over = (job for job in recent if job.over_s >= now_s - REMEMBERED_S)
    jobs = {job.asked.id: job.at(now_s) for job in (*over, *accounting.present(now_s))}
    history = (job.ended for job in recent if job.over_s >= now_s - HISTORY_S)
    return Observation(
        state=ClusterState(now_s, jobs, accounting.nodes, accounting.partitions),
        platform=accounting.site.platform,
        settings=accounting.site.settings,
        history=tuple(each for each in history if each is not None),
        usage_s=accounting.usage.at(now_s),
    )


def read_accounting(
    path: Path, site: Site, report: ImportReport, time_zone: str = "UTC"
) -> Accounting:
    """Return the jobs of a file with the output of `sacct -P`.

    Args:
        time_zone: time zone of its times.
        report: gets what is dropped and guessed.

    Raises:
        InputError: the file cannot be read, lacks columns or has no jobs.
    """
    with uncollected():
        records = read_records(path, report, time_zone)
        jobs = jobs_of(records, site, report)
        if not jobs:
            dropped = report.summary("dropped")
            raise InputError(f"no jobs were found; {dropped or ADVICE}", path)
        return Accounting(site, jobs)


class Records(NamedTuple):
    """The records of an accounting.

    Attributes:
        limits: limit of running tasks of each array that states one.
    """

    each: list[Record]
    limits: dict[int, int]


def read_records(path: Path, report: ImportReport, time_zone: str = "UTC") -> Records:
    """Return the records in the output of `sacct -P`. Args and errors: as of `read_accounting`."""
    limits: dict[int, int] = {}
    return Records(list(records_of(path, zone_of(time_zone), limits, report)), limits)


def jobs_of(records: Records, site: Site, report: ImportReport, most: int = 0) -> list[RecordedJob]:
    """Return the jobs of records.

    Args:
        most: the largest number of jobs, those that were submitted last; 0: all.
    """
    found = histories(records.each, report)
    if not found:
        return []
    numbers = job_numbers(found, report, anew=False)
    tasks = array_tasks(found, numbers)
    settings = JobLinesSettings(0.0, True, array_limits(found, records.limits), tasks)
    reader = _Reader(site, settings, max(map(_latest_s, records.each)), report)
    pairs = sorted(zip(found, numbers, strict=True), key=lambda each: each[0][0].submit_s)
    jobs = (reader.job(*each) for each in pairs[-most:])
    return [job for job in jobs if job is not None]


class _Reader:
    def __init__(
        self, site: Site, settings: JobLinesSettings, last_s: float, report: ImportReport
    ) -> None:
        self._settings, self._last_s, self._report = settings, last_s, report
        self._partitions = {each.name for each in site.platform.partitions}
        self._nodes: dict[str, tuple[str, ...]] = {}

    def job(self, records: Sequence[Record], number: int) -> RecordedJob | None:
        """Return the job of its records; None: they have no time of its end."""
        runs = [self._run(record) for record in records if not never_started(record)]
        asked, last = self._asked(records, number), records[-1]
        if never_started(last):
            waits = last.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
            over_s = math.inf if waits and last.end_s is None else last.end_s
            if over_s is None:
                what = "jobs that never started, without a time of their end"
                self._report.add("dropped", what, last.line)
                return None
        else:
            over_s = runs[-1].end_s
        state = "PENDING" if over_s == math.inf and not runs else last.state
        ended = None if over_s == math.inf else ended_job(last)
        return RecordedJob(asked, tuple(runs), max(over_s, asked.submitted_s), state, ended)

    def _run(self, record: Record) -> RecordedRun:
        assert record.start_s is not None
        start_s, end_s = record.start_s, record.end_s
        if start_s < record.submit_s:
            what = "starts before submissions, as after a jump of the clock: the submission"
            self._report.add("guessed", what, record.line)
            start_s = record.submit_s
        if end_s is None and record.state not in ONGOING and record.run_s is not None:
            end_s = start_s + record.run_s
        if end_s is None and record.limit_s is not None:
            overdue_s = start_s + record.limit_s + OVERDUE_S
            if overdue_s < self._last_s:
                what = "jobs that run long after their limit: they ended at the limit"
                self._report.add("guessed", what, record.line)
                end_s = start_s + record.limit_s
        if end_s is not None and end_s < start_s:
            what = "ends before starts, as after a jump of the clock: the start"
            self._report.add("guessed", what, record.line)
            end_s = start_s
        nodes = self._hosts(record)
        return RecordedRun(start_s, math.inf if end_s is None else end_s, nodes, record.state)

    def _hosts(self, record: Record) -> tuple[str, ...]:
        text = record.nodes
        found = self._nodes.get(text)
        if found is None:
            try:
                found = tuple(expand(text)) if text and "assigned" not in text else ()
            except ProtocolError:
                self._report.add("dropped", "lists of nodes in another form", record.line)
                found = ()
            self._nodes[text] = found
        return found

    def _asked(self, records: Sequence[Record], number: int) -> LiveJob:
        """Return the job as it waits."""
        first = records[0]
        line = job_line(records, number, self._settings, ImportReport())
        names = [name for name in first.partition.split(",") if name]
        if self._partitions and not all(name in self._partitions for name in names):
            self._report.add("guessed", f"{MISSING_PARTITION}: no forecast", first.line)
        nodes = int(line.get("nodes_min", 0)) or first.node_count or 1
        memory_mb: float | None = line.get("memory_per_node_mb", 0.0)
        if line.get("memory_mb"):
            memory_mb = math.ceil(line["memory_mb"] * line["cores"] / nodes)
        if line.get("all_memory"):
            memory_mb = None
        is_task = first.named.task is not None and "array_id" in line
        return LiveJob(
            id=number,
            name=first.name,
            user=first.user,
            partition=first.partition,
            state="pending",
            slurm_state="PENDING",
            submitted_s=first.submit_s,
            cpus=line["cores"],
            nodes_min=int(line.get("nodes_min", 1)),
            nodes_max=int(line.get("nodes_max", 0)),
            account=first.account,
            qos=first.qos,
            eligible_s=self._eligible_s(first),
            time_limit_s=first.limit_s,
            memory_mb=None if memory_mb is None else int(memory_mb),
            devices=line.get("gres_per_node", {}),
            devices_together=line.get("gres_per_job", {}),
            licenses=line.get("licenses", {}),
            features=first.constraints,
            dependency=line.get("dependency", ""),
            reservation=first.reservation,
            is_exclusive=line.get("placement") == "whole_nodes",
            label=f"{first.named.job_id}_{first.named.task}" if is_task else "",
            array=line.get("array_id") if is_task else None,
            task=first.named.task or 0,
            array_limit=line.get("array_limit", 0),
        )

    def _eligible_s(self, record: Record) -> float | None:
        """Return the time from which it may start; that of the submission if it is the same."""
        eligible_s = record.eligible_s
        if eligible_s is None or eligible_s <= record.submit_s + GRAIN_S:
            return record.submit_s
        return eligible_s


def ended_job(record: Record) -> EndedJob | None:
    """Return what the history has of a run; None: it says nothing of the run time of the job."""
    if never_started(record) or record.state not in ENDED or record.run_s is None:
        return None
    if record.limit_s is None and not record.unlimited:
        return None
    requested_s = UNLIMITED_S if record.limit_s is None else record.limit_s
    run_s, cores = run_s_of(record.state, record.run_s), record.requested["cpu"]
    return EndedJob(record.user, requested_s, run_s, record.account, cores)


def run_s_of(state: str, run_s: float) -> float | None:
    """Return the run time of the history, s; None: it was ended at its limit."""
    return None if state == "TIMEOUT" else max(run_s, 0.0)


def _latest_s(record: Record) -> float:
    times = (record.submit_s, record.start_s, record.end_s)
    return max(each for each in times if each is not None)


def _times_s(job: RecordedJob) -> Iterator[float]:
    yield job.submit_s
    yield job.over_s
    for run in job.runs:
        yield from (run.start_s, run.end_s)


def _nodes(site: Site) -> dict[str, LiveNode]:
    names = NodeNames(site.platform)
    cores = site.platform.cores_by_node()
    return {
        names.name_of(at): LiveNode(names.name_of(at), cores[at], 0, True, True, "on", "IDLE")
        for at in range(len(names))
    }


def _partitions(site: Site, names: Sequence[str]) -> dict[str, LivePartition]:
    return {
        each.name: LivePartition(
            each.name,
            tuple(names[at] for first, last in each.nodes for at in range(first, last + 1)),
            each.state == "up",
            each.default,
        )
        for each in site.platform.partitions
    }


class PastUsage:
    """The raw usage of each user of each account, in CPU seconds that decay.

    Raw usage of a run is the integral of its CPUs times 2^-(age / half life), as Slurm's priority
    plugin computes it from the accounting.
    """

    def __init__(self, jobs: Iterable[RecordedJob], settings: Mapping[str, Any]) -> None:
        priority = parse_site({"priority": dict(settings.get("priority", {}))}).priority
        self._half_life_s = priority.decay_half_life_s
        runs = [(job.asked, run) for job in jobs for run in job.runs]
        keys = [(asked.account, asked.user) for asked, _ in runs]
        self._keys = sorted(set(keys))
        number = {key: at for at, key in enumerate(self._keys)}
        self._key: Ints = np.array([number[key] for key in keys], dtype=np.int64)
        self._cpus: Floats = np.array([float(asked.cpus) for asked, _ in runs])
        self._start_s: Floats = np.array([run.start_s for _, run in runs])
        self._end_s: Floats = np.array([run.end_s for _, run in runs])

    def at(self, now_s: float) -> dict[str, dict[str, float]]:
        """Return the usage at an instant by account and user, s."""
        found: dict[str, dict[str, float]] = defaultdict(dict)
        if not self._keys:
            return found
        begun = self._start_s < now_s
        since_s = now_s - self._start_s[begun]
        until_s = now_s - np.minimum(self._end_s[begun], now_s)
        if self._half_life_s > 0:
            rate = math.log(2.0) / self._half_life_s
            spans_s = (np.exp(-rate * until_s) - np.exp(-rate * since_s)) / rate
        else:
            spans_s = since_s - until_s
        used_s = np.bincount(
            self._key[begun], weights=self._cpus[begun] * spans_s, minlength=len(self._keys)
        )
        for (account, user), each_s in zip(self._keys, used_s.tolist(), strict=True):
            if account and user and each_s > 0.0:
                found[account][user] = each_s
        return dict(found)
