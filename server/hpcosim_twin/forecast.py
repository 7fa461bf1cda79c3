"""Start forecasts: simulations from an instant on, with drawn run times and submissions."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_client import play
from hpcosim_experiments.executors import ParallelMap
from hpcosim_protocol import Decision, EventKind, JobRequest, JobStarted
from hpcosim_schedulers.forecast import Arrivals
from hpcosim_sim.engine.job_runs import change_node
from hpcosim_sim.engine.simulation import Batch, Rules, Simulation
from hpcosim_sim.errors import SimulationStuck
from hpcosim_slurm.worlds.live_engine import start_on
from hpcosim_twin.observation import (
    DrawnRunTimes,
    EndedJob,
    ForecastError,
    JobRunTimes,
    learned,
)
from hpcosim_twin.queue_state import NamedScheduler, QueuedJob, QueueState
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table

PLAIN = ("job_id", "submit_s", "requested_s", "cores", "memory_mb", "deadline_s")

IDLE_S = 3600.0
"""Time without running jobs after which the jobs that wait never start, s.

Jobs wait endlessly whose partition is down or whose limits forbid a start. Periodic work of Slurm,
which could start a job of an idle cluster, has much shorter periods.
"""
HORIZON_S = 14 * 86_400.0
"""Time after which starts are not forecast, s: jobs without time limits may run for a year."""

LONGEST_S = 86_400.0
"""Longest time for which submissions are drawn, s."""
MOST = 5000
"""Maximum number of submissions of a simulation, the first ones."""
REMEMBERED = 16
"""Number of last jobs of each kind of which a drawn job may be a copy."""
END = 0.1
"""Probability that submissions have ended with the last one."""


def starts_of(
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
    rules = Rules(kill_at_walltime=isinstance(state.new_policy, NamedScheduler))
    simulation = Simulation(state.platform, table_of([*state.jobs, *added], run_s), rules)
    relive(simulation, state)
    for node in state.unavailable:
        change_node(simulation, "drain", node)
    snapshot = (simulation.now_s, simulation.snapshot())
    policy = state.new_policy(generator)

    watched = [job.spec.job_id for job in (state.waiting if asked is None else [asked])]
    waiting = set(watched)
    with suppress(SimulationStuck):  # the jobs that are left never start
        play(policy, state.platform, _Link(simulation, waiting), snapshot)
    recording = simulation.recording
    started = dict(zip(recording.job_id, recording.start_s, strict=True))
    found = {number: float(started[number]) for number in watched}
    return {number: start_s for number, start_s in found.items() if start_s == start_s}


class _Link:
    """Passes decisions to a simulation, until all jobs started or no further start is expected.

    Args:
        simulation: the simulation, at the instant of the forecast.
        waiting: numbers of the jobs whose starts are of interest; those that start are removed.
    """

    def __init__(self, simulation: Simulation, waiting: set[int]) -> None:
        self._simulation, self._waiting = simulation, waiting
        self._busy_s = simulation.now_s  # when jobs ran last, or one was to become eligible
        self._until_s = simulation.now_s + HORIZON_S

    def __call__(
        self, decisions: Sequence[Decision], wake_on: Collection[EventKind] | None, elapsed_s: float
    ) -> Batch:
        """Carry out decisions; see `Simulation.advance`."""
        simulation = self._simulation
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        if simulation.jobs.running or simulation.jobs.allocated or simulation.eligibility.expects:
            self._busy_s = batch.now_s
        self._waiting.difference_update(
            event.job_id for event in batch.events if isinstance(event, JobStarted)
        )
        is_over = batch.now_s > min(self._busy_s + IDLE_S, self._until_s) or not self._waiting
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


class Submissions:
    """Future submissions of a cluster, as copies of past ones at other times.

    `hpcosim_schedulers.forecast.Arrivals` draws time, user, number of cores and requested time. The
    job is a copy of one of the last that asked for the same, of the same user if possible, with
    its account, partition and requirements.

    Submissions may end, which `Arrivals` does not know, such as with a semester or an experiment.
    With probability `END` the last submission was the end. If x submissions were expected since
    (`Arrivals.missed`) and none came, the probability of the end is, by Bayes' rule,
    END / (END + (1 - END) exp(-x)). In a simulation after the end, nothing is submitted.

    Args:
        state: the cluster; all that has been submitted is taken from it.
        beside: number of jobs, submitted now, that get the first numbers.
    """

    def __init__(self, state: QueueState, beside: int = 0) -> None:
        self._now_s = state.now_s
        self._arrivals = Arrivals()
        self._copies: dict[tuple[str | None, float, float], deque[JobSpec]]
        self._copies = defaultdict(lambda: deque(maxlen=REMEMBERED))
        every = [*state.past, *(job.spec for job in state.jobs)]
        # Without a partition of the platform a job is none that could run.
        known = [job for job in every if job.partition or not state.platform.partitions]
        for job in sorted(known, key=lambda job: (job.submit_s, job.job_id)):
            submit_s = min(job.submit_s, state.now_s)
            self._arrivals.submitted(submit_s, job.user, float(job.cores), job.requested_s)
            for user in (job.user, None):
                self._copies[user, float(job.cores), job.requested_s].append(job)
        self._goes_on = (1.0 - END) * math.exp(-self._arrivals.missed(state.now_s))
        self._first = 1 + beside + max((job.job_id for job in every), default=0)
        self._copies.default_factory = None  # which could not be sent to other processes

    def drawn(
        self,
        horizon_s: float,
        generator: Generator,
        longest_s: float = LONGEST_S,
        most: int = MOST,
    ) -> list[QueuedJob]:
        """Return the submissions of one simulation, in the order of time: the first `most`."""
        has_ended = generator.random() * (END + self._goes_on) < END
        if has_ended or not self._copies:
            return []
        horizon_s = min(horizon_s, longest_s)
        found = self._arrivals.scenarios(self._now_s, horizon_s, 1, generator)
        places = generator.random(len(found.submit_s)).tolist()
        columns = (found.submit_s, found.user, found.size, found.requested_s)
        drawn = zip(*(column[:most].tolist() for column in columns), places[:most], strict=True)
        jobs = []
        for number, (submit_s, user, cores, requested_s, place) in enumerate(drawn):
            name = found.users[user] if user >= 0 else None
            copies = self._copies.get((name, cores, requested_s), ())
            copies = copies or self._copies[None, cores, requested_s]
            jobs.append(
                QueuedJob(_copy(copies[int(place * len(copies))], self._first + number, submit_s))
            )
        return jobs


def _copy(job: JobSpec, number: int, submit_s: float) -> JobSpec:
    """Return a new job that asks for the same, without conditions on times and other jobs."""
    request = job.request
    if request is not None:
        request = replace(
            request,
            hold=False,
            begin_s=None,
            dependencies=(),
            array_id=None,
            array_index=0,
            array_limit=0,
        )
        request = None if request == JobRequest() else request
    return job._replace(job_id=number, submit_s=submit_s, request=request)


Task = TypeVar("Task")
Result = TypeVar("Result")

LOW, HIGH = 0.1, 0.9
"""The range that is reported, as quantiles of the drawn starts."""


class StartForecast(NamedTuple):
    """When a waiting job will start.

    Attributes:
        median_s: median of the drawn starts, s; infinity: in half of them it never starts.
        low_s: their 10 % quantile, s.
        high_s: their 90 % quantile, s.
        at_limits_s: its start if each job runs until its limit, s; infinity: never.
    """

    job_id: int
    median_s: float
    low_s: float
    high_s: float
    at_limits_s: float


def forecast_starts(
    state: QueueState,
    history: Iterable[EndedJob],
    samples: int,
    seed: int,
    parallel: ParallelMap | None = None,
) -> list[StartForecast]:
    """Return a forecast for each waiting job, in the order of `state.jobs`.

    Args:
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    waiting = [job.spec.job_id for job in state.waiting]
    if not waiting:
        return []
    first, *seeds = np.random.SeedSequence(seed).spawn(samples + 1)
    limits = at_limits(state, np.random.default_rng(first))
    latest_s = max(limits.values(), default=state.now_s)
    knowledge = Knowledge(state, learned(history), Submissions(state), latest_s - state.now_s)
    mapped = parallel or one_after_another
    found = mapped(partial(drawn_starts, knowledge), seeds)
    drawn = np.array([[starts.get(number, math.inf) for number in waiting] for starts in found])
    median, low, high = np.quantile(drawn, (0.5, LOW, HIGH), axis=0, method="inverted_cdf").tolist()
    return [
        StartForecast(number, median[at], low[at], high[at], limits.get(number, math.inf))
        for at, number in enumerate(waiting)
    ]


def at_limits(
    state: QueueState, generator: Generator, asked: QueuedJob | None = None
) -> dict[int, float]:
    """Return the starts if each job runs until its limit and none is submitted, as `starts_of`."""
    jobs = state.jobs if asked is None else (*state.jobs, asked)
    run_s = dict.fromkeys((job.spec.job_id for job in jobs), math.inf)
    return starts_of(state, run_s, generator, asked=asked)


class Knowledge(NamedTuple):
    """What is known at an instant.

    Attributes:
        horizon_s: duration for which submissions matter, s: the latest start if all jobs run until
            their limits and no job is submitted.
        asked: a job that is not submitted, whose start is of interest; None: all others' are.
    """

    state: QueueState
    run_times: JobRunTimes
    submissions: Submissions
    horizon_s: float
    asked: QueuedJob | None = None


def drawn_starts(knowledge: Knowledge, seed: np.random.SeedSequence) -> dict[int, float]:
    """Return the starts of one simulation with drawn submissions and run times, as `starts_of`."""
    return _drawn(knowledge, seed)[0]


class StartedRun(NamedTuple):
    """A run of the asked job in a simulation, s; infinity: it does not start."""

    start_s: float
    end_s: float


def drawn_run(knowledge: Knowledge, seed: np.random.SeedSequence) -> StartedRun:
    """Return the run of the asked job in one simulation, whose draws do not depend on that job."""
    assert knowledge.asked is not None
    starts, run_s = _drawn(knowledge, seed)
    spec = knowledge.asked.spec
    start_s = starts.get(spec.job_id, math.inf)
    return StartedRun(start_s, start_s + min(run_s[spec.job_id], spec.requested_s))


def _drawn(
    knowledge: Knowledge, seed: np.random.SeedSequence
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the starts of one simulation, and the run time of each job, by number."""
    generator = np.random.default_rng(seed)
    state, run_times = knowledge.state, DrawnRunTimes(knowledge.run_times, generator)
    future = knowledge.submissions.drawn(knowledge.horizon_s, generator)
    asked, of_policy = [], generator
    if knowledge.asked is not None:  # draws of the policy do not depend on the job
        asked, of_policy = [knowledge.asked], np.random.default_rng(generator.integers(1 << 62))
    run_s = {
        job.spec.job_id: run_times.of(
            job.spec, 0.0 if job.started_s is None else state.now_s - job.started_s
        )
        for job in (*state.jobs, *future, *asked)
    }
    return starts_of(state, run_s, of_policy, future, knowledge.asked), run_s


def one_after_another(function: Callable[[Task], Result], items: Iterable[Task]) -> list[Result]:
    """Return the result of a function for each item."""
    return [function(each) for each in items]
