"""Random clusters, windows of workloads and prices of waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.power.account import ON, Watts
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import JobTable

SWITCH_ON_S = (15.0, 2700.0)
"""Bounds of the time to switch a node on, log-uniform, s."""
SWITCH_OFF = (0.2, 1.0)
"""Bounds of the time to switch it off, relative to that."""
SWITCH_ON_W = (0.5, 1.5)
"""Bounds of the power while it is switched on, relative to that of the scenario."""
PRICE = (0.5, 20.0)
"""Bounds of the price of waiting, log-uniform, relative to the idle power of a node."""
LOAD = (0.4, 1.2)
"""Bounds of the factor on the arrival rate, log-uniform."""
TIMEOUT = (0.05, 20.0)
"""Bounds of the timeout, log-uniform, relative to the time to switch a node on."""
LEAST_JOBS = 40
LONG = 0.15
"""Share of long windows."""
LONG_FACTOR = 6
SPAN, LONG_SPAN = 600.0, 2400.0


class Instance(NamedTuple):
    """A cluster with jobs.

    Attributes:
        scenario: has the cluster.
        jobs: the jobs.
        wait_price_w: price of waiting, J/s.
        timeout_s: idle time after which nodes are switched off, s.
    """

    scenario: Scenario
    jobs: JobTable
    wait_price_w: float
    timeout_s: float


def workload_of(
    path: Path, overrides: Mapping[str, Scalar] | None = None
) -> tuple[Scenario, JobTable]:
    """Return a scenario and its jobs.

    Raises:
        ScenarioError: the scenario is invalid, or a node has several cores or no power states.
        WorkloadError: the workload is invalid.
    """
    library = Library([path], overrides)
    groups = library.first.platform.nodes
    if any(group.power_states is None or group.cores != 1 for group in groups):
        what = "expected nodes of one core with power_states, which the training changes at random"
        raise ScenarioError(what, path, field="$.platform.nodes")
    return library.first, library.first_jobs


def drawn(
    workloads: Sequence[tuple[Scenario, JobTable]], most_jobs: int, rng: np.random.Generator
) -> Instance:
    """Return a random instance.

    A window has at most `most_jobs` jobs, or `LONG_FACTOR` times as many if it is a long one; and
    fewer, if they take more than `SPAN` (`LONG_SPAN`) times as long as switching a node off and on.

    Args:
        workloads: scenarios with jobs, each equally likely.
        most_jobs: number of jobs of a window that is not long, >= 40.
        rng: random number generator.
    """
    scenario, jobs = workloads[int(rng.integers(len(workloads)))]
    on_s, off = _log_uniform(rng, SWITCH_ON_S), rng.uniform(*SWITCH_OFF)
    on_w, price = rng.uniform(*SWITCH_ON_W), _log_uniform(rng, PRICE)
    load, long = _log_uniform(rng, LOAD), bool(rng.random() < LONG)
    first = int(rng.integers(max(len(jobs) - LEAST_JOBS, 1)))
    span_s = (LONG_SPAN if long else SPAN) * on_s * (1.0 + off) * load
    last = int(jobs.submit_s.searchsorted(jobs.submit_s[first] + span_s))
    count = int(np.clip(last - first, LEAST_JOBS, most_jobs * (LONG_FACTOR if long else 1)))
    first = max(min(first, len(jobs) - count), 0)
    window = scale_load(window_by_number(jobs, first, first + count), load)
    platform = _with_times(scenario.platform, on_s, off * on_s, on_w)
    idle_w = float(Watts(platform).by_state[:, ON].mean())
    timeout_s = on_s * _log_uniform(rng, TIMEOUT)
    changed = msgspec.structs.replace(scenario, platform=platform)
    return Instance(changed, window, price * idle_w, timeout_s)


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))


def _with_times(platform: Platform, on_s: float, off_s: float, on_w: float) -> Platform:
    """Return a platform with other times to switch nodes, and another power while they boot."""
    groups = []
    for group in platform.nodes:
        assert group.power_states is not None
        states = msgspec.structs.replace(
            group.power_states,
            switch_on_s=on_s,
            switch_off_s=off_s,
            switch_on_w=on_w * group.power_states.switch_on_w,
        )
        groups.append(msgspec.structs.replace(group, power_states=states))
    return msgspec.structs.replace(platform, nodes=groups)
