"""The cluster itself: decisions become commands of Slurm, and events are what Slurm does.

The rules, beside those of `copied`:

* A decision is checked against the copy first, so that a mistake has the same answer as in a
  simulation. Then it becomes an order.
* `job_started` and `job_completed` are events when the bridge sees them in reality, on the real
  nodes. Until then a job that the scheduler has started waits, and its nodes are promised to it.
* An order that Slurm refuses, or a job that Slurm does not start in time, becomes
  `decision_rejected` with Slurm's words. The job waits again.
"""

from __future__ import annotations

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    JobState,
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
from hpcosim_server.engine.clock import Rank, Timer
from hpcosim_server.engine.decisions import allocation_of
from hpcosim_server.engine.jobs import SimulatedJob
from hpcosim_server.errors import Rejection
from hpcosim_server.physics.execution import Execution
from hpcosim_slurm.commands import Action, Cancel, Order, Place, PowerDown, PowerUp, Withdraw
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.worlds.adoption import place
from hpcosim_slurm.worlds.copied import CopiedCluster
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.live_engine import LiveEngine, NoEnds
from hpcosim_slurm.worlds.promises import LiveOrder, Promise, Promises, release_of
from hpcosim_slurm.worlds.site import Site
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled, waits_for_more

ON_NODES = ("configuring", "running", "suspended", "completing")
UNSUPPORTED = (RequeueJob, SuspendJob, ResumeJob, SetCheckpoint, SubmitJob)
HOPELESS = ("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "ReqNodeNotAvail")
"""Reasons for which Slurm will not start a job on the nodes that it was given."""

NO_DECISION = -1
"""Position of an order that no decision asked for."""

CODES: dict[type, RejectionCode] = {
    AllocateJob: "bad_allocation",
    KillJob: "job_not_running",
    RejectJob: "job_not_waiting",
    SetNodePower: "not_allowed",
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
        self._ends: dict[int, JobState] = {}  # final states that the scheduler has decided
        self._orders: list[LiveOrder] = []
        self._decided: dict[tuple[int, int], Decision] = {}
        super().__init__(state, site)

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
        decision = self._decided.get((seq, index))
        if decision is None:
            return
        if isinstance(decision, AllocateJob):
            self._promises.drop(self.engine, decision.job_id)
        code = CODES.get(type(decision), "not_allowed")
        self._reject(decision, seq, index, Rejection(code, f"Slurm: {words}"))

    def _check_and_order(self, decision: Decision, seq: int, index: int) -> None:
        if isinstance(decision, UNSUPPORTED):
            name = snake_case(type(decision).__name__)
            raise Rejection("not_allowed", f"{name}: the bridge to Slurm does not carry it out")
        self._check_own(decision)
        if isinstance(decision, AllocateJob):
            self._allocate(decision, seq, index)
        elif isinstance(decision, KillJob | RejectJob):
            self._end(decision, seq, index)
        elif self.engine.decide(decision, seq, index) and isinstance(decision, SetNodePower):
            self.engine.switching.cancel(decision.node)  # what Slurm does is seen
            names = (list(self.state.nodes)[decision.node],)
            action = PowerUp(names) if decision.state == "on" else PowerDown(names)
            self._order(action, decision, seq, index)

    def _allocate(self, wanted: AllocateJob, seq: int, index: int) -> None:
        engine, job_id = self.engine, wanted.job_id
        if job_id in self._promises:
            raise Rejection("job_not_waiting", f"job {job_id} is being started by Slurm")
        with self._promises.kept(engine):
            _, tasks, grant = allocation_of(engine, wanted)
        found = engine.jobs.waiting_job(job_id)
        late_s = engine.now_s + self._site.start_timeout_s
        timer = engine.clock.at(late_s, Rank.ALARM, self._on_late, job_id)
        whole = grant.whole if grant is not None else found.spec.placement == "whole_nodes"
        nodes = list(wanted.nodes)
        promise = Promise(wanted, seq, index, nodes, tasks, grant, whole, timer)
        self._promises.add(job_id, promise)
        job, names = self.state.jobs[job_id], list(self.state.nodes)
        if self._site.mode == "hold":
            action: Action = release_of(job, self._site)
        else:
            chosen = tuple(names[node] for node in nodes)
            action = Place(job.name_in_slurm, chosen, self._site.partitions[0])
        self._order(action, wanted, seq, index)

    def _end(self, wanted: KillJob | RejectJob, seq: int, index: int) -> None:
        jobs, job_id = self.engine.jobs, wanted.job_id
        if isinstance(wanted, RejectJob):
            jobs.waiting_job(job_id)
        elif job_id not in self._promises:
            jobs.placed_job(job_id)
        if isinstance(wanted, KillJob) and wanted.grace_s > 0.0:
            raise Rejection("bad_time", "kill_job.grace_s: the bridge to Slurm gives no grace")
        self._ends[job_id] = wanted.state
        self._order(Cancel(self.state.jobs[job_id].name_in_slurm), wanted, seq, index)

    def _order(self, action: Action, decision: Decision, seq: int, index: int) -> None:
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
            order = Order(Withdraw(name, self._site.waiting), f"request {seq}: it {words}")
            self._orders.append(LiveOrder(order, seq, NO_DECISION))
        self._reject(promise.decision, seq, index, Rejection(code, f"Slurm {words}"))

    # Reality

    def note(self, change: Change) -> None:
        """See `World`. What Slurm has started, starts; then promises are compared with reality."""
        super().note(change)
        for node in change.nodes:
            if node.name in self._number:
                self._note_power(self._number[node.name], node)
        was_diverged, self.diverged = self.diverged, ""
        for job in sorted(self.state.jobs.values(), key=lambda job: (job.started_s or 0.0, job.id)):
            if job.state in ON_NODES:
                self._started(job)
            elif job.id in self._promises and job.reason.startswith(HOPELESS):
                self._take_back(job.id, f"does not start the job: {job.reason}", "bad_allocation")
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
        found.blocked = 0
        if promise is not None and sorted(promise.nodes) == sorted(nodes):
            self._keep_promise(found, promise)
        elif not self._are_on(nodes) or not place(self.engine, found, nodes):
            self.diverged = (
                f"job {job.id} runs on {', '.join(job.nodes)}, which has no room in the copy"
            )

    def _keep_promise(self, found: SimulatedJob, promise: Promise) -> None:
        free = self.engine.cluster.free
        if any(free[n] < count for n, count in zip(promise.nodes, promise.tasks, strict=True)):
            self.diverged = f"the nodes of job {found.spec.job_id} have no room in the copy"
            return
        self.engine.allocate(found, promise.nodes, promise.tasks, promise.grant)

    def _are_on(self, nodes: list[int]) -> bool:
        """Switch the nodes of a job on that runs there, if they are off in the copy."""
        for node in nodes:
            self._reach(node, "on")
        return self.engine.power.are_on(nodes)

    def _note_power(self, number: int, node: LiveNode) -> None:
        wanted = {"off": "sleeping"}.get(node.power, node.power)
        is_used = self.engine.cluster.free[number] < self.engine.cluster.capacity[number]
        waits = bool(self.engine.jobs.allocated)
        if number in self.engine.availability.failed or (is_used and wanted != "on" and not waits):
            return
        if wanted == "on" or not is_used:
            self._reach(number, wanted)

    def _reach(self, node: int, wanted: str) -> None:
        """Move a node of the copy through its power states to one of them."""
        engine = self.engine
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

    # Hooks of the base

    def _over(self, job: LiveJob) -> None:
        """Note that a real job is over."""
        self._promises.drop(self.engine, job.id)
        found = self.engine.jobs.find(job.id)
        decided = self._ends.pop(job.id, None)
        if found is None:
            return
        if is_cancelled(job):
            state: JobState = decided or "cancelled"
        elif job.slurm_state.startswith(("NODE_FAIL", "BOOT_FAIL")):
            state = "node_failed"
        elif job.slurm_state.startswith("PREEMPTED"):
            state = "preempted"
        else:
            state = final_state_of(job)
        self.engine.end(found, state)

    def _is_held(self, job: LiveJob) -> bool:
        """In mode hold all jobs wait held, unless there is a partition for waiting jobs.

        Components of heterogeneous jobs start together or not at all, which no decision can say.
        """
        if job.heterogeneous is not None or waits_for_more(job, self._shown):
            return True
        held = job.is_held and (self._site.mode == "place" or bool(self._site.waiting))
        is_users = job.is_held and job.reason == "JobHeldUser"
        return held or is_users

    def _make_engine(self, platform: Platform, start_s: float) -> LiveEngine:
        engine = LiveEngine(platform, start_s)
        engine.end_timers = NoEnds(engine, Execution(platform, None))
        return engine
