"""The last session of a journal in mode shadow."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hpcosim_protocol import JobState
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.power import RECORDED_STATES
from hpcosim_sim.record.recording import STATES
from hpcosim_slurm.bridge.course import Course
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.ledger.records import AnyRecord, Asked, Began, Closed, Opened, Seen
from hpcosim_slurm.report.rows import JobRow, OneRun, PowerChange, SessionRows
from hpcosim_slurm.report.witness import Witness, real_run, said_in, shown_spec
from hpcosim_slurm.state import LiveJob
from hpcosim_slurm.worlds.shadow import ShadowWorld
from hpcosim_slurm.worlds.site import Site, with_off_state
from hpcosim_workloads.table import JobSpec


def last_session(records: Iterable[AnyRecord]) -> SessionRows:
    """Return the rows of the last session of a journal in mode shadow.

    Raises:
        JournalError: no scheduler has opened a session.
    """
    course, witness = Course(Site(), ShadowWorld), None
    session: SchedulerSession | None = None
    requests = 0
    end_s = 0.0
    for record in records:
        if isinstance(record, Began):
            course = Course(record.site, ShadowWorld)
        if isinstance(record, Opened):
            witness, requests = Witness(course.state, record.at_s), 0
        course.happen(record)
        if isinstance(record, Seen) and witness is not None and course.session is not None:
            witness.see(record)
        if course.session is not None or isinstance(record, Closed):
            end_s = record.at_s
        session = course.session or session
        requests += isinstance(record, Asked)
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
    witness: Witness,
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
        for real in [real_run(witness, witness.jobs[job_id])]
    ]
    shadow_power = [
        PowerChange(at_s, node, "sleeping" if found == "down" else found)
        for at_s, node, state in zip(
            recording.power_s, recording.power_node, recording.power_state, strict=True
        )
        for found in [RECORDED_STATES[state]]
    ]
    return SessionRows(
        session.hello.client,
        course.site.name,
        with_off_state(world.engine.cluster.platform, course.site.power),
        witness.begin_s,
        end_s,
        rows,
        witness.power,
        shadow_power,
        session.decisions,
        requests,
        len(world.not_copied),
        said_in(world),
    )


def _spec(world: ShadowWorld, row: int, job: LiveJob) -> JobSpec:
    recording = world.engine.recording
    return shown_spec(
        job, recording.submit_s[row], recording.requested_s[row], recording.cores[row]
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
