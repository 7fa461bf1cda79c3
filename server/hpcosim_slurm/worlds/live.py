"""The cluster itself: decisions become commands of Slurm, and events are what Slurm does.

The rules, beside those of `copied`:

* A decision is checked against the copy first, so that a mistake has the same answer as in a
  simulation. Then it becomes an order.
* `job_started` and `job_completed` are events when the bridge sees them in reality, on the real
  nodes. Until then a job that the scheduler has started waits, and its nodes are promised to it.
* An order that Slurm refuses, or a job that Slurm does not start in time, becomes
  `decision_rejected` with Slurm's words. The job waits again.
* A job that was requeued is taken back, so that it starts by a decision again.
* Decisions about runs: see `run_changes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    KillJob,
    Platform,
    RejectionCode,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetCheckpoint,
    SetNodePower,
    SubmitJob,
    SuspendJob,
)
from hpcosim_protocol.tags import snake_case
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.decisions import allocation_of
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.execution import Execution
from hpcosim_slurm.commands import Action, Cancel, Order, Place, PowerDown, PowerUp, Withdraw
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.state import JobState as SlurmJobState
from hpcosim_slurm.worlds.adoption import place
from hpcosim_slurm.worlds.copied import CopiedCluster
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.live_engine import LiveEngine, NoEnds
from hpcosim_slurm.worlds.promises import (
    LiveOrder,
    Promise,
    Promises,
    release_of,
    wait_again,
    waits_held,
)
from hpcosim_slurm.worlds.run_changes import CODES as RUN_CODES
from hpcosim_slurm.worlds.run_changes import RunChanges
from hpcosim_slurm.worlds.site import Site, start_partition, waits_in
from hpcosim_slurm.worlds.specs import waits_for_more

# Power states of nodes in a copy, as those of the real ones.


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


ON_NODES: tuple[SlurmJobState, ...] = ("configuring", "running", "suspended", "completing")
UNSUPPORTED = (SetCheckpoint, SubmitJob)
HOPELESS = ("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "ReqNodeNotAvail")
"""Reasons for which Slurm will not start a job on the nodes that it was given."""

NO_DECISION = -1
"""Position of an order that no decision asked for."""

CODES: Mapping[type[Decision], RejectionCode] = {
    AllocateJob: "bad_allocation",
    RejectJob: "job_not_waiting",
    SetNodePower: "not_allowed",
    **RUN_CODES,
}
"""Code of a decision that Slurm refuses."""


class LiveWorld(CopiedCluster):
    """The part of a cluster that a scheduler drives.

    Args:
        state: that part at the start; see `site.chosen`.
        site: what else is known of it.

    Attributes:
        rejected_in_a_row: number of decisions since the last one that was carried out.
        diverged: why the copy differs from reality; empty: it does not.
        diverged_s: time since which it does, s.
    """

    def __init__(self, state: ClusterState, site: Site) -> None:
        self.rejected_in_a_row = 0
        self.diverged = ""
        self.diverged_s = 0.0
        self._promises = Promises()
        self._orders: list[LiveOrder] = []
        self._decided: dict[tuple[int, int], Decision] = {}
        super().__init__(state, site)
        self._runs = RunChanges(
            self.engine, lambda: self.state.jobs, site.start_timeout_s, self._order, self._reject
        )

    # Decisions

    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """See `World`. Orders are collected until `take_orders`."""
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
        """Note that Slurm has refused an order.

        Args:
            seq: the request of its decision.
            index: the position of the decision in the request.
            words: what Slurm says.
        """
        later = self._runs.refused(seq, index)
        decision = later or self._decided.get((seq, index))
        if decision is None:
            return
        if isinstance(decision, AllocateJob):
            self._promises.drop(self.engine, decision.job_id)
        elif later is None:
            self._runs.not_warned(decision)
        code = CODES.get(type(decision), "not_allowed")
        self._reject(decision, seq, index, Rejection(code, f"Slurm: {words}"))

    def _check_and_order(self, decision: Decision, seq: int, index: int) -> None:
        if isinstance(decision, UNSUPPORTED):
            name = snake_case(type(decision).__name__)
            raise Rejection("not_allowed", f"{name}: the bridge to Slurm does not carry it out")
        self._check_own(decision)
        if isinstance(decision, AllocateJob):
            self._allocate(decision, seq, index)
        elif isinstance(decision, RejectJob):
            self.engine.jobs.waiting_job(decision.job_id)
            if decision.at_end:  # a cluster has no end: the job goes on waiting in Slurm
                return
            self._runs.ends[decision.job_id] = decision.state
            name = self.state.jobs[decision.job_id].name_in_slurm
            self._order(Cancel(name), decision, seq, index)
        elif isinstance(decision, KillJob | RequeueJob | SuspendJob | ResumeJob):
            with self._as_decided():
                is_starting = decision.job_id in self._promises
                self._runs.decide(decision, seq, index, is_starting=is_starting)
            self._runs.resume_deferred()
        elif self.engine.decide(decision, seq, index) and isinstance(decision, SetNodePower):
            self.engine.switching.cancel(decision.node)  # what Slurm does is seen
            names = (list(self.state.nodes)[decision.node],)
            action = PowerUp(names) if decision.state == "on" else PowerDown(names)
            self._order(action, decision, seq, index)

    def _allocate(self, wanted: AllocateJob, seq: int, index: int) -> None:
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
        self._promises.add(job_id, promise)
        if self._site.mode == "hold":
            action: Action = release_of(job, self._site)
        else:
            chosen = tuple(names[node] for node in nodes)
            action = Place(
                job.name_in_slurm, chosen, start_partition(self._site, self.state, job, chosen)
            )
        self._order(action, wanted, seq, index)

    @contextmanager
    def _as_decided(self) -> Iterator[None]:
        """Let the copy be as after what Slurm is doing for decisions, for the time of a check."""
        free = self.engine.cluster.free
        before = free.copy()
        try:
            with self._runs.as_decided(), self._promises.kept(self.engine):
                yield
        finally:
            free[:] = before

    def _order(self, action: Action, decision: Decision, seq: int, index: int) -> None:
        if not isinstance(decision, AllocateJob):  # whose effect is seen: see `_started`
            self.rejected_in_a_row = 0
        self._decided[seq, index] = decision
        cause = f"request {seq}, decision {index}: {snake_case(type(decision).__name__)}"
        self._orders.append(LiveOrder(Order(action, cause), seq, index))

    def _reject(self, decision: Decision, seq: int, index: int, why: Rejection) -> None:
        self.rejected_in_a_row += 1
        self.engine.reject(decision, seq, index, why)

    # Promises

    def promised(self) -> frozenset[int]:
        """Return the jobs that Slurm has not started yet although the scheduler has."""
        return frozenset(self._promises)

    def to_resume(self) -> frozenset[int]:
        """Return the jobs that the scheduler has suspended."""
        return self._runs.to_resume()

    def _on_late(self, timer: Timer) -> None:
        job = self.state.jobs.get(timer.subject)
        why = job.reason if job is not None and job.reason else "no reason given"
        within = f"has not started the job within {self._site.start_timeout_s:g} s ({why})"
        self._take_back(timer.subject, within, "node_busy")

    def _take_back(self, job_id: int, words: str, code: RejectionCode) -> None:
        """Withdraw a job that Slurm does not start."""
        promise = self._promises.drop(self.engine, job_id)
        if promise is None:
            return
        seq, index = promise.seq, promise.index
        if self._site.waiting and job_id in self.state.jobs:
            name = self.state.jobs[job_id].name_in_slurm
            order = Order(Withdraw(name, promise.partition), f"request {seq}: it {words}")
            self._orders.append(LiveOrder(order, seq, NO_DECISION))
        self._reject(promise.decision, seq, index, Rejection(code, f"Slurm {words}"))

    # Reality

    def note(self, change: Change) -> None:
        """See `World`. What Slurm has started, starts; then promises are compared with reality."""
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
        promise = self._promises.drop(self.engine, job.id)
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
        self._promises.drop(self.engine, job.id)
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
            self._orders.append(LiveOrder(Order(action, "requeued"), 0, NO_DECISION))

    def _is_held(self, job: LiveJob) -> bool:
        """Return whether a job may not start: without waiting partitions, jobs wait held.

        Components of heterogeneous jobs start together or not at all, which no decision can say.
        """
        if job.heterogeneous is not None or waits_for_more(job, self._shown):
            return True
        return job.is_held and not waits_held(job, self._site)

    def _make_engine(self, platform: Platform, start_s: float) -> LiveEngine:
        engine = LiveEngine(platform, start_s)
        engine.end_timers = NoEnds(engine, Execution(platform, None))
        return engine
