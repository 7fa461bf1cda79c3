"""Starts of jobs in an order, and the plan of those that wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.job import Bools, Ints, Job
from hpcosim_client.profiles import Reservation
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.reasons import explain_queue
from hpcosim_schedulers.heuristics.wake_ahead import WakeAhead
from hpcosim_schedulers.ipm.releases import (
    Releases,
    Transitions,
    allocation_on,
    nodes_needed,
    requested_end_s,
)
from hpcosim_schedulers.power.watts import Watts

Duration = Callable[[Job], float]
"""Returns the expected run time of a waiting job, in seconds."""


class PlannedJob(NamedTuple):
    """A waiting job with its planned start, simulated seconds, and int64[n], its nodes."""

    job: Job
    start_s: float
    nodes: Ints


Plan = Sequence[PlannedJob]


def requested_s(job: Job) -> float:
    """Return the requested run time of a job, in seconds."""
    return job.requested_s


def start_in_order(view: View, releases: Releases, jobs: Sequence[Job]) -> Sequence[Job]:
    """Start jobs while the first of them fits the idle nodes, and return the others.

    Args:
        view: the view.
        releases: the releases; the nodes of started jobs are occupied for the requested time.
        jobs: waiting jobs in the order to start them.
    """
    idle = usable_idle(view)
    for at, job in enumerate(jobs):
        found = releases.choose(nodes_needed(view, job), view.now_s, idle)
        if found is None:
            return jobs[at:]
        start_on(view, releases, job, found[1])
        idle[found[1]] = False
    return []


def usable_idle(view: View) -> Bools:
    """Return bool[nodes]: the nodes on which a job can start now."""
    idle = view.nodes.idle()
    idle[view.nodes.unavailable()] = False
    return idle


def start_on(view: View, releases: Releases, job: Job, nodes: Ints) -> None:
    """Start a job on idle nodes."""
    view.start_at(job, allocation_on(view, job, nodes))
    releases.occupy(nodes, view.now_s + job.requested_s)


def plan_in_order(
    view: View, releases: Releases, jobs: Iterable[Job], after_s: float, lasts_s: Duration
) -> list[PlannedJob]:
    """Plan jobs in an order, none before the one ahead of it; stop at one that never fits.

    Args:
        view: the view.
        releases: the releases; the nodes of planned jobs are occupied.
        jobs: waiting jobs in the order to plan them.
        after_s: lower bound of the starts, simulated seconds.
        lasts_s: their expected run times.
    """
    plan = []
    for job in jobs:
        found = releases.choose(nodes_needed(view, job), after_s)
        if found is None:
            break
        after_s, nodes = found
        releases.occupy(nodes, after_s + lasts_s(job))
        plan.append(PlannedJob(job, after_s, nodes))
    return plan


class Planner:
    """What the planning policies share: expected releases, and the switching for a plan."""

    def __init__(self) -> None:
        self.transitions = Transitions()
        self._wake_ahead = WakeAhead("planned")
        self._alarm = PolicyAlarm()
        self._watts: Watts | None = None

    def watts(self, view: View) -> Watts:
        """Return the powers of the nodes."""
        if self._watts is None:
            self._watts = Watts(view.platform)
        return self._watts

    def releases(self, view: View) -> Releases:
        """Return the expected releases at the begin of a call."""
        return Releases(view, self.transitions, self.watts(view))

    def follow(self, view: View, plan: Plan) -> None:
        """Switch sleeping nodes on in time for a plan, and mark nodes that are to stay on."""
        reservations = [
            Reservation(start_s, allocation_on(view, job, nodes)) for job, start_s, nodes in plan
        ]
        self._wake_ahead.follow(view, reservations)
        head, start_s = (plan[0].job, plan[0].start_s) if plan else (None, math.inf)
        explain_queue(view, head, start_s)

    def plan_again_before_ends(self, view: View) -> None:
        """Be called when a running job is to end in the time that a sleeping node takes to boot."""
        asleep = [node for node, power in enumerate(view.nodes.power) if power == "sleeping"]
        boots_s = np.unique(view.nodes.switch_on_s[asleep]).tolist()
        now_s = view.now_s
        ends_s = [requested_end_s(job, now_s) for job in view.running.values()]
        times_s = [end_s - boot_s for end_s in ends_s for boot_s in boots_s if end_s < math.inf]
        self._alarm.set_or_cancel(view, min((at for at in times_s if at > now_s), default=math.inf))
