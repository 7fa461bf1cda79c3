"""Handlers of the simulator's events and of external events: they update a run and its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from hpcosim_batsim.bridge import messages
from hpcosim_batsim.bridge.event_queue import EventRank
from hpcosim_batsim.bridge.jobs import FINAL, RunJob
from hpcosim_batsim.bridge.run import FIRST_CALL_ID, BatsimRun
from hpcosim_batsim.inputs.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from hpcosim_protocol import (
    Alarm,
    CancelAlarm,
    Event,
    JobCompleted,
    JobSubmitted,
    NodePowerChanged,
    NoMoreJobs,
    SetAlarm,
)
from hpcosim_sim.errors import Rejection


def handle_events(run: BatsimRun, events: Iterable[Event], time_s: float) -> None:
    """Update a run by events of the simulator, and queue Batsim's events for the scheduler.

    Args:
        run: the run.
        events: the events.
        time_s: their time in messages, s.
    """
    for event in events:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(run, event, time_s)


def _on_submitted(run: BatsimRun, event: JobSubmitted, time_s: float) -> None:
    job = run.registry.jobs[event.job_id]
    job.state = "waiting"
    if not job.dynamic or run.options.acknowledge_dynamic_jobs:
        profile = job.profile.raw if run.options.forward_profiles else None
        submitted = messages.job_submitted(time_s, job.full_id, job.source.raw, profile)
        run.queue.add(submitted, EventRank.JOB_SUBMITTED)


def _on_completed(run: BatsimRun, event: JobCompleted, time_s: float) -> None:
    job = run.registry.jobs[event.job_id]
    job.state, job.final = "ended", FINAL[event.state]
    if event.state == "rejected":
        return
    if run.phases.pop(job.number, None) is not None:
        with suppress(Rejection):  # the alarm is due at this instant
            run.simulation.carry_out(CancelAlarm(job.number))
    return_code = job.return_code
    if event.state == "completed":
        assert job.task is not None
        return_code = job.task.ret
        if return_code:
            job.final = "COMPLETED_FAILED"
    run.executions.stop(job.number)
    run.hosts.end_job(job.number, job.hosts)
    run.queue.add(messages.job_completed(time_s, job.full_id, job.final, return_code, job.hosts))


def _on_power_changed(run: BatsimRun, event: NodePowerChanged, time_s: float) -> None:
    if event.state in ("on", "sleeping"):
        switch = run.hosts.complete_switch(event.node)
        if not switch.remaining:
            run.queue.add(messages.resource_state_changed(time_s, switch.hosts, switch.pstate))


def _on_no_more_jobs(run: BatsimRun, _: NoMoreJobs, time_s: float) -> None:
    if not run.registry.profiles:  # without a workload, Batsim has no submitter
        return
    # Batsim's submitter reports its end after the server has received its last jobs.
    no_more = messages.notify(time_s, "no_more_static_job_to_submit")
    if run.registry.jobs:
        run.queue.add_after_message(no_more)
    else:
        run.queue.add(no_more)


def _on_alarm(run: BatsimRun, event: Alarm, time_s: float) -> None:
    if event.alarm_id < FIRST_CALL_ID:
        if event.alarm_id in run.phases:
            start_next_phase(run, run.registry.jobs[event.alarm_id])
        return
    run.queue.add(messages.event(time_s, "REQUESTED_CALL"), EventRank.REQUESTED_CALL)


def apply_external_event(run: BatsimRun, event: ExternalEvent, time_s: float) -> None:
    """Apply an external event at the current simulated time.

    Args:
        run: the run.
        event: the event.
        time_s: its time in messages, s.
    """
    if event.kind in (UNAVAILABLE, AVAILABLE):
        unavailable = event.kind == UNAVAILABLE
        run.hosts.unavailable -= set(event.hosts)
        if unavailable:
            run.hosts.unavailable |= set(event.hosts)
        run.availability.append((run.simulation.now_s, event.hosts, unavailable))
        notice = messages.availability(time_s, event.hosts, unavailable)
    else:
        notice = messages.event(time_s, "NOTIFY", messages.to_json(event.raw))
    run.queue.add(notice, EventRank.EXTERNAL)


def start_next_phase(run: BatsimRun, job: RunJob) -> None:
    """Set the power of a job's hosts for its next phase, and an alarm for the phase after it."""
    begin_s = run.simulation.now_s
    for duration_s, loads in run.phases[job.number]:
        if duration_s > 0:
            run.hosts.set_loads(job.number, job.hosts, loads)
        if begin_s + duration_s > begin_s:
            # `_on_completed` cancels the alarm of the last phase.
            run.simulation.carry_out(SetAlarm(begin_s + duration_s, job.number))
            return
    del run.phases[job.number]


_HANDLERS: dict[type[Event], Callable[[BatsimRun, Any, float], None]] = {
    JobSubmitted: _on_submitted,
    JobCompleted: _on_completed,
    NodePowerChanged: _on_power_changed,
    NoMoreJobs: _on_no_more_jobs,
    Alarm: _on_alarm,
}
