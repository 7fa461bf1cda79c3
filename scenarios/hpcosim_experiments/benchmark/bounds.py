"""Lower bounds and oracles of the score of an instance, by name.

Other packages register theirs by entry points of the group `hpcosim.bounds`, each a `Bound`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_experiments.benchmark.suite import (
    BOUNDS,
    BenchmarkError,
    InstanceFile,
    Seal,
    Suite,
    digest_of,
    load_instance,
    policy_of,
)
from hpcosim_scenarios.planning.instance import Instance
from hpcosim_scenarios.planning.lower_bound import lower_bound
from hpcosim_scenarios.planning.optimum import find_optimum
from hpcosim_scenarios.running.library import LoadedScenario
from hpcosim_scenarios.running.run import run_chosen

MOST_SEARCHED = 20
"""Number of jobs up to which the optimum is searched: 0.3 s; it grows exponentially."""


class Bound(NamedTuple):
    """A bound of the score of an instance.

    Attributes:
        compute: function of the suite, an instance and the same loaded; its docstring is the
            definition.
        metrics: metrics of which one must be the score; empty: the bound fits every score.
    """

    compute: Callable[[Suite, InstanceFile, LoadedScenario], float]
    metrics: tuple[str, ...] = ()


def bounds() -> Mapping[str, Bound]:
    """Return all bounds by name."""
    return {
        "mean-response": Bound(least_mean_response, ("mean_response_s",)),
        "switching-oracle": Bound(clairvoyant_score),
        "pairing-search": Bound(least_energy_or_edp, ("energy_j", "edp_js")),
        **{point.name: point.load() for point in entry_points(group=BOUNDS)},
    }


def bound_of(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return the bound of an instance.

    Raises:
        BenchmarkError: the bound is not one of the suite's score or of the instance.
        OracleError, OptimumError, PolicyError, RunError: it cannot be computed.
    """
    name = suite.file.bound
    compute, metrics = bounds()[name]
    if metrics and suite.file.score not in [{metric: 1.0} for metric in metrics]:
        raise BenchmarkError(
            f"{suite.file.name}: score: the bound {name} is one of {' and '.join(metrics)}; "
            "expected that metric with the coefficient 1"
        )
    return compute(suite, instance, loaded)


def least_energy_or_edp(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return a lower bound of `energy_j` or `edp_js`.

    For each makespan that the nodes allow, jobs go where they cost the least energy above idle
    power, with no more jobs on a node than can end there by then; the nodes draw their idle power
    over the makespan. The bound is the minimum over all makespans, and holds for all schedules
    (`hpcosim_scenarios.planning.lower_bound` has the proof). Up to 20 jobs it is the optimum over
    the schedules that decide at submissions and completions, by branch and bound with that bound.
    """
    objective: Literal["energy", "edp"] = "edp" if "edp_js" in suite.file.score else "energy"
    if len(loaded.jobs) <= MOST_SEARCHED:
        return find_optimum(loaded.scenario, loaded.jobs, objective, "any").bound
    return lower_bound(Instance(loaded.scenario, loaded.jobs), objective)


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


def clairvoyant_score(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return the score of the power manager `oracle` with the scheduler of the reference.

    It knows all jobs, keeps the schedule of the run in which all nodes are always on, and switches
    nodes for the least wasted energy that delays no job. It is no lower bound: a scheduler with
    another order of jobs, or one that delays jobs, can have a smaller score.
    """
    scheduler, oracle = suite.file.reference.scheduler, {"name": "oracle"}
    chosen = policy_of(suite, instance, loaded, scheduler, oracle, "unaware")
    return suite.file.score_of(run_chosen(chosen, loaded).metrics)


def seals_of(suite: Suite) -> Iterator[Seal]:
    """Yield the seal of each instance of a suite.

    Args:
        suite: the suite; its seals are ignored.

    Raises:
        BenchmarkError: an instance has a part that no suite may have, or its bound is unknown.
        ScenarioError, WorkloadError, PolicyError, OracleError, RunError: an instance is invalid,
            or its reference or its bound fails.
    """
    suite = Suite(suite.file, suite.folder, {})
    file, reference = suite.file, suite.file.reference
    for instance in file.instances:
        loaded = load_instance(suite, instance)
        chosen = policy_of(
            suite,
            instance,
            loaded,
            reference.scheduler,
            reference.power,
            reference.power_awareness,
        )
        yield Seal(
            instance=instance.name,
            sha256=digest_of(loaded),
            jobs=len(loaded.jobs),
            bound=bound_of(suite, instance, loaded),
            reference=file.score_of(run_chosen(chosen, loaded).metrics),
        )
