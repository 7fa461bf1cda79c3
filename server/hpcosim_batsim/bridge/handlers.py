"""Handlers of the simulator's events and of external events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge.event_queue import FIRST_WAIT, Before
from hpcosim_batsim.bridge.jobs import FINAL, RunJob
from hpcosim_batsim.bridge.run import BatsimRun, check_energy
from hpcosim_batsim.inputs import external_events
from hpcosim_batsim.inputs.tasks import part_at
from hpcosim_sim.errors import Rejection


def handle_events(run: BatsimRun, events: Iterable[protocol.Event], time_s: float) -> None:
    """Update a run by events of the simulator, and queue Batsim's events for the scheduler."""
    for event in events:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(run, event, time_s)


def _on_submitted(run: BatsimRun, event: protocol.JobSubmitted, time_s: float) -> None:
    job = run.registry.jobs[event.job_id]
    job.state = "waiting"
    if not job.dynamic:
        check_energy(run)
        submitter = run.submitters[job.source.workload]
        run.queue.submit(run.front.job_submitted(run, job, time_s), submitter)
    elif run.options.acknowledge_dynamic_jobs:
        run.queue.add(run.front.job_submitted(run, job, time_s))


def _on_completed(run: BatsimRun, event: protocol.JobCompleted, time_s: float) -> None:
    job = run.registry.jobs[event.job_id]
    job.state, job.final = "ended", FINAL[event.state]
    if event.state == "rejected":
        return
    del run.running[job.number]
    end_phases(run, job)
    return_code = job.return_code
    if event.state == "completed":
        assert job.task is not None
        return_code = job.task.ret
        if return_code:
            job.final = "COMPLETED_FAILED"
    begun_s = run.executions.stop(job.number)
    if begun_s is None:
        assert job.task is not None
        now_s = run.simulation.now_s
        _, elapsed_s = part_at(job.task, now_s - job.started_s)
        begun_s = now_s - elapsed_s
    run.hosts.end_job(job.number, job.hosts)
    # With energy, Batsim reads the energy of all hosts at the end of a job.
    before = Before.READ_ENERGY if run.options.energy else Before.NOTHING
    completed = run.front.job_completed(job, time_s, return_code)
    run.queue.send(completed, job.wait.from_s(begun_s), before)


def _on_power_changed(run: BatsimRun, event: protocol.NodePowerChanged, time_s: float) -> None:
    if event.state in ("on", "sleeping"):
        switch = run.hosts.complete_switch(event.node)
        if not switch.remaining:
            switched = run.front.switched(switch, time_s)
            run.queue.send(switched, switch.wait, Before.SET_PSTATE)


def _on_alarm(run: BatsimRun, event: protocol.Alarm, time_s: float) -> None:
    if event.alarm_id < FIRST_WAIT:
        if event.alarm_id in run.phases:
            start_next_phase(run, run.registry.jobs[event.alarm_id])
        return
    run.front.on_call(run, run.calls.pop(event.alarm_id), time_s)


def apply_external_event(
    run: BatsimRun, event: external_events.ExternalEvent, time_s: float
) -> None:
    """Apply an external event at the current simulated time."""
    if event.kind in (external_events.UNAVAILABLE, external_events.AVAILABLE):
        unavailable = event.kind == external_events.UNAVAILABLE
        run.hosts.unavailable -= set(event.hosts)
        if unavailable:
            run.hosts.unavailable |= set(event.hosts)
        run.availability.append((run.simulation.now_s, event.hosts, unavailable))
    assert run.external is not None
    run.queue.submit(run.front.external(event, time_s), run.external)


def start_next_phase(run: BatsimRun, job: RunJob) -> None:
    """Set the power of a job's hosts for its next phase, and an alarm for the phase after it."""
    begin_s = run.simulation.now_s
    for duration_s, loads in run.phases[job.number]:
        if duration_s > 0:
            run.hosts.set_loads(job.number, job.hosts, loads)
        if begin_s + duration_s > begin_s:
            # `_on_completed` cancels the alarm of the last phase.
            run.simulation.carry_out(protocol.SetAlarm(begin_s + duration_s, job.number))
            return
    del run.phases[job.number]


def end_phases(run: BatsimRun, job: RunJob) -> None:
    """Forget the remaining phases of a job, if it has any."""
    if run.phases.pop(job.number, None) is not None:
        with suppress(Rejection):  # it goes off at this instant
            run.simulation.carry_out(protocol.CancelAlarm(job.number))


_HANDLERS: dict[type[protocol.Event], Callable[[BatsimRun, Any, float], None]] = {
    protocol.JobSubmitted: _on_submitted,
    protocol.JobCompleted: _on_completed,
    protocol.NodePowerChanged: _on_power_changed,
    protocol.Alarm: _on_alarm,
}
