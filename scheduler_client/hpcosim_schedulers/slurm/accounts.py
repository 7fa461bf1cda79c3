"""Accounts, users and qualities of service (QOS) of a site, with their shares and limits.

Names and meanings are those of `sacctmgr` (https://slurm.schedmd.com/sacctmgr.html), in snake case.
An attribute that is None, or a TRES that a mapping lacks, has no limit.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Name = Annotated[str, Meta(min_length=1, max_length=200)]
OptionalName = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
TresName = Annotated[
    str, Meta(max_length=200, pattern=r"^(cpu|mem|node|billing|(gres|license)/\S+)$")
]
Tres = dict[TresName, Amount]
"""Amounts of trackable resources: `cpu`, `mem` (MB), `node`, `billing` (see
`PartitionSettings.billing_weights`), `gres/NAME`, `gres/NAME:TYPE`, `license/NAME`."""

ROOT = "root"
"""Name of the account above all others."""

NORMAL = "normal"
"""Name of the QOS that always exists."""

PreemptMode = Literal["off", "cancel", "requeue", "suspend"]
QosFlag = Literal[
    "deny_on_limit",
    "enforce_usage_threshold",
    "no_decay",
    "no_reserve",
    "over_part_qos",
    "partition_max_nodes",
    "partition_min_nodes",
    "partition_time_limit",
    "requires_reservation",
    "usage_factor_safe",
]


class Limited(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits that associations and QOS have alike.

    `grp_...` limits hold for all jobs of an association and of those below it together, or for all
    jobs of a QOS.

    Attributes:
        grp_jobs: GrpJobs, maximum number of running jobs.
        grp_submit_jobs: GrpSubmitJobs, maximum number of waiting and running jobs.
        grp_tres: GrpTRES, maximum TRES of running jobs.
        grp_tres_mins: GrpTRESMins, maximum TRES-minutes of past and running jobs, decayed.
        grp_tres_run_mins: GrpTRESRunMins, maximum TRES-minutes that running jobs may still use, by
            their requested times.
        grp_wall_s: GrpWall, maximum run time of past and running jobs, decayed, s.
        max_tres_per_job: MaxTRES, maximum TRES of a job.
        max_tres_per_node: MaxTRESPerNode, maximum TRES of a job on each of its nodes on average.
        max_tres_mins_per_job: MaxTRESMins, maximum TRES-minutes of a job by its requested time,
            with `safe` in `SiteSettings.enforce`.
        max_wall_s: MaxWall, maximum requested time of a job, s.
    """

    grp_jobs: Count | None = None
    grp_submit_jobs: Count | None = None
    grp_tres: Tres = {}
    grp_tres_mins: Tres = {}
    grp_tres_run_mins: Tres = {}
    grp_wall_s: Seconds | None = None
    max_tres_per_job: Tres = {}
    max_tres_per_node: Tres = {}
    max_tres_mins_per_job: Tres = {}
    max_wall_s: Seconds | None = None


class Association(Limited, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares and limits that accounts and users have alike.

    Limits other than `grp_...` hold for each user; a user without one inherits the limit of the
    nearest account above that has one. See "SPECIFICATIONS FOR ASSOCIATIONS" of the manual page
    sacctmgr(1).

    Attributes:
        shares: Fairshare, shares of the usage of the parent account; `parent`: the association does
            not compete; its usage counts as its parent's.
        priority: Priority, the raw association factor; None: inherited.
        qos: QOS that the jobs may use; None: inherited, or all if no account above has any.
        default_qos: QOS of jobs that name none; empty: inherited.
        usage_s: RawUsage before simulated second 0, in seconds of the billing TRES.
        max_jobs: MaxJobs, maximum number of running jobs of the user in the account.
        max_submit_jobs: MaxSubmitJobs, maximum number of waiting and running jobs.
    """

    shares: Count | Literal["parent"] = 1
    priority: Count | None = None
    qos: tuple[Name, ...] | None = None
    default_qos: OptionalName = ""
    usage_s: Amount = 0.0
    max_jobs: Count | None = None
    max_submit_jobs: Count | None = None


class User(Association, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user in an account.

    Attributes:
        default: whether jobs of the user that name no account are of this one; without any such
            account, they are of the user's first.
        partitions: associations of the user for single partitions, by partition. Each has its own
            shares and usage; jobs in other partitions are of the user's own association.
    """

    default: bool = False
    partitions: dict[Name, Association] = {}


class Account(Association, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An account.

    Attributes:
        parent: name of the account above; `root`: the topmost.
        users: the account's users by name.
    """

    parent: Name = ROOT
    users: dict[Name, User] = {}


class Qos(Limited, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A quality of service.

    See "SPECIFICATIONS FOR QOS" of the manual page sacctmgr(1) and
    https://slurm.schedmd.com/qos.html. Limits of a QOS take precedence over the same limits of
    associations.

    Attributes:
        priority: Priority, the raw QOS factor.
        flags: Flags. `deny_on_limit`: a job that alone exceeds a limit is rejected at submission.
            `no_reserve`: backfilling reserves no nodes for jobs of the QOS. `over_part_qos`: its
            limits take precedence over those of the partition's QOS. `partition_max_nodes`,
            `partition_min_nodes`, `partition_time_limit`: jobs may exceed that limit of their
            partition. `requires_reservation`: jobs must name a reservation. `no_decay`: the usage
            of the QOS does not decay. `usage_factor_safe`: `usage_factor` also applies to limits
            on the TRES-minutes of jobs. `enforce_usage_threshold`: see `usage_threshold`.
        usage_factor: UsageFactor, factor of the usage of its jobs.
        limit_factor: LimitFactor, factor of the limits `grp_tres` and `max_tres_...` of
            associations for jobs of the QOS; 0: none.
        usage_threshold: UsageThreshold, least fair-share factor of a job's association with
            `enforce_usage_threshold`, below which its jobs wait; None: none.
        preempt: Preempt, QOS whose jobs it may preempt with `Preemption.type` `qos`.
        preempt_mode: PreemptMode of its jobs; empty: that of the cluster.
        grace_time_s: GraceTime, time from preemption to the end of a job, s.
        preempt_exempt_time_s: PreemptExemptTime, run time before which a job is not preempted, s;
            None: that of the cluster.
        max_jobs_per_user, max_jobs_per_account: maximum number of running jobs.
        max_submit_jobs_per_user, max_submit_jobs_per_account: maximum number of waiting and running
            jobs.
        max_tres_per_user, max_tres_per_account: maximum TRES of running jobs.
        max_tres_run_mins_per_user, max_tres_run_mins_per_account: maximum TRES-minutes that running
            jobs may still use.
        min_tres_per_job: MinTRES, least TRES of a job.
        min_prio_threshold: MinPrioThreshold, least priority with which a job gets a reservation of
            the backfill scheduler; 0: any.
    """

    priority: Count = 0
    flags: tuple[QosFlag, ...] = ()
    usage_factor: Amount = 1.0
    limit_factor: Amount = 0.0
    usage_threshold: Amount | None = None
    preempt: tuple[Name, ...] = ()
    preempt_mode: Literal["", PreemptMode] = ""
    grace_time_s: Seconds = 0.0
    preempt_exempt_time_s: Seconds | None = None
    max_jobs_per_user: Count | None = None
    max_jobs_per_account: Count | None = None
    max_submit_jobs_per_user: Count | None = None
    max_submit_jobs_per_account: Count | None = None
    max_tres_per_user: Tres = {}
    max_tres_per_account: Tres = {}
    max_tres_run_mins_per_user: Tres = {}
    max_tres_run_mins_per_account: Tres = {}
    min_tres_per_job: Tres = {}
    min_prio_threshold: Count = 0
