"""Slurm's power saving as settings of the power manager `slurm`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpcosim_schedulers.power.settings import PowerSettingsError, node_sets, parse_power
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.nodes import NodePower, hosts_of
from hpcosim_slurm.files.slurm.statements import Statement, names, optional_whole, whole
from hpcosim_workloads.logs.quantities import FieldError, shown

DEFAULT_SUSPEND_TIMEOUT_S = 30.0
DEFAULT_RESUME_TIMEOUT_S = 60.0
INFINITE = 65533
"""How old versions of Slurm write a timeout without a limit."""

PARAMETERS: Mapping[str, str] = {
    "power_save_interval": "power_save_interval_s",
    "power_save_min_interval": "power_save_min_interval_s",
}
"""Setting of the power manager by name in SlurmctldParameters."""
PROGRAMS = {"suspendprogram": "SuspendProgram", "resumeprogram": "ResumeProgram"}
"""Without these two Slurm switches no node."""


def _seconds(text: str) -> float | None:
    found = optional_whole(text)
    return None if found is None or found >= INFINITE else float(found)


READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "suspendtime": ("suspend_time_s", _seconds),
    "suspendtimeout": ("suspend_timeout_s", _seconds),
    "resumetimeout": ("resume_timeout_s", _seconds),
    "suspendrate": ("suspend_rate_per_min", whole),
    "resumerate": ("resume_rate_per_min", whole),
    "suspendexcnodes": ("suspend_exc_nodes", str),
}
"""Setting of the power manager and its conversion, by key of slurm.conf."""


KEYS = frozenset(
    (*READERS, *PROGRAMS, "suspendexcparts", "suspendexcstates", "slurmctldparameters")
)


def power_saving(
    statements: Sequence[Statement],
    platform: Mapping[str, Any],
    power: NodePower,
    report: ImportReport,
) -> dict[str, Any]:
    """Return the power manager `slurm` with the settings of slurm.conf; empty: nodes stay on.

    The node groups of the platform get power states.

    Raises:
        InputError: a value is invalid, or names an unknown node or partition; names the line.
    """
    found: dict[str, Any] = {}
    origins: dict[str, tuple[Statement, str]] = {}
    for statement, key, name, text in _stated(statements):
        try:
            if key in READERS:
                setting, read = READERS[key]
                found[setting] = read(text)
                origins[setting] = statement, name
            elif key == "slurmctldparameters":
                _parameters(text, found, statement, report)
        except FieldError as error:
            raise statement.error(f"{name}: {error}") from None
    if why := _off(found, statements):
        for statement, key, name, _ in _stated(statements):
            if key != "slurmctldparameters" or found.keys() & PARAMETERS.values():
                report.add("no effect", f"{name}: {why}", statement.place)
        return {}
    found = {"name": "slurm"} | {key: value for key, value in found.items() if value is not None}
    if excluded := _excluded(statements, platform, found.pop("suspend_exc_nodes", ""), report):
        found["suspend_exc_nodes"] = excluded
    if _keeps_planned(statements, report):
        found["suspend_exc_states"] = "PLANNED"
    _check(found, origins, statements)
    _add_power_states(platform["nodes"], found, power, report)
    return found


def _stated(statements: Iterable[Statement]) -> Iterator[tuple[Statement, str, str, str]]:
    """Yield statement, key, name as written and value of each setting of power saving."""
    for statement in statements:
        if statement.key not in ("nodename", "partitionname"):
            for key, text in statement.values.items():
                if key in KEYS and text:
                    yield statement, key, statement.names[key], text


def _off(found: Mapping[str, Any], statements: Sequence[Statement]) -> str:
    """Return why Slurm switches no node; empty: it does."""
    if found.get("suspend_time_s") is None:
        return "power saving is off without SuspendTime"
    missing = [
        name
        for key, name in PROGRAMS.items()
        if not any(statement.get(key) for statement in statements)
    ]
    return f"power saving is off without {' and '.join(missing)}" if missing else ""


def _parameters(
    text: str, found: dict[str, Any], statement: Statement, report: ImportReport
) -> None:
    for entry in names(text):
        name, _, value = entry.partition("=")
        if name.lower() in PARAMETERS:
            found[PARAMETERS[name.lower()]] = whole(value)
        else:
            report.add("no effect", f"SlurmctldParameters: {entry:.100}", statement.place)


def _excluded(
    statements: Sequence[Statement],
    platform: Mapping[str, Any],
    stated: str,
    report: ImportReport,
) -> str:
    """Return `suspend_exc_nodes`: the excluded nodes and those of the excluded partitions."""
    known = {name for each in platform["nodes"] for name in hosts_of(each["names"], statements[0])}
    parts = {each["name"]: each["nodes"] for each in platform.get("partitions", ())}
    sets = [stated] if stated else []
    for statement, key, name, text in _stated(statements):
        if key == "suspendexcnodes":
            try:
                sets_here = list(node_sets(text, name))
            except ValueError as error:
                raise statement.error(str(error)) from None
            hosts = (host for each in sets_here for host in hosts_of(each.hosts, statement))
            if unknown := next((host for host in hosts if host not in known), ""):
                raise statement.error(f"{name}: there is no node {unknown!r}")
        elif key == "suspendexcparts":
            for part in names(text):
                if part not in parts:
                    raise statement.error(f"{name}: there is no partition {shown(part)}")
                sets.append(parts[part])
    return ",".join(sets)


def _keeps_planned(statements: Sequence[Statement], report: ImportReport) -> bool:
    """Return whether planned nodes stay on; other states are listed."""
    planned = False
    for statement, key, name, text in _stated(statements):
        if key == "suspendexcstates":
            planned = "PLANNED" in names(text.upper())
            for state in names(text.upper()):
                if state not in ("PLANNED", "DOWN", "DRAIN"):  # such nodes are not idle
                    report.add("not modelled", f"{name}: {state}", statement.place)
    return planned


def _check(
    found: Mapping[str, Any],
    origins: Mapping[str, tuple[Statement, str]],
    statements: Sequence[Statement],
) -> None:
    try:
        parse_power(found)
    except PowerSettingsError as error:
        statement, name = origins.get(error.field, (statements[0], error.field))
        raise statement.error(f"{name}: {error.what}") from None


def _add_power_states(
    groups: Iterable[dict[str, Any]],
    found: Mapping[str, Any],
    power: NodePower,
    report: ImportReport,
) -> None:
    off_s = found.get("suspend_timeout_s", DEFAULT_SUSPEND_TIMEOUT_S)
    on_s = found.get("resume_timeout_s", DEFAULT_RESUME_TIMEOUT_S)
    for group in groups:
        idle_w = round(sum(each["static_w"] for each in group["processors"]), 3)
        group["power_states"] = {
            "sleep_w": power.sleep_w,
            "switch_on_s": on_s,
            "switch_on_w": idle_w,
            "switch_off_s": off_s,
            "switch_off_w": idle_w,
        }
        report.add(
            "guessed",
            f"power states: {power.sleep_w:g} W switched off, booting takes ResumeTimeout, "
            f"{on_s:g} s, and switching off SuspendTimeout, {off_s:g} s",
            count=group["count"],
        )
