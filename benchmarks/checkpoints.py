"""The checkpoint interval with the least run time, simulated, beside the formulas.

A job computes for a long time on a node that fails at exponential times. It writes checkpoints at a
cost C and is requeued after each failure; repairs take no time. The mean time to its end is
simulated for intervals around the optimum by Daly, and the optimum is the minimum of a parabola
through the means over the logarithm of the interval. The expected time is also known exactly (Daly
2006, equation 20): with M the mean time between failures and R the time to read a checkpoint, a job
of W takes M exp(R/M) (exp((t + C)/M) - 1) W / t.

`python -m benchmarks.checkpoints [JOBS]` prints a table; JOBS is the number of simulated jobs for
each interval (default 40).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from hpcosim_protocol import (
    AllocateJob,
    Checkpointing,
    EventKind,
    JobRequest,
    NodeGroup,
    Platform,
    Processor,
)
from hpcosim_schedulers.heuristics.young_daly import daly_s, young_s
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import Distribution, FailureModel, SiteEvents
from hpcosim_workloads.table import JobTable, job_table

CASES = ((300.0, 86_400.0), (600.0, 21_600.0), (1800.0, 14_400.0))
"""Cost of a checkpoint and mean time between failures, s."""

WORK_MTBF = 500
"""Computing time of a job / mean time between failures."""

AROUND = (0.4, 0.55, 0.75, 1.0, 1.35, 1.8, 2.5)
"""Simulated intervals / Daly's optimum."""

NO_TIME_S = 1e-3


def simulated_s(cost_s: float, mtbf_s: float, interval_s: float, jobs: int, seed: int) -> float:
    """Return the mean time to the end of jobs, s, divided by their computing time.

    Args:
        cost_s: time to write and to read a checkpoint, s.
        mtbf_s: mean time between failures of the node of each job, s.
        interval_s: computing time between two checkpoints, s.
        jobs: number of jobs, each alone on a node.
        seed: seed of the failures.
    """
    work_s = WORK_MTBF * mtbf_s
    platform = Platform((NodeGroup(jobs, (Processor(1),)),))
    failures = FailureModel(
        tuple(range(jobs)), Distribution("exponential", mtbf_s), Distribution("constant", NO_TIME_S)
    )
    simulation = Simulation(
        platform,
        _jobs(jobs, work_s, Checkpointing(cost_s, interval_s, cost_s)),
        site_events=SiteEvents(failure_models=(failures,)),
        failure_rng=np.random.default_rng(seed),
    )
    wake_on: tuple[EventKind, ...] = ("node_repaired",)
    batch = simulation.advance(wake_on=["no_more_jobs"])
    while not batch.ended:
        decisions = [
            AllocateJob(job_id, [job_id - 1])
            for job_id in simulation.jobs.waiting
            if simulation.availability.has(job_id - 1)
        ]
        batch = simulation.advance(decisions, wake_on=wake_on)
    return float(np.mean(np.array(simulation.recording.end_s))) / work_s


def expected(cost_s: float, mtbf_s: float, interval_s: float) -> float:
    """Return the expected time of a job / its computing time (Daly 2006, equation 20)."""
    growth = math.exp((interval_s + cost_s) / mtbf_s) - 1.0
    return mtbf_s * math.exp(cost_s / mtbf_s) * growth / interval_s


def optimum_s(intervals_s: Sequence[float], times: Sequence[float]) -> float:
    """Return the interval with the least time, by a polynomial over the logarithm, s."""
    logs = np.log(intervals_s)
    middle = float(logs.mean())
    curve = np.polynomial.Polynomial.fit(logs - middle, times, 4)
    fine = np.linspace(logs[0], logs[-1], 10_001) - middle
    return float(np.exp(fine[np.argmin(curve(fine))] + middle))


def _jobs(count: int, work_s: float, checkpointing: Checkpointing) -> JobTable:
    return job_table(
        job_id=range(1, count + 1),
        submit_s=[0.0] * count,
        run_s=[work_s] * count,
        requested_s=[work_s] * count,
        request=[0] * count,
        requests=(JobRequest(requeue=True, checkpointing=checkpointing),),
    )


def main(jobs: int) -> None:
    """Print the table."""
    print("cost s, MTBF s, Young s, Daly s, simulated optimum s, overhead there, at Daly, theory")
    for seed, (cost_s, mtbf_s) in enumerate(CASES):
        daly = daly_s(cost_s, mtbf_s)
        intervals_s = [daly * factor for factor in AROUND]
        # The same failures for each interval: differences between intervals are not luck.
        times = [simulated_s(cost_s, mtbf_s, each_s, jobs, seed) for each_s in intervals_s]
        best_s = optimum_s(intervals_s, times)
        at_best = simulated_s(cost_s, mtbf_s, best_s, jobs, seed)
        at_daly = times[AROUND.index(1.0)]
        print(
            f"{cost_s:.0f}, {mtbf_s:.0f}, {young_s(cost_s, mtbf_s):.0f}, {daly:.0f}, "
            f"{best_s:.0f}, {100 * (at_best - 1):.2f} %, {100 * (at_daly - 1):.2f} %, "
            f"{100 * (expected(cost_s, mtbf_s, daly) - 1):.2f} %",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
