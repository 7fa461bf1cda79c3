"""Checks of a scenario's platform beyond the types that the protocol and scenarios share.

A protocol message may have unknown fields, and may omit fields with a default. In a scenario an
unknown key is an error, the power of processors is required, and numbers are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hpcosim_protocol import Platform, Processor
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.messages import known_keys, unknown_key
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.site_checks import check_site
from hpcosim_sim.physics.contention import check_contention

MOST_NODES = 1_000_000

STATED = ("static_w", "dynamic_w")
"""Required keys of a processor. The protocol has defaults of 0, which would give 0 J."""

# Smallest and largest value by key; far beyond the size of any machine.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "count": (1, MOST_NODES),
    "nodes": (0, MOST_NODES),
    "mtbf_s": (1, 1e12),
    "repeat_s": (1, 1e12),
    **dict.fromkeys(("start_s", "end_s"), (-1e12, 1e12)),
    **dict.fromkeys(("max_time_s", "default_time_s", "grace_time_s"), (0, 1e12)),
    **dict.fromkeys(
        (
            "gres",
            "licenses",
            "weight",
            "priority_tier",
            "priority_job_factor",
            "min_nodes",
            "max_nodes",
            "max_cores_per_node",
        ),
        (0, 2**31 - 1),
    ),
    **dict.fromkeys(("default_memory_per_core_mb", "max_memory_per_core_mb"), (0, 1e12)),
    "cores": (1, 1_000_000),
    "clock_ghz": (1e-6, 1e6),
    "flops_per_cycle": (1e-6, 1e6),
    "idle_fraction": (0, 1),
    "b_per_mbps": (-1e6, 0),
    "da": (-1e6, 1e6),
    **dict.fromkeys(("memory_mb", "c_mbps", "db_mbps", "dc_mbps", "dd_mbps"), (0, 1e12)),
    **dict.fromkeys(
        ("static_w", "dynamic_w", "sleep_w", "switch_on_w", "switch_off_w"),
        (0, 1e9),
    ),
    **dict.fromkeys(
        ("switch_on_s", "switch_off_s", "switch_on_sd_s", "switch_off_sd_s"), (0, 1e12)
    ),
}


def check_platform(platform: Platform, tree: Mapping[str, Any]) -> None:
    """Check a platform that was read from a scenario.

    Args:
        platform: the platform.
        tree: the plain data that it was read from, with unknown keys.

    Raises:
        ScenarioError: a key is unknown or missing, a number is out of bounds, a name is unknown or
            given twice, or values contradict each other. It has the field, not file and line.
    """
    _check(platform, tree, "$.platform")
    if platform.node_count > MOST_NODES:
        what = f"expected at most {MOST_NODES} nodes, got {platform.node_count}"
        raise ScenarioError(what, field="$.platform")
    check_site(platform)


def _check(value: Any, tree: Any, field: str) -> None:
    """Check a value of the platform and the values inside it."""
    if isinstance(value, Struct):
        _check_keys(value, tree, field)
        for key in tree:
            _check(getattr(value, key), tree[key], f"{field}.{key}")
        if isinstance(value, Processor):
            _check_model(value, field)
    elif isinstance(value, tuple):
        for place, (item, branch) in enumerate(zip(value, tree, strict=True)):
            _check(item, branch, f"{field}[{place}]")
    elif isinstance(value, dict):
        for amount in value.values():
            _check_number(amount, field)
    elif isinstance(value, str):
        if not value.isprintable():
            raise ScenarioError(f"expected printable characters, got {value!r}", field=field)
    elif value is not None and not isinstance(value, bool):
        _check_number(value, field)


def _check_number(value: float, field: str) -> None:
    least, most = BOUNDS[field.rpartition(".")[2].partition("[")[0]]
    if not least <= value <= most:
        what = f"expected a number from {least:g} to {most:g}, got {value:g}"
        raise ScenarioError(what, field=field)


def _check_keys(value: Struct, tree: Mapping[str, Any], field: str) -> None:
    for key in tree:
        if key not in value.__struct_fields__:
            raise unknown_key(key, field, *known_keys(Scenario, {}, field))
    if isinstance(value, Processor):
        for key in STATED:
            if key not in tree:
                raise ScenarioError(f"the key `{key}` is missing", field=field)


def _check_model(processor: Processor, field: str) -> None:
    try:
        check_contention(processor)
    except ValueError as error:
        raise ScenarioError(str(error), field=field) from None
