"""Executions of jobs that share hosts or links: their tasks slow each other down.

The end of such a job is not known at its start. Its simple tasks run one after the other, and the
rates of the tasks that run are solved again whenever one of those that they share resources with
begins or ends. Jobs that share nothing have a fixed duration and no execution here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from hpcosim_batsim.fair_bottleneck import Claim, SharedRates
from hpcosim_batsim.inputs.tasks import (
    HostTask,
    SimpleTask,
    part_at,
    parts,
    progress_of_part,
)
from hpcosim_protocol import Decision, Event
from hpcosim_sim.engine import decisions
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.engine import Engine
from hpcosim_workloads.table import JobSpec

_INSTANT_S = 1e-9  # tasks that end within this time end together


class SetLoads(Protocol):
    """Sets the load of hosts by a job."""

    def __call__(
        self, job: int, hosts: Sequence[int], loads: Mapping[int, float], speed: float = 1.0
    ) -> None:
        """Set the load of `hosts` by the job to `speed` times `loads`."""


@dataclass(slots=True, eq=False)
class Execution:
    """A job whose tasks share resources.

    Attributes:
        part: the simple task that runs; None: none has begun.
        waits: whether the part has not begun to compute and to transfer: its latency passes.
        left: share of the part that was left at `since_s`, 0 to 1.
        since_s: time of the last change of `left` and `rate_per_s`, s.
        rate_per_s: rate of the part, parts per second.
        until_s: time of the end of the latency or of the part at this rate, s.
    """

    job: int
    hosts: Sequence[int]
    task: HostTask
    rest: Iterator[SimpleTask]
    part: SimpleTask | None = None
    number: int = -1
    waits: bool = False
    left: float = 1.0
    since_s: float = 0.0
    rate_per_s: float = 0.0
    until_s: float = math.inf

    def begin_next(self, now_s: float) -> bool:
        """Begin the next part with its latency; return False if there is none."""
        self.part = next(self.rest, None)
        if self.part is None:
            return False
        self.number += 1
        self.left, self.since_s, self.rate_per_s = 1.0, now_s, 0.0
        self.waits = True
        self.until_s = now_s + self.part.latency_s
        return True

    def set_rate(self, now_s: float, rate_per_s: float) -> None:
        """Change the rate from now on."""
        self.left = self.left_at(now_s)
        self.since_s, self.rate_per_s = now_s, rate_per_s
        self.until_s = now_s + self.left / rate_per_s

    @property
    def claims(self) -> bool:
        """Whether the part claims shared resources now."""
        return self.part is not None and bool(self.part.shared) and self.rate_per_s > 0.0

    def left_at(self, now_s: float) -> float:
        """Return the share of the part that is left, 0 to 1."""
        return max(self.left - self.rate_per_s * (now_s - self.since_s), 0.0)


class Executions:
    """The executions that run.

    Args:
        simulation: the simulation; its jobs with an execution have an infinite run time.
    """

    def __init__(
        self,
        simulation: SteppedEngine,
        capacity_of: Callable[[int], float],
        set_loads: SetLoads,
    ) -> None:
        self._simulation = simulation
        self._rates = SharedRates(capacity_of)
        self._set_loads = set_loads
        self._running: dict[int, Execution] = {}
        self._timer: Timer | None = None
        self._part_begun_s: dict[int, float] = {}  # by job

    def start(self, job: int, hosts: Sequence[int], task: HostTask) -> None:
        """Start the execution of a job."""
        execution = self._running[job] = Execution(job, hosts, task, parts(task))
        execution.until_s = self._simulation.now_s
        self._set_timer()

    def has(self, job: int) -> bool:
        """Tell whether a job has an execution."""
        return job in self._running

    def take_over(self, job: int, hosts: Sequence[int], task: HostTask, elapsed_s: float) -> None:
        """Continue a job whose parts had fixed durations and share nothing.

        Args:
            task: its task, without a `ReplayTask`.
            elapsed_s: time since its start, s.
        """
        now_s = self._simulation.now_s
        number, of_part_s = part_at(task, elapsed_s)
        execution = Execution(job, hosts, task, islice(parts(task), number, None))
        begun_s = now_s - of_part_s
        execution.number = number - 1
        execution.begin_next(begun_s)
        part = execution.part
        assert part is not None
        if of_part_s >= part.latency_s:
            execution.waits = False
            work_s = part.duration_s - part.latency_s
            execution.left = 1.0 - (of_part_s - part.latency_s) / work_s if work_s else 0.0
            execution.since_s, execution.until_s = now_s, now_s
        self._running[job], self._part_begun_s[job] = execution, begun_s

    def change_task(self, job: int, task: HostTask) -> None:
        """Continue a job with a task of the same parts that have other durations."""
        execution, now_s = self._running[job], self._simulation.now_s
        ended = [job] if execution.claims else []
        execution.task = task
        if execution.part is None:
            execution.rest = parts(task)
            return
        execution.rest = islice(parts(task), execution.number, None)
        part = execution.part = next(execution.rest)
        if execution.waits:
            self._set_timer()
            return
        work_s = part.duration_s - part.latency_s
        if work_s > 0:
            execution.set_rate(now_s, 1.0 / work_s)
            self._set_loads(job, execution.hosts, part.loads)
        self._update({job: _claim_of(part)} if part.shared else {}, ended)

    def stop(self, job: int) -> float | None:
        """Forget the execution of a job that has ended.

        Returns:
            The time at which its last part began, s; None: it has no execution.
        """
        execution = self._running.pop(job, None)
        if execution is not None:
            self._update({}, [job] if execution.claims else [])
        return self._part_begun_s.pop(job, None)

    def progress(self, job: int) -> dict[str, Any] | None:
        """Return the progress of a job in the form of `JOB_KILLED`; None: it has no execution."""
        execution = self._running.get(job)
        if execution is None:
            return None
        done = 1.0 - execution.left_at(self._simulation.now_s)
        return progress_of_part(execution.task, max(execution.number, 0), done)

    def _wake(self, _: Timer) -> None:
        self._timer = None
        now_s = self._simulation.now_s
        begun: dict[int, Claim] = {}
        ended = []
        due = [each for each in self._running.values() if each.until_s <= now_s + _INSTANT_S]
        for execution in due:
            if execution.claims:
                ended.append(execution.job)
            if self._advance(execution, now_s):
                assert execution.part is not None
                if execution.part.shared:
                    begun[execution.job] = _claim_of(execution.part)
            elif execution.part is None:
                del self._running[execution.job]
                self._simulation.complete(execution.job)
        self._update(begun, ended)

    def _advance(self, execution: Execution, now_s: float) -> bool:
        """Continue an execution; return whether a part begins to compute and to transfer."""
        while True:
            part = execution.part
            if part is not None and execution.waits:
                execution.waits = False
                duration_s = part.duration_s - part.latency_s
                if duration_s > 0:
                    self._set_loads(execution.job, execution.hosts, part.loads)
                    execution.set_rate(now_s, 1.0 / duration_s)
                    return True
            if not execution.begin_next(now_s):
                return False
            self._part_begun_s[execution.job] = now_s
            assert execution.part is not None
            if execution.part.latency_s > 0:
                self._set_loads(execution.job, execution.hosts, {})
                return False

    def _update(self, begun: Mapping[int, Claim], ended: Sequence[int]) -> None:
        """Solve the rates again after tasks began and ended."""
        if begun or ended:
            now_s = self._simulation.now_s
            for job, rate_per_s in self._rates.update(begun, ended).items():
                execution = self._running[job]
                if rate_per_s != execution.rate_per_s:
                    execution.set_rate(now_s, rate_per_s)
                    part = execution.part
                    assert part is not None
                    speed = rate_per_s * (part.duration_s - part.latency_s)  # 1: alone
                    self._set_loads(job, execution.hosts, part.loads, speed)
        self._set_timer()

    def _set_timer(self) -> None:
        next_s = min((each.until_s for each in self._running.values()), default=math.inf)
        timer, clock = self._timer, self._simulation.clock
        if timer is not None:
            if timer.at_s == next_s:
                return
            clock.cancel(timer)
        self._timer = None
        if next_s < math.inf:
            next_s = max(next_s, clock.now)
            self._timer = clock.at(next_s, Rank.COMPLETION, self._wake, None)


def _claim_of(part: SimpleTask) -> Claim:
    return Claim(1.0 / (part.duration_s - part.latency_s), part.shared)


class SteppedEngine(Engine):
    """An engine that advances by one instant at a time.

    Every job joins the queue, because Batsim leaves it to the scheduler to reject jobs that cannot
    run. Power switches and alarms continue after the last job has ended.
    """

    def admission_error(self, spec: JobSpec) -> str:
        """Return an empty text: no job is rejected at its submission."""
        return ""

    def step(self, until_s: float = math.inf) -> list[Event]:
        """Process the next instant and return its events.

        Args:
            until_s: if there is no event until this time, s, advance to it; infinity: do not
                advance then.

        Returns:
            The events since the last call, see `take_events`.
        """
        clock = self.clock
        if clock.next_s() <= until_s:
            clock.run_instant()
        elif until_s < math.inf:
            clock.advance_to(until_s)
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        return self.outbox.take()

    def next_s(self) -> float:
        """Return the time of the next event, s; infinity: there is none."""
        return self.clock.next_s()

    def carry_out(self, decision: Decision) -> None:
        """Apply a decision at the current time."""
        decisions.carry_out(self, decision)

    def reshape(self, job_id: int, cores: int, run_s: float) -> None:
        """Set the cores and the run time of a waiting job.

        Args:
            run_s: run time on the nodes of its allocation, s; infinity: `complete` ends the job,
                unless it reaches its requested time.
        """
        job = self.jobs.waiting_job(job_id)
        job.spec = job.spec._replace(cores=cores, run_s=run_s)
        self.recording.cores[job.row] = cores

    def leave_open(self, job_id: int, left_s: float) -> None:
        """Let a running job run until `complete` ends it.

        Args:
            left_s: time until it reaches its requested time, s.
        """
        job = self.jobs.running_job(job_id)
        job.spec = job.spec._replace(run_s=math.inf, requested_s=left_s)
        self.end_timers.cancel(job)
        self.end_timers.set(job)

    def complete(self, job_id: int) -> None:
        """End a running job successfully."""
        self.end(self.jobs.running_job(job_id), "completed")
