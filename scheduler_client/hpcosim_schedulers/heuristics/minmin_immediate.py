"""MinMin, MaxMin and Duplex in immediate mode: jobs are bound at submission.

The mode is that of Stafford, Bosque 2024.

Symbols: r requested time (s), n cores of a job. A requested time applies to the slowest node; on
another node the expected run time is r * (slowest rate / rate of the node).

A job is bound to the node with the earliest completion estimate among nodes of at least n cores;
ties go to the lowest node. The estimate is the expected run time plus the estimate of the
unfinished job last bound to the node, or now if there is none: as if a node ran one job at a time.
Estimates are not corrected, so the estimate of an overrunning job lies in the past. Jobs submitted
at one instant are bound in ascending order of r (MinMin; section 2), descending order (MaxMin), or
the one of these orders with the lower estimated makespan (Duplex; ties: descending). Ties in r:
submission order. The jobs of a node start in the order of binding; a job that does not fit blocks
no other.

The energies are those of the authors' simulator, IRMaSim: 2854.2 J on Experiment 1 and 23836.8 J on
Experiment 2 of Lopez Rauhut 2023. Several variants have the same energies: all three rules, and
variants in which an overrunning job's estimate becomes now, finished jobs count, or a job blocks
those bound after it. The details follow IRMaSim's published source with two exceptions, which
appear to be errors: an estimate there continues that of the job bound before at the same instant,
even on another node, and Duplex keeps the order of its first choice. The `chained` policies repeat
both errors: they are the baselines as the program of the papers runs them.

The estimates ignore that jobs share nodes, so this is a weak baseline; see `minmin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats, Job
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.heuristics.list_scheduling import SUBMISSION
from hpcosim_schedulers.heuristics.minmin import FAMILY
from hpcosim_schedulers.heuristics.node_keys import affordable, run_time_scale
from hpcosim_schedulers.heuristics.one_node import check_one_node_jobs
from hpcosim_schedulers.heuristics.orders import Key, ljf, sjf


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
        rule: order of jobs submitted at one instant.
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
