"""What a scheduler decides, carried out in a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hpcosim_batsim.bridge import events as say
from hpcosim_batsim.bridge import replies
from hpcosim_batsim.bridge.happening import hear, next_phase
from hpcosim_batsim.bridge.jobs import KnownJob
from hpcosim_batsim.bridge.phases import phases
from hpcosim_batsim.bridge.run import Run, check_sharing
from hpcosim_batsim.errors import BadReplyError, InputError
from hpcosim_batsim.inputs.intervals import parse_intervals
from hpcosim_batsim.inputs.profiles import progress, task_of
from hpcosim_batsim.inputs.workload_model import Delay, ParallelHomogeneous
from hpcosim_protocol import AllocateJob, KillJob, RejectJob, SetAlarm
from hpcosim_server.errors import Rejection


def carry_out(run: Run, data: replies.Data, where: str) -> None:
    """Carry out a decision now.

    Args:
        run: in which.
        data: what is decided.
        where: it stands, in the scheduler's message.

    Raises:
        BadReplyError: it can't be.
    """
    try:
        _CARRY_OUT[type(data)](run, data)
    except (Rejection, InputError, ValueError) as error:
        what = f"{replies.wire_name(data)}: {error}"
        raise BadReplyError(what, where, run.simulation.now_s) from None


def _execute(run: Run, wanted: replies.ExecuteJob) -> None:
    job = _waiting(run, wanted.job_id)
    if wanted.storage_mapping or wanted.additional_io_job is not None:
        raise ValueError("storage_mapping and additional_io_job are not supported here")
    hosts = parse_intervals(wanted.alloc, len(run.platform.hosts))
    processes = hosts if wanted.mapping is None else _mapped(wanted.mapping, hosts)
    res, profile = job.about.res, job.profile
    moldable = isinstance(profile, ParallelHomogeneous) and profile.total
    if len(processes) != res and not moldable:
        raise ValueError(f"job {job.full_id} asks for {res} hosts; {len(processes)} were given")
    run.hosts.check_free(hosts)
    profiles = run.known.profiles_of(job)
    task = task_of(profile, profiles, run.platform, processes, run.hosts.pstates)
    simulation = run.simulation
    if len(hosts) != res or not isinstance(profile, Delay):
        simulation.reshape(job.number, len(hosts), job.run_s(task.duration_s))
    job.state, job.hosts, job.task = "running", hosts, task
    job.started_s = simulation.now_s
    if run.options.energy:
        run.phases[job.number] = phases(task)
        next_phase(run, job)
    simulation.carry_out(AllocateJob(job.number, hosts, [1] * len(hosts)))
    for host in hosts:
        run.hosts.running[host] += 1


def _reject(run: Run, wanted: replies.RejectJob) -> None:
    job = _waiting(run, wanted.job_id)
    run.simulation.carry_out(RejectJob(job.number))
    hear(run, run.simulation.take_events())


def _kill(run: Run, wanted: replies.KillJob) -> None:
    jobs = [run.known.find(job_id) for job_id in wanted.job_ids]
    for job in jobs:
        if job.state not in ("running", "over"):
            raise ValueError(f"job {job.full_id} does not run")
    simulation = run.simulation
    asked, told = [], {}
    for job in jobs:
        if job.kill_asked:
            continue
        job.kill_asked = True
        asked.append(job.full_id)
        if job.state == "running":
            assert job.task is not None
            told[job.full_id] = progress(job.task, simulation.now_s - job.started_s)
            simulation.carry_out(KillJob(job.number))
    hear(run, simulation.take_events())
    if asked:
        run.queue.append(say.job_killed(simulation.now_s, asked, told))


def _call_later(run: Run, wanted: replies.CallMeLater) -> None:
    run.simulation.carry_out(SetAlarm(wanted.timestamp, next(run.call_ids)))


def _set_state(run: Run, wanted: replies.SetResourceState) -> None:
    if not run.options.energy:
        raise ValueError("power states can change only with --energy (-E)")
    hosts = parse_intervals(wanted.resources, len(run.platform.hosts))
    switch = run.hosts.switch(hosts, _whole(wanted.state))
    run.switch_requests += 1
    hear(run, run.simulation.take_events())
    if not switch.left:
        now_s = run.simulation.now_s
        run.queue.append(say.resource_state_changed(now_s, switch.hosts, switch.pstate))


def _register_job(run: Run, wanted: replies.RegisterJob) -> None:
    _check_registering(run)
    job = run.known.register_job(wanted.job_id, wanted.job)
    check_sharing(job, run.known, run.options)
    run.simulation.submit(job.spec(run.simulation.now_s))
    hear(run, run.simulation.take_events())


def _register_profile(run: Run, wanted: replies.RegisterProfile) -> None:
    _check_registering(run)
    run.known.register_profile(wanted.workload_name, wanted.profile_name, wanted.profile)


def _set_metadata(run: Run, wanted: replies.SetJobMetadata) -> None:
    if '"' in wanted.metadata:
        raise ValueError('there can be no " in metadata')
    run.known.find(wanted.job_id).metadata = wanted.metadata


def _change_state(run: Run, wanted: replies.ChangeJobState) -> None:
    if wanted.job_state != "REJECTED":
        raise ValueError(
            f"a job can't be made {wanted.job_state} by a word: here jobs run on hosts; only "
            "REJECTED is supported"
        )
    _reject(run, replies.RejectJob(wanted.job_id))


def _notified(run: Run, wanted: replies.Notify) -> None:
    if wanted.type not in ("registration_finished", "continue_registration"):
        raise ValueError(
            f"there is no type {wanted.type!r}; there are registration_finished and "
            "continue_registration"
        )
    if not run.options.dynamic_jobs:
        raise ValueError("there is no registration without --enable-dynamic-jobs")
    run.registering = wanted.type == "continue_registration"


def _query(run: Run, wanted: replies.Query) -> None:
    if wanted.requests != {"consumed_energy": {}}:
        raise ValueError('requests must be {"consumed_energy": {}}; nothing else is known')
    if not run.options.energy:
        raise ValueError("energy is known only with --energy (-E)")
    run.simulation.settle()
    energy_j = math.fsum(meter.energy_j for meter in run.simulation.cluster.meters)
    run.queue.append(say.consumed_energy(run.simulation.now_s, energy_j))


def _ignore(run: Run, _: replies.Answer) -> None:
    """Nothing was asked."""


def _tell_job(run: Run, _: replies.ToJobMsg) -> None:
    raise ValueError("jobs can't be told anything: no profile here listens")


def _waiting(run: Run, job_id: str) -> KnownJob:
    job = run.known.find(job_id)
    if job.state != "waiting":
        is_now = {"to_come": "is not submitted yet", "running": "runs", "over": "is over"}
        raise ValueError(f"job {job_id} {is_now[job.state]}")
    return job


def _check_registering(run: Run) -> None:
    if not run.options.dynamic_jobs:
        raise ValueError("jobs can be registered only with --enable-dynamic-jobs")
    if not run.registering:
        raise ValueError("registration was said to be finished")


def _mapped(mapping: dict[str, str | int], hosts: Sequence[int]) -> list[int]:
    """Return the host of each executor of a job, in order."""
    wanted = {_whole(executor): _whole(place) for executor, place in mapping.items()}
    if sorted(wanted) != list(range(len(mapping))):
        raise ValueError("mapping must name every executor once, from 0 on")
    if not all(0 <= place < len(hosts) for place in wanted.values()):
        raise ValueError(f"mapping must go to places of alloc, from 0 to {len(hosts) - 1}")
    return [hosts[wanted[executor]] for executor in range(len(wanted))]


def _whole(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{str(text)[:40]!r} is no whole number") from None


_CARRY_OUT: dict[type[Any], Callable[[Run, Any], None]] = {
    replies.ExecuteJob: _execute,
    replies.RejectJob: _reject,
    replies.KillJob: _kill,
    replies.CallMeLater: _call_later,
    replies.SetResourceState: _set_state,
    replies.RegisterJob: _register_job,
    replies.RegisterProfile: _register_profile,
    replies.SetJobMetadata: _set_metadata,
    replies.ChangeJobState: _change_state,
    replies.Notify: _notified,
    replies.Query: _query,
    replies.Answer: _ignore,
    replies.ToJobMsg: _tell_job,
}
