"""What a scenario asks of its platform beyond the types that protocol and scenario share.

A client ignores fields it does not know, and a server may leave out what has a default. A scenario
is written by hand: an unknown key is an error, power must be stated, and numbers are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hpcosim_protocol import Platform, Processor
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.messages import unknown_key
from hpcosim_server.physics.contention import check_contention

MOST_NODES = 1_000_000

STATED = ("static_w", "dynamic_w")
"""Keys of a processor that must be stated, if only as 0: energies of 0 J would be a surprise."""

# By key: the least and the greatest value, both far beyond any machine.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "count": (1, MOST_NODES),
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
        tree: the plain data it was read from, in which unknown keys still stand.

    Raises:
        ScenarioError: a key is unknown or missing, a number is out of bounds, or the model of
            memory contention does not hold for a processor; names the field, not file and line.
    """
    _check(platform, tree, "$.platform")
    if platform.node_count > MOST_NODES:
        what = f"a platform has at most {MOST_NODES} nodes, not {platform.node_count}"
        raise ScenarioError(what, field="$.platform")


def _check(value: Any, tree: Any, field: str) -> None:
    """Check a value of the platform and all that it holds."""
    if isinstance(value, Struct):
        _check_keys(value, tree, field)
        for key in tree:
            _check(getattr(value, key), tree[key], f"{field}.{key}")
        if isinstance(value, Processor):
            _check_model(value, field)
    elif isinstance(value, tuple):
        for place, (item, branch) in enumerate(zip(value, tree, strict=True)):
            _check(item, branch, f"{field}[{place}]")
    elif value is not None:
        least, most = BOUNDS[field.rpartition(".")[2]]
        if not least <= value <= most:
            what = f"expected a number from {least:g} to {most:g}, got {value:g}"
            raise ScenarioError(what, field=field)


def _check_keys(value: Struct, tree: Mapping[str, Any], field: str) -> None:
    for key in tree:
        if key not in value.__struct_fields__:
            raise unknown_key(key, field, value.__struct_fields__)
    if isinstance(value, Processor):
        for key in STATED:
            if key not in tree:
                raise ScenarioError(f"the key `{key}` is missing", field=field)


def _check_model(processor: Processor, field: str) -> None:
    try:
        check_contention(processor)
    except ValueError as error:
        raise ScenarioError(str(error), field=field) from None
