"""EASY backfilling in the order of Slurm's priorities, within the limits of a site."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from hpcosim_client.job import Job
from hpcosim_client.profiles import profile_of
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_schedulers.slurm.limits import Limits, counted_tres
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.settings import Priority, SiteSettings

EXAMPLE = Priority(
    weight_age=1000, weight_fair_share=10_000, weight_job_size=1000, weight_partition=1000
)
"""The weights of https://slurm.schedmd.com/priority_multifactor.html, "Configuration examples"."""

FAIR_SHARE = 1_000_000
"""Weight of fair-share where no other factor counts."""


def multifactor(site: SiteSettings) -> Policy:
    """Return EASY backfilling by Slurm's multifactor priority.

    Jobs are considered in descending order of their priority (see `Priorities`), calculated when a
    job becomes eligible and then every `priority.calc_period_s`. The first job that does not fit is
    the head; later jobs do not delay its reservation. Jobs that a limit holds are passed over.
    Unlike Slurm it decides at every event; the scheduler `slurm` has Slurm's own timing.

    Args:
        site: settings of the site. Without any weight, `EXAMPLE` is used.
    """
    if site.priority.type == "multifactor" and not _weights(site.priority):
        site = replace(site, priority=with_weights(site.priority, EXAMPLE))
    return _Prioritised(site)


def fairshare(site: SiteSettings) -> Policy:
    """Return EASY backfilling by fair-share alone: `multifactor` without the other factors.

    Jobs with the same factor, as those of a user, are considered in the order of their numbers.

    Args:
        site: settings of the site; the weights have no effect.
    """
    priority = with_weights(site.priority, Priority(weight_fair_share=FAIR_SHARE))
    return _Prioritised(replace(site, priority=replace(priority, type="multifactor")))


def with_weights(settings: Priority, weights: Priority) -> Priority:
    """Return settings with the weights of other settings."""
    return replace(settings, **_weights(weights, every=True))


def _weights(settings: Priority, *, every: bool = False) -> dict[str, object]:
    """Return the weights by name, those that are 0 only if `every`."""
    names = [name for name in Priority.__struct_fields__ if name.startswith("weight_")]
    weights = {name: getattr(settings, name) for name in names}
    return {name: weight for name, weight in weights.items() if weight or every}


class _Prioritised:
    """See `multifactor`; one for each simulation."""

    def __init__(self, site: SiteSettings) -> None:
        self._site = site
        self._rules: tuple[Priorities, Limits] | None = None
        self._alarm = PolicyAlarm()
        self._submitted: set[int] = set()
        self._explained: list[Job] = []  # not only by their priority

    def __call__(self, view: View) -> None:
        """Start jobs; see `multifactor`."""
        priorities, limits = self._rules_of(view)
        priorities.update(view)
        limits.update(view)
        self._refuse(view, limits)
        head, start_s, held = self._start_jobs(view, priorities.ordered(view), limits)
        rests = not view.queue or limits.give_up(view)
        self._alarm.set_or_cancel(view, math.inf if rests else priorities.next_s)
        if view.explains:
            self._explain(view, head, start_s, held)

    def _refuse(self, view: View, limits: Limits) -> None:
        """Reject the jobs that were submitted since the last call and that a limit refuses."""
        pending = view.pending.keys() - self._submitted
        for job in [*view.arrived, *(view.pending[job_id] for job_id in sorted(pending))]:
            if job.job_id in self._submitted:
                continue  # it waits again
            self._submitted.add(job.job_id)
            if reason := limits.refusal(job, view):
                view.reject(job, reason=reason)
                view.queue.pop(job.job_id, None)
            else:
                limits.submit(job)

    def _explain(
        self, view: View, head: Job | None, start_s: float | None, held: dict[Job, str]
    ) -> None:
        """Explain why jobs wait: the head for resources, others for a limit or their priority."""
        for job in dict.fromkeys((*view.arrived, *self._explained)):
            if job.job_id in view.queue and job not in held and job is not head:
                view.explain(job, "Priority")
        for job, reason in held.items():
            view.explain(job, reason)
        self._explained = [*held]
        if head is not None:
            view.explain(head, "Resources", start_s)
            self._explained.append(head)

    def _start_jobs(
        self, view: View, jobs: Iterable[Job], limits: Limits
    ) -> tuple[Job | None, float | None, dict[Job, str]]:
        """Start jobs in this order with EASY backfilling."""
        head = profile = start_s = None
        held: dict[Job, str] = {}
        for job in jobs:
            if head is not None and job.cores > view.nodes.free_cores:
                if not view.nodes.free_cores and not view.explains:
                    break
                continue
            if reason := _held(limits, job, view):
                held[job] = reason
                continue
            started = view.start(job) if profile is None else profile.start(view, job)
            if started:
                limits.start(job)
            elif head is None:
                head, profile = job, profile_of(view)
                shadow = profile.earliest(job)
                if shadow is not None:
                    profile.reserve(job, shadow)
                    start_s = shadow.start_s
        return head, start_s, held

    def _rules_of(self, view: View) -> tuple[Priorities, Limits]:
        if self._rules is None:
            priorities = Priorities(self._site, view.platform, counted_tres(self._site))
            self._rules = (priorities, Limits(self._site, view.platform, priorities.charges))
        return self._rules


def _held(limits: Limits, job: Job, view: View) -> str:
    """Return why a job may start in none of its partitions: the reason of the last; empty: none."""
    reason = ""
    for partition in job.partitions or ("",):
        reason = limits.held(job, view.now_s, partition)
        if not reason:
            return ""
    return reason
