"""Checks of a scenario's platform beyond the types that the protocol and scenarios share.

A protocol message may have unknown fields, and may omit fields with a default. In a scenario an
unknown key is an error, the power of processors is required, and numbers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hpcosim_protocol import NodeReservation, Partition, Platform, Processor, Switch
from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.features import mentioned
from hpcosim_protocol.node_access import numbers_in
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.host_lists import check_ranges, names_of
from hpcosim_scenarios.model.messages import NAME_PATTERN, known_keys, unknown_key
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_sim.physics.execution import check_contention

# Checks of partitions, reservations, switches and resources of a scenario's platform.

FIELD = "$.platform"
GRES_PATTERN = re.compile(r"[A-Za-z0-9_.+-]{1,100}(:[A-Za-z0-9_.+-]{1,90})?")

LIMITS = (
    ("min_nodes", "max_nodes"),
    ("default_time_s", "max_time_s"),
    ("default_memory_per_core_mb", "max_memory_per_core_mb"),
)
"""Pairs of values of a partition of which the first must not exceed the second."""

EXCLUSIVE = (("allow_accounts", "deny_accounts"), ("allow_qos", "deny_qos"))
"""Pairs of lists of a partition of which only one can be given."""


def check_site(platform: Platform) -> None:
    """Check what a platform has beyond nodes and cores.

    Raises:
        ScenarioError: a name is unknown, invalid or given twice, or values contradict each other.
            It has the field, not file and line.
    """
    _check_groups(platform)
    for section in ("partitions", "reservations", "switches"):
        _check_names([each.name for each in getattr(platform, section)], f"{FIELD}.{section}")
    for place, partition in enumerate(platform.partitions):
        _check_partition(partition, platform, f"{FIELD}.partitions[{place}]")
    defaults = [each.name for each in platform.partitions if each.default]
    if len(defaults) > 1:
        what = f"expected one default partition, got {' and '.join(defaults)}"
        raise ScenarioError(what, field=f"{FIELD}.partitions")
    for place, reservation in enumerate(platform.reservations):
        _check_reservation(reservation, platform, f"{FIELD}.reservations[{place}]")
    if platform.switches:
        _check_switches(platform)
    for name in platform.licenses:
        _check_pattern(name, re.compile(NAME_PATTERN), "a licence", f"{FIELD}.licenses")


def _check_groups(platform: Platform) -> None:
    if any(group.names for group in platform.nodes):
        names_of(platform)
    for place, group in enumerate(platform.nodes):
        field = f"{FIELD}.nodes[{place}]"
        if "memory" in platform.consumable and not group.memory_mb:
            what = "expected memory_mb above 0, because platform.consumable contains memory"
            raise ScenarioError(what, field=field)
        for name in group.gres:
            _check_pattern(name, GRES_PATTERN, "a generic resource", f"{field}.gres")
        for feature in group.features:
            if not _is_feature(feature):
                what = f"expected a feature without operators such as & and |, got {feature!r}"
                raise ScenarioError(what, field=f"{field}.features")


def _is_feature(text: str) -> bool:
    try:
        return mentioned(text) == {text}
    except ProtocolError:
        return False


def _check_pattern(name: str, pattern: re.Pattern[str], what: str, field: str) -> None:
    if not pattern.fullmatch(name):
        expected = "letters, digits, '.', '_' and '-'"
        raise ScenarioError(f"expected the name of {what} of {expected}, got {name!r}", field=field)


def _check_names(names: Sequence[str], field: str) -> None:
    for place, name in enumerate(names):
        _check_pattern(name, re.compile(NAME_PATTERN), "an item", f"{field}[{place}].name")
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if (first := places.setdefault(name, place)) < place:
            what = f"the name {name!r} is there twice; the first is {field[2:]}[{first}]"
            raise ScenarioError(what, field=f"{field}[{place}].name")


def _check_nodes(nodes: Any, platform: Platform, field: str) -> None:
    if not nodes:
        raise ScenarioError("expected at least one node, got none", field=field)
    check_ranges(nodes, platform.node_count, field)


def _check_partition(partition: Partition, platform: Platform, field: str) -> None:
    _check_nodes(partition.nodes, platform, f"{field}.nodes")
    for low, high in LIMITS:
        least, most = getattr(partition, low), getattr(partition, high)
        if least and most and least > most:
            raise ScenarioError(
                f"expected at most {high}, {most:g}, got {least:g}", field=f"{field}.{low}"
            )
    for one, other in EXCLUSIVE:
        if getattr(partition, one) and getattr(partition, other):
            what = f"expected {one} or {other}, got both; remove one of them"
            raise ScenarioError(what, field=f"{field}.{other}")
    count = sum(last - first + 1 for first, last in partition.nodes)
    if partition.min_nodes > count:
        what = f"expected at most the {count} nodes of the partition, got {partition.min_nodes}"
        raise ScenarioError(what, field=f"{field}.min_nodes")


def _check_reservation(reservation: NodeReservation, platform: Platform, field: str) -> None:
    _check_nodes(reservation.nodes, platform, f"{field}.nodes")
    if reservation.end_s <= reservation.start_s:
        what = f"expected a time after start_s, {reservation.start_s:g} s, got "
        raise ScenarioError(f"{what}{reservation.end_s:g} s", field=f"{field}.end_s")
    length_s = reservation.end_s - reservation.start_s
    if reservation.repeat_s is not None and reservation.repeat_s < length_s:
        what = f"expected at least the length of a window, {length_s:g} s, got "
        raise ScenarioError(f"{what}{reservation.repeat_s:g} s", field=f"{field}.repeat_s")
    if len(set(reservation.flags)) < len(reservation.flags):
        what = f"expected each flag once, got {', '.join(reservation.flags)}"
        raise ScenarioError(what, field=f"{field}.flags")


def _check_switches(platform: Platform) -> None:
    """Check that the switches form a tree over distinct nodes."""
    field = f"{FIELD}.switches"
    by_name = {switch.name: switch for switch in platform.switches}
    above: dict[str, str] = {}
    leaf_of: dict[int, str] = {}
    for place, switch in enumerate(platform.switches):
        where = f"{field}[{place}]"
        if bool(switch.nodes) == bool(switch.switches):
            found = "both" if switch.nodes else "neither"
            what = f"expected nodes (a leaf switch) or switches, got {found}"
            raise ScenarioError(what, field=where)
        check_ranges(switch.nodes, platform.node_count, f"{where}.nodes")
        for name in switch.switches:
            _check_below(name, switch, by_name, above, f"{where}.switches")
        for node in numbers_in(switch.nodes):
            if (other := leaf_of.setdefault(node, switch.name)) != switch.name:
                name = names_of(platform).name_of(node)
                what = f"node {name} is connected to the switches {other} and {switch.name}"
                raise ScenarioError(what, field=f"{where}.nodes")
    if circle := _circle(by_name, above):
        raise ScenarioError(f"the switches form a circle: {' -> '.join(circle)}", field=field)


def _check_below(
    name: str, switch: Switch, by_name: dict[str, Switch], above: dict[str, str], field: str
) -> None:
    """Check a switch that another one connects, and note which one."""
    if name not in by_name:
        what = f"unknown switch {name!r}; the switches are {', '.join(list(by_name)[:10])}"
        raise ScenarioError(what, field=field)
    if (other := above.setdefault(name, switch.name)) != switch.name:
        what = f"switch {name} is connected to {other} and {switch.name}; expected a tree"
        raise ScenarioError(what, field=field)


def _circle(names: Iterable[str], above: dict[str, str]) -> list[str]:
    """Return the names of a circle of switches; empty: there is none."""
    over: set[str] = set()
    for start in names:
        path: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in over:
            if name in path:
                steps = list(path)
                return [*steps[steps.index(name) :], name]
            path[name] = None
            name = above.get(name)
        over |= path.keys()
    return []


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
