"""Execution of the scheduler's decisions: one function for each type of decision.

The function validates the decision. If it is invalid, the function raises a `Rejection` before it
changes the engine. Otherwise it changes the engine, which adds the resulting events to its outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpcosim_protocol import (
    REASON,
    AllocateJob,
    CancelAlarm,
    Decision,
    Explain,
    KillJob,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SetNodePower,
    SubmitJob,
    SuspendJob,
)
from hpcosim_sim.engine.engine import Engine
from hpcosim_sim.engine.job_runs import check_resume, is_requeueable, requeue, resume, suspend
from hpcosim_sim.engine.jobs import Progress, SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.allocation import check_power, check_switch, infeasibility, tasks_by_node
from hpcosim_sim.physics.grants import Grant, grant_of
from hpcosim_workloads.table import MAX_TIME_S, JobSpec

MAX_POWER_CHANGES = 20_000_000
"""Maximum number of changes of node power states in a session."""

MAX_SHOWN = 80  # characters of a malformed reason in a message


def carry_out(engine: Engine, decision: Decision) -> None:
    """Carry out a decision at the current instant."""
    CARRY_OUT[type(decision)](engine, decision)


def _allocate_job(engine: Engine, wanted: AllocateJob) -> None:
    job, tasks, grant = allocation_of(engine, wanted)
    engine.allocate(job, list(wanted.nodes), tasks, grant)


def allocation_of(
    engine: Engine, wanted: AllocateJob
) -> tuple[SimulatedJob, list[int], Grant | None]:
    """Check an allocation without carrying it out.

    Returns:
        The job, its number of tasks on each node, and what it holds beside them; None: what its
        placement implies.
    """
    job = engine.jobs.waiting.get(wanted.job_id) or engine.jobs.waiting_job(wanted.job_id)
    if job.blocked:
        raise engine.eligibility.rejection(job)
    if not engine.availability.are_all:
        engine.availability.check(wanted.nodes[: len(engine.cluster.free) + 1])
    cluster, grant = engine.cluster, None
    if job.spec.request is None and cluster.site.is_plain and not wanted.gres:
        tasks = tasks_by_node(cluster, job.spec, wanted)
    else:
        grant = grant_of(cluster, engine.resources, engine.power, job.spec, wanted, engine.now_s)
        tasks = grant.tasks
    if engine.power.nodes_off:
        check_power(engine.power, wanted.nodes, engine.rules.wake_on_allocation)
    return job, tasks, grant


def _reject_job(engine: Engine, wanted: RejectJob) -> None:
    job = engine.jobs.waiting_job(wanted.job_id)
    if wanted.at_end:
        engine.eligibility.give_up_at_end(job, wanted.state, wanted.reason)
        engine.drop_hopeless()
        return
    if wanted.reason:
        engine.recording.declined.add(job.row)
    engine.end(job, wanted.state, wanted.reason)


def _kill_job(engine: Engine, wanted: KillJob) -> None:
    job = engine.jobs.placed_job(wanted.job_id)
    check_grace(engine, "kill_job", wanted.grace_s)
    engine.graces.set(job, wanted.grace_s, lambda job: engine.end(job, wanted.state))


def _requeue_job(engine: Engine, wanted: RequeueJob) -> None:
    job, begin_s = job_to_requeue(engine, wanted), wanted.begin_s
    engine.graces.set(job, wanted.grace_s, lambda job: requeue(engine, job, "decision", begin_s))


def job_to_requeue(engine: Engine, wanted: RequeueJob) -> SimulatedJob:
    """Check a requeue without carrying it out, and return its job."""
    job, begin_s = engine.jobs.placed_job(wanted.job_id), wanted.begin_s
    if not is_requeueable(job):
        raise Rejection(
            "not_requeueable",
            f"requeue_job: job {wanted.job_id} does not permit it; expected a job with "
            "request.requeue: true",
        )
    check_grace(engine, "requeue_job", wanted.grace_s)
    if begin_s is not None and not abs(begin_s) <= MAX_TIME_S:
        raise Rejection(
            "bad_time", f"requeue_job.begin_s is {begin_s}; expected at most {MAX_TIME_S}"
        )
    return job


def _suspend_job(engine: Engine, wanted: SuspendJob) -> None:
    suspend(engine, engine.jobs.running_job(wanted.job_id))


def _resume_job(engine: Engine, wanted: ResumeJob) -> None:
    job = engine.jobs.suspended_job(wanted.job_id)
    check_resume(engine, job)
    resume(engine, job)


def _set_checkpoint(engine: Engine, wanted: SetCheckpoint) -> None:
    job, interval_s = engine.jobs.waiting_job(wanted.job_id), wanted.interval_s
    checkpointing = None if job.spec.request is None else job.spec.request.checkpointing
    if checkpointing is None:
        raise Rejection(
            "not_allowed",
            f"set_checkpoint: job {wanted.job_id} writes no checkpoints; expected a job with "
            "request.checkpointing",
        )
    if not 0.0 < interval_s <= MAX_TIME_S:
        raise Rejection(
            "bad_time",
            f"set_checkpoint.interval_s is {interval_s}; expected above 0 and at most {MAX_TIME_S}",
        )
    job.progress = job.progress or Progress(checkpointing)
    job.progress.interval_s = interval_s


def check_grace(engine: Engine, decision: str, grace_s: float) -> None:
    """Check a time of grace."""
    if not 0.0 <= grace_s <= MAX_TIME_S - engine.now_s:
        raise Rejection(
            "bad_time",
            f"{decision}.grace_s is {grace_s}; expected 0 to {MAX_TIME_S - engine.now_s}",
        )


def _set_node_power(engine: Engine, wanted: SetNodePower) -> None:
    check_switch(engine.cluster, engine.power.state, wanted)
    _check_switchable(engine, wanted.node)
    if len(engine.recording.power_s) >= MAX_POWER_CHANGES:
        raise Rejection(
            "not_allowed",
            f"set_node_power: a session has at most {MAX_POWER_CHANGES} changes of power states",
        )
    engine.switching.switch(
        wanted.node, "switching_on" if wanted.state == "on" else "switching_off"
    )


def _check_switchable(engine: Engine, node: int) -> None:
    """Check that a node without allocated cores may be switched."""
    if node in engine.availability.failed:
        raise Rejection(
            "node_unavailable", f"set_node_power: node {node} failed; expected a node in operation"
        )
    for job in engine.jobs.suspended.values():
        if node in job.nodes:
            raise Rejection(
                "node_busy", f"node {node} is allocated to the suspended job {job.spec.job_id}"
            )


def _set_alarm(engine: Engine, wanted: SetAlarm) -> None:
    engine.alarms.set(wanted.alarm_id, wanted.at_s)


def _cancel_alarm(engine: Engine, wanted: CancelAlarm) -> None:
    engine.alarms.cancel(wanted.alarm_id)


def _submit_job(engine: Engine, wanted: SubmitJob) -> None:
    rules, job_ids = engine.rules, engine.job_ids
    if not rules.dynamic_jobs:
        raise Rejection("not_allowed", "submit_job requires dynamic_jobs: true in the scenario")
    if wanted.job_id in job_ids:
        raise Rejection(
            "job_exists", f"submit_job.job_id {wanted.job_id} is in use; expected an unused number"
        )
    if len(job_ids) >= rules.max_jobs:
        raise Rejection("not_allowed", f"submit_job: a session has at most {rules.max_jobs} jobs")
    requested_s = wanted.run_s if wanted.requested_s is None else wanted.requested_s
    for name, time_s in (("run_s", wanted.run_s), ("requested_s", requested_s)):
        if not 0 < time_s <= MAX_TIME_S:
            raise Rejection(
                "bad_job",
                f"submit_job.{name} is {time_s}; expected above 0 and at most {MAX_TIME_S}",
            )
    if wanted.cores <= 0:
        raise Rejection("bad_job", f"submit_job.cores is {wanted.cores}; expected at least 1")
    spec = JobSpec(
        wanted.job_id, engine.now_s, wanted.run_s, requested_s, wanted.cores, wanted.placement
    )
    if reason := infeasibility(engine.cluster, spec):
        raise Rejection("bad_job", f"job {wanted.job_id} {reason}")
    job_ids.add(wanted.job_id)
    engine.submit(spec)


def _explain(engine: Engine, wanted: Explain) -> None:
    job = engine.jobs.waiting_job(wanted.job_id)
    reason, expected_s, now_s = wanted.reason, wanted.expected_start_s, engine.now_s
    if REASON.fullmatch(reason) is None:
        got = reason if len(reason) <= MAX_SHOWN else f"{reason[:MAX_SHOWN]}..."
        raise Rejection(
            "bad_reason",
            f"explain.reason is {got!r}; expected a letter, then at most 63 letters, digits and _",
        )
    if expected_s is not None and not now_s <= expected_s <= MAX_TIME_S:
        raise Rejection(
            "bad_time",
            f"explain.expected_start_s is {expected_s}; expected a time from {now_s} (now) to "
            f"{MAX_TIME_S}",
        )
    engine.recording.explanations.add(job.row, now_s, reason, expected_s)


CARRY_OUT: Mapping[type[Decision], Callable[[Engine, Any], None]] = {
    AllocateJob: _allocate_job,
    RejectJob: _reject_job,
    KillJob: _kill_job,
    RequeueJob: _requeue_job,
    SuspendJob: _suspend_job,
    ResumeJob: _resume_job,
    SetCheckpoint: _set_checkpoint,
    SetNodePower: _set_node_power,
    SetAlarm: _set_alarm,
    CancelAlarm: _cancel_alarm,
    SubmitJob: _submit_job,
    Explain: _explain,
}
"""The function for each type of decision."""
