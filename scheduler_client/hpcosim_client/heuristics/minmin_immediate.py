"""MinMin, MaxMin, Duplex as Stafford, Bosque 2024 use them: jobs are bound at submission.

Symbols: r requested time (s), n cores of a job; a request holds on the slowest node, and on
another a job is expected to run r * (slowest rate / the node's rate).

A job is permanently bound to the node with the least completion estimate, among those with n cores
in all; ties go to the lowest. The estimate is that of the job bound last to the node, of those
not over, or now if all are, plus the expected run time: as if a node ran one job at a time. It
is never corrected, so the estimate of a job that is late lies in the past. Jobs submitted at
one instant are bound in ascending order of r (MinMin; section 2), descending (MaxMin), or in
whichever order gives the lower makespan by these estimates (Duplex; on a tie, descending).
Ties in r: in submission order. Jobs of a node start in the order they were bound in, but those
that find too few free cores are passed over: none blocks another.

This gives the energies known of the authors' simulator, IRMaSim: 2854.2 J on Experiment 1 and
23836.8 J on Experiment 2 of Lopez Rauhut 2023. Those two don't tell the details apart: MinMin,
MaxMin and Duplex all get them, and so they do if a late job's estimate is raised to now, if
jobs that are over count, or if a job blocks those bound to its node after it. The details are
as in IRMaSim's published source, with two exceptions, taken for slips there: it lets an estimate
follow that of the job bound before at the same instant, even to another node, and its Duplex
keeps for ever the order it chose at the first submission. The `chained` policies do that, too:
they are the baselines as the papers' program runs them.

A weak baseline, as it ignores that jobs share nodes; `minmin` has the fair one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.list_scheduling import SUBMISSION
from hpcosim_client.heuristics.minmin import FAMILY
from hpcosim_client.heuristics.node_keys import affordable, run_time_scale
from hpcosim_client.heuristics.one_node import check_one_node_jobs
from hpcosim_client.heuristics.orders import Key, ljf, sjf
from hpcosim_client.job import Floats, Job
from hpcosim_client.view import Policy, View


class Binding(NamedTuple):
    """A job, the node it is bound to, and the estimate of its completion there."""

    job: Job
    node: int
    end_s: float


Rule = Literal["minmin", "maxmin", "duplex"]

KEYS: Mapping[Rule, Sequence[Key]] = {"minmin": (sjf,), "maxmin": (ljf,), "duplex": (ljf, sjf)}
"""The orders that each rule tries for the jobs of one instant; it takes the best."""


def immediate(rule: Rule, *, chained: bool = False) -> Policy:
    """Return the policy that binds each job to a node at its submission; see the module.

    Args:
        rule: order of the jobs submitted at one instant.
        chained: bind as the papers' program does, with its two slips.
    """
    keys, submit_s = list(KEYS[rule]), attrgetter("submit_s")
    lines: list[dict[int, float]] = []
    """For each node the numbers of the jobs bound to it and not over, with their estimates."""
    seen: dict[int, tuple[int, int]] = {}
    """Free cores and length of its line, when nothing more of it could start."""

    def decide(view: View) -> None:
        check_one_node_jobs(view, FAMILY)
        if not lines:
            lines.extend(_lines_of_running(view))
        came_back = {rejected.job_id for rejected in view.rejected}
        new = [job for job in view.arrived if job.job_id not in came_back]
        for _, jobs in groupby(sorted(new, key=submit_s), key=submit_s):
            key, bindings = _best_bindings(view, lines, list(jobs), keys, chained)
            for job, node, end_s in bindings:
                lines[node][job.job_id] = end_s
            if chained:
                keys[:] = [key]  # from now on
        free = view.nodes.free.tolist()
        for node, line in enumerate(lines):
            if (free[node], len(line)) != seen.get(node):
                _start(view, node, line)
                seen[node] = (int(view.nodes.free[node]), len(line))
        if not view.queue:
            view.wake_on = SUBMISSION

    return decide


def _lines_of_running(view: View) -> list[dict[int, float]]:
    """Return the lines of a view that is new, where jobs run only if a snapshot says so."""
    scale = run_time_scale(view).tolist()
    lines: list[dict[int, float]] = [{} for _ in scale]
    for job in view.running.values():
        assert job.place is not None
        for node in job.place.nodes.tolist():
            lines[node][job.job_id] = job.start_s + job.requested_s * scale[node]
    return lines


def _best_bindings(
    view: View,
    lines: Sequence[dict[int, float]],
    jobs: Sequence[Job],
    keys: Sequence[Key],
    chained: bool,
) -> tuple[Key, list[Binding]]:
    """Return the order of `keys` that ends soonest for jobs of one instant, and the bindings."""
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
    """Bind jobs in this order; `free_at_s` is brought up to date."""
    scale = run_time_scale(view)
    bindings: list[Binding] = []
    for job in jobs:
        will_do = affordable(view, [job], 0)[:, 0]
        will_do &= view.nodes.capacity >= job.cores
        if not will_do.any():
            raise PolicyError(
                f"job {job.job_id} may cost {job.max_energy_j} J at most, less than its energy "
                "estimate on any node that has the cores"
            )
        end_s = np.where(will_do, free_at_s + job.requested_s * scale, np.inf)
        node = int(end_s.argmin())
        free_at_s[slice(None) if chained else node] = end_s[node]
        bindings.append(Binding(job, node, float(end_s[node])))
    return bindings


def _start(view: View, node: int, line: dict[int, float]) -> None:
    """Start the jobs bound to a node that find room there; forget those that are over."""
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
    return job_id not in view.queue and job_id not in view.running
