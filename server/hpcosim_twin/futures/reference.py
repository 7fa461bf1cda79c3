"""The simulation of a queue from an instant on, on the reference engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client import play
from hpcosim_protocol import Decision, EventKind, JobRequest, JobStarted
from hpcosim_sim.engine.job_runs import change_node
from hpcosim_sim.engine.simulation import Batch, Rules, Simulation
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.record.economics import J_PER_KWH, UNKNOWN, Rates
from hpcosim_slurm.worlds.live_engine import start_on
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, ends_jobs
from hpcosim_workloads.series import Series
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table

PLAIN = ("job_id", "submit_s", "requested_s", "cores", "memory_mb", "deadline_s")

IDLE_S = 3600.0
"""Time without running jobs after which the jobs that wait never start, s.

Jobs wait endlessly whose partition is down or whose limits forbid a start. Periodic work of Slurm,
which could start a job of an idle cluster, has much shorter periods.
"""
HORIZON_S = 14 * 86_400.0
"""Time after which starts are not forecast, s: jobs without time limits may run for a year."""


def simulated_starts(
    state: QueueState,
    run_s: Mapping[int, float],
    generator: Generator,
    future: Sequence[QueuedJob] = (),
    asked: QueuedJob | None = None,
) -> dict[int, float]:
    """Return when the waiting jobs start, s.

    The past is simulated as it was: jobs are submitted when they were, and those that run start
    when they did, on their nodes. Then the site's scheduler joins, as one that resumes a session.

    Args:
        run_s: the run time of each job, by number, s; infinity: until the scheduler ends it.
        generator: draws what is not known of the scheduler.
        asked: a further job that is submitted at the instant; None: there is none.

    Returns:
        The start of each waiting job, by number; without those that do not start within
        `HORIZON_S`. With `asked`, only its start.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    added = [*future] if asked is None else [*future, asked]
    watched = [job.spec.job_id for job in (state.waiting if asked is None else [asked])]
    simulation = simulated(state, added, run_s, generator, watched, state.now_s)
    return starts_in(simulation, watched)


class Outcome(NamedTuple):
    """What a simulation shows of a time from the instant on.

    Attributes:
        start_s: start of each job that starts, by number, s; of the jobs that wait and of those
            that are submitted in the time.
        energy_j: energy of all nodes in the time, J.
    """

    start_s: dict[int, float]
    energy_j: float


def simulated_outcome(
    state: QueueState,
    run_s: Mapping[int, float],
    generator: Generator,
    future: Sequence[QueuedJob],
    duration_s: float,
) -> Outcome:
    """Return the starts of jobs, and the energy of all nodes in a time from the instant on.

    Args:
        run_s, generator: as for `simulated_starts`.
        future: jobs that are submitted in the time.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    until_s = state.now_s + duration_s
    watched = [job.spec.job_id for job in (*state.waiting, *future)]
    last = end_of_time(state, future, until_s)
    run_s = {**run_s, last.spec.job_id: 0.0}
    rates = _rates(state.now_s, until_s)
    simulation = simulated(state, [*future, last], run_s, generator, watched, until_s, rates)
    energy_j = sum(simulation.record().state_cost.values()) * J_PER_KWH
    return Outcome(starts_in(simulation, watched), energy_j)


def end_of_time(state: QueueState, future: Sequence[QueuedJob], until_s: float) -> QueuedJob:
    """Return a held job that is submitted at the end, so that a simulation does not end before.

    It is of an owner of another job: it changes no shares.
    """
    jobs = [job.spec for job in (*state.jobs, *future)]
    part = state.platform.partitions[0].name if state.platform.partitions else ""
    own = JobSpec(0, until_s, 0.0, 1.0, 1, "cores", partition=part)
    if jobs:
        names = ("user", "group", "account", "qos")
        own = own._replace(**{name: getattr(jobs[0], name) for name in names})
        own = own._replace(partition=jobs[0].partition or part)
    number = 1 + max((job.job_id for job in jobs), default=0)
    return QueuedJob(own._replace(job_id=number, request=JobRequest(hold=True)))


def _rates(from_s: float, until_s: float) -> Rates:
    """Return a price of 1 per kWh in a time and of 0 outside, so that the cost is its energy."""
    times_s = np.array([min(from_s, 0.0) - 1.0, from_s, until_s])
    return Rates(price_per_kwh=Series(times_s, np.array([0.0, 1.0, 0.0])))


def simulated(
    state: QueueState,
    added: Sequence[QueuedJob],
    run_s: Mapping[int, float],
    generator: Generator,
    watched: Collection[int],
    least_s: float,
    rates: Rates = UNKNOWN,
) -> Simulation:
    """Return the simulation of a queue, up to when the watched jobs have started.

    Args:
        added: jobs that are submitted at the instant or later.
        run_s, generator: as for `simulated_starts`.
        watched: numbers of the jobs whose starts are of interest.
        least_s: time before which the simulation does not end if jobs are left, s.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    jobs = [*state.jobs, *added]
    rules = Rules(
        kill_at_walltime=not ends_jobs(state.new_policy),
        initial_time_s=min([state.now_s, *(job.spec.submit_s for job in jobs)]),
    )
    simulation = Simulation(state.platform, table_of(jobs, run_s), rules, rates=rates)
    relive(simulation, state)
    for node in state.unavailable:
        change_node(simulation, "drain", node)
    snapshot = (simulation.now_s, simulation.snapshot())
    policy = state.new_policy(generator)
    with suppress(SimulationStuck):  # the jobs that are left never start
        link = _Link(simulation, set(watched), least_s, idle_s(state))
        play(policy, state.platform, link, snapshot)
    return simulation


def idle_s(state: QueueState) -> float:
    """Return the time without running jobs after which jobs never start, s.

    A scheduler without periodic work is not woken between two events, which may be days apart: its
    simulation ends when there are no further events.
    """
    return IDLE_S if ends_jobs(state.new_policy) else HORIZON_S


def starts_in(simulation: Simulation, jobs: Iterable[int]) -> dict[int, float]:
    """Return the starts of those of some jobs that have started, by number, s."""
    recording = simulation.recording
    started = dict(zip(recording.job_id, recording.start_s, strict=True))
    found = {number: float(started.get(number, math.nan)) for number in jobs}
    return {number: start_s for number, start_s in found.items() if start_s == start_s}


class _Link:
    """Passes decisions to a simulation, until all jobs started or no further start is expected.

    Args:
        simulation: the simulation, at the instant of the forecast.
        waiting: numbers of the jobs whose starts are of interest; those that start are removed.
        least_s: time before which the simulation is not over, s.
        idle_s: time without running jobs after which it is, s.
    """

    def __init__(
        self, simulation: Simulation, waiting: set[int], least_s: float, idle_s: float
    ) -> None:
        self._simulation, self._waiting, self._least_s = simulation, waiting, least_s
        self._idle_s = idle_s
        self._busy_s = least_s  # when jobs ran last, or one was to become eligible
        self._until_s = least_s + HORIZON_S

    def __call__(
        self, decisions: Sequence[Decision], wake_on: Collection[EventKind] | None, elapsed_s: float
    ) -> Batch:
        """Carry out decisions; see `Simulation.advance`."""
        simulation = self._simulation
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        if simulation.jobs.running or simulation.jobs.allocated or simulation.eligibility.expects:
            self._busy_s = max(batch.now_s, self._least_s)
        self._waiting.difference_update(
            event.job_id for event in batch.events if isinstance(event, JobStarted)
        )
        is_over = batch.now_s > min(self._busy_s + self._idle_s, self._until_s)
        is_over = is_over or (batch.now_s >= self._least_s and not self._waiting)
        return batch._replace(ended=True) if is_over else batch


def relive(simulation: Simulation, state: QueueState) -> None:
    """Let the time up to the instant pass, in which the jobs start that run at it."""
    running = [job for job in state.jobs if job.started_s is not None]
    for job in sorted(running, key=lambda job: (job.started_s or 0.0, job.spec.job_id)):
        assert job.started_s is not None
        simulation.advance_until(job.started_s, (), elapsed_s=0.0, seq=0)
        number, free = job.spec.job_id, simulation.cluster.free
        found = simulation.jobs.waiting.get(number)
        if found is None or any(free[n] < c for n, c in zip(job.nodes, job.cores, strict=True)):
            raise ForecastError(f"job {number} cannot run where it does, on nodes {job.nodes}")
        start_on(simulation, found, job.nodes, list(job.cores))
    simulation.advance_until(state.now_s, (), elapsed_s=0.0, seq=0)


def table_of(jobs: Iterable[QueuedJob], run_s: Mapping[int, float]) -> JobTable:
    """Return the jobs as a workload."""
    specs = sorted((job.spec for job in jobs), key=lambda job: (job.submit_s, job.job_id))
    columns: dict[str, Any] = {name: [getattr(each, name) for each in specs] for name in PLAIN}
    columns["run_s"] = [run_s[each.job_id] for each in specs]
    names = {}
    for name in NAMED:
        columns[name], names[name] = coded([getattr(each, name) for each in specs])
    requests = [(row, each.request) for row, each in enumerate(specs) if each.request is not None]
    codes = {row: code for code, (row, _) in enumerate(requests)}
    return job_table(
        names=names,
        requests=tuple(request for _, request in requests),
        request=[codes.get(row, -1) for row in range(len(specs))],
        placement=[PLACEMENTS.index(each.placement) for each in specs],
        **columns,
    )
