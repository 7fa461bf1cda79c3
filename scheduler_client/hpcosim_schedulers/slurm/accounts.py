"""Accounts, users and qualities of service (QOS) of a site, with their shares and limits.

Names and meanings are those of `sacctmgr` (https://slurm.schedmd.com/sacctmgr.html), in snake case.
An attribute that is None, or a TRES that a mapping lacks, has no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from hpcosim_client.job import Job

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


Value = TypeVar("Value")


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


@dataclass(slots=True)
class Node:
    """An association in the tree.

    Attributes:
        account, user, partition: names; `user` is None for the association of an account itself.
        parent: number of the association of the account above; -1: none, the account `root`.
    """

    account: str
    user: str | None
    partition: str
    rules: Association
    parent: int
    children: list[int] = field(default_factory=list)


class Associations:
    """All associations of a site, numbered; number 0 is the account `root`.

    Args:
        accounts: the accounts by name.
        adds_unknown: whether an unknown user or account of a job is added with one share. If not,
            the job has no association.

    Attributes:
        nodes: the associations by number.
    """

    def __init__(self, accounts: Mapping[str, Account], *, adds_unknown: bool = True) -> None:
        self.nodes: list[Node] = []
        self._adds_unknown = adds_unknown
        self._numbers: dict[tuple[str, str | None, str], int] = {}
        self._default_account: dict[str, str] = {}
        self._effective: dict[int, Association] = {}
        root = accounts.get(ROOT, Account())
        self._add(-1, ROOT, None, "", root)
        self._add_users(ROOT, {ROOT: User(), **root.users})
        for name in _parents_first(accounts):
            account = accounts[name]
            self._add(self._numbers[account.parent, None, ""], name, None, "", account)
            self._add_users(name, account.users)
        self._set_default_accounts(accounts)

    def of(self, job: Job, partition: str = "") -> int | None:
        """Return the number of a job's association.

        A job without an account is of the default account of its user.

        Args:
            partition: partition of the job; an association of the user for it takes precedence.

        Returns:
            The number; None: the user and the account have no association.
        """
        account = job.account or self._default_account.get(job.user, ROOT)
        for own in (partition, ""):
            number = self._numbers.get((account, job.user, own))
            if number is not None:
                return number
        if not self._adds_unknown:
            return None
        above = self._numbers.get((account, None, ""))
        if above is None:
            above = self._add(0, account, None, "", Account())
        return self._add(above, account, job.user, "", User())

    def ancestors(self, number: int) -> Iterable[int]:
        """Yield the number of an association and of all above it, `root` last."""
        while number >= 0:
            yield number
            number = self.nodes[number].parent

    def effective(self, number: int) -> Association:
        """Return the rules of an association with what it inherits from the accounts above.

        The limits for all jobs of an association together (`grp_...`) are not inherited. See
        https://slurm.schedmd.com/resource_limits.html, "Limits in both Associations and QOS".
        """
        if number not in self._effective:
            chain = [self.nodes[each].rules for each in self.ancestors(number)]
            own = chain[0]
            inherited = {name: _first(chain, name) for name in _SINGLE}
            inherited |= {name: _merged(chain, name) for name in _TRES}
            self._effective[number] = replace(own, **inherited)
        return self._effective[number]

    def qos_of(self, job: Job, number: int) -> str:
        """Return the QOS of a job: its own, or the default of its association, or `normal`."""
        return job.qos or self.effective(number).default_qos or NORMAL

    def _add_users(self, account: str, users: Mapping[str, User]) -> None:
        above = self._numbers[account, None, ""]
        for name, user in users.items():
            self._add(above, account, name, "", user)
            for partition, own in user.partitions.items():
                self._add(above, account, name, partition, own)

    def _add(
        self, parent: int, account: str, user: str | None, partition: str, rules: Association
    ) -> int:
        number = len(self.nodes)
        self.nodes.append(Node(account, user, partition, rules, parent))
        self._numbers[account, user, partition] = number
        if parent >= 0:
            self.nodes[parent].children.append(number)
        return number

    def _set_default_accounts(self, accounts: Mapping[str, Account]) -> None:
        for name, account in accounts.items():
            for user, own in account.users.items():
                if own.default:
                    self._default_account[user] = name
                else:
                    self._default_account.setdefault(user, name)


_SINGLE = ("priority", "qos", "default_qos", "max_jobs", "max_submit_jobs", "max_wall_s")
_TRES = ("max_tres_per_job", "max_tres_per_node", "max_tres_mins_per_job")


def _first(chain: Iterable[Association], name: str) -> object:
    """Return the first value that is set."""
    values = [getattr(rules, name) for rules in chain]
    return next((value for value in values if value not in (None, "")), values[0])


def _merged(chain: Iterable[Association], name: str) -> Tres:
    """Return the first limit of each TRES that is set."""
    merged: Tres = {}
    for rules in chain:
        merged = {**getattr(rules, name), **merged}
    return merged


def _parents_first(accounts: Mapping[str, Account]) -> list[str]:
    """Return the names of all accounts but `root`, each after its parent."""
    ordered: dict[str, None] = {ROOT: None}
    for name in accounts:
        chain = [name]
        while chain[-1] not in ordered and accounts[chain[-1]].parent not in ordered:
            chain.append(accounts[chain[-1]].parent)
        ordered.update(dict.fromkeys(reversed(chain)))
    return [name for name in ordered if name != ROOT]
