"""MinMin, MaxMin, Duplex: the queue is mapped anew onto the nodes at every event.

The batch mode of Maheswaran et al. 1999 (Dynamic matching and scheduling of a class of
independent tasks onto heterogeneous computing systems, "batch mode heuristics"; Duplex: Braun
et al. 2001), for jobs of several cores: a job goes wholly to one node.

Symbols: r requested time (s), n cores of a job; a request holds on the slowest node, and on
another a job is expected to run r * (slowest rate / the node's rate). A node's state is when
each of its cores becomes free, in ascending order: a job of n cores could start there when the
n-th does. `minmin_immediate` has the mode in which a job is bound for ever at its submission.

Each job mapped costs in proportion to queue and nodes: on 16 nodes a queue of 300 is mapped in
about 2 ms and one of 1,000 in 7 ms, but tens of thousands of waiting jobs are too many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.heuristics.list_scheduling import sleep_while_nothing_can_start
from hpcosim_client.heuristics.node_keys import affordable, run_time_scale
from hpcosim_client.heuristics.one_node import check_one_node_jobs
from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View

TAKEN = np.iinfo(np.int64).max  # cores of a job already mapped: more than any node has free

FAMILY = "MinMin, MaxMin and Duplex place"  # subject of errors


class Problem(NamedTuple):
    """What is to be mapped onto what.

    Attributes:
        jobs: those some node will do for, in the order of the queue.
        cores: int64[jobs], n.
        run_s: float64[nodes, jobs], expected run times; infinite where a node won't do.
        free_at_s: for each node when its cores become free, in ascending order.
        free: for each node how many cores are free now. A job past its request is taken to
            end now, but its cores are not among these.
    """

    jobs: list[Job]
    cores: Ints
    run_s: Floats
    free_at_s: list[Floats]
    free: list[int]


class Plan(NamedTuple):
    """A map of the queue onto the nodes.

    Attributes:
        starts: the jobs that start now, on cores that are free, each with its node.
        makespan_s: when the last job mapped ends.
    """

    starts: list[tuple[Job, int]]
    makespan_s: float


def min_min(view: View) -> None:
    """Map first, again and again, the job that can end soonest, to where it does.

    The Min-min of Maheswaran et al. 1999. Ties: the job first in the queue, the lowest node.
    """
    _decide(view, [False])


def max_min(view: View) -> None:
    """Map first, again and again, the job whose soonest end is the latest, to where that is.

    The Max-min of Maheswaran et al. 1999. Ties: the job first in the queue, the lowest node.
    """
    _decide(view, [True])


def duplex(view: View) -> None:
    """Map both ways and keep the map that ends sooner; on a tie that of MaxMin.

    The Duplex of Braun et al. 2001. Decided anew at every event.
    """
    _decide(view, [True, False])


def map_queue(problem: Problem, *, latest_first: bool, whole: bool = False) -> Plan:
    """Map jobs to nodes, one after the other.

    Args:
        problem: the jobs and the nodes.
        latest_first: MaxMin rather than MinMin.
        whole: go on when no further job can start now, for the sake of the makespan.
    """
    gone_s = -math.inf if latest_first else math.inf  # such a job is never chosen
    nth, left = problem.cores - 1, problem.cores.copy()
    run_s, free = problem.run_s.copy(), problem.free.copy()
    free_at_s = [at_s.copy() for at_s in problem.free_at_s]
    end_s = run_s + [at_s.take(nth, mode="clip") for at_s in free_at_s]
    starts: list[tuple[Job, int]] = []
    makespan_s = -math.inf
    for _ in problem.jobs:
        if not whole and left.min() > max(free):
            break
        soonest_s = end_s.min(axis=0)
        row = int(soonest_s.argmax() if latest_first else soonest_s.argmin())
        node = int(end_s[:, row].argmin())
        cores = int(problem.cores[row])
        if cores <= free[node]:
            starts.append((problem.jobs[row], node))
        free[node] = max(free[node] - cores, 0)
        makespan_s = max(makespan_s, float(soonest_s[row]))
        at_s = free_at_s[node]
        at_s[:cores] = soonest_s[row]
        at_s.sort()
        run_s[:, row] = end_s[:, row] = gone_s
        left[row] = TAKEN
        np.add(run_s[node], at_s.take(nth, mode="clip"), out=end_s[node])
    return Plan(starts, makespan_s)


def problem_of(view: View) -> Problem:
    """Return what is to be mapped now; see `Problem`."""
    jobs = view.queue.values()
    cores = np.array([job.cores for job in jobs], dtype=np.int64)
    scale = run_time_scale(view)
    free = view.nodes.free.tolist()
    ends_s = [[view.now_s] * idle for idle in free]
    for job in view.running.values():
        assert job.place is not None
        for node, held in zip(job.place.nodes.tolist(), job.place.held.tolist(), strict=True):
            end_s = job.start_s + job.requested_s * scale[node]
            ends_s[node] += [max(end_s, view.now_s)] * held
    run_s = np.outer(scale, [job.requested_s for job in jobs])
    run_s[[not ends for ends in ends_s]] = np.inf  # nodes that can't be given now
    run_s[cores > view.nodes.capacity[:, np.newaxis]] = np.inf
    run_s[~affordable(view, jobs, view.nodes.jobs)] = np.inf
    placeable = np.isfinite(run_s).any(axis=0)
    return Problem(
        [job for job, some in zip(jobs, placeable.tolist(), strict=True) if some],
        cores[placeable],
        run_s[:, placeable],
        [np.sort(np.array(node_ends_s or [np.inf])) for node_ends_s in ends_s],
        free,
    )


def _decide(view: View, ways: Sequence[bool]) -> None:
    """Start what the best of the maps starts now; `ways` holds their `latest_first`."""
    check_one_node_jobs(view, FAMILY)
    most = int(view.nodes.free.max())
    if any(job.cores <= most for job in view.queue.values()):
        problem = problem_of(view)
        whole = len(ways) > 1
        plans = [map_queue(problem, latest_first=way, whole=whole) for way in ways]
        for job, node in min(plans, key=lambda plan: plan.makespan_s).starts:
            view.start(job, [node])
    sleep_while_nothing_can_start(view)
