"""The recording of a run: jobs and changes of jobs and nodes, as compact columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import JobState, NodeGroup
from hpcosim_protocol.events import RequeueCause
from hpcosim_sim.physics.power import RECORDED_STATES, RecordedState
from hpcosim_sim.record.periods import PERIOD_CODES, PeriodEnd, Periods
from hpcosim_workloads.table import PLACEMENTS, JobSpec

# Names of those that jobs belong to: compact codes for text that many jobs share.

OwnerField = Literal["user", "group", "partition", "account", "qos"]


class Owner(NamedTuple):
    """Names that describe whom a job belongs to; empty: unknown.

    Attributes:
        partition: names of the job's partitions, separated by commas.
    """

    user: str
    group: str
    partition: str
    account: str
    qos: str


class Owners:
    """A column of owners, which stores each distinct owner once."""

    __slots__ = ("_code_of", "_codes", "_known")

    def __init__(self) -> None:
        self._codes = array("i")  # index into `_known`, by row
        self._known: list[Owner] = []
        self._code_of: dict[tuple[str, ...], int] = {}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Owners)
            and self._codes == other._codes
            and self._known == other._known
        )

    __hash__ = None  # type: ignore[assignment]  # the column is mutable

    def __getitem__(self, row: int) -> Owner:
        return self._known[self._codes[row]]

    def names(self, field: OwnerField, rows: slice = slice(None)) -> list[str]:
        """Return the names in one field of consecutive rows."""
        known = self._known
        return [getattr(known[code], field) for code in self._codes[rows]]

    @property
    def known(self) -> Sequence[Owner]:
        """The distinct owners, in order of their first rows."""
        return self._known

    def codes(self, rows: slice = slice(None)) -> list[int]:
        """Return the owners of consecutive rows, as indices into `known`."""
        return self._codes[rows].tolist()

    def append(self, owner: tuple[str, str, str, str, str]) -> None:
        """Append the owner of the next row, with the fields of `Owner` in their order."""
        code = self._code_of.get(owner)
        if code is None:
            code = self._code_of[owner] = len(self._known)
            self._known.append(Owner(*owner))
        self._codes.append(code)

    def extend(self, codes: NDArray[np.int64], owners: Sequence[Owner]) -> None:
        """Append the owners of many rows to an empty column.

        Args:
            codes: index into `owners`, by row.
            owners: the distinct owners, in order of their first rows.
        """
        self._codes.frombytes(codes.astype(np.intc).tobytes())
        self._known += owners
        self._code_of = {owner: code for code, owner in enumerate(owners)}


# Why jobs waited, as the scheduler said.

MAX_EXPLANATIONS = 10_000_000
"""Maximum number of recorded explanations of a session."""

MAX_REASONS = 1000
"""Maximum number of different reasons in the explanations of a session."""


class Explanations:
    """Columns of the explanations of a run, in chronological order.

    Attributes:
        time_s: simulation time of the explanation, s.
        reason: index into `reasons`.
        expected_start_s: expected start of the job, simulated s; NaN: unknown.
        reasons: the different reasons, in order of their first use.
        dropped: number of explanations that exceed `MAX_EXPLANATIONS` or `MAX_REASONS`.
    """

    def __init__(self) -> None:
        self.row = array("q")
        self.time_s = array("d")
        self.reason = array("H")
        self.expected_start_s = array("d")
        self.reasons: list[str] = []
        self.dropped = 0
        self._codes: dict[str, int] = {}
        self._last = array("q")  # index of the last explanation of each job, by row; -1: none

    def __len__(self) -> int:
        return len(self.row)

    def add(self, row: int, now_s: float, reason: str, expected_start_s: float | None) -> None:
        """Record an explanation, unless it equals the last one of the job.

        Args:
            expected_start_s: expected start of the job, simulated s; None: unknown.
        """
        expected_s = math.nan if expected_start_s is None else expected_start_s
        if self._repeats(row, reason, expected_s):
            return
        code = self._codes.get(reason, len(self.reasons))
        if code >= MAX_REASONS or len(self.row) >= MAX_EXPLANATIONS:
            self.dropped += 1
            return
        if code == len(self.reasons):
            self._codes[reason] = code
            self.reasons.append(reason)
        self._last[row] = len(self.row)
        self.row.append(row)
        self.time_s.append(now_s)
        self.reason.append(code)
        self.expected_start_s.append(expected_s)

    def last(self, row: int) -> str:
        """Return the last reason of a job, by row; empty: none is recorded."""
        last = self._last[row] if row < len(self._last) else -1
        return self.reasons[self.reason[last]] if last >= 0 else ""

    def warnings(self) -> list[str]:
        """Return the warning about explanations that were not recorded, if there are any."""
        if not self.dropped:
            return []
        return [
            f"{self.dropped} explanations of the scheduler were not recorded; a session has at "
            f"most {MAX_EXPLANATIONS} of them with {MAX_REASONS} different reasons"
        ]

    def _repeats(self, row: int, reason: str, expected_s: float) -> bool:
        if row >= len(self._last):
            self._last.extend([-1] * (row + 1 - len(self._last)))
        last = self._last[row]
        if last < 0 or self.reasons[self.reason[last]] != reason:
            return False
        before_s = self.expected_start_s[last]
        return before_s == expected_s or (math.isnan(before_s) and math.isnan(expected_s))


# The first two states are those of a job that is not over.
STATES: tuple[str, ...] = (
    "waiting",
    "running",
    "completed",
    "timeout",
    "killed",
    "node_failed",
    "rejected",
    "failed",
    "cancelled",
    "preempted",
    "deadline",
)
WAITING, RUNNING = 0, 1
_CODES: Mapping[str, int] = {state: code for code, state in enumerate(STATES)}
_PLACEMENT_CODES: Mapping[str, int] = {name: code for code, name in enumerate(PLACEMENTS)}
POWER_STATES: tuple[RecordedState, ...] = RECORDED_STATES
NAN = float("nan")


class Recording:
    """Columns of a run.

    The columns of jobs have one row for each job, in order of submission. The columns of changes
    are in chronological order.

    Attributes:
        job_id: job id, by row.
        submit_s: time of the submission, s, by row.
        start_s: start of the last run, s, by row; NaN before it, also after a requeue.
        end_s: end of the job, s, by row; NaN before it.
        state: index into `STATES`, by row; suspended jobs are `running`.
        requested_s: requested run time, s, by row.
        deadline_s: deadline, s, by row; infinity: none.
        cores: requested cores, by row.
        owners: names of the job's user, of its group, of its partitions, of its account and of its
            quality of service, by row.
        names: name of the job, by row; jobs without a name are absent.
        placement: index into `PLACEMENTS`, by row.
        last_period: number of the last computing period, by row; -1 before the first start.
        suspended_s: suspended time in all runs, s, by row; jobs without any are absent.
        last_run_suspended_s: the part of it in the last run, s, by row.
        suspended_since_s: begin of the suspension of the jobs that are suspended, s, by row.
        lost_core_s: core-seconds of computing that no later run continued, because of requeues and
            failures of nodes, by row; jobs without any are absent.
        requeues: number of requeues by cause; causes without any are absent.
        drain_s, drain_node, drained: changes of drains: simulation time, node, and 1 if the node is
            drained from then on, else 0.
        reasons: why a job did not run, by row: as the server said at its submission or at the end
            of its dependencies, or as the scheduler said.
        declined: rows whose reason is the scheduler's.
        changes: begins and ends of computing periods: the number of the period for a begin, its
            complement ~number for an end.
        ended_idle: rows of jobs that were over while none of their tasks ran: they waited or were
            suspended; in chronological order.
        power_at, power_s, power_node, power_state: changes of power states: index of the next
            entry of `changes`, simulation time, node, and index into `POWER_STATES`.
        kinds: node kinds beyond the groups of the platform, in order of their numbers.
        kind_at, kind_s, kind_node, kind_number: changes of node kinds: index of the next entry of
            `changes`, simulation time, node, and index into `Cluster.kinds`.
    """

    def __init__(self) -> None:
        self.job_id = array("q")
        self.submit_s = array("d")
        self.start_s = array("d")
        self.end_s = array("d")
        self.state = array("b")
        self.requested_s = array("d")
        self.deadline_s = array("d")
        self.cores = array("q")
        self.owners = Owners()
        self.names: dict[int, str] = {}
        self.placement = array("b")
        self.periods = Periods()
        self.last_period = array("q")
        self.suspended_s: dict[int, float] = {}
        self.last_run_suspended_s: dict[int, float] = {}
        self.suspended_since_s: dict[int, float] = {}
        self.lost_core_s: dict[int, float] = {}
        self.requeues: dict[RequeueCause, int] = {}
        self.changes = array("q")
        self.ended_idle = array("q")
        self.power_at = array("q")
        self.power_s = array("d")
        self.power_node = array("i")
        self.power_state = array("b")
        self.kinds: list[NodeGroup] = []
        self.kind_at = array("q")
        self.kind_s = array("d")
        self.kind_node = array("i")
        self.kind_number = array("i")
        self.drain_s = array("d")
        self.drain_node = array("i")
        self.drained = array("b")
        self.reasons: dict[int, str] = {}
        self.declined: set[int] = set()
        self.explanations = Explanations()
        self.over = 0

    def __len__(self) -> int:
        return len(self.job_id)

    def submitted(self, job: JobSpec) -> int:
        """Record a submission and return the job's row."""
        row = len(self.job_id)
        self.job_id.append(job.job_id)
        self.submit_s.append(job.submit_s)
        self.start_s.append(NAN)
        self.end_s.append(NAN)
        self.state.append(0)
        self.requested_s.append(job.requested_s)
        self.deadline_s.append(job.deadline_s)
        self.cores.append(job.cores)
        self.owners.append((job.user, job.group, job.partition, job.account, job.qos))
        if job.request is not None and job.request.name:
            self.names[row] = job.request.name
        self.placement.append(_PLACEMENT_CODES[job.placement])
        self.last_period.append(-1)
        return row

    def started(self, row: int, now_s: float, nodes: list[int], tasks: list[int]) -> None:
        """Record the start of a run of a job."""
        self.start_s[row] = now_s
        self.state[row] = RUNNING
        last = self.last_period[row]
        run = 1 if last < 0 else self.periods.run[last] + 1
        self.last_period[row] = period = self.periods.begin(row, run, now_s, nodes, tasks)
        self.changes.append(period)

    def suspended(self, row: int, now_s: float) -> None:
        """Record the suspension of a running job."""
        self._end_period(row, now_s, "suspended")
        self.suspended_since_s[row] = now_s

    def resumed(self, row: int, now_s: float) -> None:
        """Record that a suspended job runs again."""
        self._end_suspension(row, now_s)
        self.last_period[row] = period = self.periods.resume(self.last_period[row], now_s)
        self.changes.append(period)

    def requeued(self, row: int, now_s: float, cause: RequeueCause, lost_core_s: float) -> None:
        """Record that a job waits again."""
        failed = cause == "node_failed"
        if self.state[row] != RUNNING:
            pass
        elif self._end_suspension(row, now_s):
            self.periods.requeued(
                self.last_period[row],
                "suspended_requeued_node_failed" if failed else "suspended_requeued",
            )
        else:
            self._end_period(row, now_s, "requeued_node_failed" if failed else "requeued")
        self.state[row] = WAITING
        self.start_s[row] = NAN
        self.last_run_suspended_s.pop(row, None)
        self.requeues[cause] = self.requeues.get(cause, 0) + 1
        self.lost(row, lost_core_s)

    def lost(self, row: int, core_s: float) -> None:
        """Record that core-seconds of computing of a job are lost."""
        if core_s:
            self.lost_core_s[row] = self.lost_core_s.get(row, 0.0) + core_s

    def ended(self, row: int, now_s: float, state: JobState, reason: str = "") -> None:
        """Record that a job is over.

        Args:
            reason: why the job did not run; empty: no reason is known, or it ran.
        """
        self.end_s[row] = now_s
        if self.state[row] != RUNNING or (
            self.suspended_since_s and self._end_suspension(row, now_s)
        ):
            self.ended_idle.append(row)
        else:
            self._end_period(row, now_s, state)
        self.state[row] = _CODES[state]
        if reason:
            self.reasons[row] = reason
        self.over += 1

    def _end_suspension(self, row: int, now_s: float) -> bool:
        """End the suspension of a job; return False if it is not suspended."""
        if row not in self.suspended_since_s:
            return False
        lasted_s = now_s - self.suspended_since_s.pop(row)
        for column in (self.suspended_s, self.last_run_suspended_s):
            column[row] = column.get(row, 0.0) + lasted_s
        return True

    def _end_period(self, row: int, now_s: float, why: PeriodEnd) -> None:
        period, periods = self.last_period[row], self.periods
        periods.end_s[period] = now_s
        periods.why[period] = PERIOD_CODES[why]
        self.changes.append(~period)

    def powered(self, now_s: float, node: int, state: RecordedState) -> None:
        """Record that a node entered a power state or failed."""
        self.power_at.append(len(self.changes))
        self.power_s.append(now_s)
        self.power_node.append(node)
        self.power_state.append(POWER_STATES.index(state))

    def changed_drain(self, now_s: float, node: int, *, drained: bool) -> None:
        """Record that a node was drained, or that its drain ended."""
        self.drain_s.append(now_s)
        self.drain_node.append(node)
        self.drained.append(drained)

    def changed_kind(self, now_s: float, node: int, kind: int) -> None:
        """Record that a node changed its kind."""
        self.kind_at.append(len(self.changes))
        self.kind_s.append(now_s)
        self.kind_node.append(node)
        self.kind_number.append(kind)

    def count_shutdowns(self) -> int:
        """Return the number of times that a node began to switch off, over all nodes."""
        return self.power_state.count(POWER_STATES.index("switching_off"))

    def suspended_until(self, now_s: float) -> dict[int, float]:
        """Return the suspended time of jobs up to now, s, by row; jobs without any are absent."""
        found = dict(self.suspended_s)
        for row, since_s in self.suspended_since_s.items():
            found[row] = found.get(row, 0.0) + now_s - since_s
        return found

    @property
    def has_single_runs(self) -> bool:
        """Whether no job was requeued or suspended."""
        return not (self.requeues or self.suspended_s or self.suspended_since_s)

    def nodes_of(self, row: int) -> list[int]:
        """Return the nodes of the last run in the order of its allocation.

        The list is empty before the start, also before the start after a requeue.
        """
        return self.periods.nodes_of(self.last_period[row]) if not isnan(self.start_s[row]) else []

    def tasks_of(self, row: int) -> list[int]:
        """Return the number of tasks on each of `nodes_of(row)`."""
        return self.periods.tasks_of(self.last_period[row]) if not isnan(self.start_s[row]) else []
