"""MinMin, MaxMin and Duplex: in batch mode the queue is mapped to nodes at every event.

It is the batch mode of Maheswaran et al. 1999 (Dynamic matching and scheduling of a class of
independent tasks onto heterogeneous computing systems, "batch mode heuristics"; Duplex: Braun
et al. 2001), extended to jobs of several cores on one node.

Symbols: r requested time (s), n cores of a job. A requested time applies to the slowest node; on
another node the expected run time is r * (slowest rate / rate of the node). The state of a node is
the ascending list of times at which its cores become free; a job of n cores can start there at the
n-th time. In immediate mode jobs are bound at submission.

The cost of mapping a job is proportional to queue length times nodes: on 16 nodes a queue of 300
jobs takes about 2 ms and one of 1,000 jobs 7 ms. Queues of tens of thousands are too long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats, Ints, Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.job_node import affordable, check_one_node_jobs, run_time_scale
from hpcosim_schedulers.heuristics.list_scheduling import (
    SUBMISSION,
    Key,
    ljf,
    sjf,
    sleep_while_nothing_can_start,
)

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


class Binding(NamedTuple):
    """A job, its node, and the estimate of its completion, simulated seconds."""

    job: Job
    node: int
    end_s: float


Rule = Literal["minmin", "maxmin", "duplex"]

KEYS: Mapping[Rule, Sequence[Key]] = {"minmin": (sjf,), "maxmin": (ljf,), "duplex": (ljf, sjf)}
"""The orders of jobs of one instant among which each rule chooses the best."""


def immediate(rule: Rule, *, chained: bool = False) -> Policy:
    """Return the policy that binds each job to a node at its submission; see the module.

    Args:
        chained: whether to repeat the two errors of the program of the papers.
    """
    keys, submit_s = list(KEYS[rule]), attrgetter("submit_s")
    lines: list[dict[int, float]] = []
    """For each node the numbers of its unfinished jobs, with their estimates."""
    seen: dict[int, tuple[int, int]] = {}
    """For each node free cores and number of jobs when no further job could start."""

    def decide(view: View) -> None:
        check_one_node_jobs(view, FAMILY)
        if not lines:
            lines.extend(_lines_of_running(view))
        requeued = {rejected.job_id for rejected in view.rejected}
        new = [job for job in view.arrived if job.job_id not in requeued]
        for _, jobs in groupby(sorted(new, key=submit_s), key=submit_s):
            key, bindings = _best_bindings(view, lines, list(jobs), keys, chained)
            for job, node, end_s in bindings:
                lines[node][job.job_id] = end_s
            if chained:
                keys[:] = [key]  # for the rest of the simulation
        free = view.nodes.free.tolist()
        for node, line in enumerate(lines):
            # Licences, reservations and other resources change without the cores of a node.
            if not view.is_plain or (free[node], len(line)) != seen.get(node):
                _start(view, node, line)
                seen[node] = (int(view.nodes.free[node]), len(line))
        if not view.queue:
            view.wake_on = SUBMISSION

    return decide


def _lines_of_running(view: View) -> list[dict[int, float]]:
    """Return the lines of a new view, with the running jobs of a snapshot."""
    scale = run_time_scale(view).tolist()
    lines: list[dict[int, float]] = [{} for _ in scale]
    for job in view.running.values():
        assert job.allocation is not None
        for node in job.allocation.nodes.tolist():
            lines[node][job.job_id] = job.start_s + job.suspended_s + job.requested_s * scale[node]
    return lines


def _best_bindings(
    view: View,
    lines: Sequence[dict[int, float]],
    jobs: Sequence[Job],
    keys: Sequence[Key],
    chained: bool,
) -> tuple[Key, list[Binding]]:
    """Return the key with the lowest makespan for jobs of one instant, and the bindings."""
    free_at_s = np.array([_free_at_s(view, line) for line in lines])
    ways = [
        (key, _bindings(view, free_at_s.copy(), sorted(jobs, key=key), chained)) for key in keys
    ]
    return min(ways, key=lambda way: max(binding.end_s for binding in way[1]))


def _free_at_s(view: View, line: dict[int, float]) -> float:
    while line:
        last = next(reversed(line))
        if _is_over(view, last):
            del line[last]
        else:
            return line[last]
    return view.now_s


def _bindings(view: View, free_at_s: Floats, jobs: Sequence[Job], chained: bool) -> list[Binding]:
    """Bind jobs in the given order; `free_at_s` is updated in place."""
    scale = run_time_scale(view)
    bindings: list[Binding] = []
    for job in jobs:
        fits = affordable(view, [job], 0)[:, 0]
        fits &= view.nodes.suits(job)
        if not fits.any():
            raise PolicyError(
                f"job {job.job_id}: its energy estimate exceeds its max_energy_j of "
                f"{job.max_energy_j} J on every node with enough cores"
            )
        end_s = np.where(fits, free_at_s + job.requested_s * scale, np.inf)
        node = int(end_s.argmin())
        free_at_s[slice(None) if chained else node] = end_s[node]
        bindings.append(Binding(job, node, float(end_s[node])))
    return bindings


def _start(view: View, node: int, line: dict[int, float]) -> None:
    """Start the jobs of a node that fit, and remove finished ones."""
    for job_id in list(line):
        if not view.nodes.free[node]:
            return
        job = view.queue.get(job_id)
        if job is not None:
            if job.cores <= view.nodes.free[node]:
                view.start(job, [node])
        elif _is_over(view, job_id):
            del line[job_id]


def _is_over(view: View, job_id: int) -> bool:
    return not any(job_id in jobs for jobs in (view.queue, view.running, view.suspended))
