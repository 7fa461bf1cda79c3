"""Futures of a queue of Slurm: the compiled engine beside the reference, in one run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.cases import equal_nodes
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_twin.cluster.observation import EndedJob
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, SlurmAt
from hpcosim_twin.futures.forecast import forecast_starts
from hpcosim_twin.futures.reference import simulated_outcome, simulated_starts
from hpcosim_workloads.table import JobSpec

NODES, CORES = 64, 32
NOW_S = 100_000.0
USERS = 20
SETTINGS = {"priority": {"weight_age": 1000, "weight_job_size": 500, "max_age_s": 604_800}}


def run(smoke: bool) -> dict[str, float]:
    """Return CPU times of futures, and of the reference / of the compiled engine."""
    try:
        from hpcosim_twin.futures.compiled import CompiledFutures
    except ImportError:
        return {}
    figures = {}
    for waiting in (20,) if smoke else (50, 200, 1000):
        state, run_s = queue(waiting)
        engine = CompiledFutures(state)
        engine.starts(run_s, np.random.default_rng(0))  # loads its code

        def compiled(engine: CompiledFutures = engine, run_s: dict[int, float] = run_s) -> object:
            return engine.starts(run_s, np.random.default_rng(0))

        def reference(state: QueueState = state, run_s: dict[int, float] = run_s) -> object:
            return simulated_starts(state, run_s, np.random.default_rng(0))

        compiled_s, reference_s = _cpu_s(compiled), _cpu_s(reference)
        name = f"{waiting} waiting jobs"
        figures[f"{name}, a future: reference / compiled"] = reference_s / compiled_s
        figures[f"{name}, a future, compiled, s"] = compiled_s
    state, run_s = queue(20 if smoke else 200)
    figures |= _of_outcomes(state, run_s)
    futures = 3 if smoke else 200
    answer_s = _cpu_s(lambda: forecast_starts(state, history(), futures, seed=0))
    figures[f"{len(state.waiting)} waiting jobs, {futures} futures, an answer, s"] = answer_s
    if not smoke:
        state, run_s = queue(10_000)
        figures["10,000 waiting jobs, tables, s"] = _cpu_s(lambda: CompiledFutures(state))
        engine = CompiledFutures(state)
        future_s = _cpu_s(lambda: engine.starts(run_s, np.random.default_rng(0)))
        figures["10,000 waiting jobs, a future, compiled, s"] = future_s
    return figures


def _of_outcomes(state: QueueState, run_s: dict[int, float]) -> dict[str, float]:
    """Return CPU times of what a change does in a future: some nodes get no more jobs."""
    from hpcosim_twin.futures.compiled import CompiledFutures

    states = [state, replace(state, unavailable=tuple(range(4)))]
    engines, chance = [CompiledFutures(each) for each in states], np.random.default_rng

    def compiled() -> object:
        return [each.outcome(run_s, chance(0), (), 7200.0) for each in engines]

    def reference() -> object:
        return [simulated_outcome(each, run_s, chance(0), (), 7200.0) for each in states]

    compiled()  # loads its code
    compiled_s, reference_s = _cpu_s(compiled), _cpu_s(reference)
    name = f"{len(state.waiting)} waiting jobs, a change"
    return {
        f"{name}, a future: reference / compiled": reference_s / compiled_s,
        f"{name}, a future, compiled, s": compiled_s,
    }


def queue(waiting: int, seed: int = 0) -> tuple[QueueState, dict[int, float]]:
    """Return a full cluster with waiting jobs, and the run time of each job."""
    random = np.random.default_rng(seed)
    jobs, run_s = [], {}
    free, number = NODES * CORES, 0
    while waiting > 0:
        number += 1
        cores = int(random.choice([1, 4, 16, 32, 64, 128, 256]))
        limit_s = float(random.choice([600, 3600, 14_400, 43_200, 86_400]))
        submit_s = NOW_S - limit_s - float(random.random()) * 40_000.0
        user = f"user{random.integers(USERS)}"
        spec = JobSpec(number, submit_s, math.nan, limit_s, cores, "cores", user=user)
        ran_s = 0.0
        if free >= cores:
            first, ran_s = NODES * CORES - free, limit_s * float(random.random())
            places = dict.fromkeys(range(first // CORES, -(-(first + cores) // CORES)), 0)
            for core in range(first, first + cores):
                places[core // CORES] += 1
            started_s = NOW_S - ran_s
            jobs.append(QueuedJob(spec, started_s, tuple(places), tuple(places.values())))
            free -= cores
        else:
            waiting -= 1
            jobs.append(QueuedJob(spec))
        run_s[number] = ran_s + 1.0 + (limit_s - ran_s) * float(random.random()) ** 2
    jobs.sort(key=lambda job: (job.spec.submit_s, job.spec.job_id))
    policy = SlurmAt(parse_site(SETTINGS), NOW_S, None)
    return QueueState(NOW_S, equal_nodes(NODES, CORES), jobs, policy), run_s


def history(count: int = 500) -> list[EndedJob]:
    """Return ended jobs of the users."""
    random = np.random.default_rng(1)
    return [
        EndedJob(f"user{random.integers(USERS)}", limit_s, limit_s * float(random.random()) ** 2)
        for limit_s in random.choice([600.0, 3600.0, 14_400.0, 43_200.0], count).tolist()
    ]


def _cpu_s(function: Callable[[], object]) -> float:
    began_s = time.process_time()
    function()
    return time.process_time() - began_s
