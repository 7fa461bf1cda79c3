"""Types of job lines and job profiles, in files and in scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from hpcosim_protocol import Placement
from hpcosim_workloads.logs.requirements import Count, Megabytes, Requirements, Seconds
from hpcosim_workloads.table import MAX_CORES, MAX_TIME_S

RUN_TIME_OPS_PER_S = 1e9  # speed for which `JobTable.run_s` of a job with operations holds
MAX_OPS = MAX_TIME_S * RUN_TIME_OPS_PER_S
MAX_J = 1e18
MAX_NAME_LENGTH = 200

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Time = Annotated[float, Meta(ge=0, le=MAX_TIME_S)]
Duration = Annotated[float, Meta(gt=0, le=MAX_TIME_S)]
Operations = Annotated[float, Meta(gt=0, le=MAX_OPS)]
Joules = Annotated[float, Meta(gt=0, le=MAX_J)]
Text = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
NameOrNumber = Number | Text
LongText = Annotated[str, Meta(min_length=1, max_length=200_000)]


class JobProfile(Requirements, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """Default values of the jobs that name this profile. A value of the job has priority.

    Attributes:
        cores: requested cores, one task per core.
        run_s: true run time, s.
        req_ops: operations of each task before division by `ipc`, instead of `run_s`. The run
            time follows from the speed of the node.
        ipc: instructions per cycle: a task has `ceil(req_ops / ipc)` operations. Default: 1.
        requested_s: requested run time, s. Default: `run_s`; required with `req_ops`.
        placement: placement, see `hpcosim_protocol.JobSubmitted`. Default: the scenario's.
        memory_mb: requested memory of each core, MB. Default: unknown.
        memory_volume_mb: data that each task transfers to and from memory, MB. Default: 0.
        max_energy_j: upper limit of the job's estimated energy, J. Default: no limit.
    """

    cores: Annotated[int, Meta(gt=0, le=MAX_CORES)] | None = None
    run_s: Duration | None = None
    req_ops: Operations | None = None
    ipc: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    requested_s: Duration | None = None
    placement: Placement | None = None
    memory_mb: Megabytes | None = None
    memory_volume_mb: Megabytes | None = None
    max_energy_j: Joules | None = None

    def __post_init__(self) -> None:
        if self.run_s is None:
            return
        for name in ("req_ops", "ipc"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"expected either run_s or req_ops (with ipc), got run_s and {name}"
                )


class JobLine(JobProfile, forbid_unknown_fields=True, frozen=True, kw_only=True, gc=False):
    """A job. `cores`, and `run_s` or `req_ops`, are required here or in the job's profile.

    Attributes:
        job_id: number of the job, unique in the workload.
        submit_s: submission time, s.
        profile: name of the profile with the default values of the job. Without any profile in
            the scenario, the name is a label.
        user: name or number of the user who submitted the job. Default: unknown.
        group: name or number of the user's group. Default: unknown.
        account: name or number of the account that pays for the job. Default: unknown.
        qos: name or number of the quality of service. Default: unknown.
        partition: name or number of the partition that the job is submitted to, or several names
            separated by commas. It has no effect on a platform without partitions. Default: the
            default partition.
        deadline_s: time by which the job should have ended, s, on the clock of `submit_s` and after
            it. A window or another load moves the deadline with the submission. Default: none.
        name: name of the job. Default: none.
        priority: priority that an administrator set. Default: none.
        nice: number that lowers the priority. Default: 0.
        hold: whether the job is held until an action releases it. Default: false.
        begin_s: earliest start, s, on the clock of `submit_s`. It moves with the submission as
            `deadline_s`. Default: none.
        dependency: conditions on other jobs as in Slurm's `--dependency`, such as
            `afterok:1005_3:1006,after:7+5` or `singleton`: `,`: all must be met, `?`: one is
            sufficient, `+`: a delay in minutes. Default: none.
        array: indices of a job array as in Slurm's `--array`, such as `0-9%3`: one job for each
            index, of which at most 3 run at once. The first task has the number `job_id`, the
            others have the numbers after the greatest one of the workload.
        array_id: number of the array, of a line that describes one task. Default: none.
        array_index: index of the task, with `array_id`. Default: 0.
        array_limit: maximum number of tasks that run at once, with `array_id`. Default: no limit.
        reservation: name of the reservation in which the job runs. Default: none.
        fails: whether the job fails at its end. Default: false.
    """

    job_id: Number
    submit_s: Time
    profile: Text = ""
    user: NameOrNumber | None = None
    group: NameOrNumber | None = None
    partition: NameOrNumber | None = None
    deadline_s: Time | None = None
    account: NameOrNumber | None = None
    qos: NameOrNumber | None = None
    name: Text = ""
    priority: Annotated[int, Meta(ge=0, le=2**32)] | None = None
    nice: Annotated[int, Meta(ge=-(2**31), le=2**31)] = 0
    hold: bool = False
    begin_s: Seconds | None = None
    dependency: LongText | None = None
    array: LongText | None = None
    array_id: Number | None = None
    array_index: Count = 0
    array_limit: Count = 0
    reservation: Text = ""
    fails: bool = False


NO_PROFILES: Mapping[str, JobProfile] = MappingProxyType({})
NO_PROFILE = JobProfile()

# Fields that a log states for each job; a profile of a log's jobs must not set them.
LOG_FIELDS = ("cores", "run_s", "req_ops", "ipc", "requested_s")


def log_field_message(field: str) -> str:
    """Return the error message for a field of `LOG_FIELDS` in a profile of a log's jobs."""
    others = "such as placement, memory_mb, max_energy_j or gres_per_node"
    what = f"the log states {field} of each job; a profile of a log's jobs may set "
    return f"{what}other keys, {others}"
