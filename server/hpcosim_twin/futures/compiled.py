"""Futures of a queue on the compiled engine: the starts that the reference finds, sooner."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_client.view import View
from hpcosim_compiled.policies import missing_package
from hpcosim_protocol import JobRequest
from hpcosim_sim.engine.job_runs import change_node
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_twin.cluster.queue_state import NamedScheduler, QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.reference import (
    HORIZON_S,
    Outcome,
    end_of_time,
    idle_s,
    relive,
    simulated_outcome,
    simulated_starts,
    table_of,
)
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table

if TYPE_CHECKING:
    from hpcosim_compiled.queue import QueueEngine
    from hpcosim_compiled.state import State

MANY_JOBS = 300
"""Waiting jobs from which on the compiled engine is worth being compiled, for a minute."""


def starts_of(
    state: QueueState,
    run_s: Mapping[int, float],
    generator: Generator,
    future: Sequence[QueuedJob] = (),
    asked: QueuedJob | None = None,
) -> dict[int, float]:
    """Return when the waiting jobs start, s, as `simulated_starts` does, on the engine that can."""
    engine = queue_engine(state)
    if engine is not None and _is_worthwhile(engine, state, asked):
        found = engine.starts(run_s, generator, future, asked)
        if found is not None:
            return found
    return simulated_starts(state, run_s, generator, future, asked)


def outcomes_of(
    states: Sequence[QueueState],
    run_s: Mapping[int, float],
    seed: int,
    future: Sequence[QueuedJob],
    duration_s: float,
) -> list[Outcome]:
    """Return the outcomes of several queues, as `simulated_outcome` does, on one engine.

    Energies differ between engines in the last digits, which is no effect of a change.

    Args:
        seed: seed of what is drawn of each scheduler.
    """
    found = _compiled_outcomes(states, run_s, seed, future, duration_s)
    if found is not None:
        return found
    return [
        simulated_outcome(state, run_s, np.random.default_rng(seed), future, duration_s)
        for state in states
    ]


def _compiled_outcomes(
    states: Sequence[QueueState],
    run_s: Mapping[int, float],
    seed: int,
    future: Sequence[QueuedJob],
    duration_s: float,
) -> list[Outcome] | None:
    """Return the outcomes of queues; None: a queue is not supported, or not worth compiling."""
    found = []
    for state in states:
        engine = queue_engine(state)
        last = end_of_time(state, future, state.now_s + duration_s)
        if engine is None or not _is_worthwhile(engine, state, last):
            return None
        outcome = engine.outcome(run_s, np.random.default_rng(seed), future, duration_s)
        if outcome is None:
            return None
        found.append(outcome)
    return found


def _is_worthwhile(engine: CompiledFutures, state: QueueState, further: QueuedJob | None) -> bool:
    return engine.is_warm(further) or len(state.waiting) >= MANY_JOBS


def queue_engine(state: QueueState) -> CompiledFutures | None:
    """Return what simulates futures of a queue; None: the compiled engine does not support it.

    Those of the last two queues are kept: now, and after a change.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    for last, engine in _last:
        if last is state:
            return engine
    engine = _new_engine(state)
    _last.append((state, engine))
    return engine


_last: deque[tuple[QueueState, CompiledFutures | None]] = deque(maxlen=2)


def _new_engine(state: QueueState) -> CompiledFutures | None:
    if missing_package() or not isinstance(state.new_policy, SlurmAt | NamedScheduler):
        return None
    if not state.jobs and not state.past:
        return None  # the engine has no model of a job yet
    from hpcosim_compiled.queue import UnsupportedQueueError

    try:
        return CompiledFutures(state)
    except UnsupportedQueueError:
        return None


def compile_engine(state: QueueState, asked: QueuedJob | None = None) -> None:
    """Compile the engine for a queue of any length, unless that was done before."""
    engine = queue_engine(state)
    if engine is not None and not engine.is_warm(asked):
        jobs = state.jobs if asked is None else (*state.jobs, asked)
        run_s = dict.fromkeys((job.spec.job_id for job in jobs), math.inf)
        engine.starts(run_s, np.random.default_rng(0), (), asked)


class CompiledFutures:
    """Simulates the futures of a queue.

    Args:
        state: the queue; its scheduler is a `SlurmAt` or `NamedScheduler`.

    Raises:
        UnsupportedQueueError: the compiled engine does not support it.
        ForecastError: the jobs that run do not fit the cluster.
    """

    def __init__(self, state: QueueState) -> None:
        from hpcosim_compiled.queue import UnsupportedQueueError

        self._state = state
        waiting = _without_held(state)
        self._waiting = [spec for spec in waiting if spec.submit_s <= state.now_s]
        self._later = waiting[len(self._waiting) :]
        self._lacks_held = len(waiting) < len(state.waiting)
        self._has_conditions = _any_conditions(waiting, [job.spec for job in state.jobs])
        self._view, self._running = _running_jobs(state)
        specs = {job.spec.job_id: job.spec for job in state.jobs}
        numbers = [*self._running, *(spec.job_id for spec in self._waiting)]
        self._present = [specs[number] for number in numbers]
        self._numbers = np.array(numbers, np.int64)
        self._models: dict[tuple[Any, ...], int] = {}
        self._add_models([*state.past, *(job.spec for job in state.jobs)])
        if self._has_conditions and (missing := self._engine.unsupported(self._present)):
            raise UnsupportedQueueError(missing)

    def is_warm(self, further: QueuedJob | None = None) -> bool:
        """Return whether the engine need not be compiled.

        Args:
            further: a further job; None: there is none.
        """
        conditions = self._has_conditions or (further is not None and _waits_for_more(further.spec))
        return self._engine.is_warm(conditions=conditions)

    def starts(
        self,
        run_s: Mapping[int, float],
        generator: Generator,
        future: Sequence[QueuedJob] = (),
        asked: QueuedJob | None = None,
    ) -> dict[int, float] | None:
        """Return what `simulated_starts` does; None: only the reference can.

        Then, nothing is drawn.
        """
        added = [job.spec for job in (*future, *([] if asked is None else [asked]))]
        watched = [*self._waiting, *self._later] if asked is None else [asked.spec]
        found = self._simulated(run_s, generator, added, watched, self._state.now_s)
        return None if found is None else found[0]

    def outcome(
        self,
        run_s: Mapping[int, float],
        generator: Generator,
        future: Sequence[QueuedJob],
        duration_s: float,
    ) -> Outcome | None:
        """Return what `simulated_outcome` does; None: only the reference can.

        Then, nothing is drawn.
        """
        from hpcosim_compiled.energy import energy_between_j

        now_s, specs = self._state.now_s, [job.spec for job in future]
        last = end_of_time(self._state, future, now_s + duration_s).spec
        run_s, watched = {**run_s, last.job_id: 0.0}, [*self._waiting, *self._later, *specs]
        found = self._simulated(run_s, generator, [*specs, last], watched, now_s + duration_s)
        if found is None:
            return None
        return Outcome(found[0], energy_between_j(found[1], now_s, now_s + duration_s))

    def _simulated(
        self,
        run_s: Mapping[int, float],
        generator: Generator,
        added: Sequence[JobSpec],
        watched: Sequence[JobSpec],
        least_s: float,
    ) -> tuple[dict[int, float], State] | None:
        """Return the starts of watched jobs, and the state at the end; None: it is unsupported.

        Args:
            least_s: time before which the simulation does not end, s.
        """
        from hpcosim_compiled.queue import Ending, Submitted, UnsupportedQueueError

        now_s = self._state.now_s
        added = sorted([*self._later, *added], key=_order)
        conditions: list[JobSpec] = []
        if self._has_conditions or any(_waits_for_more(spec) for spec in added):
            conditions = [*self._present, *added]
            depend = any(spec.request is not None and spec.request.dependencies for spec in added)
            if (depend and self._lacks_held) or self._engine.unsupported(conditions):
                return None
        ends_s = [job.start_s + run_s[number] for number, job in self._view.running.items()]
        is_first = added and self._waiting and _order(added[0]) < _order(self._waiting[-1])
        if is_first or min(ends_s, default=np.inf) <= now_s:
            return None
        try:
            models = self._rows_of(added)
        except UnsupportedQueueError:
            return None
        submitted = Submitted(
            np.array(models, np.int64),
            np.array([spec.job_id for spec in added], np.int64),
            np.array([spec.submit_s for spec in added], np.float64),
        )
        if not self._engine.supports(submitted):
            return None
        numbers = np.append(self._numbers, submitted.job_id)
        times_s = np.array([run_s[number] for number in numbers.tolist()], np.float64)
        is_watched = np.isin(numbers, [spec.job_id for spec in watched if not _is_held(spec)])
        policy = self._state.new_policy
        site = policy.drawn(generator) if isinstance(policy, SlurmAt) else None
        ending = Ending(least_s + HORIZON_S, idle_s(self._state), least_s)
        state = self._engine.simulated(times_s, is_watched, submitted, ending, site, conditions)
        starts_s = state.jobs.start_s
        is_found = is_watched & ~np.isnan(starts_s)
        found = zip(numbers[is_found].tolist(), starts_s[is_found].tolist(), strict=True)
        return dict(found), state

    def _rows_of(self, specs: Sequence[JobSpec]) -> list[int]:
        """Return the rows of the models of jobs, which are added if they are missing."""
        keys = [_key(spec) for spec in specs]
        if not all(key in self._models for key in keys):
            self._add_models(specs)
        return [self._models[key] for key in keys]

    def _add_models(self, specs: Iterable[JobSpec]) -> None:
        """Make the engine anew with models of further jobs."""
        from hpcosim_compiled.queue import Queue, QueueEngine, RunningJob

        models = getattr(self, "_specs", {})
        models = {**models, **{_key(spec): spec for spec in map(_plain, specs)}}
        state, view, policy = self._state, self._view, self._state.new_policy
        present = [*self._running.values(), *map(_plain, self._waiting)]
        running = []
        for number in self._running:
            job = view.running[number]
            assert job.allocation is not None
            running.append(RunningJob(job.start_s, job.allocation))
        queue = Queue(
            state.now_s,
            state.platform,
            _table([*present, *models.values()]),
            running,
            len(self._waiting),
            view.nodes.amounts,
            tuple(state.unavailable),
        )
        name, site = "slurm", None
        if isinstance(policy, NamedScheduler):
            name = policy.name
        elif isinstance(policy, SlurmAt):
            site = policy.site
        self._engine: QueueEngine = QueueEngine(queue, name, site)
        self._specs = models
        self._models = {key: len(present) + row for row, key in enumerate(models)}


def _running_jobs(state: QueueState) -> tuple[View, dict[int, JobSpec]]:
    """Return the view of a scheduler that joins, and the running jobs as it learns of them."""
    running = [
        job._replace(spec=_plain(job.spec)) for job in state.jobs if job.started_s is not None
    ]
    view = View(state.platform)
    if not running:
        for node in state.unavailable:
            view.nodes.drain(node)
        return view, {}
    run_s = dict.fromkeys((job.spec.job_id for job in running), np.inf)
    simulation = Simulation(state.platform, table_of(running, run_s))
    relive(simulation, QueueState(state.now_s, state.platform, running, state.new_policy))
    specs = {number: job.spec for number, job in simulation.jobs.running.items()}
    for node in state.unavailable:
        change_node(simulation, "drain", node)
    view.apply(simulation.now_s, simulation.snapshot())
    order = view.running.keys() - set[int]()  # the order of a set, as in `Limits.update`
    return view, {number: specs[number] for number in order}


def _waits_for_more(spec: JobSpec) -> bool:
    """Return whether a job may wait for more than resources."""
    from hpcosim_compiled.eligibility import waits_for_more

    return waits_for_more(spec.request)


def _is_held(spec: JobSpec) -> bool:
    return spec.request is not None and spec.request.hold


def _any_conditions(waiting: Iterable[JobSpec], jobs: Iterable[JobSpec]) -> bool:
    """Return whether a waiting job waits for more than resources, or for tasks of its array."""
    requests = [spec.request for spec in jobs if spec.request is not None]
    limited = {request.array_id for request in requests if request.array_limit} - {None}
    return any(
        _waits_for_more(spec) or (spec.request is not None and spec.request.array_id in limited)
        for spec in waiting
    )


def _without_held(state: QueueState) -> list[JobSpec]:
    """Return the waiting jobs in submission order, without held ones that concern no others.

    They do if others wait for more than resources, or if the site may limit the number of jobs.
    """
    waiting = sorted((job.spec for job in state.waiting), key=_order)
    others = [spec for spec in waiting if not _is_held(spec)]
    policy = state.new_policy
    counts = isinstance(policy, SlurmAt) and not {"limits", "safe"}.isdisjoint(policy.site.enforce)
    every = (job.spec for job in state.jobs)
    return waiting if counts or _any_conditions(others, every) else others


def _plain(spec: JobSpec) -> JobSpec:
    """Return a job without what only decides when it may start, or does not concern a policy."""
    request = spec.request
    if request is not None:
        request = replace(
            request,
            name="",
            hold=False,
            begin_s=None,
            dependencies=(),
            any_dependency=False,
            array_id=None,
            array_index=0,
            array_limit=0,
            requeue=False,
        )
        request = None if request == JobRequest() else request
    return spec._replace(request=request)


def _order(spec: JobSpec) -> tuple[float, int]:
    return spec.submit_s, spec.job_id


def _key(spec: JobSpec) -> tuple[Any, ...]:
    """Return what two jobs have in common that are alike for a policy."""
    request = _plain(spec).request
    return (
        *(getattr(spec, name) for name in NAMED),
        *(spec.cores, spec.placement, spec.requested_s, spec.memory_mb, spec.deadline_s),
        b"" if request is None else msgspec.json.encode(request),
    )


def _table(specs: Sequence[JobSpec]) -> JobTable:
    """Return jobs as a table in their order, in which equal requests have one number."""
    columns: dict[str, Any] = {
        name: [getattr(spec, name) for spec in specs]
        for name in ("job_id", "submit_s", "requested_s", "cores", "memory_mb", "deadline_s")
    }
    names = {}
    for name in NAMED:
        columns[name], names[name] = coded([getattr(spec, name) for spec in specs])
    requests: dict[bytes, JobRequest] = {}
    codes: dict[bytes, int] = {}
    numbers = []
    for spec in specs:
        if spec.request is None:
            numbers.append(-1)
            continue
        text = msgspec.json.encode(spec.request)
        requests.setdefault(text, spec.request)
        numbers.append(codes.setdefault(text, len(codes)))
    return job_table(
        names=names,
        requests=tuple(requests.values()),
        request=numbers,
        placement=[PLACEMENTS.index(spec.placement) for spec in specs],
        run_s=0.0,
        **columns,
    )
