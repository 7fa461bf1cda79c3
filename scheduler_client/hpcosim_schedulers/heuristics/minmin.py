"""MinMin, MaxMin and Duplex in batch mode: the queue is mapped to nodes at every event.

The batch mode of Maheswaran et al. 1999 (Dynamic matching and scheduling of a class of
independent tasks onto heterogeneous computing systems, "batch mode heuristics"; Duplex: Braun
et al. 2001), extended to jobs of several cores on one node.

Symbols: r requested time (s), n cores of a job. A requested time applies to the slowest node; on
another node the expected run time is r * (slowest rate / rate of the node). The state of a node is
the ascending list of times at which its cores become free; a job of n cores can start there at the
n-th time. `minmin_immediate` has the immediate mode.

The cost of mapping a job is proportional to queue length times nodes: on 16 nodes a queue of 300
jobs takes about 2 ms and one of 1,000 jobs 7 ms. Queues of tens of thousands are too long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.list_scheduling import sleep_while_nothing_can_start
from hpcosim_schedulers.heuristics.node_keys import affordable, run_time_scale
from hpcosim_schedulers.heuristics.one_node import check_one_node_jobs

TAKEN = np.iinfo(np.int64).max  # cores of a mapped job: more than any node has

FAMILY = "MinMin, MaxMin and Duplex place"  # subject of errors


class Problem(NamedTuple):
    """The input of a mapping.

    Attributes:
        jobs: the jobs that fit on some node, in the order of the queue.
        cores: int64[jobs], n.
        run_s: float64[nodes, jobs], expected run times in seconds; infinite: the job does not fit.
        free_at_s: for each node, when its cores become free, ascending, simulated seconds.
        free: for each node, the number of cores that are free now. The cores of a job that overruns
            its request count as free now in `free_at_s`, but not here.
    """

    jobs: list[Job]
    cores: Ints
    run_s: Floats
    free_at_s: list[Floats]
    free: list[int]


class QueueMapping(NamedTuple):
    """A mapping of the queue to nodes.

    Attributes:
        starts: the jobs that start now, each with its node.
        makespan_s: end of the last mapped job, simulated seconds.
    """

    starts: list[tuple[Job, int]]
    makespan_s: float


def min_min(view: View) -> None:
    """Min-min (Maheswaran et al. 1999): repeatedly map the job with the earliest end.

    Ties: the first job of the queue, the lowest node.
    """
    _decide(view, [False])


def max_min(view: View) -> None:
    """Max-min (Maheswaran et al. 1999): repeatedly map the job whose earliest end is the latest.

    Ties: the first job of the queue, the lowest node.
    """
    _decide(view, [True])


def duplex(view: View) -> None:
    """Duplex (Braun et al. 2001): the mapping of MinMin or MaxMin with the lower makespan.

    Ties: MaxMin. The choice is made at every event.
    """
    _decide(view, [True, False])


def map_queue(problem: Problem, *, latest_first: bool, whole: bool = False) -> QueueMapping:
    """Map jobs to nodes one by one.

    Args:
        problem: the jobs and the nodes.
        latest_first: MaxMin instead of MinMin.
        whole: whether to continue when no further job can start now, to compute the makespan.
    """
    gone_s = -math.inf if latest_first else math.inf  # end of a mapped job: never chosen
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
    return QueueMapping(starts, makespan_s)


def problem_of(view: View) -> Problem:
    """Return the input of a mapping; see `Problem`."""
    jobs = view.queue.values()
    cores = np.array([job.cores for job in jobs], dtype=np.int64)
    scale = run_time_scale(view)
    free = view.nodes.free.tolist()
    ends_s = [[view.now_s] * idle for idle in free]
    for job in view.running.values():
        assert job.allocation is not None
        for node, held in job.allocation.by_node():
            end_s = job.start_s + job.suspended_s + job.requested_s * scale[node]
            ends_s[node] += [max(end_s, view.now_s)] * held
    run_s = np.outer(scale, [job.requested_s for job in jobs])
    run_s[[not ends for ends in ends_s]] = np.inf  # nodes that cannot be allocated now
    run_s[cores > view.nodes.capacity[:, np.newaxis]] = np.inf
    for column, job in enumerate(jobs):
        if job.demand is not None:
            run_s[~view.nodes.suits(job), column] = np.inf
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
    """Start the jobs that the best mapping starts now; `ways` are values of `latest_first`."""
    check_one_node_jobs(view, FAMILY)
    most = int(view.nodes.free.max())
    if any(job.cores <= most for job in view.queue.values()):
        problem = problem_of(view)
        whole = len(ways) > 1
        plans = [map_queue(problem, latest_first=way, whole=whole) for way in ways]
        for job, node in min(plans, key=lambda plan: plan.makespan_s).starts:
            view.start(job, [node])
    sleep_while_nothing_can_start(view)
