"""Handlers of the scheduler's decisions, of the simulator's events and of external events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge import replies
from hpcosim_batsim.bridge.jobs import CANCELLED, FINAL, RunJob
from hpcosim_batsim.bridge.replies import EventRank
from hpcosim_batsim.bridge.run import FIRST_CALL_ID, BatsimRun, phases
from hpcosim_batsim.errors import BadReplyError, InputError
from hpcosim_batsim.inputs import external_events
from hpcosim_batsim.inputs.tasks import progress, shares_resources, task_of
from hpcosim_batsim.inputs.workload_model import BatsimProfile, Delay, ParallelHomogeneous
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
    if not job.dynamic or run.options.acknowledge_dynamic_jobs:
        profile = job.profile.raw if run.options.forward_profiles else None
        submitted = replies.job_submitted(time_s, job.full_id, job.source.raw, profile)
        run.queue.add(submitted, EventRank.JOB_SUBMITTED)


def _on_completed(run: BatsimRun, event: protocol.JobCompleted, time_s: float) -> None:
    job = run.registry.jobs[event.job_id]
    job.state, job.final = "ended", FINAL[event.state]
    if event.state == "rejected":
        return
    if run.phases.pop(job.number, None) is not None:
        with suppress(Rejection):  # the alarm is due at this instant
            run.simulation.carry_out(protocol.CancelAlarm(job.number))
    return_code = job.return_code
    if event.state == "completed":
        assert job.task is not None
        return_code = job.task.ret
        if return_code:
            job.final = "COMPLETED_FAILED"
    run.executions.stop(job.number)
    run.hosts.end_job(job.number, job.hosts)
    run.queue.add(replies.job_completed(time_s, job.full_id, job.final, return_code, job.hosts))


def _on_power_changed(run: BatsimRun, event: protocol.NodePowerChanged, time_s: float) -> None:
    if event.state in ("on", "sleeping"):
        switch = run.hosts.complete_switch(event.node)
        if not switch.remaining:
            run.queue.add(replies.resource_state_changed(time_s, switch.hosts, switch.pstate))


def _on_no_more_jobs(run: BatsimRun, _: protocol.NoMoreJobs, time_s: float) -> None:
    if not run.registry.profiles:  # without a workload, Batsim has no submitter
        return
    # Batsim's submitter reports its end after the server has received its last jobs.
    no_more = replies.notify(time_s, "no_more_static_job_to_submit")
    if run.registry.jobs:
        run.queue.add_after_message(no_more)
    else:
        run.queue.add(no_more)


def _on_alarm(run: BatsimRun, event: protocol.Alarm, time_s: float) -> None:
    if event.alarm_id < FIRST_CALL_ID:
        if event.alarm_id in run.phases:
            start_next_phase(run, run.registry.jobs[event.alarm_id])
        return
    run.queue.add(replies.event(time_s, "REQUESTED_CALL"), EventRank.REQUESTED_CALL)


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
        notice = replies.availability(time_s, event.hosts, unavailable)
    else:
        notice = replies.event(time_s, "NOTIFY", replies.to_json(event.raw))
    run.queue.add(notice, EventRank.EXTERNAL)


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


_HANDLERS: dict[type[protocol.Event], Callable[[BatsimRun, Any, float], None]] = {
    protocol.JobSubmitted: _on_submitted,
    protocol.JobCompleted: _on_completed,
    protocol.NodePowerChanged: _on_power_changed,
    protocol.NoMoreJobs: _on_no_more_jobs,
    protocol.Alarm: _on_alarm,
}


def carry_out(run: BatsimRun, data: replies.DecisionData, where: str) -> None:
    """Apply a decision at the current simulated time.

    Args:
        where: path of the decision in the scheduler's reply, for errors.

    Raises:
        BadReplyError: the decision is invalid.
    """
    try:
        _DECISION_HANDLERS[type(data)](run, data)
    except (Rejection, InputError, ValueError) as error:
        what = f"{replies.wire_name(data)}: {error}"
        raise BadReplyError(what, where, run.simulation.now_s) from None


def _execute(run: BatsimRun, decision: replies.ExecuteJob) -> None:
    job = _waiting_job(run, decision.job_id)
    if decision.storage_mapping or decision.additional_io_job is not None:
        raise ValueError("storage_mapping and additional_io_job are not supported")
    hosts = external_events.parse_intervals(decision.alloc, len(run.platform.hosts))
    processes = hosts if decision.mapping is None else _mapped(decision.mapping, hosts)
    res, profile = job.source.res, job.profile
    moldable = isinstance(profile, ParallelHomogeneous) and profile.total
    if len(processes) != res and not moldable:
        raise ValueError(
            f"job {job.full_id} requests {res} hosts, got an allocation of {len(processes)}"
        )
    run.hosts.check_available(hosts)
    profiles = run.registry.profiles_of(job)
    task = task_of(
        profile,
        profiles,
        run.platform,
        processes,
        run.hosts.pstates,
        share_hosts=run.options.compute_sharing,
    )
    simulation, shares = run.simulation, shares_resources(task)
    if len(hosts) != res or not isinstance(profile, Delay):
        run_s = math.inf if shares else job.run_s(task.duration_s)
        simulation.reshape(job.number, len(hosts), run_s)
    job.state, job.hosts, job.task = "running", hosts, task
    job.started_s = simulation.now_s
    if shares:
        run.executions.start(job.number, hosts, task)
    elif run.options.energy:
        run.phases[job.number] = phases(task)
        start_next_phase(run, job)
    simulation.carry_out(protocol.AllocateJob(job.number, hosts, [1] * len(hosts)))
    for host in hosts:
        run.hosts.running[host] += 1


def _reject(run: BatsimRun, decision: replies.BatsimRejectJob) -> None:
    job = _waiting_job(run, decision.job_id)
    run.simulation.carry_out(protocol.RejectJob(job.number))
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)


def _kill(run: BatsimRun, decision: replies.BatsimKillJob) -> None:
    jobs = [run.registry.find(job_id) for job_id in decision.job_ids]
    for job in jobs:
        if job.state not in ("running", "ended"):
            raise ValueError(f"job {job.full_id} has not started")
    simulation = run.simulation
    requested, progresses = [], {}
    for job in jobs:
        if job.kill_requested:
            continue
        job.kill_requested = True
        requested.append(job.full_id)
        if job.state == "running":
            assert job.task is not None
            current = run.executions.progress(job.number) or progress(
                job.task, simulation.now_s - job.started_s
            )
            progresses[job.full_id] = current
            if not isinstance(_current_profile(run, job, current), Delay):
                job.return_code = CANCELLED
            simulation.carry_out(protocol.KillJob(job.number))
    handle_events(run, simulation.take_events(), simulation.now_s)
    if requested:
        run.queue.add(replies.job_killed(simulation.now_s, requested, progresses))


def _current_profile(run: BatsimRun, job: RunJob, task: dict[str, Any]) -> BatsimProfile:
    """Return the profile of the innermost task in the progress of a job."""
    while "current_task" in task:
        task = task["current_task"]
    return run.registry.profiles_of(job)[task["profile_name"]]


def _call_later(run: BatsimRun, decision: replies.CallMeLater) -> None:
    run.simulation.carry_out(protocol.SetAlarm(decision.timestamp, next(run.call_ids)))


def _set_state(run: BatsimRun, decision: replies.SetResourceState) -> None:
    if not run.options.energy:
        raise ValueError("pstates can be set only with --energy (-E)")
    hosts = external_events.parse_intervals(decision.resources, len(run.platform.hosts))
    switch = run.hosts.set_pstate(hosts, _integer(decision.state))
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)
    if not switch.remaining:
        now_s = run.simulation.now_s
        run.queue.add(replies.resource_state_changed(now_s, switch.hosts, switch.pstate))


def _register_job(run: BatsimRun, decision: replies.RegisterJob) -> None:
    _check_registering(run)
    job = run.registry.register_job(decision.job_id, decision.job)
    run.simulation.submit(job.spec(run.simulation.now_s))
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)


def _register_profile(run: BatsimRun, decision: replies.RegisterProfile) -> None:
    _check_registering(run)
    run.registry.register_profile(decision.workload_name, decision.profile_name, decision.profile)


def _set_metadata(run: BatsimRun, decision: replies.SetJobMetadata) -> None:
    if '"' in decision.metadata:
        raise ValueError('metadata must not contain "')
    run.registry.find(decision.job_id).metadata = decision.metadata


def _change_state(run: BatsimRun, decision: replies.ChangeJobState) -> None:
    if decision.job_state != "REJECTED":
        raise ValueError(
            f"job_state: expected REJECTED, the only supported state, got {decision.job_state}"
        )
    _reject(run, replies.BatsimRejectJob(decision.job_id))


def _notify(run: BatsimRun, decision: replies.Notify) -> None:
    if decision.type not in ("registration_finished", "continue_registration"):
        raise ValueError(
            f"type: expected registration_finished or continue_registration, got {decision.type!r}"
        )
    if not run.options.dynamic_jobs:
        raise ValueError("registration of jobs requires --enable-dynamic-jobs")
    run.registering = decision.type == "continue_registration"


def _query(run: BatsimRun, decision: replies.Query) -> None:
    if decision.requests != {"consumed_energy": {}}:
        raise ValueError('requests: expected {"consumed_energy": {}}, the only supported query')
    if not run.options.energy:
        raise ValueError("the query of consumed_energy requires --energy (-E)")
    now_s = run.simulation.now_s
    run.queue.add(replies.consumed_energy(now_s, run.simulation.cluster.energy_j(now_s)))


def _ignore(run: BatsimRun, _: replies.BatsimAnswer) -> None:
    """Ignore an answer, because the bridge sends no queries."""


def _message_job(run: BatsimRun, _: replies.ToJobMsg) -> None:
    raise ValueError("messages to jobs are not supported: no supported profile receives them")


def _waiting_job(run: BatsimRun, job_id: str) -> RunJob:
    job = run.registry.find(job_id)
    if job.state != "waiting":
        state = {"not_submitted": "is not submitted yet", "running": "runs", "ended": "has ended"}
        raise ValueError(f"job {job_id} {state[job.state]}")
    return job


def _check_registering(run: BatsimRun) -> None:
    if not run.options.dynamic_jobs:
        raise ValueError("registration of jobs requires --enable-dynamic-jobs")
    if not run.registering:
        raise ValueError("the scheduler has sent NOTIFY registration_finished")


def _mapped(mapping: dict[str, str | int], hosts: Sequence[int]) -> list[int]:
    """Return the host of each executor of a job, in order."""
    place_of = {_integer(executor): _integer(place) for executor, place in mapping.items()}
    if sorted(place_of) != list(range(len(mapping))):
        raise ValueError(f"mapping: expected each executor from 0 to {len(mapping) - 1} once")
    if not all(0 <= place < len(hosts) for place in place_of.values()):
        raise ValueError(f"mapping: expected positions in alloc from 0 to {len(hosts) - 1}")
    return [hosts[place_of[executor]] for executor in range(len(place_of))]


def _integer(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected an integer, got {str(text)[:40]!r}") from None


_DECISION_HANDLERS: dict[type[Any], Callable[[BatsimRun, Any], None]] = {
    replies.ExecuteJob: _execute,
    replies.BatsimRejectJob: _reject,
    replies.BatsimKillJob: _kill,
    replies.CallMeLater: _call_later,
    replies.SetResourceState: _set_state,
    replies.RegisterJob: _register_job,
    replies.RegisterProfile: _register_profile,
    replies.SetJobMetadata: _set_metadata,
    replies.ChangeJobState: _change_state,
    replies.Notify: _notify,
    replies.Query: _query,
    replies.BatsimAnswer: _ignore,
    replies.ToJobMsg: _message_job,
}
