"""Handlers of the simulator's events and of external events: they update a run and its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from hpcosim_batsim.bridge import messages
from hpcosim_batsim.bridge.final_states import FINAL
from hpcosim_batsim.bridge.jobs import RunJob
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
from hpcosim_server.errors import Rejection

_NO_RETURN_CODE = -1


def handle_events(run: BatsimRun, events: Iterable[Event]) -> None:
    """Update a run by events of the simulator, and queue Batsim's events for the scheduler."""
    for event in events:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(run, event)


def _on_submitted(run: BatsimRun, event: JobSubmitted) -> None:
    job = run.registry.jobs[event.job_id]
    job.state = "waiting"
    if not job.dynamic or run.options.acknowledge_dynamic_jobs:
        profile = job.profile.raw if run.options.forward_profiles else None
        run.queue.append(messages.job_submitted(event.time_s, job.full_id, job.source.raw, profile))


def _on_completed(run: BatsimRun, event: JobCompleted) -> None:
    job = run.registry.jobs[event.job_id]
    job.state, job.final = "ended", FINAL[event.state]
    if event.state == "rejected":
        return
    if run.phases.pop(job.number, None) is not None:
        with suppress(Rejection):  # the alarm is due at this instant
            run.simulation.carry_out(CancelAlarm(job.number))
    return_code = _NO_RETURN_CODE
    if event.state == "completed":
        return_code = job.profile.ret
        if return_code:
            job.final = "COMPLETED_FAILED"
    run.executions.stop(job.number)
    run.hosts.end_job(job.number, job.hosts)
    run.queue.append(
        messages.job_completed(event.time_s, job.full_id, job.final, return_code, job.hosts)
    )


def _on_power_changed(run: BatsimRun, event: NodePowerChanged) -> None:
    if event.state in ("on", "sleeping"):
        switch = run.hosts.complete_switch(event.node)
        if not switch.remaining:
            run.queue.append(
                messages.resource_state_changed(event.time_s, switch.hosts, switch.pstate)
            )


def _on_no_more_jobs(run: BatsimRun, event: NoMoreJobs) -> None:
    run.queue.append(messages.notify(event.time_s, "no_more_static_job_to_submit"))


def _on_alarm(run: BatsimRun, event: Alarm) -> None:
    if event.alarm_id < FIRST_CALL_ID:
        if event.alarm_id in run.phases:
            start_next_phase(run, run.registry.jobs[event.alarm_id])
        return
    run.queue.append(messages.event(event.time_s, "REQUESTED_CALL"))


def apply_external_event(run: BatsimRun, event: ExternalEvent) -> None:
    """Apply an external event at the current simulated time."""
    now_s = run.simulation.now_s
    if event.kind in (UNAVAILABLE, AVAILABLE):
        unavailable = event.kind == UNAVAILABLE
        run.hosts.unavailable -= set(event.hosts)
        if unavailable:
            run.hosts.unavailable |= set(event.hosts)
        run.availability.append((now_s, event.hosts, unavailable))
        run.queue.append(messages.availability(now_s, event.hosts, unavailable))
    else:
        run.queue.append(messages.event(now_s, "NOTIFY", messages.to_json(event.raw)))


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


_HANDLERS: dict[type[Event], Callable[[BatsimRun, Any], None]] = {
    JobSubmitted: _on_submitted,
    JobCompleted: _on_completed,
    NodePowerChanged: _on_power_changed,
    NoMoreJobs: _on_no_more_jobs,
    Alarm: _on_alarm,
}
