"""Decisions of all versions of Batsim's protocol: start, reject and kill jobs, register them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge.handlers import end_phases, handle_events, start_next_phase
from hpcosim_batsim.bridge.host_states import PstateSwitch
from hpcosim_batsim.bridge.jobs import CANCELLED, RunJob
from hpcosim_batsim.bridge.run import BatsimRun, check_energy, phases
from hpcosim_batsim.errors import BadReplyError, InputError
from hpcosim_batsim.inputs.tasks import (
    NO_STORAGE,
    NOT_PLACED,
    HostTask,
    Placed,
    Storage,
    progress,
    replays,
    shares_resources,
    task_of,
)
from hpcosim_batsim.inputs.workload_model import BatsimProfile, Delay
from hpcosim_sim.errors import Rejection


def carry_out(run: BatsimRun, decision: Any, where: str) -> None:
    """Apply a decision at the current simulated time.

    Args:
        where: path of the decision in the scheduler's reply, for errors.

    Raises:
        BadReplyError: the decision is invalid.
    """
    try:
        run.front.carry_out(run, decision)
    except (Rejection, InputError, ValueError) as error:
        what = f"{run.front.name_of(decision)}: {error}"
        raise BadReplyError(what, where, run.simulation.now_s) from None


def start_job(
    run: BatsimRun,
    job: RunJob,
    hosts: Sequence[int],
    processes: Sequence[int],
    placed: Placed = NOT_PLACED,
    storage: Storage = NO_STORAGE,
) -> None:
    """Start a waiting job.

    Args:
        processes: the host of each process, in order; a host may have several processes or none.
        placed: the same of parts of its profile that have other processes.
        storage: its storage hosts.
    """
    run.hosts.check_available(hosts)
    check_energy(run)
    profile = job.profile
    job.processes, job.placed, job.storage = processes, placed, storage
    task = _task_of(run, job)
    simulation, shares = run.simulation, shares_resources(task)
    if len(hosts) != job.source.res or not isinstance(profile, Delay):
        run_s = math.inf if shares else job.run_s(task.duration_s)
        simulation.reshape(job.number, len(hosts), run_s)
    job.state, job.hosts, job.task = "running", hosts, task
    run.running[job.number] = job
    job.started_s, job.wait = simulation.now_s, run.queue.begin_wait(simulation.now_s)
    if shares:
        run.executions.start(job.number, hosts, task)
    elif run.options.energy:
        run.phases[job.number] = phases(task)
        start_next_phase(run, job)
    simulation.carry_out(protocol.AllocateJob(job.number, list(hosts), [1] * len(hosts)))
    for host in hosts:
        run.hosts.running[host] += 1
    run.hosts.update_meters(hosts)


def _task_of(run: BatsimRun, job: RunJob) -> HostTask:
    """Return the task of a job in the present pstates of its hosts."""
    return task_of(
        job.profile,
        run.registry.profiles_of(job),
        run.platform,
        job.processes,
        run.hosts.pstates,
        share_hosts=run.options.compute_sharing,
        placed=job.placed,
        storage=job.storage,
    )


def reject_job(run: BatsimRun, job_id: str) -> None:
    """Reject a waiting job."""
    job = waiting_job(run, job_id)
    run.simulation.carry_out(protocol.RejectJob(job.number))
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)


def kill_jobs(run: BatsimRun, job_ids: Sequence[str]) -> None:
    """Kill jobs that have started."""
    jobs = [run.registry.find(job_id) for job_id in job_ids]
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
        run.queue.add(run.front.jobs_killed(run, simulation.now_s, requested, progresses))


def _current_profile(run: BatsimRun, job: RunJob, task: dict[str, Any]) -> BatsimProfile:
    """Return the profile of the innermost task in the progress of a job."""
    while "current_task" in task:
        task = task["current_task"]
    return run.registry.profiles_of(job)[task["profile_name"]]


def set_pstate(
    run: BatsimRun, hosts: Sequence[int], pstate: int, *, switches: bool = True
) -> PstateSwitch:
    """Set the pstate of hosts, see `HostStates.set_pstate`.

    As in Batsim, jobs that run on them continue at the new speed.
    """
    check_energy(run)
    jobs: list[RunJob] = []
    if any(run.hosts.running[host] for host in hosts):
        changing = frozenset(hosts)
        jobs = [job for job in run.running.values() if not changing.isdisjoint(job.hosts)]
        for job in jobs:
            if job.task is not None and replays(job.task):
                what = "replays the usage of hosts, which cannot change their pstates then"
                raise ValueError(f"job {job.full_id} {what}")
    wait = run.queue.begin_wait(run.simulation.now_s)
    switch = run.hosts.set_pstate(hosts, pstate, wait, switches=switches)
    for job in jobs:
        if not isinstance(job.profile, Delay):
            _change_speed(run, job)
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)
    return switch


def _change_speed(run: BatsimRun, job: RunJob) -> None:
    """Continue a running job at the present speeds of its hosts."""
    assert job.task is not None
    before, elapsed_s = job.task, run.simulation.now_s - job.started_s
    job.task = _task_of(run, job)
    if not run.executions.has(job.number):
        end_phases(run, job)
        run.simulation.leave_open(job.number, max(job.walltime_s - elapsed_s, 0.0))
        run.executions.take_over(job.number, job.hosts, before, elapsed_s)
    run.executions.change_task(job.number, job.task)


def submit_job(run: BatsimRun, job: RunJob) -> None:
    """Submit a registered job."""
    run.simulation.submit(job.spec(run.simulation.now_s))
    handle_events(run, run.simulation.take_events(), run.simulation.now_s)


def waiting_job(run: BatsimRun, job_id: str) -> RunJob:
    """Return a job that waits."""
    job = run.registry.find(job_id)
    if job.state != "waiting":
        state = {"not_submitted": "is not submitted yet", "running": "runs", "ended": "has ended"}
        raise ValueError(f"job {job_id} {state[job.state]}")
    return job


def check_mapping(hosts: Sequence[int], places: Sequence[int]) -> list[int]:
    """Return the host of each process.

    Args:
        places: position in `hosts` of each process.
    """
    if not all(0 <= place < len(hosts) for place in places):
        raise ValueError(f"mapping: expected positions in alloc from 0 to {len(hosts) - 1}")
    return [hosts[place] for place in places]
