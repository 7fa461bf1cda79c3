"""The engine: a cluster, its jobs and its clock, and what can happen to them.

It decides neither when a scheduler is asked nor how time passes. Shells around it do:
`simulation.Simulation` for our protocol, `hpcosim_batsim.bridge` for Batsim's.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_protocol import (
    JobAllocated,
    JobCompleted,
    JobStarted,
    JobState,
    JobSubmitted,
    NodeGroup,
    NoMoreJobs,
    Platform,
    SimulationBegan,
)
from hpcosim_server.engine.alarms import Alarms
from hpcosim_server.engine.clock import Clock, Rank, Timer
from hpcosim_server.engine.endings import Endings
from hpcosim_server.engine.jobs import JobRegister, SimulatedJob
from hpcosim_server.engine.outbox import Outbox
from hpcosim_server.engine.rules import Rules
from hpcosim_server.engine.switching import Switching
from hpcosim_server.engine.validation import check_cores, check_energy, check_jobs
from hpcosim_server.physics.allocation import impossible
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.execution import Execution
from hpcosim_server.physics.node_power import NodePower
from hpcosim_server.record.recording import Recording
from hpcosim_server.record.run_record import RunRecord, record_of
from hpcosim_workloads.table import JobSpec, JobTable


class Engine:
    """A cluster, its jobs and its clock. It knows no policy, no socket, no file.

    At one instant, jobs complete first, then nodes change their power state, then jobs are
    submitted, and alarms come last; events that are equal in that come in the order they were set.

    Args:
        platform: the cluster.
        jobs: the workload.
        rules: what holds; None: the defaults of `Rules`.
        rng: draws the times of switching nodes on and off, where those vary.

    Attributes:
        rules: what holds.
        start_s: when the clock started, s.
        clock: simulated time.
        cluster: the cores and tasks of the nodes.
        power: the power states of the nodes.
        recording: what happened.
        jobs: the jobs that are not over.
        job_ids: the numbers a new job may not have; kept only with `rules.dynamic_jobs`.
        alarms: the alarms that are set.
        switching: nodes on their way on and off.
        all_submitted: whether the last job of the workload was submitted.
        outbox: the events that no shell has taken yet.
    """

    def __init__(
        self,
        platform: Platform,
        jobs: JobTable,
        rules: Rules | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.rules = rules = rules or Rules()
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
        self.alarms = Alarms(self.clock, self.outbox.tell)
        self.switching = Switching(
            self.clock, self.power, self.recording, self.outbox.tell, self.start
        )
        execution = Execution(platform, rules.reference_ghz)
        self._endings = Endings(self.clock, execution, rules.kill_at_walltime, self.end)
        self._to_come = jobs.rows()
        self._kind_of: dict[NodeGroup, int] = {}  # the numbers of added kinds of nodes
        self.outbox.tell(SimulationBegan(self.start_s))
        self._await_next_submission()

    @property
    def now_s(self) -> float:
        """The simulated second."""
        return self.clock.now

    @property
    def is_over(self) -> bool:
        """Whether every job is over and none can be submitted any more."""
        return (
            self.all_submitted
            and self.jobs.is_empty
            and not (self.rules.dynamic_jobs and self.alarms)
        )

    def settle(self) -> None:
        """Integrate all energies up to now."""
        self.cluster.settle(self.clock.now)

    def record(self) -> RunRecord:
        """Return the run up to now as plain data; it is valid until the simulation goes on."""
        return record_of(self.cluster, self.recording, self.start_s, self.now_s)

    def validate(self) -> None:
        """Check what must hold at any time, see `validation`. Nothing changes.

        Raises:
            InvariantError: it does not hold; the simulator has a bug.
        """
        check_cores(self.cluster, self.jobs)
        check_jobs(self.jobs, self.recording, self.power, self.now_s)
        check_energy(self.cluster, self.recording, self.start_s, self.now_s)

    # Jobs

    def denial(self, spec: JobSpec) -> str:
        """Return why a job is rejected at its submission; empty: it joins the queue.

        A job that could not run even on an empty cluster is. Shells may override this.
        """
        return impossible(self.cluster, spec)

    def submit(self, spec: JobSpec) -> None:
        """Submit a job now; no other job has its number."""
        row = self.recording.submitted(spec)
        if reason := self.denial(spec):
            self.recording.ended(row, self.clock.now, "rejected", reason)
            return
        self.jobs.add(SimulatedJob(spec, row))
        self.outbox.tell(submission_of(spec))

    def allocate(self, job: SimulatedJob, nodes: list[int], tasks: list[int]) -> None:
        """Give a job that waits its nodes, and start it when all of them are on.

        Args:
            job: the job.
            nodes: the nodes, each once; none is being switched off.
            tasks: how many of its tasks run on each of `nodes`.
        """
        spec, now_s = job.spec, self.clock.now
        job.nodes, job.tasks = nodes, tasks
        job.held = self.cluster.hold(nodes, tasks, spec.placement == "whole_nodes")
        job.allocated_s = now_s
        if self.power.are_on(nodes):
            self.start(job)
        else:
            self.jobs.move(job, "allocated")
            self.outbox.tell(JobAllocated(now_s, spec.job_id, nodes, tasks))
            self.switching.bring_on(job)

    def start(self, job: SimulatedJob) -> None:
        """Start a job on the nodes it holds, which are all on."""
        now_s = self.clock.now
        self.jobs.move(job, "running")
        job.parts = self.cluster.occupy(now_s, job.nodes, job.tasks)
        job.started_s = now_s
        self._endings.begin(job)
        self.recording.started(job.row, now_s, job.nodes, job.tasks)
        self.outbox.tell(JobStarted(now_s, job.spec.job_id, job.nodes, job.tasks))

    def end(self, job: SimulatedJob, reason: JobState) -> None:
        """End a job, whatever its state, and free what it holds."""
        now_s = self.clock.now
        if job.state == "allocated":
            self.switching.forget(job)
        self.jobs.move(job, "over")
        if job.nodes:
            self._endings.cancel(job)
            self.cluster.vacate(now_s, job.parts)
            self.cluster.release(job.nodes, job.held)
        self.recording.ended(job.row, now_s, reason)
        self.outbox.tell(JobCompleted(now_s, job.spec.job_id, reason))

    # Nodes

    def change_kind(self, node: int, kind: NodeGroup) -> None:
        """Make a node one of another kind: its speed, its power, its power states.

        The node is on, and every node has one processor, of as many cores before as after. Jobs
        that run on it run on as long as before.
        """
        cluster, now_s = self.cluster, self.clock.now
        number = self._kind_of.get(kind)
        if number is None:
            number = self._kind_of[kind] = cluster.add_kind(kind, now_s)
            self.recording.kinds.append(kind)
        if cluster.group_of[node] != number:
            cluster.turn_into(now_s, node, number)
            self.recording.changed_kind(now_s, node, number)

    # Submissions

    def _await_next_submission(self) -> None:
        spec = next(self._to_come, None)
        if spec is None:
            self.all_submitted = True
            self.outbox.tell(NoMoreJobs(self.clock.now))
        else:
            self.clock.at(spec.submit_s, Rank.SUBMISSION, self._on_submission, spec)

    def _on_submission(self, timer: Timer) -> None:
        self.submit(timer.subject)
        self._await_next_submission()


def submission_of(spec: JobSpec) -> JobSubmitted:
    """Return the event of a job's submission."""
    event = JobSubmitted(spec.submit_s, spec.job_id, spec.cores, spec.requested_s, spec.placement)
    # A field that keeps its default is left out on the wire.
    if spec.memory_mb:
        event.memory_mb = spec.memory_mb
    if spec.memory_volume_mb:
        event.memory_volume_mb = spec.memory_volume_mb
    if spec.max_energy_j < math.inf:
        event.max_energy_j = spec.max_energy_j
    if spec.profile:
        event.profile = spec.profile
    return event
