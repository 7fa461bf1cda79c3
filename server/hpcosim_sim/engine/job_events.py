"""Events of a job, made from its state."""

from __future__ import annotations

import math

from hpcosim_protocol import JobStarted, JobSubmitted
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_workloads.table import JobSpec

FIRST_OPTIONAL = JobSpec._fields.index("memory_mb")
AFTER_OPTIONAL = JobSpec._fields.index("request") + 1
NO_OPTIONS = tuple(
    JobSpec._field_defaults[name] for name in JobSpec._fields[FIRST_OPTIONAL:AFTER_OPTIONAL]
)


def start_of(job: SimulatedJob) -> JobStarted:
    """Return the event of the last start of a job."""
    event = JobStarted(job.started_s, job.spec.job_id, job.nodes, job.tasks)
    if job.resources is not None and job.resources.devices:
        event.gres = job.resources.device_numbers()
    return event


def submission_of(spec: JobSpec) -> JobSubmitted:
    """Return the submission event of a job that is eligible."""
    event = JobSubmitted(spec.submit_s, spec.job_id, spec.cores, spec.requested_s, spec.placement)
    if spec[FIRST_OPTIONAL:AFTER_OPTIONAL] == NO_OPTIONS:
        return event  # the usual case
    # The encoder omits fields that keep their default.
    if spec.memory_mb:
        event.memory_mb = spec.memory_mb
    if spec.memory_volume_mb:
        event.memory_volume_mb = spec.memory_volume_mb
    if spec.max_energy_j < math.inf:
        event.max_energy_j = spec.max_energy_j
    if spec.profile:
        event.profile = spec.profile
    if spec.deadline_s < math.inf:
        event.deadline_s = spec.deadline_s
    if spec.user:
        event.user = spec.user
    if spec.group:
        event.group = spec.group
    if spec.account:
        event.account = spec.account
    if spec.qos:
        event.qos = spec.qos
    if spec.partition:
        event.partitions = tuple(spec.partition.split(","))
    if spec.request is not None:
        event.request = spec.request
    return event


def ineligible_submission_of(spec: JobSpec) -> JobSubmitted:
    """Return the submission event of a job that is not eligible."""
    event = submission_of(spec)
    event.eligible = False
    return event
