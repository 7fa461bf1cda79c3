"""The jobs of a cluster as jobs of the protocol."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hpcosim_protocol import Dependency, JobRequest, JobState, Placement, ResourceError
from hpcosim_protocol.features import check
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.site import has_plain_partition
from hpcosim_workloads.logs.dependencies import Clause, parse_dependency
from hpcosim_workloads.table import JobSpec

UNLIMITED_S = 365 * 86_400.0
"""Requested time of jobs without a limit, s: Slurm's planning counts them as a year."""
MAX_TEXT = 200  # characters of a name in the protocol
MAX_EXPRESSION = 1000  # characters of an expression of features

FINAL_STATES: Mapping[str, JobState] = {"COMPLETED": "completed", "TIMEOUT": "timeout"}
"""State of a job whose run ended by itself, by Slurm's word; of all others: `failed`."""

_REMARK = re.compile(r"\([a-z]*\)")  # Slurm writes `afterok:7(unfulfilled)`


def spec_of(
    job: LiveJob, submit_s: float, state: ClusterState, *, holds_memory: bool = False
) -> JobSpec:
    """Return a job as the protocol describes it. Its run time is unknown: infinity.

    Args:
        job: the job.
        submit_s: time of its submission, as schedulers see it, s.
        state: the part of the cluster that they see.
        holds_memory: whether jobs hold memory.
    """
    names = [name for name in job.partition.split(",") if name in state.partitions]
    is_plain = has_plain_partition(state)
    return JobSpec(
        job_id=job.id,
        submit_s=submit_s,
        run_s=math.inf,
        requested_s=requested_s(job, state),
        cores=max(job.cpus, 1),
        placement=placement_of(job),
        user=job.user[:MAX_TEXT],
        account=job.account[:MAX_TEXT],
        qos=job.qos[:MAX_TEXT],
        partition="" if is_plain else ",".join(names),
        request=_request(job, state.at_s, holds_memory),
    )


def requested_s(job: LiveJob, state: ClusterState) -> float:
    """Return the time limit of a job: its own, or that of its partition, s."""
    if job.time_limit_s is not None:
        return max(job.time_limit_s, 1.0)
    limits = [
        state.partitions[name].time_limit_s
        for name in job.partition.split(",")
        if name in state.partitions
    ]
    return max((UNLIMITED_S if limit is None else limit for limit in limits), default=UNLIMITED_S)


def placement_of(job: LiveJob) -> Placement:
    """Return the rule for the layout of a job over nodes."""
    if job.is_exclusive:
        return "whole_nodes"
    return "one_node" if job.nodes_max == 1 and job.cpus > 1 else "cores"


def has_unknown_dependency(job: LiveJob) -> bool:
    """Return whether a job waits for something that the protocol cannot express."""
    return bool(job.dependency) and _clauses(job.dependency) is None


def is_cancelled(job: LiveJob) -> bool:
    """Return whether somebody cancelled a job that is over."""
    return job.slurm_state.startswith(("CANCELLED", "REVOKED"))


def final_state_of(job: LiveJob) -> JobState:
    """Return the state of a job whose run is over, if the run ended by itself."""
    return FINAL_STATES.get(job.slurm_state.split("+")[0].split(" ")[0], "failed")


def _request(job: LiveJob, now_s: float, holds_memory: bool) -> JobRequest:
    dependencies, any_of = _clauses(job.dependency) or ((), False)
    several = job.nodes_max > 1 and job.nodes_max < job.cpus
    return JobRequest(
        name=job.name[:MAX_TEXT],
        hold=job.is_held or has_unknown_dependency(job),
        begin_s=job.eligible_s if job.eligible_s is not None and job.eligible_s > now_s else None,
        dependencies=tuple(_dependency(clause) for clause in dependencies),
        any_dependency=any_of,
        nodes_min=job.nodes_min if job.nodes_min > 1 else 0,
        nodes_max=job.nodes_max if several else 0,
        features=_features(job.features),
        memory_per_node_mb=float(job.memory_mb or 0) if holds_memory else 0.0,
        all_memory=holds_memory and job.memory_mb is None,
        gres_per_node={
            name[:MAX_TEXT]: float(count) for name, count in job.devices.items() if count > 0
        },
        requeue=True,  # Slurm's default, JobRequeue=1
    )


def _clauses(text: str) -> tuple[tuple[Clause, ...], bool] | None:
    """Return the conditions of a dependency; None: the protocol cannot express them."""
    if not text:
        return (), False
    try:
        parsed = parse_dependency(_REMARK.sub("", text))
    except ValueError:
        return None
    for clause in parsed.clauses:
        if clause.kind == "aftercorr" or any(each.task is not None for each in clause.references):
            return None
    return parsed.clauses, parsed.any_of


def _dependency(clause: Clause) -> Dependency:
    job_ids = tuple(each.job_id for each in clause.references)
    return Dependency(clause.kind, job_ids, clause.delay_s)  # type: ignore[arg-type]


def _features(text: str) -> str:
    """Return an expression of features; empty: there is none that the protocol knows."""
    if len(text) > MAX_EXPRESSION:
        return ""
    try:
        check(text)
    except ResourceError:
        return ""
    return text
