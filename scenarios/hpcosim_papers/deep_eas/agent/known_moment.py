"""The state of a cluster as a scheduler knows it, as arrays from which runs go on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_papers.deep_eas.agent.settings import DeepEas
from hpcosim_papers.deep_eas.agent.step_jobs import StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import FAR_FUTURE, UNSET, Moment
from hpcosim_schedulers.heuristics.step_plan import INSTANT_S, StepPlan


def known_moment(
    view: View, plan: StepPlan, recent: Sequence[Job], settings: DeepEas, idle_s: float
) -> Moment:
    """Return the state of one run: recently submitted, running and waiting jobs.

    Args:
        view: the view.
        plan: the plan of the machines.
        recent: recently submitted jobs; those that ended have their expected run times, and a start
            and an end in the past.
        settings: length of a step.
        idle_s: since when the agent holds on an idle cluster, infinite if it does not.
    """
    every = {job.job_id: job for job in (*recent, *view.running.values(), *view.queue.values())}
    jobs = sorted(every.values(), key=lambda job: (job.submit_s, job.job_id))
    nodes, count = range(len(view.nodes.capacity)), len(jobs)
    now = _step(view.now_s, settings)
    submit = np.array([_step(job.submit_s, settings) for job in jobs], dtype=np.int64)
    expected = np.array([[plan.steps(job, node) for job in jobs] for node in nodes], dtype=np.int16)
    machine, start, turn = (np.full(count, UNSET, dtype=np.int64) for _ in range(3))
    actual = expected.copy()
    place = {job_id: number for number, job_id in enumerate(plan.bound)}
    for column, job in enumerate(jobs):
        if job.job_id in place:
            machine[column] = plan.bound[job.job_id].node
            turn[column] = place[job.job_id]
        elif job.job_id in view.running:
            assert job.allocation is not None
            machine[column] = next(job.allocation.by_node())[0]
            start[column] = _step(job.start_s, settings)
            actual[:, column] = np.maximum(expected[:, column], now - start[column] + 1)
        elif job.job_id not in view.queue:
            machine[column], start[column], actual[:, column] = 0, submit[column], 1
    cores = np.array([job.cores for job in jobs], dtype=np.int16)
    idle = FAR_FUTURE if math.isinf(idle_s) else _step(idle_s, settings)
    return Moment(
        StepJobs(
            np.ones((1, count), dtype=np.bool_),
            submit[None],
            cores[None],
            expected[None],
            actual[None],
        ),
        np.array([now]),
        machine[None],
        start[None],
        turn[None],
        np.array([idle]),
    )


def _step(time_s: float, settings: DeepEas) -> int:
    return math.floor((time_s + INSTANT_S) / settings.step_s)
