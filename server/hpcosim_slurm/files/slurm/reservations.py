"""Reservations of `scontrol show reservation`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from hpcosim_slurm.files.output import InputError, Pseudonyms
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.nodes import hosts_of
from hpcosim_slurm.files.slurm.statements import Statement, names, parse_statement
from hpcosim_slurm.files.tables import lines_of
from hpcosim_slurm.texts import moments_of
from hpcosim_workloads.logs.quantities import FieldError, shown

MOST_RESERVATIONS = 100_000
ADVICE = "make the file with `scontrol show reservation`"
NONE = ("", "(null)", "N/A")
NOTHING = "no reservations in the system"

FLAGS: Mapping[str, str] = {"MAINT": "maint", "IGNORE_JOBS": "ignore_jobs", "FLEX": "flex"}
REPEAT_S: Mapping[str, float] = {"HOURLY": 3600.0, "DAILY": 86_400.0, "WEEKLY": 604_800.0}
WITHOUT_EFFECT = frozenset(
    (
        *("ALL_NODES", "ANY_NODES", "PART_NODES", "SPEC_NODES", "STATIC", "STATIC_ALLOC"),
        *("OVERLAP", "FORCE_START", "USER_DEL", "NO_HOLD_JOBS", "NO_HOLD_JOBS_AFTER"),
    )
)
"""Flags that say how the nodes were chosen, or who may change the reservation."""
LIMITS = {"groups": "Groups", "licenses": "Licenses", "maxstartdelay": "MaxStartDelay"}
"""Keys that are not modelled."""


def read_reservations(
    path: Path,
    platform: Mapping[str, Any],
    zone: ZoneInfo,
    origin_s: float,
    report: ImportReport,
    pseudonyms: Pseudonyms | None = None,
) -> list[dict[str, Any]]:
    """Return the reservations of a file, as `platform.reservations` of a scenario.

    Reservations that ended before second 0 are dropped. Slurm prints the next window of a
    reservation that repeats; the first window here is the first one that ends after second 0.

    Args:
        path: the output of `scontrol show reservation`, in one or several lines for each.
        origin_s: Unix time of second 0, s.
        pseudonyms: replaces the names of users and accounts; None: they are kept.

    Raises:
        InputError: the file cannot be read or has another form, or names an unknown node.
    """
    found: dict[str, dict[str, Any]] = {}
    known: set[str] | None = None
    for statement in _reservations(path, report):
        if known is None:
            known = {
                name for each in platform["nodes"] for name in hosts_of(each["names"], statement)
            }
        name = statement.get("reservationname")
        if name in found:
            raise statement.error(f"a second reservation has the name {shown(name)}")
        if len(found) >= MOST_RESERVATIONS:
            raise statement.error(f"expected at most {MOST_RESERVATIONS} reservations")
        if own := _reservation(statement, known, zone, origin_s, report, pseudonyms):
            found[name] = {"name": name, **own}
    return list(found.values())


def _reservations(path: Path, report: ImportReport) -> Iterator[Statement]:
    """Yield one statement for each reservation, with the values of all of its lines."""
    current: Statement | None = None
    for number, text in lines_of(path, report):
        text = text.strip()
        if not text or text.lower().startswith(("comment=", NOTHING)):
            continue
        statement = parse_statement(path, number, text)
        if statement.key == "reservationname":
            if current is not None:
                yield current
            current = statement
        elif current is None:
            what = f"expected a line that begins with ReservationName=, got {shown(text)}"
            raise InputError(f"{what}; {ADVICE}", path, number)
        else:
            current.values |= statement.values
    if current is not None:
        yield current


def _reservation(
    statement: Statement,
    known: set[str],
    zone: ZoneInfo,
    origin_s: float,
    report: ImportReport,
    pseudonyms: Pseudonyms | None,
) -> dict[str, Any]:
    """Return a reservation without its name; empty: it is dropped."""
    start_s, end_s = (_time(statement, key, zone) - origin_s for key in ("StartTime", "EndTime"))
    if end_s <= start_s:
        raise statement.error(f"expected an EndTime after StartTime; {ADVICE}")
    hosts = statement.get("nodes")
    if hosts in NONE:
        report.add("dropped", "reservations without nodes", statement.place)
        return {}
    nodes = hosts_of(hosts, statement)
    if unknown := next((name for name in nodes if name not in known), ""):
        raise statement.error(f"Nodes: there is no node {unknown!r}")
    flags, repeat_s = _flags(statement, report)
    if repeat_s is not None:
        shift_s = (math.ceil(end_s / repeat_s) - 1) * repeat_s
        start_s, end_s = start_s - shift_s, end_s - shift_s
        if shift_s:
            report.add("guessed", "reservations that repeat: also before", statement.place)
    elif end_s <= 0:
        report.add("dropped", "reservations that ended before second 0", statement.place)
        return {}
    if "coreids" in statement.values:
        report.add("guessed", "reservations of cores: of whole nodes", statement.place)
    for key, name in LIMITS.items():
        if statement.get(key) not in NONE:
            report.add("not modelled", f"reservation: {name}", statement.place)
    return {
        "nodes": hosts,
        "start_s": start_s,
        "end_s": end_s,
        **({"repeat_s": repeat_s} if repeat_s is not None else {}),
        **_may_use(statement, report, pseudonyms),
        **({"flags": flags} if flags else {}),
    }


def _time(statement: Statement, key: str, zone: ZoneInfo) -> float:
    text = statement.get(key.lower())
    try:
        moments = moments_of(text, zone)
    except FieldError as error:
        raise statement.error(f"{key}: {error}") from None
    if not moments:
        raise statement.error(f"{key}: expected a time, got {shown(text)}; {ADVICE}")
    return moments[0]


def _flags(statement: Statement, report: ImportReport) -> tuple[list[str], float | None]:
    """Return the flags that a scenario has, and the time from one window to the next, s."""
    flags: list[str] = []
    repeat_s: float | None = None
    stated = statement.get("flags")
    for text in names("" if stated in NONE else stated):
        flag = text.upper().partition("=")[0]
        if flag in FLAGS:
            flags.append(FLAGS[flag])
        elif flag in REPEAT_S:
            repeat_s = REPEAT_S[flag]
        else:
            what = f"reservation: Flags={flag:.60}"
            report.add(
                "no effect" if flag in WITHOUT_EFFECT else "not modelled", what, statement.place
            )
    return flags, repeat_s


def _may_use(
    statement: Statement, report: ImportReport, pseudonyms: Pseudonyms | None
) -> dict[str, list[str]]:
    """Return the users and the accounts whose jobs may run in a reservation."""
    found: dict[str, list[str]] = {}
    for key, kind in (("users", "user"), ("accounts", "account")):
        text = statement.get(key)
        allowed = []
        for name in names("" if text in NONE else text):
            if name.startswith("-"):
                report.add("not modelled", f"reservation: {key} that are denied", statement.place)
            else:
                allowed.append(name if pseudonyms is None else pseudonyms.of(kind, name))
        if allowed:
            found[key] = allowed
    return found
