"""What happens in a run, and what the scheduler is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from hpcosim_batsim.bridge import events as say
from hpcosim_batsim.bridge.final_states import FINAL
from hpcosim_batsim.bridge.jobs import KnownJob
from hpcosim_batsim.bridge.run import FIRST_CALL, BatsimRun
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


def hear(run: BatsimRun, events: Iterable[Event]) -> None:
    """Take in what the simulation says has happened."""
    for event in events:
        take_in = _HEAR.get(type(event))
        if take_in is not None:
            take_in(run, event)


def _on_submitted(run: BatsimRun, event: JobSubmitted) -> None:
    job = run.known.jobs[event.job_id]
    job.state = "waiting"
    if not job.registered or run.options.acknowledge_dynamic_jobs:
        profile = job.profile.raw if run.options.forward_profiles else None
        run.queue.append(say.job_submitted(event.time_s, job.full_id, job.about.raw, profile))


def _on_completed(run: BatsimRun, event: JobCompleted) -> None:
    job = run.known.jobs[event.job_id]
    job.state, job.final = "over", FINAL[event.state]
    if event.state == "rejected":
        return
    if run.phases.pop(job.number, None) is not None:
        with suppress(Rejection):  # it goes off at this very instant
            run.simulation.carry_out(CancelAlarm(job.number))
    return_code = _NO_RETURN_CODE
    if event.state == "completed":
        return_code = job.profile.ret
        if return_code:
            job.final = "COMPLETED_FAILED"
    for host in job.hosts:
        run.hosts.running[host] -= 1
    run.queue.append(
        say.job_completed(event.time_s, job.full_id, job.final, return_code, job.hosts)
    )


def _on_power_changed(run: BatsimRun, event: NodePowerChanged) -> None:
    if event.state in ("on", "sleeping"):
        switch = run.hosts.arrived(event.node)
        if not switch.left:
            run.queue.append(say.resource_state_changed(event.time_s, switch.hosts, switch.pstate))


def _on_no_more_jobs(run: BatsimRun, event: NoMoreJobs) -> None:
    run.queue.append(say.notify(event.time_s, "no_more_static_job_to_submit"))


def _on_alarm(run: BatsimRun, event: Alarm) -> None:
    if event.alarm_id < FIRST_CALL:
        if event.alarm_id in run.phases:
            next_phase(run, run.known.jobs[event.alarm_id])
        return
    run.queue.append(say.event(event.time_s, "REQUESTED_CALL"))


def happen(run: BatsimRun, event: ExternalEvent) -> None:
    """Let an event from outside happen now."""
    now_s = run.simulation.now_s
    if event.kind in (UNAVAILABLE, AVAILABLE):
        gone = event.kind == UNAVAILABLE
        run.hosts.unavailable -= set(event.hosts)
        if gone:
            run.hosts.unavailable |= set(event.hosts)
        run.availability.append((now_s, event.hosts, gone))
        run.queue.append(say.availability(now_s, event.hosts, gone))
    else:
        run.queue.append(say.event(now_s, "NOTIFY", say.to_json(event.raw)))


def next_phase(run: BatsimRun, job: KnownJob) -> None:
    """Let the hosts of a job draw what its next phase takes, until there is one after it."""
    begin_s = run.simulation.now_s
    for duration_s, loads in run.phases[job.number]:
        if duration_s > 0:
            run.hosts.load(job.hosts, loads)
        if begin_s + duration_s > begin_s:
            # The last one's alarm is called off as the job is over.
            run.simulation.carry_out(SetAlarm(begin_s + duration_s, job.number))
            return
    del run.phases[job.number]


_HEAR: dict[type[Event], Callable[[BatsimRun, Any], None]] = {
    JobSubmitted: _on_submitted,
    JobCompleted: _on_completed,
    NodePowerChanged: _on_power_changed,
    NoMoreJobs: _on_no_more_jobs,
    Alarm: _on_alarm,
}
