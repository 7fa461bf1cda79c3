"""The identity of the jobs that a scenario reads or draws, before it selects from them."""

from __future__ import annotations

import msgspec

from hpcosim_scenarios.model.scenario import Scenario

SHAPING = ("window_s", "jobs", "divide_cores", "max_cores", "load", "reference_clock_ghz")
"""Keys of a workload that apply to jobs that are already read."""


def table_identity(scenario: Scenario, *, seed: bool = True) -> bytes:
    """Return a key that is equal for scenarios that read or draw the same jobs.

    Args:
        scenario: the scenario; its paths are absolute.
        seed: include the seed of a model that draws jobs.
    """
    workload = msgspec.to_builtins(scenario.workload)
    for name in SHAPING:
        del workload[name]
    drawn = scenario.workload.synthetic is not None and seed
    return msgspec.json.encode([workload, scenario.seed if drawn else None], order="sorted")
