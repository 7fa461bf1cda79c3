"""A lower bound of the mean response of rigid jobs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.running.library import LoadedScenario


def least_mean_response(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return a lower bound of `mean_response_s` over all schedules without preemption, s.

    It is the mean run time, or a relaxation if that is greater. The relaxation takes a job of q
    cores and run time p on m cores as a job of the length q p / m on one machine, whose mean busy
    time, the mean of the times at which it runs, is M. The job ends at M + p / 2, because it holds
    q cores for p. Of all schedules of the one machine, also those with preemption, the one that
    always runs the submitted job of the least length has the least sum of M. The bound knows true
    run times and all submissions. Source: Goemans, Queyranne, Schulz, Skutella, Wang 2002: "Single
    machine scheduling with release dates", section 2, with equal weights.
    """
    groups = loaded.scenario.platform.nodes
    reference_ghz = loaded.scenario.workload.reference_clock_ghz
    if reference_ghz is not None or any(p.contention for g in groups for p in g.processors):
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: the bound needs run times that are equal on all "
            "nodes"
        )
    jobs = loaded.jobs
    length_s = jobs.cores * jobs.run_s / loaded.scenario.platform.core_count
    busy_s = mean_busy_times(jobs.submit_s.tolist(), length_s.tolist())
    relaxed_s = float((busy_s + jobs.run_s / 2 - jobs.submit_s).mean())
    return max(float(jobs.run_s.mean()), relaxed_s)


def mean_busy_times(submit_s: Sequence[float], length_s: Sequence[float]) -> Floats:
    """Return mean busy times whose sum is the least on one machine, float64[jobs], s.

    Args:
        submit_s: submission of each job, s; never decreases.
        length_s: length of each job, s; above 0.
    """
    left, moment = list(length_s), [0.0] * len(length_s)
    waiting: list[tuple[float, int]] = []
    now_s, coming, count = 0.0, 0, len(length_s)
    while waiting or coming < count:
        if not waiting:
            now_s = max(now_s, submit_s[coming])
        while coming < count and submit_s[coming] <= now_s:
            heapq.heappush(waiting, (length_s[coming], coming))
            coming += 1
        job = waiting[0][1]
        until_s = now_s + left[job]
        if coming < count and submit_s[coming] < until_s:
            until_s = submit_s[coming]
            left[job] -= until_s - now_s
        else:
            heapq.heappop(waiting)
        moment[job] += (until_s - now_s) * (until_s + now_s) / 2
        now_s = until_s
    busy_s: Floats = np.array(moment) / np.array(length_s)
    return busy_s
