"""Each job of a session with its run in the shadow and its real run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from hpcosim_protocol import JobState, Platform, PowerState
from hpcosim_server.engine.jobs import SimulatedJob
from hpcosim_server.physics.power import RECORDED_STATES
from hpcosim_server.record.recording import STATES
from hpcosim_slurm.bridge.course import Course
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.ledger.records import AnyRecord, Began, Closed, Opened, Seen
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.availability import is_down
from hpcosim_slurm.worlds.shadow import ShadowWorld
from hpcosim_slurm.worlds.site import Site
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled
from hpcosim_workloads.table import JobSpec

POWER: dict[str, PowerState] = {
    "on": "on",
    "off": "sleeping",
    "switching_on": "switching_on",
    "switching_off": "switching_off",
}
"""Power state of the protocol by that of `LiveNode`."""


class OneRun(NamedTuple):
    """A run of a job.

    Attributes:
        start_s: its start, Unix time, s; NaN: the job has not started.
        end_s: end of the job, Unix time, s; NaN: it is not over.
        nodes: numbers of its nodes.
        tasks: number of its cores on each node.
        state: its final state; None: it is not over.
    """

    start_s: float = math.nan
    end_s: float = math.nan
    nodes: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    state: JobState | None = None

    @property
    def has_started(self) -> bool:
        """Whether the job has started."""
        return not math.isnan(self.start_s)


class JobRow(NamedTuple):
    """A job with both of its runs. Of a job that was requeued, the last run counts.

    Attributes:
        spec: the job.
        was_running: whether it ran already when the session began, or is of another partition, so
            that nobody decided on it.
        shadow: its run in the shadow, to its exact end: the start and the real run time.
        real: its real run.
    """

    spec: JobSpec
    was_running: bool
    shadow: OneRun
    real: OneRun


class PowerChange(NamedTuple):
    """A change of the power state of a node.

    Attributes:
        at_s: Unix time, s.
        node: number of the node.
        state: the state from then on.
    """

    at_s: float
    node: int
    state: PowerState


class Said(NamedTuple):
    """What the scheduler said of a waiting job (`explain`).

    Attributes:
        job_id: the job.
        at_s: Unix time, s.
        reason: why the job waits.
        expected_s: expected start, Unix time, s; NaN: unknown.
    """

    job_id: int
    at_s: float
    reason: str
    expected_s: float


class SessionRows(NamedTuple):
    """Everything that a report needs of a session.

    Attributes:
        scheduler: name of the scheduler.
        cluster: name of the cluster.
        platform: the cluster.
        start_s, end_s: begin and end of the session, Unix time, s.
        rows: the jobs, in order of submission.
        real_power, shadow_power: changes of power states in reality and in the shadow.
        decisions: number of decisions of the scheduler.
        requests: number of its requests.
        not_copied: number of jobs that ran at the start and could not be copied.
        said: what the scheduler said of waiting jobs, in order.
    """

    scheduler: str
    cluster: str
    platform: Platform
    start_s: float
    end_s: float
    rows: list[JobRow]
    real_power: list[PowerChange]
    shadow_power: list[PowerChange]
    decisions: int
    requests: int
    not_copied: int
    said: list[Said]


class _Witness:
    """Collects what was seen of the real cluster during a session."""

    def __init__(self, state: ClusterState, opened_s: float) -> None:
        self.opened_s = opened_s
        self.jobs: dict[int, LiveJob] = dict(state.jobs)
        self.running = {job.id for job in state.jobs.values() if job.started_s is not None}
        self.number = {name: at for at, name in enumerate(state.nodes)}
        self.power: list[PowerChange] = []
        self._before = {name: node.power for name, node in state.nodes.items()}
        for name, node in state.nodes.items():
            if node.power != "on" and not is_down(node):
                self.power.append(PowerChange(opened_s, self.number[name], POWER[node.power]))

    def see(self, record: Seen) -> None:
        self.jobs.update((job.id, job) for job in record.change.jobs)
        for node in record.change.nodes:
            if node.name in self.number and node.power != self._before.get(node.name):
                self._before[node.name] = node.power
                number = self.number[node.name]
                self.power.append(PowerChange(record.at_s, number, POWER[node.power]))


def last_session(records: Iterable[AnyRecord]) -> SessionRows:
    """Return the rows of the last session of a journal.

    Raises:
        JournalError: no scheduler has opened a session.
    """
    course, witness = Course(Site(), ShadowWorld), None
    session: SchedulerSession | None = None
    requests = 0
    end_s = 0.0
    for record in records:
        if isinstance(record, Began):
            if record.mode != "shadow":
                raise JournalError(
                    f"the journal is of mode {record.mode}; expected one of mode shadow: in other "
                    "modes Slurm does what the scheduler decides"
                )
            course = Course(record.site, ShadowWorld)
        if isinstance(record, Opened):
            witness, requests = _Witness(course.state, record.at_s), 0
        course.happen(record)
        if isinstance(record, Seen) and witness is not None and course.session is not None:
            witness.see(record)
        if course.session is not None or isinstance(record, Closed):
            end_s = record.at_s
        session = course.session or session
        requests += record.__class__.__name__ == "Asked"
    if session is None or witness is None:
        raise JournalError("the journal has no session: no scheduler has connected")
    world = session.world
    assert isinstance(world, ShadowWorld)
    world.pass_to(end_s)
    return _rows(course, session, world, witness, end_s, requests)


def _rows(
    course: Course,
    session: SchedulerSession,
    world: ShadowWorld,
    witness: _Witness,
    end_s: float,
    requests: int,
) -> SessionRows:
    recording = world.engine.recording
    waiting = {job.row: job for job in world.engine.jobs.in_order()}
    rows = [
        JobRow(
            _spec(world, row, witness.jobs[job_id]),
            job_id in witness.running or witness.jobs[job_id].is_outside,
            _with_real_end(_shadow_run(world, row, waiting.get(row)), real),
            real,
        )
        for row, job_id in enumerate(recording.job_id)
        if job_id not in world.not_copied
        for real in [_real_run(witness, witness.jobs[job_id])]
    ]
    shadow_power = [
        PowerChange(at_s, node, RECORDED_STATES[state])  # type: ignore[arg-type]
        for at_s, node, state in zip(
            recording.power_s, recording.power_node, recording.power_state, strict=True
        )
        if RECORDED_STATES[state] != "down"
    ]
    return SessionRows(
        session.hello.client,
        course.site.name,
        world.engine.cluster.platform,
        witness.opened_s,
        end_s,
        rows,
        witness.power,
        shadow_power,
        session.decisions,
        requests,
        len(world.not_copied),
        _said(world),
    )


def _said(world: ShadowWorld) -> list[Said]:
    recording = world.engine.recording
    told = recording.explanations
    columns = zip(told.row, told.time_s, told.reason, told.expected_start_s, strict=True)
    return [
        Said(recording.job_id[row], at_s, told.reasons[reason], expected_s)
        for row, at_s, reason, expected_s in columns
        if recording.job_id[row] not in world.not_copied
    ]


def _spec(world: ShadowWorld, row: int, job: LiveJob) -> JobSpec:
    recording = world.engine.recording
    return JobSpec(
        job.id,
        min(job.submitted_s, recording.submit_s[row]),
        math.inf,
        recording.requested_s[row],
        recording.cores[row],
        "whole_nodes" if job.is_exclusive else "cores",
        user=job.user[:200],
        account=job.account[:200],
        qos=job.qos[:200],
    )


def _shadow_run(world: ShadowWorld, row: int, job: SimulatedJob | None) -> OneRun:
    recording, known = world.engine.recording, world.engine.end_timers.known
    start_s, end_s = recording.start_s[row], recording.end_s[row]
    word = STATES[recording.state[row]]
    state: JobState | None = None if job is not None else word  # type: ignore[assignment]
    if math.isnan(start_s):
        return OneRun(end_s=end_s, state=state)
    run = known.get(recording.job_id[row])
    if run is not None and state in ("completed", "failed") and row not in recording.suspended_s:
        end_s = min(end_s, start_s + run.run_s)
    return OneRun(
        start_s, end_s, tuple(recording.nodes_of(row)), tuple(recording.tasks_of(row)), state
    )


def _with_real_end(shadow: OneRun, real: OneRun) -> OneRun:
    """Return a run with its exact end, also if it became known only after the time limit."""
    run_s = real.end_s - real.start_s
    if shadow.state != "timeout" or real.state == "cancelled" or math.isnan(run_s):
        return shadow
    end_s = min(shadow.end_s, shadow.start_s + run_s)
    return shadow._replace(end_s=end_s, state=real.state)


def _real_run(witness: _Witness, job: LiveJob) -> OneRun:
    nodes = tuple(witness.number[name] for name in job.nodes if name in witness.number)
    state: JobState | None = None
    if job.state == "over":
        state = "cancelled" if is_cancelled(job) else final_state_of(job)
    end_s = math.nan if job.ended_s is None or state is None else job.ended_s
    if job.started_s is None or not nodes:  # a cancelled job has a start without nodes
        return OneRun(end_s=end_s, state=state)
    return OneRun(job.started_s, end_s, nodes, (), state)
