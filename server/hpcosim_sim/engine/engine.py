"""The engine: the state of a simulation and its transitions.

The engine does not advance time and does not call a scheduler. Its front ends do:
`simulation.Simulation` for the hpcosim protocol, `hpcosim_batsim.bridge` for Batsim's protocol.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hpcosim_protocol import (
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobState,
    NoMoreJobs,
    Platform,
    SimulationBegan,
)
from hpcosim_sim.engine.alarms import Alarms
from hpcosim_sim.engine.availability_changes import change_node
from hpcosim_sim.engine.clock import Clock, Rank, Timer
from hpcosim_sim.engine.dependencies import Histories
from hpcosim_sim.engine.eligibility import Eligibility
from hpcosim_sim.engine.end_timers import EndTimers
from hpcosim_sim.engine.job_actions import JobActions
from hpcosim_sim.engine.job_events import ineligible_submission_of, start_of, submission_of
from hpcosim_sim.engine.job_runs import LOST, Graces, leave, lost_work
from hpcosim_sim.engine.jobs import JobRegister, SimulatedJob
from hpcosim_sim.engine.node_changes import NodeChanges
from hpcosim_sim.engine.node_kinds import NodeKinds
from hpcosim_sim.engine.outbox import Outbox
from hpcosim_sim.engine.rules import Rules
from hpcosim_sim.engine.signals import Signal, Signals
from hpcosim_sim.engine.site_events import NO_SITE_EVENTS, SiteEvents
from hpcosim_sim.engine.switching import Switching
from hpcosim_sim.engine.validation import check_cores, check_energy, check_jobs, check_resources
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.availability import Availability
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.physics.grants import Grant
from hpcosim_sim.physics.node_power import NodePower
from hpcosim_sim.physics.resources import Resources
from hpcosim_sim.record.economics import UNKNOWN, Rates
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.run_record import RunRecord, record_of
from hpcosim_workloads.table import JobSpec, JobTable


class Engine:
    """A cluster, its jobs and its clock, without scheduling policy, sockets or files.

    The order of events at one instant is: jobs end, nodes change their power states, signals
    change, jobs are submitted, alarms go off (`Rank`). Events of equal rank keep the order in which
    their timers were set.

    Args:
        platform: description of the cluster.
        jobs: the workload, sorted by submission time.
        rules: options of the simulation; None selects the defaults of `Rules`.
        rng: generator for the durations of power state transitions that have a standard
            deviation; None selects a generator with seed 0.
        rates: price and carbon intensity of the energy; they have no effect on the simulation.
        signals: signals to report to the scheduler, by default none.
        site_events: failures of nodes and actions on jobs, by default none.
        failure_rng: generator for random failures and repairs; None selects a generator with
            seed 0.

    Attributes:
        rules: options of the simulation.
        rates: price and carbon intensity of the energy.
        start_s: initial simulation time, s.
        clock: simulated time.
        cluster: cores and tasks of the nodes.
        power: power states of the nodes.
        resources: memory, devices and licences that jobs hold beside their cores.
        availability: nodes that failed or are drained.
        eligibility: which waiting jobs may be allocated.
        actions: pending actions of users and administrators on jobs.
        recording: jobs and changes of state so far.
        jobs: the submitted jobs that are not over.
        job_ids: job ids in use; maintained only with `rules.dynamic_jobs`.
        alarms: the pending alarms.
        switching: the pending transitions of power states.
        signals: the signals.
        end_timers: timers for the ends of running jobs.
        graces: jobs that end after a time of grace.
        node_changes: failures, drains and repairs of nodes.
        node_kinds: changes of the kinds of nodes.
        all_submitted: whether every job of the workload has been submitted.
        outbox: events that no front end has taken yet.
    """

    def __init__(
        self,
        platform: Platform,
        jobs: JobTable,
        rules: Rules | None = None,
        rng: np.random.Generator | None = None,
        rates: Rates = UNKNOWN,
        signals: Iterable[Signal] = (),
        site_events: SiteEvents = NO_SITE_EVENTS,
        failure_rng: np.random.Generator | None = None,
    ) -> None:
        self.rules = rules = rules or Rules()
        self.rates = rates
        first_s = float(jobs.submit_s[0]) if len(jobs) else 0.0
        self.start_s = first_s if rules.initial_time_s is None else rules.initial_time_s
        self.clock = Clock(self.start_s)
        self.cluster = Cluster(platform, self.start_s)
        self.power = NodePower(self.cluster, rng or np.random.default_rng(0))
        self.recording = Recording()
        self.outbox = Outbox()
        self.all_submitted = False
        self.jobs = JobRegister(self.recording)
        self.job_ids = set(jobs.job_id.tolist()) if rules.dynamic_jobs else set()
        self.alarms = Alarms(self.clock, self.outbox.add)
        self.switching = Switching(
            self.clock, self.power, self.recording, self.outbox.add, self.start
        )
        execution = Execution(platform, rules.reference_ghz)
        self.end_timers = EndTimers(self.clock, execution, rules.kill_at_walltime, self.end)
        self._future_jobs = jobs.rows()
        self.resources = Resources(platform)
        self.availability = Availability()
        histories = Histories(self.jobs, self.recording, jobs)
        self.eligibility = Eligibility(
            self.clock, self.jobs, histories, self.outbox.add, self.end, self.drop_hopeless
        )
        self.graces = Graces(self.clock)
        self.actions = JobActions(self, site_events.job_actions)
        self.node_kinds = NodeKinds(self.clock, self.cluster, self.recording)
        self.outbox.add(SimulationBegan(self.start_s))
        self.signals = Signals(self.clock, self.outbox.add_signal, signals)
        self.node_changes = NodeChanges(
            self.clock,
            site_events,
            failure_rng or np.random.default_rng(0),
            lambda kind, node: change_node(self, kind, node),
        )
        self._await_submission()

    @property
    def now_s(self) -> float:
        """Current simulation time, s."""
        return self.clock.now

    @property
    def is_over(self) -> bool:
        """Whether every job is over and no further job can be submitted.

        With `rules.dynamic_jobs`, a pending alarm keeps the simulation open: the scheduler may
        submit jobs when it goes off.
        """
        return (
            self.all_submitted
            and self.jobs.is_empty
            and not (self.rules.dynamic_jobs and self.alarms)
        )

    def settle(self) -> None:
        """Integrate the energy of all nodes up to now."""
        self.cluster.settle(self.clock.now)

    def record(self) -> RunRecord:
        """Return the run up to now as plain data; it is valid until the next change of state."""
        return record_of(self.cluster, self.recording, self.start_s, self.now_s, self.rates)

    def validate(self) -> None:
        """Check the invariants of `validation`. The engine is unchanged.

        Raises:
            InvariantError: an invariant is violated; the simulator has a bug.
        """
        check_cores(self.cluster, self.jobs)
        check_resources(self.resources, self.jobs)
        check_jobs(self.jobs, self.recording, self.power, self.now_s)
        check_energy(self.cluster, self.recording, self.start_s, self.now_s)

    # Jobs

    def admission_error(self, spec: JobSpec) -> str:
        """Return the reason to reject a job at its submission; empty if it enters the queue.

        The engine rejects a job that cannot run on the empty cluster. A front end may override
        this method.
        """
        return infeasibility(self.cluster, spec)

    def submit(self, spec: JobSpec) -> None:
        """Submit a job now. Its job id is unused."""
        row = self.recording.submitted(spec)
        if reason := self.admission_error(spec):
            self.recording.ended(row, self.clock.now, "rejected", reason)
            self.eligibility.rejected(spec.job_id)
            return
        job = SimulatedJob(spec, row)
        self.jobs.add(job)
        if spec.request is None and not self.eligibility.is_used:
            self.outbox.add(submission_of(spec))
            return
        self.eligibility.enter(job)
        self.outbox.add((ineligible_submission_of if job.blocked else submission_of)(spec))
        self.eligibility.settle()

    def allocate(
        self, job: SimulatedJob, nodes: list[int], tasks: list[int], grant: Grant | None = None
    ) -> None:
        """Allocate nodes to a waiting job. It starts when all of them are on.

        Args:
            job: the job.
            nodes: distinct node numbers; none of the nodes is being switched off.
            tasks: number of tasks on each of `nodes`.
            grant: what the job holds beside its tasks; None: what its placement implies.
        """
        spec, now_s = job.spec, self.clock.now
        job.nodes, job.tasks = nodes, tasks
        if grant is None:
            job.held = self.cluster.hold(nodes, tasks, spec.placement == "whole_nodes")
        else:
            job.held = self.cluster.hold(nodes, tasks, grant.whole)
            self.resources.hold(grant.resources)
            job.resources = grant.resources
        job.allocated_s = now_s
        if not self.power.nodes_off or self.power.are_on(nodes):
            self.start(job)
        else:
            self.jobs.move(job, "allocated")
            self.outbox.add(JobAllocated(now_s, spec.job_id, nodes, tasks))
            self.switching.switch_on_for(job)

    def start(self, job: SimulatedJob) -> None:
        """Start a job on its allocated nodes, which are all on."""
        now_s = self.clock.now
        self.jobs.move(job, "running")
        job.parts = self.cluster.occupy(now_s, job.nodes, job.tasks)
        job.started_s = now_s
        if job.spec.request is not None:
            self.end_timers.begin(job)
        self.end_timers.set(job)
        self.recording.started(job.row, now_s, job.nodes, job.tasks)
        self.outbox.add(
            JobStarted(now_s, job.spec.job_id, job.nodes, job.tasks)
            if job.resources is None
            else start_of(job)
        )
        if self.eligibility.is_used:
            self.eligibility.started(job)

    def end(self, job: SimulatedJob, final_state: JobState, reason: str = "") -> None:
        """End a job that is not over and release what it holds.

        Args:
            job: the job.
            final_state: its final state.
            reason: reason of the end, for the results; empty: none.
        """
        now_s = self.clock.now
        before = job.state
        self.jobs.move(job, "over")
        if job.nodes:
            if final_state in LOST:
                self.recording.lost(job.row, lost_work(self, job, before))
            leave(self, job, before, now_s)
        self.recording.ended(job.row, now_s, final_state, reason)
        self.outbox.add(JobCompleted(now_s, job.spec.job_id, final_state))
        if self.eligibility.is_used:
            self.eligibility.over(job)
            self.drop_hopeless()

    def drop_hopeless(self) -> None:
        """End waiting jobs that can never start, once nothing else can happen.

        Such jobs are held and never released, depend on each other, or the scheduler has given them
        up (`RejectJob.at_end`). The simulation ends.
        """
        if self.all_submitted and not self.jobs.has_placed and not self.actions.pending:
            self.eligibility.give_up()

    # Submissions

    def _await_submission(self) -> None:
        for spec in self._future_jobs:
            self.clock.at(spec.submit_s, Rank.SUBMISSION, self._on_submission, spec)
            return
        self.all_submitted = True
        self.outbox.add(NoMoreJobs(self.clock.now))

    def _on_submission(self, timer: Timer) -> None:
        self.submit(timer.subject)
        self._await_submission()
        if self.all_submitted and self.eligibility.is_used:
            self.drop_hopeless()
