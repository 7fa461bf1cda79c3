"""The offered load and the dropped jobs of a workload, and whether a scenario draws numbers."""

from __future__ import annotations

import numpy as np

from hpcosim_protocol import Platform
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.signals import draws_forecasts
from hpcosim_workloads.table import DROPS, JobTable

LOW, HIGH = 0.01, 1.0  # offered loads outside are probably a mistake
USUAL = 0.7  # the load that a warning recommends
MOST_DROPPED = 0.05  # share of the jobs of a log that may be dropped without a warning


def offered_load(jobs: JobTable, platform: Platform, reference_ghz: float | None) -> float | None:
    """Return the offered load: requested core-seconds / (cores x span of submissions).

    Above 1 the platform cannot keep up with the submissions. Run times that depend on the node are
    those on a core of average speed.

    Args:
        jobs: the jobs, in order of submission.
        platform: the cluster.
        reference_ghz: clock at which run times hold; None: they hold on every node.

    Returns:
        The load, a share of 1; None: all jobs are submitted at one instant.
    """
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0]) if len(jobs) else 0.0
    if not span_s:
        return None
    ghz = np.where(jobs.ops > 0.0, 1.0, reference_ghz or np.nan)  # nan: the same on every node
    scale = np.nan_to_num(ghz * 1e9 / _mean_ops_per_s(platform), nan=1.0)
    return float(jobs.cores @ (jobs.run_s * scale)) / (platform.core_count * span_s)


def load_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return a warning if the offered load is below `LOW` or above `HIGH`.

    Jobs that the scenario lists have none: such examples are often short on purpose.
    """
    if scenario.workload.inline is not None:
        return []
    load = offered_load(jobs, scenario.platform, scenario.workload.reference_clock_ghz)
    if load is None or LOW <= load <= HIGH:
        return []
    factor = float(f"{scenario.workload.load * USUAL / load:.2g}") if load else 0.0
    change = f"; --set workload.load={factor:g} makes it about {USUAL:g}" if factor else ""
    if load < LOW:
        return [f"the offered load is {load:.2g}, so jobs rarely wait{change}"]
    return [f"the offered load is {load:.3g}, so the queue grows until the last submission{change}"]


def drop_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return a warning if the reader dropped more than `MOST_DROPPED` of the selected jobs."""
    if scenario.workload.synthetic is not None:  # the counts are those of the whole log
        return []
    dropped = sum(count for rule, count in jobs.skipped.items() if rule in DROPS)
    total = dropped + len(jobs)
    if dropped <= MOST_DROPPED * total:
        return []
    return [f"{dropped} of {total} jobs of the log were dropped: {jobs.rules.drops()}"]


def draws_numbers(scenario: Scenario) -> bool:
    """Return whether jobs, switching times, forecasts or failures depend on the seed."""
    if scenario.workload.synthetic is not None or draws_forecasts(scenario.signals):
        return True
    if scenario.failures is not None and scenario.failures.random:
        return True
    states = [group.power_states for group in scenario.platform.nodes if group.power_states]
    return any(each.switch_on_sd_s > 0.0 or each.switch_off_sd_s > 0.0 for each in states)


def _mean_ops_per_s(platform: Platform) -> float:
    """Return the mean speed of all cores, operations per second."""
    total = sum(
        group.count * each.cores * each.ops_per_s
        for group in platform.nodes
        for each in group.processors
    )
    return total / platform.core_count
