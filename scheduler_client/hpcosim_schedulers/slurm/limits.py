"""Limits of associations, QOS and partitions: which of them holds a job, by Slurm's name.

See https://slurm.schedmd.com/resource_limits.html. Limits of associations and QOS hold only if
`SiteSettings.enforce` has `limits` or `safe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm import limit_checks as checks
from hpcosim_schedulers.slurm import limit_reasons as reasons
from hpcosim_schedulers.slurm.accounts import Limited, Qos
from hpcosim_schedulers.slurm.charges import BILLING, WALL, Charges
from hpcosim_schedulers.slurm.checks import associations
from hpcosim_schedulers.slurm.group_limits import Group, GroupKey, Groups
from hpcosim_schedulers.slurm.limit_checks import Check, Wanted
from hpcosim_schedulers.slurm.partition_limits import PartitionLimits
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import NO_REQUEST

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
        site: the settings.
        platform: the cluster.
        charges: usage and associations, with the TRES of `counted_tres`.

    Attributes:
        depend_on_usage: whether a limit concerns decayed usage.
    """

    def __init__(self, site: SiteSettings, platform: Platform, charges: Charges) -> None:
        self._site, self._charges = site, charges
        self._partitions = PartitionLimits(site, platform, charges)
        self._active = not {"limits", "safe"}.isdisjoint(site.enforce)
        self._safe = "safe" in site.enforce
        self.depend_on_usage = self._active and (
            any(rule.grp_tres_mins or rule.grp_wall_s is not None for rule in _all_rules(site))
            or any(qos.usage_threshold is not None for qos in site.qos.values())
        )
        settings = site.priority
        resets = settings.usage_reset_period != "none"
        self._usage_falls = resets or bool(settings.decay_half_life_s)
        self._given_up: set[int] = set()
        self._groups = Groups()
        self._counted: set[int] = set()
        self._running: set[int] = set()

    def update(self, view: View) -> None:
        """Count the jobs that started, ended or wait again since the last call."""
        self._given_up.difference_update(job.job_id for job in view.arrived)
        if not self._active:
            return
        for job in view.left:
            self._running.discard(job.job_id)
            if job.allocation is None and job.start_s != job.start_s:  # it waits again
                self._groups.stop(job.job_id)
            else:
                self._leave(job.job_id)
        present = view.running.keys()
        for job_id in self._running - present:  # starts that were rejected, and suspended jobs
            if job_id in view.queue:
                self._groups.stop(job_id)
                self._running.discard(job_id)
        for job_id in present - self._running:
            self.submit(view.running[job_id])
            self.start(view.running[job_id])

    def refusal(self, job: Job, view: View) -> str:
        """Return the reason for which a job is refused at its submission; empty: none.

        Args:
            job: a job that was just submitted.
            view: the view.
        """
        association = self._charges.association(job)
        if association is None:
            return "InvalidAccount"
        if self._wrong_qos(job, association):
            return "InvalidQOS"
        if reason := self._partitions.refusal(job):
            return reason
        if not self._active:
            return ""
        if any(check.holds for check in self._submitted(job, association)):
            self._forget_cancelled(view)
        for check in self._submitted(job, association):
            if check.holds:
                return check.reason
        if any("deny_on_limit" in self._site.qos[name].flags for name in self._charges.qos_of(job)):
            for check in self._checks(job, view.now_s, ""):
                if check.denies:
                    return check.reason
        return ""

    def submit(self, job: Job) -> None:
        """Count a job that was not refused; a job that is counted already is not again."""
        if self._active and job.job_id not in self._counted:
            self._counted.add(job.job_id)
            self._groups.submit(job.job_id, self._keys(job, ""))

    def start(self, job: Job) -> None:
        """Count a job that starts."""
        if self._active:
            self._running.add(job.job_id)
            tres = self._charges.tres_of.of_job(job)
            self._groups.start(job.job_id, tres, job.start_s + job.requested_s)

    def held(self, job: Job, now_s: float, partition: str = "") -> str:
        """Return Slurm's name of the limit that holds a waiting job; empty: none.

        Args:
            job: a job of the queue.
            now_s: simulated time, s.
            partition: the partition that is tried; empty: the job's first.
        """
        reason = self._partitions.held(job, partition)
        return reason or self.held_by_account(job, now_s, partition)

    def give_up(self, view: View, misfit: Callable[[Job, str], str] = lambda *_: "") -> bool:
        """Give the waiting jobs up if nothing runs and a limit holds each of them for ever.

        Slurm leaves such jobs pending. They end with Slurm's reason when nothing else can happen.

        Args:
            view: the view.
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
        """Return the reason for which a job can never start if nothing runs; empty: it may.

        For `misfit` see `give_up`.
        """
        reason = ""
        for partition in job.partitions or ("",):
            checks = self._checks(job, now_s, partition) if self._active else iter(())
            lasting = (check.reason for check in checks if self._lasts(check))
            reason = self._partitions.held(job, partition) or next(lasting, "")
            reason = reason or misfit(job, partition)
            if not reason:
                return ""
        return reason

    def _lasts(self, check: Check) -> bool:
        """Return whether a limit holds a job for ever if no other job runs."""
        if check.name[0] in OF_USAGE:
            lasting = not self._usage_falls or check.limit <= 0.0 or (self._safe and check.denies)
            return check.holds and lasting
        return check.denies

    def held_by_account(self, job: Job, now_s: float, partition: str = "") -> str:
        """Return the name of the limit of an association or QOS that holds a job; empty: none.

        See `held`.
        """
        if self._active:
            for check in self._checks(job, now_s, partition):
                if check.holds:
                    return check.reason
        return ""

    def _checks(self, job: Job, now_s: float, partition: str) -> Iterator[Check]:
        """Yield the limits of a job, the first source of each limit only."""
        tres = self._charges.tres_of.of_job(job, partition)
        wanted = Wanted(tres, job.requested_s, now_s, self._safe)
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
        qos, group = self._site.qos[name], self._groups["qos", name]
        used = self._used(self._charges.qos_rows[name])
        yield from checks.jobs("grp_jobs", "QOSGrpJobsLimit", len(group.ends_s), qos.grp_jobs)
        user = self._groups["qos", name, "user", job.user]
        account = self._groups["qos", name, "account", job.account]
        running = len(account.ends_s)
        most = qos.max_jobs_per_account
        yield from checks.jobs("max_jobs_per_account", "MaxJobsPerAccount", running, most)
        running, most = len(user.ends_s), qos.max_jobs_per_user
        yield from checks.jobs("max_jobs", "QOSMaxJobsPerUserLimit", running, most)
        if "enforce_usage_threshold" in qos.flags and qos.usage_threshold is not None:
            association = self._charges.association(job)
            factor = 0.0 if association is None else self._charges.fair_share()[association]
            yield Check(("thres",), "QOSUsageThreshold", -factor, -qos.usage_threshold, -1.0)
        yield from checks.of_group("QOS", qos, group, used, wanted)
        yield from checks.of_one_job("QOS", qos, wanted)
        yield from self._of_members(qos, account, user, wanted)
        yield from checks.least(qos, wanted)

    def _of_members(self, qos: Qos, account: Group, user: Group, wanted: Wanted) -> Iterator[Check]:
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
            yield from checks.with_running(kind, tres, reason, group.amount, wanted.amount)
            yield from checks.with_running(
                f"{of}_mins",
                minutes,
                partial(reasons.run_minutes, of),
                partial(group.run_minutes, now_s=wanted.now_s),
                wanted.minutes,
            )

    def _of_associations(self, association: int, wanted: Wanted) -> Iterator[Check]:
        """Yield the limits of an association and of the accounts above it."""
        effective = self._charges.associations.effective(association)
        running = len(self._groups["assoc", association].ends_s)
        yield from checks.jobs("max_jobs", "AssocMaxJobsLimit", running, effective.max_jobs)
        yield from checks.of_one_job("Assoc", effective, wanted)
        for number in self._charges.associations.ancestors(association):
            rules = self._charges.associations.nodes[number].rules
            group, used = self._groups["assoc", number], self._used(self._charges.rows[number])
            running = len(group.ends_s)
            yield from checks.jobs("grp_jobs", "AssocGrpJobsLimit", running, rules.grp_jobs)
            yield from checks.of_group("Assoc", rules, group, used, wanted)

    def _submitted(self, job: Job, association: int) -> Iterator[Check]:
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
        return checks.jobs(name, reason, self._groups[key].submitted, limit)

    def _keys(self, job: Job, partition: str) -> Iterator[GroupKey]:
        """Yield the groups of a job."""
        association = self._charges.association(job, partition)
        if association is not None:
            for number in self._charges.associations.ancestors(association):
                yield ("assoc", number)
        for name in self._charges.qos_of(job, partition):
            yield ("qos", name)
            yield ("qos", name, "user", job.user)
            yield ("qos", name, "account", job.account)

    def _used(self, row: int) -> dict[str, float]:
        """Return the decayed usage of a row by TRES, in seconds."""
        amounts = self._charges.usage.amounts[row].tolist()
        named = zip(self._charges.tres, amounts[WALL + 1 :], strict=True)
        return {"billing": amounts[BILLING], "wall": amounts[WALL], **dict(named)}

    def _wrong_qos(self, job: Job, association: int) -> bool:
        """Return whether a job may not use its QOS, or must name a reservation for it."""
        name = self._charges.own_qos(job)
        qos = self._site.qos.get(name)
        reserved = (job.request or NO_REQUEST).reservation
        if qos is not None and "requires_reservation" in qos.flags and not reserved:
            return True
        allowed = self._charges.associations.effective(association).qos
        return "qos" in self._site.enforce and allowed is not None and name not in allowed

    def _leave(self, job_id: int) -> None:
        self._groups.leave(job_id)
        self._counted.discard(job_id)

    def _forget_cancelled(self, view: View) -> None:
        """Count no more the jobs that were cancelled while they waited."""
        present = {*view.queue, *view.running, *view.suspended, *view.pending}
        for job_id in self._counted - present:
            self._leave(job_id)


def counted_tres(site: SiteSettings) -> tuple[str, ...]:
    """Return the TRES whose past usage a limit concerns, for `Priorities` and `Charges`."""
    found = {name for each in _all_rules(site) for name in each.grp_tres_mins}
    return tuple(sorted(found - {"billing"}))


def _all_rules(site: SiteSettings) -> Iterator[Limited]:
    """Yield all QOS and associations of a site."""
    yield from site.qos.values()
    yield from (association for _, association in associations(site.accounts))
