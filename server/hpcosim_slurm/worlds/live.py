"""The cluster itself: decisions become commands of Slurm, and events are what Slurm does.

The rules, beside those of `cluster_copy`:

* A decision is checked against the copy first, so that a mistake has the same answer as in a
  simulation. Then it becomes an order.
* `job_started` and `job_completed` are events when the bridge sees them in reality, on the real
  nodes. Until then a job that the scheduler has started waits, and its nodes are promised to it.
* An order that Slurm refuses, or a job that Slurm does not start in time, becomes
  `decision_rejected` with Slurm's words. The job waits again.
* A job that was requeued is taken back, so that it starts by a decision again.
* Decisions about runs: see `RunChanges`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import hpcosim_protocol as protocol
from hpcosim_protocol.requests import snake_case
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.decisions import allocation_of, check_grace, job_to_requeue
from hpcosim_sim.engine.job_runs import check_resume
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.physics.grants import Grant
from hpcosim_slurm import commands
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.state import JobState as SlurmJobState
from hpcosim_slurm.worlds.cluster_copy import ClusterCopy
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.live_engine import LiveEngine, NoEnds, place
from hpcosim_slurm.worlds.site import Site, start_partition, starts_in, waits_in
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled, waits_for_more

RunDecision = protocol.KillJob | protocol.RequeueJob | protocol.SuspendJob | protocol.ResumeJob
OrderIt = Callable[[commands.Action, protocol.Decision, int, int], None]
JobsNow = Callable[[], Mapping[int, LiveJob]]
RejectIt = Callable[[protocol.Decision, int, int, Rejection], None]

RUN_CODES: Mapping[type[protocol.Decision], protocol.RejectionCode] = {
    protocol.KillJob: "job_not_running",
    protocol.RequeueJob: "not_requeueable",
    protocol.SuspendJob: "job_not_running",
    protocol.ResumeJob: "job_not_suspended",
}
"""Code of a decision that Slurm refuses or does not carry out."""

_BEFORE: Mapping[type[protocol.Decision], tuple[str, ...]] = {
    protocol.KillJob: ("pending", "configuring", "running", "suspended"),
    protocol.RequeueJob: ("configuring", "running", "suspended"),
    protocol.SuspendJob: ("configuring", "running"),
    protocol.ResumeJob: ("suspended",),
}
"""States of a job (`LiveJob.state`) in which Slurm has not carried out a decision yet."""

_BY_SIGTERM = 128 + 15
"""Exit code of a job that SIGTERM has ended."""

ON_NODES: tuple[SlurmJobState, ...] = ("configuring", "running", "suspended", "completing")
UNSUPPORTED = (protocol.SetCheckpoint, protocol.SubmitJob)
HOPELESS = ("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "ReqNodeNotAvail")
"""Reasons for which Slurm will not start a job on the nodes that it was given."""
NO_DECISION = -1
"""Position of an order that no decision asked for."""
CODES: Mapping[type[protocol.Decision], protocol.RejectionCode] = {
    protocol.AllocateJob: "bad_allocation",
    protocol.RejectJob: "job_not_waiting",
    protocol.SetNodePower: "not_allowed",
    **RUN_CODES,
}


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A decision whose effect the bridge has not seen yet."""

    decision: RunDecision
    seq: int
    index: int
    timer: Timer


class RunChanges:
    """Decisions about runs, their times of grace, and those whose effect was not seen yet."""

    def __init__(
        self, engine: LiveEngine, jobs: JobsNow, timeout_s: float, order: OrderIt, reject: RejectIt
    ) -> None:
        self.ends: dict[int, protocol.JobState] = {}
        self.suspended: set[int] = set()
        self._engine = engine
        self._jobs = jobs
        self._timeout_s = timeout_s
        self._order = order
        self._reject = reject
        self._awaited: dict[int, _Awaited] = {}
        self._deferred: list[int] = []  # jobs to resume when their cores are free
        self._warned: dict[
            int, protocol.JobState
        ] = {}  # jobs with SIGTERM, and what they are if it ends them

    # Decisions

    def decide(self, wanted: RunDecision, seq: int, index: int, *, is_starting: bool) -> None:
        """Check a decision, and order what it wants."""
        engine, job_id = self._engine, wanted.job_id
        earlier = self._awaited.get(job_id)
        if earlier is not None and not isinstance(wanted, protocol.KillJob):
            name = snake_case(type(earlier.decision).__name__)
            why = f"job {job_id}: Slurm has not carried out the last {name} yet"
            raise Rejection(RUN_CODES[type(wanted)], why)
        do = partial(self._do, wanted, seq, index)
        if isinstance(wanted, protocol.KillJob):
            job = engine.jobs.waiting[job_id] if is_starting else engine.jobs.placed_job(job_id)
            check_grace(engine, "kill_job", wanted.grace_s)
            if wanted.grace_s > 0.0 and self._jobs()[job_id].state == "running":
                self._warned[job_id] = wanted.state
                self._order(
                    commands.Terminate(self._jobs()[job_id].name_in_slurm), wanted, seq, index
                )
            engine.graces.set(job, wanted.grace_s, do)
        elif isinstance(wanted, protocol.RequeueJob):
            engine.graces.set(job_to_requeue(engine, wanted), wanted.grace_s, do)
        elif isinstance(wanted, protocol.SuspendJob):
            do(engine.jobs.running_job(job_id))
        else:
            job = engine.jobs.suspended_job(job_id)
            check_resume(engine, job)
            do(job)

    def _do(self, wanted: RunDecision, seq: int, index: int, job: SimulatedJob) -> None:
        """Order what a decision wants, at the end of its time of grace."""
        engine, job_id = self._engine, wanted.job_id
        if job.state == "over":
            return
        self.drop(job_id)
        if isinstance(wanted, protocol.KillJob):
            self.ends[job_id] = wanted.state
        timer = engine.clock.at(engine.now_s + self._timeout_s, Rank.ALARM, self._on_late, job_id)
        self._awaited[job_id] = _Awaited(wanted, seq, index, timer)
        if isinstance(wanted, protocol.ResumeJob):
            self._deferred.append(job_id)
        else:
            self._order(_action(wanted, self._jobs()[job_id].name_in_slurm), wanted, seq, index)

    def resume_deferred(self) -> None:
        """Order the resumes whose cores are free."""
        deferred, self._deferred = self._deferred, []
        for job_id in deferred:
            each, job = self._awaited.get(job_id), self._engine.jobs.suspended.get(job_id)
            if each is None or job is None:
                continue
            try:
                check_resume(self._engine, job)
            except Rejection:
                self._deferred.append(job_id)
                continue
            action = _action(each.decision, self._jobs()[job_id].name_in_slurm)
            self._order(action, each.decision, each.seq, each.index)

    @contextmanager
    def as_decided(self) -> Iterator[None]:
        """Let the copy be as after the awaited decisions, for the time of a check.

        The caller restores the free cores.
        """
        engine, freed = self._engine, []
        for job_id, each in self._awaited.items():
            job = engine.jobs.find(job_id)
            if job is None or job.state not in ("running", "suspended"):
                continue
            resumes = isinstance(each.decision, protocol.ResumeJob)
            if resumes == (job.state == "suspended"):
                for node, cores in zip(job.nodes, job.held, strict=True):
                    engine.cluster.free[node] += -cores if resumes else cores
            if (
                isinstance(each.decision, protocol.KillJob | protocol.RequeueJob)
                and job.resources is not None
            ):
                engine.resources.release(job.resources)
                freed.append(job.resources)
        try:
            yield
        finally:
            for resources in freed:
                engine.resources.hold(resources)

    # What Slurm says

    def refused(self, seq: int, index: int) -> protocol.Decision | None:
        """Forget the decision of an order that Slurm refuses, and return it; None: not known."""
        for job_id, each in self._awaited.items():
            if (each.seq, each.index) == (seq, index):
                self.drop(job_id)
                self.ends.pop(job_id, None)
                return each.decision
        return None

    def not_warned(self, decision: protocol.Decision) -> None:
        """Forget the time of grace of a decision whose signal Slurm refuses."""
        job = self._engine.jobs.find(getattr(decision, "job_id", -1))
        if job is not None:
            self._engine.graces.drop(job)
            self._warned.pop(job.spec.job_id, None)

    def to_resume(self) -> frozenset[int]:
        """Return the jobs that the scheduler has suspended, or is suspending."""
        waits = (
            job for job, each in self._awaited.items() if type(each.decision) is protocol.SuspendJob
        )
        return frozenset((*self.suspended, *waits))

    def requeue_of(self, job_id: int) -> protocol.RequeueJob | None:
        """Return the decision by which a job is being requeued; None: there is none."""
        each = self._awaited.get(job_id)
        found = None if each is None else each.decision
        return found if isinstance(found, protocol.RequeueJob) else None

    def note(self, job: LiveJob) -> None:
        """Note the state of a job."""
        each = self._awaited.get(job.id)
        if job.state != "suspended":
            self.suspended.discard(job.id)
        elif each is not None and isinstance(each.decision, protocol.SuspendJob):
            self.suspended.add(job.id)
        if each is not None and job.state not in _BEFORE[type(each.decision)]:
            if isinstance(each.decision, protocol.RequeueJob) and job.state == "completing":
                self._stop(each)  # it waits for the end of its processes
            else:
                self.drop(job.id)
        if job.state == "pending":
            self._warned.pop(job.id, None)

    def drop(self, job_id: int) -> None:
        """Wait no longer for the effect of a decision about a job."""
        each = self._awaited.pop(job_id, None)
        if each is not None:
            self._stop(each)

    def _stop(self, each: _Awaited) -> None:
        if each.timer.call is not None:
            self._engine.clock.cancel(each.timer)

    def final_state(self, job: LiveJob) -> protocol.JobState:
        """Return the final state of a job that is over, and forget the job."""
        self.drop(job.id)
        self.suspended.discard(job.id)
        decided, warned = self.ends.pop(job.id, None), self._warned.pop(job.id, None)
        if is_cancelled(job):
            return decided or "cancelled"
        if job.slurm_state.startswith(("NODE_FAIL", "BOOT_FAIL")):
            return "node_failed"
        if job.slurm_state.startswith("PREEMPTED"):
            return "preempted"
        if warned is not None and job.exit_code == _BY_SIGTERM:
            return warned
        return final_state_of(job)

    def _on_late(self, timer: Timer) -> None:
        job_id = timer.subject
        each = self._awaited.pop(job_id, None)
        if each is None:
            return
        name, state = snake_case(type(each.decision).__name__), self._jobs()[job_id].slurm_state
        why = f"Slurm has not carried out {name} within {self._timeout_s:g} s; the job is {state}"
        code = RUN_CODES[type(each.decision)]
        self._reject(each.decision, each.seq, each.index, Rejection(code, why))


def _action(wanted: RunDecision, name: str) -> commands.Action:
    if isinstance(wanted, protocol.KillJob):
        return commands.Cancel(name)
    if isinstance(wanted, protocol.RequeueJob):
        return commands.Requeue(name)
    return (
        commands.Suspend(name) if isinstance(wanted, protocol.SuspendJob) else commands.Resume(name)
    )


def are_on(engine: LiveEngine, nodes: list[int]) -> bool:
    """Switch nodes of a copy on, because a job runs there in reality; return whether they are."""
    for node in nodes:
        _reach(engine, node, "on")
    return engine.power.are_on(nodes)


def note_power(engine: LiveEngine, number: int, node: LiveNode) -> None:
    """Switch a node of a copy as the real one was switched, if no job of the copy prevents it."""
    wanted = {"off": "sleeping"}.get(node.power, node.power)
    is_used = engine.cluster.free[number] < engine.cluster.capacity[number]
    waits = bool(engine.jobs.allocated)
    if number in engine.availability.failed or (is_used and wanted != "on" and not waits):
        return
    if wanted == "on" or not is_used:
        _reach(engine, number, wanted)


def _reach(engine: LiveEngine, node: int, wanted: str) -> None:
    """Move a node of the copy through its power states to one of them."""
    group = engine.cluster.kinds[engine.cluster.group_of[node]]
    if group.power_states is None:
        return
    while engine.power.state[node] != wanted:
        state = engine.power.state[node]
        if state in ("switching_on", "switching_off"):
            engine.switching.complete(node)
            if engine.power.state[node] == state:  # its timer was cancelled
                after = "on" if state == "switching_on" else "sleeping"
                engine.switching.switch(node, after)  # type: ignore[arg-type]
        else:
            after = "switching_off" if state == "on" else "switching_on"
            engine.switching.switch(node, after)  # type: ignore[arg-type]


class LiveWorld(ClusterCopy):
    """The part of a cluster that a scheduler drives.

    Args:
        state: that part at the start; see `site.chosen`.

    Attributes:
        rejected_in_a_row: number of decisions since the last one that was carried out.
        diverged: why the copy differs from reality; empty: it does not.
        diverged_s: time since which it does, s.
    """

    def __init__(self, state: ClusterState, site: Site) -> None:
        self.rejected_in_a_row = 0
        self.diverged = ""
        self.diverged_s = 0.0
        self._promises: dict[int, Promise] = {}
        self._orders: list[LiveOrder] = []
        self._decided: dict[tuple[int, int], protocol.Decision] = {}
        super().__init__(state, site)
        self._runs = RunChanges(
            self.engine, lambda: self.state.jobs, site.start_timeout_s, self._order, self._reject
        )

    # Decisions

    def carry_out(self, decision: protocol.Decision, seq: int, index: int) -> None:
        """Check a decision, and collect the orders that it needs until `take_orders`."""
        if not index:
            self._decided.clear()
        try:
            self._check_and_order(decision, seq, index)
        except Rejection as rejection:
            self._reject(decision, seq, index, rejection)

    def take_orders(self) -> list[LiveOrder]:
        """Return the orders since the last call."""
        orders, self._orders = self._orders, []
        return orders

    def refused(self, seq: int, index: int, words: str) -> None:
        """Note that Slurm has refused an order."""
        later = self._runs.refused(seq, index)
        decision = later or self._decided.get((seq, index))
        if decision is None:
            return
        if isinstance(decision, protocol.AllocateJob):
            self._drop_promise(decision.job_id)
        elif later is None:
            self._runs.not_warned(decision)
        code = CODES.get(type(decision), "not_allowed")
        self._reject(decision, seq, index, Rejection(code, f"Slurm: {words}"))

    def _check_and_order(self, decision: protocol.Decision, seq: int, index: int) -> None:
        if isinstance(decision, UNSUPPORTED):
            name = snake_case(type(decision).__name__)
            raise Rejection("not_allowed", f"{name}: the bridge to Slurm does not carry it out")
        self._check_own(decision)
        if isinstance(decision, protocol.AllocateJob):
            self._allocate(decision, seq, index)
        elif isinstance(decision, protocol.RejectJob):
            self.engine.jobs.waiting_job(decision.job_id)
            if decision.at_end:  # a cluster has no end: the job goes on waiting in Slurm
                return
            self._runs.ends[decision.job_id] = decision.state
            name = self.state.jobs[decision.job_id].name_in_slurm
            self._order(commands.Cancel(name), decision, seq, index)
        elif isinstance(
            decision,
            protocol.KillJob | protocol.RequeueJob | protocol.SuspendJob | protocol.ResumeJob,
        ):
            with self._as_decided():
                is_starting = decision.job_id in self._promises
                self._runs.decide(decision, seq, index, is_starting=is_starting)
            self._runs.resume_deferred()
        elif self.engine.decide(decision, seq, index) and isinstance(
            decision, protocol.SetNodePower
        ):
            self.engine.switching.cancel(decision.node)  # what Slurm does is seen
            names = (list(self.state.nodes)[decision.node],)
            action = (
                commands.PowerUp(names) if decision.state == "on" else commands.PowerDown(names)
            )
            self._order(action, decision, seq, index)

    def _allocate(self, wanted: protocol.AllocateJob, seq: int, index: int) -> None:
        engine, job_id = self.engine, wanted.job_id
        if job_id in self._promises:
            raise Rejection("job_not_waiting", f"job {job_id} is being started by Slurm")
        with self._as_decided():
            _, tasks, grant = allocation_of(engine, wanted)
        found = engine.jobs.waiting_job(job_id)
        late_s = engine.now_s + self._site.start_timeout_s
        timer = engine.clock.at(late_s, Rank.ALARM, self._on_late, job_id)
        whole = grant.whole if grant is not None else found.spec.placement == "whole_nodes"
        nodes = list(wanted.nodes)
        job, names = self.state.jobs[job_id], list(self.state.nodes)
        back = waits_in(self._site, job.partition)
        promise = Promise(wanted, seq, index, nodes, tasks, grant, whole, timer, back)
        self._promises[job_id] = promise
        if self._site.mode == "hold":
            action: commands.Action = release_of(job, self._site)
        else:
            chosen = tuple(names[node] for node in nodes)
            action = commands.Place(
                job.name_in_slurm, chosen, start_partition(self._site, self.state, job, chosen)
            )
        self._order(action, wanted, seq, index)

    @contextmanager
    def _as_decided(self) -> Iterator[None]:
        """Let the copy be as after what Slurm is doing for decisions, for the time of a check."""
        free = self.engine.cluster.free
        before = free.copy()
        try:
            with self._runs.as_decided(), self._holding_promises():
                yield
        finally:
            free[:] = before

    def _order(
        self, action: commands.Action, decision: protocol.Decision, seq: int, index: int
    ) -> None:
        if not isinstance(decision, protocol.AllocateJob):  # whose effect is seen: see `_started`
            self.rejected_in_a_row = 0
        self._decided[seq, index] = decision
        cause = f"request {seq}, decision {index}: {snake_case(type(decision).__name__)}"
        self._orders.append(LiveOrder(commands.Order(action, cause), seq, index))

    def _reject(self, decision: protocol.Decision, seq: int, index: int, why: Rejection) -> None:
        self.rejected_in_a_row += 1
        self.engine.reject(decision, seq, index, why)

    # Promises

    def promised(self) -> frozenset[int]:
        """Return the jobs that Slurm has not started yet although the scheduler has."""
        return frozenset(self._promises)

    def _drop_promise(self, job_id: int) -> Promise | None:
        promise = self._promises.pop(job_id, None)
        if promise is not None and promise.timer.call is not None:
            self.engine.clock.cancel(promise.timer)
        return promise

    @contextmanager
    def _holding_promises(self) -> Iterator[None]:
        """Hold what is promised for the time of a check."""
        cluster, resources, held = self.engine.cluster, self.engine.resources, []
        for promise in self._promises.values():
            cores = cluster.hold(promise.nodes, promise.tasks, promise.is_whole)
            held.append((promise, cores))
            if promise.grant is not None:
                resources.hold(promise.grant.resources)
        try:
            yield
        finally:
            for promise, cores in held:
                cluster.release(promise.nodes, cores)
                if promise.grant is not None:
                    resources.release(promise.grant.resources)

    def to_resume(self) -> frozenset[int]:
        """Return the jobs that the scheduler has suspended."""
        return self._runs.to_resume()

    def _on_late(self, timer: Timer) -> None:
        job = self.state.jobs.get(timer.subject)
        why = job.reason if job is not None and job.reason else "no reason given"
        within = f"has not started the job within {self._site.start_timeout_s:g} s ({why})"
        self._take_back(timer.subject, within, "node_busy")

    def _take_back(self, job_id: int, words: str, code: protocol.RejectionCode) -> None:
        """Withdraw a job that Slurm does not start."""
        promise = self._drop_promise(job_id)
        if promise is None:
            return
        seq, index = promise.seq, promise.index
        if self._site.waiting and job_id in self.state.jobs:
            name = self.state.jobs[job_id].name_in_slurm
            order = commands.Order(
                commands.Withdraw(name, promise.partition), f"request {seq}: it {words}"
            )
            self._orders.append(LiveOrder(order, seq, NO_DECISION))
        self._reject(promise.decision, seq, index, Rejection(code, f"Slurm {words}"))

    # Reality

    def note(self, change: Change) -> None:
        """Let start what Slurm has started, and compare promises with reality."""
        super().note(change)
        for node in change.nodes:
            if node.name in self._number:
                note_power(self.engine, self._number[node.name], node)
        was_diverged, self.diverged = self.diverged, ""
        for job in sorted(self.state.jobs.values(), key=lambda job: (job.started_s or 0.0, job.id)):
            self._runs.note(job)
            if job.state in ON_NODES:
                self._started(job)
                self._follow_suspension(job)
            elif job.id in self._promises and job.reason.startswith(HOPELESS):
                self._take_back(job.id, f"does not start the job: {job.reason}", "bad_allocation")
        self._runs.resume_deferred()
        self.engine.pass_to(change.at_s)
        if not was_diverged:
            self.diverged_s = self.engine.now_s

    def _started(self, job: LiveJob) -> None:
        """Let a job start that runs in reality, on its real nodes."""
        found = self.engine.jobs.waiting.get(job.id)
        if found is None:
            return
        nodes = [self._number[name] for name in job.nodes if name in self._number]
        if not nodes or any(node in self.engine.availability.failed for node in nodes):
            return
        promise = self._drop_promise(job.id)
        if promise is not None:
            self.rejected_in_a_row = 0
        found.blocked = 0
        if promise is not None and sorted(promise.nodes) == sorted(nodes):
            self._keep_promise(found, promise)
        elif not are_on(self.engine, nodes) or not place(self.engine, found, nodes):
            self.diverged = (
                f"job {job.id} runs on {', '.join(job.nodes)}, which has no room in the copy"
            )

    def _follow_suspension(self, job: LiveJob) -> None:
        """Suspend or resume a job of the copy as the real one was."""
        if job.state == "suspended" and job.id in self.engine.jobs.running:
            self._act(job.id, "suspend")
        elif job.state == "running" and job.id in self.engine.jobs.suspended:
            self._act(job.id, "resume")
            if job.id in self.engine.jobs.suspended:
                self.diverged = f"job {job.id} was resumed, and its cores are in use in the copy"

    def _keep_promise(self, found: SimulatedJob, promise: Promise) -> None:
        free = self.engine.cluster.free
        if any(free[n] < count for n, count in zip(promise.nodes, promise.tasks, strict=True)):
            self.diverged = f"the nodes of job {found.spec.job_id} have no room in the copy"
            return
        self.engine.allocate(found, promise.nodes, promise.tasks, promise.grant)

    # Hooks of the base

    def _over(self, job: LiveJob) -> None:
        """Note that a real job is over."""
        self._drop_promise(job.id)
        found, state = self.engine.jobs.find(job.id), self._runs.final_state(job)
        if found is not None:
            self.engine.end(found, state)

    def _requeued(self, found: SimulatedJob, before: LiveJob, job: LiveJob) -> None:
        """Let a job wait again that was requeued, in the copy and in the cluster."""
        wanted = self._runs.requeue_of(job.id)
        begin_s = None if wanted is None else wanted.begin_s
        later = begin_s if (begin_s or 0.0) > (job.eligible_s or 0.0) else None
        shown = job if later is None else replace(job, eligible_s=later)
        self._requeue(found, before, shown, "user" if wanted is None else "decision")
        for action in wait_again(job, self._site, is_decided=wanted is not None, begin_s=later):
            self._orders.append(LiveOrder(commands.Order(action, "requeued"), 0, NO_DECISION))

    def _is_held(self, job: LiveJob) -> bool:
        """Return whether a job may not start: without waiting partitions, jobs wait held.

        Components of heterogeneous jobs start together or not at all, which no decision can say.
        """
        if job.heterogeneous is not None or waits_for_more(job, self._shown):
            return True
        return job.is_held and not waits_held(job, self._site)

    def _make_engine(self, platform: protocol.Platform, start_s: float) -> LiveEngine:
        engine = LiveEngine(platform, start_s)
        engine.end_timers = NoEnds(engine, Execution(platform, None))
        return engine


@dataclass(frozen=True, slots=True)
class LiveOrder:
    """An order with its decision."""

    order: commands.Order
    seq: int
    index: int


@dataclass(frozen=True, slots=True)
class Promise:
    """Nodes of a job that Slurm has not started yet.

    Attributes:
        index: its position in the request.
        nodes: the nodes, in the order of the decision.
        tasks: number of the job's cores on each of them.
        grant: what it gets beside its cores; None: what its placement implies.
        timer: when Slurm is late.
        partition: the partitions to which the job goes back if Slurm does not start it.
    """

    decision: protocol.AllocateJob
    seq: int
    index: int
    nodes: list[int]
    tasks: list[int]
    grant: Grant | None
    is_whole: bool
    timer: Timer
    partition: str


def release_of(job: LiveJob, site: Site) -> commands.Release:
    """Return the action that lets Slurm start a job where it likes."""
    return commands.Release(
        job.name_in_slurm, starts_in(site, job.partition) if site.waiting else ""
    )


def wait_again(
    job: LiveJob, site: Site, *, is_decided: bool, begin_s: float | None
) -> list[commands.Action]:
    """Return the actions after which a job that was requeued starts by a decision again.

    Args:
        is_decided: whether a decision requeued it.
        begin_s: its earliest start by that decision, Unix time, s; None: Slurm's own.
    """
    name, waits = job.name_in_slurm, waits_in(site, job.partition)
    found: list[commands.Action] = []
    if not site.waiting:
        if not job.is_held:
            found.append(commands.Hold(name))
    else:
        if job.partition != waits:
            found.append(commands.Withdraw(name, waits))
        if is_decided and job.is_held:  # as Slurm holds suspended jobs
            found.append(commands.Release(name))
    if begin_s is not None:
        found.append(commands.Begin(name, begin_s))
    return found


def releases_of(state: ClusterState, site: Site, suspended: frozenset[int]) -> list[commands.Order]:
    """Return the orders after which nobody needs to decide any more.

    Slurm starts all waiting jobs, and jobs that the scheduler has suspended are resumed as soon as
    the CPUs of their nodes are free.
    """
    orders = [
        commands.Order(release_of(job, site), "fall-back")
        for job in state.jobs.values()
        if job.state == "pending" and _waits_for_us(job, site)
    ]
    free = {name: node.cpus for name, node in state.nodes.items()}
    for job in state.jobs.values():
        if job.state in ("configuring", "running", "completing"):
            _take(free, job)
    for job_id in sorted(suspended & state.jobs.keys()):
        job = state.jobs[job_id]
        if job.state == "suspended" and _take(free, job):
            orders.append(commands.Order(commands.Resume(job.name_in_slurm), "fall-back"))
    return orders


def _take(free: dict[str, int], job: LiveJob) -> bool:
    """Take the CPUs of a job, spread evenly over its nodes; return whether they were free."""
    each = -(-job.cpus // max(len(job.nodes), 1))
    has_room = all(free.get(name, 0) >= each for name in job.nodes)
    free |= {name: free[name] - each for name in job.nodes if name in free}
    return has_room


def _waits_for_us(job: LiveJob, site: Site) -> bool:
    if site.waiting:
        return set(job.partition.split(",")) <= set(site.waiting)
    return waits_held(job, site)


def waits_held(job: LiveJob, site: Site) -> bool:
    """Return whether a job is held because it waits for the bridge, not for an operator.

    In mode hold without waiting partitions jobs are submitted held. Slurm does not tell whether
    their users wanted that, or `job_submit.lua`: both are `JobHeldUser`.
    """
    is_submitted_held = site.mode == "hold" and not site.waiting
    return is_submitted_held and job.is_held and job.reason != "JobHeldAdmin"
