"""The state of an engine as events, for a client that resumes its session."""

from __future__ import annotations

from hpcosim_protocol import (
    Event,
    JobAllocated,
    JobSuspended,
    NodeDrained,
    NodeFailed,
    NodePowerChanged,
    NoMoreJobs,
    SimulationBegan,
)
from hpcosim_sim.engine.engine import Engine
from hpcosim_sim.engine.jobs import ineligible_submission_of, start_of, submission_of


def snapshot_of(engine: Engine) -> list[Event]:
    """Return the events that bring an empty view to the current state."""
    power, jobs = engine.power, engine.jobs
    events: list[Event] = [SimulationBegan(engine.start_s), *engine.signals.last_events()]
    events += [
        NodePowerChanged(power.since_s[node], node, state)
        for node, state in enumerate(power.state)
        if state != "on"
    ]
    available = engine.availability
    for node in sorted({*available.failed, *available.drained}):
        if node in available.failed:
            events.append(NodeFailed(available.failed[node], node))
        else:
            events.append(NodeDrained(available.drained[node], node))
    for job in jobs.in_order():
        is_blocked = job.state == "waiting" and job.blocked
        submission = ineligible_submission_of if is_blocked else submission_of
        events.append(submission(job.spec))
    events += [
        JobAllocated(job.allocated_s, job.spec.job_id, job.nodes, job.tasks)
        for job in jobs.allocated.values()
    ]
    events += [start_of(job) for job in (*jobs.running.values(), *jobs.suspended.values())]
    since_s = engine.recording.suspended_since_s
    events += [JobSuspended(since_s[job.row], job.spec.job_id) for job in jobs.suspended.values()]
    if engine.all_submitted:
        events.append(NoMoreJobs(engine.now_s))
    return events
