"""Probes: power and energy of hosts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hpcosim_batsim.bridge.run import BatsimRun, check_energy
from hpcosim_batsim.edc import messages
from hpcosim_batsim.inputs.external_events import parse_intervals
from hpcosim_sim.record.tables import intervals


def measure_of(
    run: BatsimRun, probe: messages.CreateProbe
) -> Callable[[BatsimRun], dict[str, Any]]:
    """Return a function that returns the data of a probe.

    Raises:
        ValueError: a part of the probe is not supported.
        UnknownEnergyError: a host has no power.
    """
    meters = run.hosts.meters
    if meters is None:
        raise ValueError("probes of power require --energy-host")
    check_energy(run)
    resources = messages.union_of(
        "resources",
        probe.resources_type,
        probe.resources,
        {"HostResources": messages.HostResources},
    )
    hosts = parse_intervals(resources.host_ids, len(run.platform.hosts))
    expected = {
        "metrics": ("Power",),
        "resources_aggregation_function_type": (
            "NoResourcesAggregation",
            "Sum",
            "ArithmeticMean",
        ),
        "temporal_aggregation_function_type": ("NoTemporalAggregation",),
        "emission_filtering_policy_type": ("NoFiltering",),
        "data_accumulation_strategy_type": ("NoProbeDataAccumulation", "ProbeDataAccumulation"),
    }
    for name, values in expected.items():
        _check_value(name, getattr(probe, name), values)
    accumulates = probe.data_accumulation_strategy_type == "ProbeDataAccumulation"
    if accumulates:
        rule = messages.union_of(
            "data_accumulation_strategy",
            probe.data_accumulation_strategy_type,
            probe.data_accumulation_strategy,
            {"ProbeDataAccumulation": messages.Accumulation},
        )
        _check_value("reset_mode_type", rule.reset_mode_type, ("NoReset",))
        _check_value("cumulative_function", rule.cumulative_function, ("Sum",))
    aggregation = probe.resources_aggregation_function_type

    def measure(run: BatsimRun) -> dict[str, Any]:
        now_s = run.simulation.now_s
        values = [
            meters.energy_j(host, now_s) if accumulates else meters.power_w(host) for host in hosts
        ]
        data: dict[str, Any] = {"data": values}
        kind = "VectorialProbeData"
        if aggregation != "NoResourcesAggregation":
            total = math.fsum(values)
            kind = "AggregatedProbeData"
            data = {"data": total if aggregation == "Sum" else total / len(values)}
        return {
            "probe_id": probe.probe_id,
            "resources_type": "HostResources",
            "resources": {"host_ids": intervals(hosts)},
            "metrics": "Power",
            "data_type": kind,
            "data": data,
            "manually_triggered": False,
            "nb_emitted": 0,
            "nb_triggered": 0,
        }

    return measure


def _check_value(name: str, value: str, values: Sequence[str]) -> None:
    if value not in values:
        raise ValueError(f"{name}: expected {' or '.join(values)}, got {value[:80]!r}")
