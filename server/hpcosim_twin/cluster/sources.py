"""Clusters that are followed: a live Slurm, and recorded accounting that is played."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec.structs import replace as replaced

from hpcosim_client.arrays import Floats, Ints
from hpcosim_server import log
from hpcosim_slurm.config import read_config
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.hooks import Bell
from hpcosim_slurm.reading import (
    NODES,
    RESERVATIONS,
    STATES,
    command,
    new_separator,
    parse,
    parse_nodes,
    parse_reservations,
    read_state,
)
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools
from hpcosim_slurm.worlds.difference import Change, difference
from hpcosim_twin.cluster.observation import Observation, Site
from hpcosim_twin.cluster.observer import Accounted, accounted, expected_starts, observe
from hpcosim_twin.cluster.read_only import read_only
from hpcosim_twin.cluster.recorded import Accounting, RecordedJob, state_at

RING_S = 1.0
"""Shortest time between two readings that hooks of Slurm cause, s."""
STOP_S = 0.5
"""Longest time until a wait ends that is no longer wanted, s."""
UNKNOWN_END = "UNKNOWN"
"""State of a job that has left the queue, until a full reading says how it ended."""
REMEMBERED_S = 300.0
"""Time for which a controller shows jobs that ended, s: Slurm's default of `MinJobAge`."""


def warn(text: str) -> None:
    """Write a warning to the log."""
    log.warning("twin", message=text)


class Source(Protocol):
    """A cluster that is followed. Each reading raises `HpcosimError` if it cannot be done now."""

    def clock_s(self) -> float:
        """Return a time that never runs backwards, s: intervals are on this clock."""

    def unix_s(self) -> float:
        """Return the Unix time of the cluster, s; it jumps when the clock is set."""

    def wait(self, timeout_s: float, over: threading.Event) -> None:
        """Wait for a time, or until something happens in the cluster, or until it is over."""

    def learn(self) -> Observation:
        """Return the cluster with its site and usage, without a history."""

    def accounted(self, site: Site) -> Accounted | None:
        """Return what the accounting knows; None: there is none."""

    def change(self, before: ClusterState) -> Change:
        """Return what has changed since a state, by a reading that costs little."""

    def read(self) -> ClusterState:
        """Return the whole state."""

    def starts(self) -> Mapping[int, float]:
        """Return when the cluster's own scheduler expects to start jobs, Unix times, s."""


ACTIVE = ",".join(word for word, state in STATES.items() if state != "over")


class LiveSource:
    """The Slurm cluster of this machine, read by commands that change nothing.

    Args:
        scenario: the site; None: as slurm.conf and the accounting describe it.
        bell: the FIFO to which hooks of Slurm write; None: there is none.
    """

    def __init__(
        self, tools: Tools, scenario: Path | None = None, bell: Bell | None = None
    ) -> None:
        self._tools, self._scenario, self._bell = read_only(tools), scenario, bell

    def clock_s(self) -> float:
        """Return the time of the monotonic clock, s."""
        return time.monotonic()

    def unix_s(self) -> float:
        """Return the time of the clock of this machine, s."""
        return time.time()

    def wait(self, timeout_s: float, over: threading.Event) -> None:
        """See `Source`."""
        if self._bell is None:
            over.wait(timeout_s)
            return
        until_s = self.clock_s() + timeout_s
        over.wait(min(RING_S, timeout_s))
        while not over.is_set() and (left_s := until_s - self.clock_s()) > 0.0:
            if self._bell.wait(min(left_s, STOP_S)):
                return

    def learn(self) -> Observation:
        """See `Source`."""
        return observe(self._tools, self._scenario, [], warn)

    def accounted(self, site: Site) -> Accounted | None:
        """See `Source`."""
        if not read_config(self._tools).has_accounts:
            return None
        try:
            return accounted(self._tools, site)
        except (SlurmError, InputError) as error:
            warn(f"the history of the accounting is unknown: {error}")
            return None

    def change(self, before: ClusterState) -> Change:
        """Read the jobs that wait or run, the nodes and the reservations."""
        separator, at_s = new_separator(), time.time()
        queue, nodes, reservations = self._tools.outputs(
            command(separator, ACTIVE), NODES, RESERVATIONS
        )
        after = replace(
            before,
            at_s=at_s,
            jobs=parse(queue, separator),
            nodes=parse_nodes(nodes),
            reservations=parse_reservations(reservations),
        )
        return change_of(before, after)

    def read(self) -> ClusterState:
        """See `Source`."""
        return read_state(self._tools)

    def starts(self) -> Mapping[int, float]:
        """See `Source`."""
        return expected_starts(self._tools)


def change_of(before: ClusterState, after: ClusterState) -> Change:
    """Return what has changed to a state with only the jobs that wait or run.

    Jobs that have left the queue are over; how they ended is unknown.
    """
    others = difference(replace(before, jobs={}), replace(after, jobs={}), after.at_s)
    changed = (job for job in after.jobs.values() if before.jobs.get(job.id) != job)
    left = (
        replace(job, state="over", slurm_state=UNKNOWN_END, ended_s=after.at_s)
        for job in before.jobs.values()
        if job.state != "over" and job.id not in after.jobs
    )
    return replaced(others, jobs=(*changed, *left))


class RecordedSource:
    """Recorded accounting that is played, as if a controller showed it.

    Args:
        start_s: the first instant, Unix time, s; None: the first submission.
        speed: seconds of the accounting per second; infinity: as fast as it is read.

    Attributes:
        now_s: the present instant, Unix time, s; at most the last time of the accounting.
    """

    def __init__(
        self, accounting: Accounting, start_s: float | None = None, speed: float = 1.0
    ) -> None:
        self._accounting, self._speed = accounting, speed
        first_s = accounting.jobs[0].submit_s if accounting.jobs else 0.0
        self.now_s = first_s if start_s is None else start_s
        pairs = [(at_s, at) for at, job in enumerate(accounting.jobs) for at_s in _events_s(job)]
        pairs.sort()
        self._event_s: Floats = np.array([at_s for at_s, _ in pairs])
        self._job: Ints = np.array([at for _, at in pairs], dtype=np.int64)

    @property
    def is_over(self) -> bool:
        """Whether the accounting has been played to its end."""
        return self.now_s >= self._accounting.last_s

    def clock_s(self) -> float:
        """Return the present instant, s."""
        return self.now_s

    def unix_s(self) -> float:
        """Return the present instant, s."""
        return self.now_s

    def wait(self, timeout_s: float, over: threading.Event) -> None:
        """Let time pass. After the end, time stands still."""
        if self.is_over:
            over.wait(timeout_s)
            return
        if self._speed < math.inf:
            over.wait(timeout_s / self._speed)
        self.now_s = min(self.now_s + timeout_s, self._accounting.last_s)

    def learn(self) -> Observation:
        """See `Source`."""
        return replaced(state_at(self._accounting, self.now_s), history=())

    def accounted(self, _: Site) -> Accounted | None:
        """Return the history; the jobs that are over are in the state."""
        return Accounted(list(state_at(self._accounting, self.now_s).history), [])

    def change(self, before: ClusterState) -> Change:
        """Return the jobs that were submitted, became eligible, started or ended since.

        If the state is a later one, they are as they were before that.
        """
        times_s = sorted((before.at_s, self.now_s))
        first, last = np.searchsorted(self._event_s, times_s, side="right")
        chosen = np.unique(self._job[first:last]).tolist()
        jobs = [self._accounting.jobs[at] for at in chosen]
        present = (job.at(self.now_s) for job in jobs if job.submit_s <= self.now_s)
        gone = (job.asked.id for job in jobs if job.submit_s > self.now_s)
        return Change(self.now_s, tuple(present), tuple(gone))

    def read(self) -> ClusterState:
        """See `Source`."""
        accounting, now_s = self._accounting, self.now_s
        shown = (*accounting.ended_by(now_s, now_s - REMEMBERED_S), *accounting.present(now_s))
        jobs = {job.asked.id: job.at(now_s) for job in shown}
        return ClusterState(now_s, jobs, accounting.nodes, accounting.partitions)

    def starts(self) -> Mapping[int, float]:
        """Return nothing: accounting has no expected starts."""
        return {}


def _events_s(job: RecordedJob) -> Iterator[float]:
    """Yield the times at which a job changes, s."""
    yield job.submit_s
    if job.asked.eligible_s is not None and job.asked.eligible_s > job.submit_s:
        yield job.asked.eligible_s
    for run in job.runs:
        yield from (run.start_s, run.end_s)
    yield job.over_s
