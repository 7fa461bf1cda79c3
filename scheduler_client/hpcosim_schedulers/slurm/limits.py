"""Limits of associations, QOS and partitions: which of them holds a job, by Slurm's name.

See https://slurm.schedmd.com/resource_limits.html. Limits of associations and QOS hold only if
`SiteSettings.enforce` has `limits` or `safe`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_protocol import JobRequest, Partition, Platform
from hpcosim_schedulers.slurm import limit_reasons as reasons
from hpcosim_schedulers.slurm.accounts import Limited, Qos, Tres
from hpcosim_schedulers.slurm.charges import BILLING, WALL, Charges
from hpcosim_schedulers.slurm.settings import SiteSettings, associations
from hpcosim_schedulers.slurm.tres import NO_REQUEST

# Limits of partitions on jobs; see the section PARTITIONS of slurm.conf(5).


GroupKey = tuple[str | int, ...]


class PartitionLimits:
    """Tells which limit of a partition refuses or holds a job."""

    def __init__(self, site: SiteSettings, platform: Platform, charges: Charges) -> None:
        self._site, self._charges = site, charges
        self._by_name = {each.name: each for each in platform.partitions}

    def refusal(self, job: Job) -> str:
        """Return the reason for which a job is refused at its submission; empty: none.

        A partition refuses jobs in state `drain` and `inactive`, and accounts, groups and QOS that
        it does not allow. EnforcePartLimits extends that to its limits: `all` to those of all
        partitions of the job, `any` to those of at least one.
        """
        names = self._charges.tres_of.partitions_of(job)
        partitions = [self._by_name[name] for name in names if name in self._by_name]
        never = [self._refused(job, each) for each in partitions]
        if never and all(never):
            return never[0]
        beyond = [self._beyond(job, each) for each in partitions]
        enforced = self._site.enforce_part_limits
        if enforced == "all":
            return next(filter(None, beyond), "")
        return beyond[0] if enforced == "any" and beyond and all(beyond) else ""

    def held(self, job: Job, partition: str = "") -> str:
        """Return the reason for which a job waits in a partition; empty: none.

        Args:
            partition: name of the partition; empty: the job's first.
        """
        found = self._by_name.get(partition or self._charges.tres_of.partitions_of(job)[0])
        if found is None:
            return ""
        if found.state == "down":
            return "PartitionDown"
        if found.state == "inactive":
            return "PartitionInactive"
        return self._not_allowed(job, found) or self._beyond(job, found)

    def _refused(self, job: Job, partition: Partition) -> str:
        if partition.state in ("drain", "inactive"):
            return "PartitionInactive"
        return self._not_allowed(job, partition)

    def _not_allowed(self, job: Job, partition: Partition) -> str:
        """Return the reason of AllowAccounts, AllowGroups, AllowQos and their opposites."""
        association = self._charges.association(job, partition.name)
        nodes = self._charges.associations.nodes
        account = job.account if association is None else nodes[association].account
        if _excluded(account, partition.allow_accounts, partition.deny_accounts):
            return "AccountNotAllowed"
        if _excluded(job.group, partition.allow_groups, ()):
            return "GroupNotAllowed"
        if _excluded(self._charges.own_qos(job), partition.allow_qos, partition.deny_qos):
            return "QOSNotAllowed"
        return ""

    def _beyond(self, job: Job, partition: Partition) -> str:
        """Return the reason of the limits on nodes and time; flags of the QOS lift them."""
        qos = self._site.qos.get(self._charges.own_qos(job))
        flags = () if qos is None else qos.flags
        request = job.request or NO_REQUEST
        least = max(request.nodes_min, len(request.required_nodes), 1)
        most = request.nodes_max
        if "partition_max_nodes" not in flags and 0 < partition.max_nodes < least:
            return "PartitionNodeLimit"
        if "partition_min_nodes" not in flags and 0 < most < partition.min_nodes:
            return "PartitionNodeLimit"
        limit_s = partition.max_time_s
        if limit_s is not None and job.requested_s > limit_s:
            return "" if "partition_time_limit" in flags else "PartitionTimeLimit"
        return ""


def _excluded(name: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> bool:
    """Return whether a name is not allowed; a list of denied names has no effect beside one."""
    return name not in allowed if allowed else name in denied


# Comparisons of limits with what a job would bring about.

ROUNDING = 1e-9
"""Relative rounding error of sums of shares of devices."""


AmountKind = Literal[
    "nothing",
    "running",
    "submitted",
    "tres",
    "minutes",
    "used",
    "used_minutes",
    "planned",
    "unfair",
]
"""What `Amount.what` is."""


class Amount(NamedTuple):
    """What there is of what a limit concerns, apart from the job; see `Limits.present`.

    Attributes:
        what: `nothing`; of the jobs of a group `running` and `submitted`, their number, `tres`,
            what the running ones have of a TRES, and `minutes`, the TRES-minutes that they may
            still use; `used` and `used_minutes`, decayed usage in seconds and minutes, infinity
            from the limit on; `planned`, used minutes and those that the running jobs may still
            use; `unfair`, the fair-share factor of an association with the opposite sign.
        group: the group of jobs.
        tres: name of the TRES.
        number: row of the usage, or number of the association.
    """

    what: AmountKind
    group: GroupKey = ()
    tres: str = ""
    number: int = -1


NOTHING = Amount("nothing")
"""Of a limit that concerns the job alone."""


class Check(NamedTuple):
    """A limit that concerns a job, compared with what the job would bring about.

    Attributes:
        name: name of the limit, and the TRES if it is one; the first source of a limit counts.
        present: what there is without the job.
        own: what the job adds.
        limit: the limit.
        alone: the amount for the job alone, for `deny_on_limit`.
    """

    name: tuple[str, ...]
    reason: str
    present: Amount
    own: float
    limit: float
    alone: float

    @property
    def most(self) -> float:
        """The limit with rounding errors."""
        return self.limit + abs(self.limit) * ROUNDING

    @property
    def denies(self) -> bool:
        """Whether the job alone exceeds the limit."""
        return self.alone > self.most


class Wanted(NamedTuple):
    """What a job wants.

    Attributes:
        safe: whether jobs start only if they can end within limits on minutes (`enforce: safe`).
    """

    tres: Tres
    requested_s: float
    safe: bool

    def amount(self, name: str) -> float:
        """Return the amount of a TRES."""
        return self.tres.get(name, 0.0)

    def minutes(self, name: str) -> float:
        """Return the TRES-minutes of the job by its requested time."""
        return self.amount(name) * self.requested_s / 60.0


def jobs(name: str, reason: str, present: Amount, limit: int | None) -> Iterator[Check]:
    """Yield the check of a number of jobs, if there is a limit."""
    if limit is not None:
        yield Check((name,), reason, present, 1, limit, 1)


def of_one_job(owner: str, rules: Limited, wanted: Wanted) -> Iterator[Check]:
    """Yield the limits on the size of a job: TRES, TRES on a node, minutes, requested time."""
    if rules.max_wall_s is not None:
        reason = f"{owner}MaxWallDurationPerJobLimit"
        requested_s = wanted.requested_s
        yield Check(("max_wall",), reason, NOTHING, requested_s, rules.max_wall_s, requested_s)
    for name, limit in rules.max_tres_per_job.items():
        own, reason = wanted.amount(name), reasons.per_job(owner, name)
        yield Check(("max_tres", name), reason, NOTHING, own, limit, own)
    for name, limit in rules.max_tres_per_node.items():
        own, reason = wanted.amount(name) / wanted.tres["node"], reasons.per_node(owner, name)
        yield Check(("max_node_tres", name), reason, NOTHING, own, limit, own)
    if wanted.safe:
        for name, limit in rules.max_tres_mins_per_job.items():
            own, reason = wanted.minutes(name), reasons.minutes_per_job(owner, name)
            yield Check(("max_tres_mins", name), reason, NOTHING, own, limit, own)


def of_group(
    owner: str, rules: Limited, group: GroupKey, row: int, wanted: Wanted
) -> Iterator[Check]:
    """Yield the limits of all jobs of an association or a QOS together, except of their number.

    Args:
        owner: `Assoc` or `QOS`.
        row: row of its usage.
    """
    if (most_s := rules.grp_wall_s) is not None:
        wall = Amount("used", group, "wall", row)
        yield Check(("grp_wall",), f"{owner}GrpWallLimit", wall, 0.0, most_s, 0.0)
    for name, limit in rules.grp_tres_mins.items():
        own = wanted.minutes(name) if wanted.safe else 0.0
        present = Amount("planned" if wanted.safe else "used_minutes", group, name, row)
        reason = reasons.group_minutes(owner, name)
        yield Check(("grp_tres_mins", name), reason, present, own, limit, wanted.minutes(name))
    yield from with_running(
        "grp_tres_run_mins",
        rules.grp_tres_run_mins,
        lambda name: reasons.group_minutes(owner, name, running=True),
        Amount("minutes", group),
        wanted.minutes,
    )
    yield from with_running(
        "grp_tres",
        rules.grp_tres,
        lambda name: reasons.group(owner, name),
        Amount("tres", group),
        wanted.amount,
    )


def with_running(
    kind: str,
    most: Tres,
    reason: Callable[[str], str],
    present: Amount,
    own: Callable[[str], float],
) -> Iterator[Check]:
    """Yield limits on what the running jobs of a group have together with a job, by TRES.

    Args:
        present: what the running jobs have, for any TRES.
        own: returns the amount of the job; 0: the limit does not concern it.
    """
    for name, limit in most.items():
        alone = own(name)
        if alone:
            of_tres = present._replace(tres=name)
            yield Check((kind, name), reason(name), of_tres, alone, limit, alone)


def least(qos: Qos, wanted: Wanted) -> Iterator[Check]:
    """Yield the least TRES of a job of a QOS."""
    for name, limit in qos.min_tres_per_job.items():
        own = -wanted.amount(name)
        yield Check(("min_tres", name), reasons.least(name), NOTHING, own, -limit, own)


SCALED = frozenset({"grp_tres", "max_tres", "max_node_tres"})
"""The limits of associations that `Qos.limit_factor` scales."""


OF_USAGE = frozenset({"grp_wall", "grp_tres_mins"})
"""The limits on past usage."""


class Limits:
    """Tells which limit refuses a job at its submission, or holds a waiting job.

    A limit is taken from the first source that has it: the QOS of the partition, the QOS of the
    job, the association. Limits for all jobs of an account together (`grp_...`) hold at each
    account above the job ("Hierarchy" of https://slurm.schedmd.com/resource_limits.html).

    Call `update` at every call of the policy, and `start` for each job that starts.

    Args:
        charges: usage and associations, with the TRES of `counted_tres`.

    Attributes:
        active: whether limits of associations and QOS are enforced.
        depend_on_usage: whether a limit concerns decayed usage.
    """

    def __init__(self, site: SiteSettings, platform: Platform, charges: Charges) -> None:
        self._site, self._charges = site, charges
        self._partitions = PartitionLimits(site, platform, charges)
        self.active = not {"limits", "safe"}.isdisjoint(site.enforce)
        self._safe = "safe" in site.enforce
        self.depend_on_usage = self.active and (
            any(rule.grp_tres_mins or rule.grp_wall_s is not None for rule in _all_rules(site))
            or any(qos.usage_threshold is not None for qos in site.qos.values())
        )
        settings = site.priority
        resets = settings.usage_reset_period != "none"
        self._usage_falls = resets or bool(settings.decay_half_life_s)
        self._given_up: set[int] = set()
        self._of: dict[int, _Known] = {}
        self._groups = Groups()
        self._running: set[int] = set()

    def update(self, view: View) -> None:
        """Count the jobs that started, ended or wait again since the last call."""
        self._given_up.difference_update(job.job_id for job in view.arrived)
        if not self.active:
            return
        for job in view.left:
            self._running.discard(job.job_id)
            if job.allocation is None and job.start_s != job.start_s:  # it waits again
                self._groups.stop(job.job_id)
            else:
                self._groups.leave(job.job_id)
        present = view.running.keys()
        for job_id in self._running - present:  # starts that were rejected, and suspended jobs
            if job_id in view.queue:
                self._groups.stop(job_id)
                self._running.discard(job_id)
        for job_id in present - self._running:
            self.submit(view.running[job_id])
            self.start(view.running[job_id])

    def refusal(self, job: Job, view: View) -> str:
        """Return the reason for which a job is refused at its submission; empty: none."""
        if reason := self.not_allowed(job):
            return reason
        association = self._charges.association(job)
        if not self.active or association is None:
            return ""
        submitted = tuple(self.submitted(job, association))
        if self._first_that_holds(submitted, view.now_s):
            self._forget_cancelled(view)
            if reason := self._first_that_holds(submitted, view.now_s):
                return reason
        return self.denied(job)

    def not_allowed(self, job: Job) -> str:
        """Return why a job is refused whatever other jobs there are; empty: it is not."""
        association = self._charges.association(job)
        if association is None:
            return "InvalidAccount"
        if self._wrong_qos(job, association):
            return "InvalidQOS"
        return self._partitions.refusal(job)

    def denied(self, job: Job) -> str:
        """Return the limit that a job alone exceeds, for `deny_on_limit`; empty: none."""
        if any("deny_on_limit" in self._site.qos[name].flags for name in self._charges.qos_of(job)):
            for check in self.checks(job, ""):
                if check.denies:
                    return check.reason
        return ""

    def submit(self, job: Job) -> None:
        """Count a job that was not refused; a job that is counted already is not again."""
        if self.active and job.job_id not in self._groups.jobs:
            self._groups.submit(job.job_id, self.keys(job, ""))

    def start(self, job: Job) -> None:
        """Count a job that starts."""
        self._of.pop(job.job_id, None)
        if self.active:
            self._running.add(job.job_id)
            tres = self._charges.tres_of.of_job(job)
            self._groups.start(job.job_id, tres, job.start_s + job.requested_s)

    def held(self, job: Job, now_s: float, partition: str = "") -> str:
        """Return Slurm's name of the limit that holds a waiting job; empty: none.

        Args:
            partition: the partition that is tried; empty: the job's first.
        """
        known = self._known(job, partition)
        return known.reason or self._first_that_holds(known.checks, now_s)

    def give_up(self, view: View, misfit: Callable[[Job, str], str] = lambda *_: "") -> bool:
        """Give the waiting jobs up if nothing runs and a limit holds each of them for ever.

        Slurm leaves such jobs pending. They end with Slurm's reason when nothing else can happen.

        Args:
            misfit: returns Slurm's reason if a job does not fit into a partition on which nothing
                runs; empty: it does.

        Returns:
            Whether no waiting job can start, so that no pass of a scheduler is needed.
        """
        if view.running or not view.queue:
            return False
        reasons = {job: self.permanent(job, view.now_s, misfit) for job in view.queue.values()}
        if not all(reasons.values()):
            return False
        for job, reason in reasons.items():
            if job.job_id not in self._given_up:
                self._given_up.add(job.job_id)
                view.reject(job, state="cancelled", reason=reason, at_end=True)
        return True

    def permanent(
        self, job: Job, now_s: float, misfit: Callable[[Job, str], str] = lambda *_: ""
    ) -> str:
        """Return the reason for which a job can never start if nothing runs; empty: it may."""
        reason = ""
        for partition in job.partitions or ("",):
            known = self._known(job, partition)
            lasting = (check.reason for check in known.checks if self._lasts(check, now_s))
            reason = known.reason or next(lasting, "")
            reason = reason or misfit(job, partition)
            if not reason:
                return ""
        return reason

    def _lasts(self, check: Check, now_s: float) -> bool:
        """Return whether a limit holds a job for ever if no other job runs."""
        if check.name[0] in OF_USAGE:
            lasting = not self._usage_falls or check.limit <= 0.0 or (self._safe and check.denies)
            return self.holds(check, now_s) and lasting
        return check.denies

    def of_partition(self, job: Job, partition: str = "") -> str:
        """Return the reason for which a partition holds a job for ever; empty: none."""
        return self._partitions.held(job, partition)

    def held_by_account(self, job: Job, now_s: float, partition: str = "") -> str:
        """Return the name of the limit of an association or QOS that holds a job; empty: none."""
        return self._first_that_holds(self._known(job, partition).checks, now_s)

    def present(self, check: Check, now_s: float) -> float:
        """Return the amount of what a limit concerns at a time, without the job."""
        present = check.present
        what, tres, row = present.what, present.tres, present.number
        if what == "nothing":
            return 0.0
        group = self._groups[present.group]
        if what == "running":
            return group.running
        if what == "submitted":
            return group.submitted
        if what == "tres":
            return group.tres.get(tres, 0.0)
        if what == "minutes":
            return group.run_minutes(tres, now_s)
        if what == "planned":
            return self._used(row, tres) / 60.0 + group.run_minutes(tres, now_s)
        if what == "unfair":
            return -(0.0 if row < 0 else float(self._charges.fair_share()[row]))
        used = self._used(row, tres)
        used = used if what == "used" else used / 60.0
        return math.inf if used >= check.limit else used

    def holds(self, check: Check, now_s: float) -> bool:
        """Return whether a limit holds a job."""
        return self.present(check, now_s) + check.own > check.most

    def _first_that_holds(self, checks: Iterable[Check], now_s: float) -> str:
        """Return the reason of the first limit that holds a job; empty: none does."""
        return next((check.reason for check in checks if self.holds(check, now_s)), "")

    def _known(self, job: Job, partition: str) -> _Held:
        """Return what may hold a waiting job; only its request and its time limit decide it."""
        known = self._of.get(job.job_id)
        if known is None or known.request is not job.request or known.limit_s != job.requested_s:
            known = self._of[job.job_id] = _Known(job.request, job.requested_s, {})
        if partition not in known.held:
            checks = tuple(self.checks(job, partition)) if self.active else ()
            known.held[partition] = _Held(self._partitions.held(job, partition), checks)
        return known.held[partition]

    def checks(self, job: Job, partition: str) -> Iterator[Check]:
        """Yield the limits of a job, the first source of each limit only."""
        tres = self._charges.tres_of.of_job(job, partition)
        wanted = Wanted(tres, job.requested_s, self._safe)
        seen: set[tuple[str, ...]] = set()
        for name in self._charges.qos_of(job, partition):
            found = list(self._of_qos(name, job, wanted))
            yield from (check for check in found if check.name not in seen)
            seen |= {check.name for check in found}
        association = self._charges.association(job, partition)
        if association is None:
            return
        own = self._site.qos.get(self._charges.own_qos(job))
        factor = own.limit_factor if own is not None and own.limit_factor else 1.0
        for check in self._of_associations(association, wanted):
            if check.name not in seen:
                scaled = factor if check.name[0] in SCALED else 1.0
                yield check._replace(limit=check.limit * scaled)

    def _of_qos(self, name: str, job: Job, wanted: Wanted) -> Iterator[Check]:
        """Yield the limits of a QOS."""
        qos, group = self._site.qos[name], ("qos", name)
        present = Amount("running", group)
        yield from jobs("grp_jobs", "QOSGrpJobsLimit", present, qos.grp_jobs)
        user, account = (*group, "user", job.user), (*group, "account", job.account)
        present, most = Amount("running", account), qos.max_jobs_per_account
        yield from jobs("max_jobs_per_account", "MaxJobsPerAccount", present, most)
        present, most = Amount("running", user), qos.max_jobs_per_user
        yield from jobs("max_jobs", "QOSMaxJobsPerUserLimit", present, most)
        if "enforce_usage_threshold" in qos.flags and qos.usage_threshold is not None:
            association = self._charges.association(job)
            unfair = Amount("unfair", number=-1 if association is None else association)
            yield Check(("thres",), "QOSUsageThreshold", unfair, 0.0, -qos.usage_threshold, -1.0)
        yield from of_group("QOS", qos, group, self._charges.qos_rows[name], wanted)
        yield from of_one_job("QOS", qos, wanted)
        yield from self._of_members(qos, account, user, wanted)
        yield from least(qos, wanted)

    def _of_members(
        self, qos: Qos, account: GroupKey, user: GroupKey, wanted: Wanted
    ) -> Iterator[Check]:
        """Yield the limits of a QOS on the running jobs of an account and of a user."""
        for group, of, tres, minutes in (
            (
                account,
                "Account",
                qos.max_tres_per_account,
                qos.max_tres_run_mins_per_account,
            ),
            (user, "User", qos.max_tres_per_user, qos.max_tres_run_mins_per_user),
        ):
            reason = reasons.per_account if of == "Account" else reasons.per_user
            kind = f"{of.lower()}_tres"
            yield from with_running(kind, tres, reason, Amount("tres", group), wanted.amount)
            yield from with_running(
                f"{of}_mins",
                minutes,
                partial(reasons.run_minutes, of),
                Amount("minutes", group),
                wanted.minutes,
            )

    def _of_associations(self, association: int, wanted: Wanted) -> Iterator[Check]:
        """Yield the limits of an association and of the accounts above it."""
        effective = self._charges.associations.effective(association)
        present = Amount("running", ("assoc", association))
        yield from jobs("max_jobs", "AssocMaxJobsLimit", present, effective.max_jobs)
        yield from of_one_job("Assoc", effective, wanted)
        for number in self._charges.associations.ancestors(association):
            rules, group = self._charges.associations.nodes[number].rules, ("assoc", number)
            present = Amount("running", group)
            yield from jobs("grp_jobs", "AssocGrpJobsLimit", present, rules.grp_jobs)
            yield from of_group("Assoc", rules, group, self._charges.rows[number], wanted)

    def submitted(self, job: Job, association: int) -> Iterator[Check]:
        """Yield the limits on the number of waiting and running jobs."""
        seen: set[tuple[str, ...]] = set()
        for name in self._charges.qos_of(job):
            qos = self._site.qos[name]
            found = [
                *self._submit("grp", "QOSGrpSubmitJobsLimit", ("qos", name), qos.grp_submit_jobs),
                *self._submit(
                    "account",
                    "MaxSubmitJobsPerAccount",
                    ("qos", name, "account", job.account),
                    qos.max_submit_jobs_per_account,
                ),
                *self._submit(
                    "max",
                    "QOSMaxSubmitJobPerUserLimit",
                    ("qos", name, "user", job.user),
                    qos.max_submit_jobs_per_user,
                ),
            ]
            yield from (check for check in found if check.name not in seen)
            seen |= {check.name for check in found}
        of_associations = list(self._submitted_of_associations(association))
        yield from (check for check in of_associations if check.name not in seen)

    def _submitted_of_associations(self, association: int) -> Iterator[Check]:
        effective = self._charges.associations.effective(association)
        most = effective.max_submit_jobs
        yield from self._submit("max", "AssocMaxSubmitJobLimit", ("assoc", association), most)
        for number in self._charges.associations.ancestors(association):
            most = self._charges.associations.nodes[number].rules.grp_submit_jobs
            yield from self._submit("grp", "AssocGrpSubmitJobsLimit", ("assoc", number), most)

    def _submit(self, name: str, reason: str, key: GroupKey, limit: int | None) -> Iterator[Check]:
        return jobs(name, reason, Amount("submitted", key), limit)

    def keys(self, job: Job, partition: str) -> Iterator[GroupKey]:
        """Yield the groups of a job, each once."""
        association = self._charges.association(job, partition)
        if association is not None:
            for number in self._charges.associations.ancestors(association):
                yield ("assoc", number)
        for name in self._charges.qos_of(job, partition):
            yield ("qos", name)
            yield ("qos", name, "user", job.user)
            yield ("qos", name, "account", job.account)

    def _used(self, row: int, tres: str) -> float:
        """Return the decayed usage of a row of a TRES or of `wall`, in seconds."""
        columns = {"billing": BILLING, "wall": WALL}
        column = columns.get(tres)
        if column is None:
            column = WALL + 1 + self._charges.tres.index(tres)
        return float(self._charges.usage.amounts[row, column])

    def _wrong_qos(self, job: Job, association: int) -> bool:
        """Return whether a job may not use its QOS, or must name a reservation for it."""
        name = self._charges.own_qos(job)
        qos = self._site.qos.get(name)
        reserved = (job.request or NO_REQUEST).reservation
        if qos is not None and "requires_reservation" in qos.flags and not reserved:
            return True
        allowed = self._charges.associations.effective(association).qos
        return "qos" in self._site.enforce and allowed is not None and name not in allowed

    def _forget_cancelled(self, view: View) -> None:
        """Count no more the jobs that were cancelled while they waited."""
        present = {*view.queue, *view.running, *view.suspended, *view.pending}
        for job_id in self._groups.jobs - present:
            self._groups.leave(job_id)


def counted_tres(site: SiteSettings) -> tuple[str, ...]:
    """Return the TRES whose past usage a limit concerns, for `Priorities` and `Charges`."""
    found = {name for each in _all_rules(site) for name in each.grp_tres_mins}
    return tuple(sorted(found - {"billing"}))


def _all_rules(site: SiteSettings) -> Iterator[Limited]:
    """Yield all QOS and associations of a site."""
    yield from site.qos.values()
    yield from (association for _, association in associations(site.accounts))


class _Held(NamedTuple):
    """What may hold a waiting job in a partition.

    Attributes:
        reason: reason of the partition, which lasts; empty: none.
        checks: limits of associations and QOS.
    """

    reason: str
    checks: tuple[Check, ...]


class _Known(NamedTuple):
    """What may hold a waiting job, by partition, and what decides it."""

    request: JobRequest | None
    limit_s: float
    held: dict[str, _Held]


@dataclass(slots=True)
class Group:
    """The jobs of a group."""

    waiting: set[int] = field(default_factory=set)
    ends_s: dict[int, float] = field(default_factory=dict)
    tres: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    held: dict[int, Tres] = field(default_factory=dict)

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return len(self.ends_s)

    @property
    def submitted(self) -> int:
        """The number of waiting and running jobs."""
        return len(self.waiting) + self.running

    def run_minutes(self, tres: str, now_s: float) -> float:
        """Return the TRES-minutes that the running jobs may still use by their requested times."""
        left = 0.0
        for job, end_s in self.ends_s.items():
            left += self.held[job].get(tres, 0.0) * max(end_s - now_s, 0.0)
        return left / 60.0


class Groups:
    """Groups of jobs by key; only those that have limits are counted."""

    def __init__(self) -> None:
        self._groups: defaultdict[GroupKey, Group] = defaultdict(Group)
        self._keys_of: dict[int, tuple[GroupKey, ...]] = {}

    @property
    def jobs(self) -> KeysView[int]:
        """Numbers of all jobs that are counted."""
        return self._keys_of.keys()

    def __getitem__(self, key: GroupKey) -> Group:
        return self._groups[key]

    def submit(self, job_id: int, keys: Iterable[GroupKey]) -> None:
        """Count a waiting job."""
        self._keys_of[job_id] = tuple(keys)
        for key in self._keys_of[job_id]:
            self._groups[key].waiting.add(job_id)

    def start(self, job_id: int, tres: Tres, end_s: float) -> None:
        """Count a job as running, once."""
        for key in self._keys_of.get(job_id, ()):
            group = self._groups[key]
            if job_id not in group.ends_s:
                group.waiting.discard(job_id)
                group.ends_s[job_id], group.held[job_id] = end_s, tres
                for name, amount in tres.items():
                    group.tres[name] += amount

    def stop(self, job_id: int) -> None:
        """Count a running job as waiting again."""
        for key in self._keys_of.get(job_id, ()):
            group = self._groups[key]
            if group.ends_s.pop(job_id, None) is not None:
                for name, amount in group.held.pop(job_id).items():
                    group.tres[name] -= amount
                group.waiting.add(job_id)

    def leave(self, job_id: int) -> None:
        """Count a job no more."""
        self.stop(job_id)
        for key in self._keys_of.pop(job_id, ()):
            self._groups[key].waiting.discard(job_id)
