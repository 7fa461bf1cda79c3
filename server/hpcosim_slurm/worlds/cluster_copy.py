"""A copy of the cluster that follows what happens in reality; the base of both worlds.

The rules:

* Jobs that run at the start run in the copy on their real nodes. Waiting jobs wait.
* Submissions, cancellations, holds, releases, requeues, suspensions, changes of time limits, and
  failures, drains and returns of nodes happen in the copy when the bridge learns of them.
* Jobs of other partitions on nodes of the copy run there as in reality; the scheduler does not
  decide on them.
* The reservations are those of the start. Nodes of others are drained while these last.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hpcosim_protocol import Decision, Platform
from hpcosim_protocol.events import RequeueCause
from hpcosim_sim.engine.job_runs import change_node, requeue
from hpcosim_sim.engine.jobs import HELD, SimulatedJob
from hpcosim_sim.engine.site_events import JobAction, JobActionKind
from hpcosim_sim.errors import Rejection
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.worlds import difference, specs
from hpcosim_slurm.worlds.live_engine import KnownRun, LiveEngine, place
from hpcosim_slurm.worlds.site import Site, platform_of, starts_in


class RunTimes:
    """Notes how long jobs were suspended, as far as the bridge has seen it."""

    def __init__(self) -> None:
        self._suspended_s: dict[int, float] = {}
        self._since_s: dict[int, float] = {}

    def note(self, before: LiveJob | None, job: LiveJob, at_s: float) -> None:
        """Note a change of a job.

        Args:
            before: the job before; None: it is new.
        """
        since_s = self._since_s.pop(job.id, None)
        if since_s is not None:
            lasted_s = (at_s if job.ended_s is None else job.ended_s) - since_s
            self._suspended_s[job.id] = self._suspended_s.get(job.id, 0.0) + max(lasted_s, 0.0)
        if job.state == "suspended":
            self._since_s[job.id] = at_s
        elif job.state == "pending" or (before is not None and before.started_s != job.started_s):
            self._suspended_s.pop(job.id, None)

    def of(self, job: LiveJob) -> float | None:
        """Return the run time of a job that is over, s; None: it did not run."""
        if job.started_s is None or job.ended_s is None:
            return None
        lasted_s = job.ended_s - job.started_s - self._suspended_s.get(job.id, 0.0)
        return max(lasted_s, 0.0)


class ClusterCopy(ABC):
    """A copy of the part of a cluster that a scheduler sees, and what its decisions do.

    Args:
        state: that part at the start; see `site.chosen`.

    Attributes:
        engine: the state of the cluster as the scheduler sees it. Its outbox has the events that
            the scheduler has not got.
        not_copied: why jobs that run in reality at the start are not in the copy, by number.
    """

    def __init__(self, state: ClusterState, site: Site) -> None:
        self.state = state
        self.not_copied: dict[int, str] = {}
        self._site = site
        self._run_times = RunTimes()
        self._returned: list[str] = []  # nodes that failed before the last look, and are back
        self._number = {name: at for at, name in enumerate(state.nodes)}
        present = [job for job in state.jobs.values() if job.state != "over"]
        start_s = min((min(job.submitted_s, state.at_s) for job in present), default=state.at_s)
        platform = platform_of(state, site)
        self._shown = specs.Shown(state, platform)
        self._reserved: frozenset[str] = frozenset()  # nodes of reservations that are not shown
        self.engine = self._make_engine(platform, start_s)
        self._adopt(present)

    def pass_to(self, now_s: float) -> None:
        """Let time pass up to now, a Unix time, s."""
        self.engine.pass_to(now_s)

    def note(self, change: difference.Change) -> None:
        """Note changes: first jobs end, then nodes change, then jobs are submitted and changed."""
        before, after = self.state, difference.applied(self.state, change)
        self.state, self._shown = after, specs.Shown(after, self._shown.platform)
        self.engine.pass_to(change.at_s)
        for job_id in change.gone:
            if job_id in before.jobs and before.jobs[job_id].state != "over":
                self._forgotten(before.jobs[job_id], change.at_s)
        for job in change.jobs:
            self._run_times.note(before.jobs.get(job.id), job, change.at_s)
            if job.state == "over" and job.id in before.jobs:
                self._ended(job)
        self._note_nodes(before, change)
        for job in sorted(change.jobs, key=lambda job: (job.submitted_s, job.id)):
            if job.id not in before.jobs:
                if job.is_outside and job.state != "over":
                    self._submit_with_nodes(job, self.engine.now_s)
                    self._run(job)
                    continue
                self._submit(job, self.engine.now_s)
                if job.state == "over":
                    self._ended(job)
            elif job.state != "over":
                self._changed(before.jobs[job.id], job)
        self.engine.pass_to(change.at_s)

    def _note_nodes(self, before: ClusterState, change: difference.Change) -> None:
        self._returned = difference.failed_and_back(before, self.state, change)
        for name in self._returned:
            change_node(self.engine, "fail", self._number[name])
            change_node(self.engine, "repair", self._number[name])
        reserved = specs.newly_reserved(self.state, self._shown.platform, self._number)
        changed = {node.name for node in change.nodes} | (reserved ^ self._reserved)
        self._reserved = reserved
        for name, node in self.state.nodes.items():
            if name in changed and name in self._number:
                self._note_node(name, node)
        for name in change.lost_nodes:
            if name in self._number:
                gone = replace(before.nodes[name], is_available=False, slurm_state="DOWN")
                difference.note_node(self.engine, self._number[name], gone)

    def _note_node(self, name: str, node: LiveNode) -> None:
        if name in self._reserved:
            node = replace(node, is_available=False)
        difference.note_node(self.engine, self._number[name], node)

    # The start

    def _adopt(self, present: list[LiveJob]) -> None:
        """Let the past of the jobs happen that Slurm has now, in order."""
        past: list[tuple[float, int, int, Callable[[], None]]] = []
        now_s, engine = self.state.at_s, self.engine
        for job in present:
            self._run_times.note(None, job, now_s)
            at_s = min(job.submitted_s, now_s)
            if job.state == "pending":
                past.append((at_s, 0, job.id, partial(self._submit, job, at_s)))
                continue
            past.append((at_s, 0, job.id, partial(self._submit_with_nodes, job, at_s)))
            started_s = min(max(job.started_s or now_s, at_s), now_s)
            past.append((started_s, 1, job.id, partial(self._run, job)))
            if job.state == "suspended":
                past.append((now_s, 2, job.id, partial(self._act, job.id, "suspend")))
        for at_s, _, _, happen in sorted(past, key=lambda each: each[:3]):
            engine.pass_to(at_s)
            happen()
        engine.pass_to(now_s)
        for name, node in self.state.nodes.items():
            difference.switch_off_at_start(engine, self._number[name], node)
            self._note_node(name, node)

    def _run(self, job: LiveJob) -> None:
        """Start a job on its real nodes."""
        found = self.engine.jobs.waiting.get(job.id)
        nodes = [self._number[name] for name in job.nodes if name in self._number]
        is_whole = len(nodes) == len(job.nodes)
        if found is not None and is_whole and place(self.engine, found, nodes):
            return
        self.not_copied[job.id] = (
            "it shares cores with other jobs, or has nodes of other partitions"
        )
        if found is not None:
            self.engine.end(found, "cancelled", "its real allocation cannot be copied")

    # Jobs

    def _submit(self, job: LiveJob, at_s: float) -> None:
        shown = replace(self._where_it_starts(job), is_held=self._is_held(job))
        self.engine.submit(specs.spec_of(shown, at_s, self._shown))

    def _submit_with_nodes(self, job: LiveJob, at_s: float) -> None:
        """Submit a job that has its nodes already: what it waited for does not matter any more."""
        self.engine.submit(
            specs.spec_with_nodes(job, at_s, self._shown, self.engine.admission_error)
        )

    def _ended(self, job: LiveJob) -> None:
        """Note that a real job is over."""
        if not job.is_outside:
            self._over(job)
        elif (found := self.engine.jobs.find(job.id)) is not None:
            self.engine.end(
                found, "cancelled" if specs.is_cancelled(job) else specs.final_state_of(job)
            )

    def _where_it_starts(self, job: LiveJob) -> LiveJob:
        """Return a job in the partitions in which it starts, not in which it waits."""
        return replace(job, partition=starts_in(self._site, job.partition))

    @abstractmethod
    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """Carry out a decision now, or add the event that rejects it."""

    @abstractmethod
    def _over(self, job: LiveJob) -> None:
        """Note that a real job of the scheduler is over."""

    def _check_own(self, decision: Decision) -> None:
        """Check that a decision is not on a job of another partition."""
        job = self.state.jobs.get(getattr(decision, "job_id", -1))
        if job is not None and job.is_outside:
            what = f"job {job.id} is of a partition on which the scheduler does not decide"
            raise Rejection("not_allowed", what)

    def _make_engine(self, platform: Platform, start_s: float) -> LiveEngine:
        return LiveEngine(platform, start_s)

    def _forgotten(self, job: LiveJob, at_s: float) -> None:
        """Note that Slurm has forgotten a job whose end the bridge has missed."""
        was = "COMPLETED" if job.started_s is not None else "CANCELLED"
        over = replace(job, state="over", slurm_state=was, ended_s=at_s)
        self._run_times.note(job, over, at_s)
        self._ended(over)

    def _changed(self, before: LiveJob, job: LiveJob) -> None:
        """Let happen in the copy what users and administrators did to a job."""
        found = self.engine.jobs.find(job.id)
        if found is None:
            return
        if job.state == "pending" and before.state != "pending":
            self._requeued(found, before, job)
        elif found.state == "waiting" and job.eligible_s != before.eligible_s:
            self._begin_later(job)
        if found.state == "waiting":
            self._hold_or_release(found, job)
            if 0 < job.array_limit != before.array_limit:
                self._act(job.id, "update", array_limit=job.array_limit)
        limit_s = specs.requested_s(self._where_it_starts(job), self.state)
        if limit_s != specs.requested_s(self._where_it_starts(before), self.state):
            self._act(job.id, "update", requested_s=limit_s)
        if job.state == "suspended" and before.state == "running":
            self._act(job.id, "suspend")
        elif job.state == "running" and before.state == "suspended":
            self._act(job.id, "resume")

    def _requeued(self, found: SimulatedJob, before: LiveJob, job: LiveJob) -> None:
        """Note that a real job was requeued."""
        self._requeue(found, before, job, "user")

    def _requeue(
        self, found: SimulatedJob, before: LiveJob, job: LiveJob, cause: RequeueCause
    ) -> None:
        """Let a job of the copy wait again."""
        self.engine.end_timers.forget(job.id)
        nodes = [self.state.nodes[name] for name in before.nodes if name in self.state.nodes]
        if any(difference.is_down(node) or node.name in self._returned for node in nodes):
            self._begin_later(job)  # the failure of the node has requeued the copy, if it was there
        elif found.state != "waiting":
            begin_s = job.eligible_s if (job.eligible_s or -math.inf) > self.engine.now_s else None
            requeue(self.engine, found, cause, begin_s, hold=job.is_held)

    def _begin_later(self, job: LiveJob) -> None:
        if (job.eligible_s or -math.inf) > self.engine.now_s:
            self._act(job.id, "update", begin_s=job.eligible_s)

    def _hold_or_release(self, found: SimulatedJob, job: LiveJob) -> None:
        is_held = self._is_held(job)
        if is_held and not found.blocked & HELD:
            self._act(job.id, "hold")
        elif not is_held and found.blocked & HELD:
            self._act(job.id, "release")

    def _is_held(self, job: LiveJob) -> bool:
        """Return whether a waiting job may not start."""
        return job.is_held or specs.waits_for_more(job, self._shown)

    def _act(self, job_id: int, kind: JobActionKind, **changes: Any) -> None:
        action = JobAction(at_s=self.engine.now_s, job_id=job_id, kind=kind, **changes)
        self.engine.actions.act(action)


class ShadowWorld(ClusterCopy):
    """A virtual copy of the part of a cluster that a scheduler sees; see `ClusterCopy`."""

    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """Carry out a decision in the copy, or add the event that rejects it."""
        try:
            self._check_own(decision)
        except Rejection as rejection:
            self.engine.reject(decision, seq, index, rejection)
            return
        self.engine.decide(decision, seq, index)

    def _over(self, job: LiveJob) -> None:
        """Note that a real job is over: now its run time is known."""
        engine, found = self.engine, self.engine.jobs.find(job.id)
        if found is None:
            return
        if specs.is_cancelled(job):
            engine.end(found, "cancelled")
            return
        if job.slurm_state.startswith("DEADLINE"):
            engine.end(found, "deadline")
            return
        run_s = self._run_times.of(job)
        if run_s is None:  # Slurm has ended it without a run, such as BOOT_FAIL
            engine.end(found, "cancelled", f"Slurm: {job.slurm_state}"[:200])
            return
        engine.end_timers.learn(job.id, KnownRun(run_s, specs.final_state_of(job)))
