"""Comparisons of limits with what a job would bring about."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from hpcosim_schedulers.slurm import limit_reasons as reasons
from hpcosim_schedulers.slurm.accounts import Limited, Qos, Tres
from hpcosim_schedulers.slurm.group_limits import Group

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

    def amount(self, name: str) -> float:
        """Return the amount of a TRES."""
        return self.tres.get(name, 0.0)

    def minutes(self, name: str) -> float:
        """Return the TRES-minutes of the job by its requested time."""
        return self.amount(name) * self.requested_s / 60.0


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


def of_one_job(owner: str, rules: Limited, wanted: Wanted) -> Iterator[Check]:
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
        amount = wanted.amount(name)
        yield Check(("max_tres", name), reasons.per_job(owner, name), amount, limit, amount)
    for name, limit in rules.max_tres_per_node.items():
        amount = wanted.amount(name) / wanted.tres["node"]
        yield Check(("max_node_tres", name), reasons.per_node(owner, name), amount, limit, amount)
    if wanted.safe:
        for name, limit in rules.max_tres_mins_per_job.items():
            amount = wanted.minutes(name)
            reason = reasons.minutes_per_job(owner, name)
            yield Check(("max_tres_mins", name), reason, amount, limit, amount)


def of_group(
    owner: str, rules: Limited, group: Group, used: Mapping[str, float], wanted: Wanted
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
    yield from with_running(
        "grp_tres_run_mins",
        rules.grp_tres_run_mins,
        lambda name: reasons.group_minutes(owner, name, running=True),
        lambda name: group.run_minutes(name, wanted.now_s),
        wanted.minutes,
    )
    yield from with_running(
        "grp_tres",
        rules.grp_tres,
        lambda name: reasons.group(owner, name),
        group.amount,
        wanted.amount,
    )


def with_running(
    kind: str,
    most: Tres,
    reason: Callable[[str], str],
    running: Callable[[str], float],
    own: Callable[[str], float],
) -> Iterator[Check]:
    """Yield limits on what the running jobs of a group have together with a job, by TRES.

    Args:
        kind: name of the limits.
        most: the limits.
        reason: returns Slurm's name.
        running: returns the amount of the running jobs.
        own: returns the amount of the job; 0: the limit does not concern it.
    """
    for name, limit in most.items():
        alone = own(name)
        if alone:
            yield Check((kind, name), reason(name), running(name) + alone, limit, alone)


def least(qos: Qos, wanted: Wanted) -> Iterator[Check]:
    """Yield the least TRES of a job of a QOS."""
    for name, limit in qos.min_tres_per_job.items():
        amount = -wanted.amount(name)
        yield Check(("min_tres", name), reasons.least(name), amount, -limit, amount)


def _reached(used: float, limit: float) -> float:
    """Return an amount that exceeds the limit as soon as the usage has reached it."""
    return math.inf if used >= limit else used
