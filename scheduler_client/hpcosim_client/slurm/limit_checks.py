"""Comparisons of limits with what a job would bring about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hpcosim_client.slurm import limit_reasons as reasons
from hpcosim_client.slurm.accounts import Association, Qos, Tres
from hpcosim_client.slurm.group_limits import Group

ROUNDING = 1e-9
"""Relative rounding error of sums of shares of devices."""


class Check(NamedTuple):
    """A limit compared with what a job would bring about.

    Attributes:
        name: name of the limit, and the TRES if it is one; the first source of a limit counts.
        reason: Slurm's name.
        amount: what the job would bring about, with the jobs that run.
        limit: the limit.
        alone: the amount for the job alone, for `deny_on_limit`.
    """

    name: tuple[str, ...]
    reason: str
    amount: float
    limit: float
    alone: float

    @property
    def holds(self) -> bool:
        """Whether the limit holds the job."""
        return self.amount > self.limit + abs(self.limit) * ROUNDING

    @property
    def denies(self) -> bool:
        """Whether the job alone exceeds the limit."""
        return self.alone > self.limit + abs(self.limit) * ROUNDING


class Wanted(NamedTuple):
    """What a job wants.

    Attributes:
        tres: its TRES.
        requested_s: its requested time, s.
        now_s: simulated time, s.
        safe: whether jobs start only if they can end within limits on minutes (`enforce: safe`).
    """

    tres: Tres
    requested_s: float
    now_s: float
    safe: bool

    def minutes(self, name: str) -> float:
        """Return the TRES-minutes of the job by its requested time."""
        return self.tres.get(name, 0.0) * self.requested_s / 60.0


def jobs(name: str, reason: str, present: int, limit: int | None) -> Iterator[Check]:
    """Yield the check of a number of jobs, if there is a limit.

    Args:
        name: name of the limit.
        reason: Slurm's name.
        present: jobs that count already.
        limit: the limit; None: none.
    """
    if limit is not None:
        yield Check((name,), reason, present + 1, limit, 1)


def of_one_job(owner: str, rules: Association | Qos, wanted: Wanted) -> Iterator[Check]:
    """Yield the limits on the size of a job: TRES, TRES on a node, minutes, requested time.

    Args:
        owner: `Assoc` or `QOS`, the begin of the reasons.
        rules: the limits.
        wanted: what the job wants.
    """
    if rules.max_wall_s is not None:
        reason = f"{owner}MaxWallDurationPerJobLimit"
        requested_s = wanted.requested_s
        yield Check(("max_wall",), reason, requested_s, rules.max_wall_s, requested_s)
    for name, limit in rules.max_tres_per_job.items():
        amount = wanted.tres.get(name, 0.0)
        yield Check(("max_tres", name), reasons.per_job(owner, name), amount, limit, amount)
    for name, limit in rules.max_tres_per_node.items():
        amount = wanted.tres.get(name, 0.0) / wanted.tres["node"]
        yield Check(("max_node_tres", name), reasons.per_node(owner, name), amount, limit, amount)
    if wanted.safe:
        for name, limit in rules.max_tres_mins_per_job.items():
            amount = wanted.minutes(name)
            reason = reasons.minutes_per_job(owner, name)
            yield Check(("max_tres_mins", name), reason, amount, limit, amount)


def of_group(
    owner: str, rules: Association | Qos, group: Group, used: Mapping[str, float], wanted: Wanted
) -> Iterator[Check]:
    """Yield the limits of all jobs of an association or a QOS together, except of their number.

    Args:
        owner: `Assoc` or `QOS`.
        rules: the limits.
        group: the jobs.
        used: decayed usage in TRES-seconds by TRES, and `wall`.
        wanted: what the job wants.
    """
    if rules.grp_wall_s is not None:
        amount = _reached(used["wall"], rules.grp_wall_s)
        yield Check(("grp_wall",), f"{owner}GrpWallLimit", amount, rules.grp_wall_s, 0.0)
    for name, limit in rules.grp_tres_mins.items():
        amount = _reached(used[name] / 60.0, limit)
        if wanted.safe:
            amount = used[name] / 60.0 + group.run_minutes(name, wanted.now_s)
            amount += wanted.minutes(name)
        reason = reasons.group_minutes(owner, name)
        yield Check(("grp_tres_mins", name), reason, amount, limit, wanted.minutes(name))
    reason_of = {
        name: reasons.group_minutes(owner, name, running=True) for name in rules.grp_tres_run_mins
    }
    yield from run_minutes("grp_tres_run_mins", rules.grp_tres_run_mins, reason_of, group, wanted)
    reason_of = {name: reasons.group(owner, name) for name in rules.grp_tres}
    yield from sums("grp_tres", rules.grp_tres, reason_of, group, wanted)


def sums(
    kind: str, most: Tres, reason_of: Mapping[str, str], group: Group, wanted: Wanted
) -> Iterator[Check]:
    """Yield limits on the TRES of all running jobs of a group.

    Args:
        kind: name of the limits.
        most: the limits.
        reason_of: the reason of each TRES.
        group: the jobs.
        wanted: what the job wants.
    """
    for name, limit in most.items():
        alone = wanted.tres.get(name, 0.0)
        if alone:
            yield Check((kind, name), reason_of[name], group.tres[name] + alone, limit, alone)


def run_minutes(
    kind: str, most: Tres, reason_of: Mapping[str, str], group: Group, wanted: Wanted
) -> Iterator[Check]:
    """Yield limits on the TRES-minutes that the running jobs of a group may still use.

    Args:
        kind: name of the limits.
        most: the limits.
        reason_of: the reason of each TRES.
        group: the jobs.
        wanted: what the job wants.
    """
    for name, limit in most.items():
        alone = wanted.minutes(name)
        amount = group.run_minutes(name, wanted.now_s) + alone
        yield Check((kind, name), reason_of[name], amount, limit, alone)


def least(qos: Qos, wanted: Wanted) -> Iterator[Check]:
    """Yield the least TRES of a job of a QOS."""
    for name, limit in qos.min_tres_per_job.items():
        amount = -wanted.tres.get(name, 0.0)
        yield Check(("min_tres", name), reasons.least(name), amount, -limit, amount)


def _reached(used: float, limit: float) -> float:
    """Return an amount that exceeds the limit as soon as the usage has reached it."""
    return math.inf if used >= limit else used
