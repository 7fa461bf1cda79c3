"""Profiles of Batsim's workload files: what jobs do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.json_fields import Fields, kind_of_value
from hpcosim_batsim.inputs.workload_model import (
    Composed,
    Delay,
    Parallel,
    ParallelHomogeneous,
    Profile,
)
from hpcosim_workloads.table import LATEST_S

MAX_DEPTH = 100  # of composed profiles in each other
MAX_TASKS = 100_000  # in a composed profile

# What Batsim has and this program has not, and what it is.
_NOT_HERE: Mapping[str, str] = {
    "parallel_homogeneous_pfs": "a parallel file system",
    "data_staging": "storage",
    "send": "messages between jobs and scheduler",
    "recv": "messages between jobs and scheduler",
    "smpi": "the replay of MPI traces",
    "usage_trace": "the replay of usage traces",
}
# Of Batsim 5, and what they are called up to 4.2.1.
_RENAMED: Mapping[str, str] = {
    "ptask": "parallel",
    "ptask_homogeneous": "parallel_homogeneous",
    "sequential_composition": "composed",
}
_TYPES = ("delay", "parallel", "parallel_homogeneous", "parallel_homogeneous_total", "composed")


def parse_profile(name: str, raw: Any, path: str = "", where: str = "") -> Profile:
    """Return a profile of a file, or one that came over the wire.

    Args:
        name: its name.
        raw: the decoded object.
        path: the file, for the message; empty: the wire.
        where: its place there; empty: `profiles.NAME`.

    Raises:
        InputError: it is no profile, or of a type that is not supported; names the field.
    """
    fields = Fields(path, where or f"profiles.{name}", raw)
    kind = fields.text("type")
    ret = fields.whole("ret", -(2**31)) if "ret" in fields.raw else 0
    common: dict[str, Any] = {"name": name, "ret": ret, "raw": fields.raw}
    if kind == "delay":
        delay_s = fields.number("delay")
        if not 0 < delay_s <= LATEST_S:
            raise fields.wrong("delay", f"is {delay_s:g}; it must be above 0, up to {LATEST_S:g} s")
        return Delay(**common, delay_s=delay_s)
    if kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        cpu_flop, com_bytes = fields.amount("cpu"), fields.amount("com")
        total = kind.endswith("total")
        return ParallelHomogeneous(**common, total=total, cpu_flop=cpu_flop, com_bytes=com_bytes)
    if kind == "parallel":
        return _parallel(fields, common)
    if kind == "composed":
        return _composed(fields, common)
    raise fields.wrong("type", _unknown_type(kind))


def check_sequences(
    profiles: Iterable[Profile], known: Mapping[str, Profile], path: str = ""
) -> None:
    """Make sure that composed profiles name profiles that there are, and never themselves.

    Args:
        profiles: those to look at.
        known: all of their workload.
        path: the file, for the message; empty: the wire.

    Raises:
        InputError: one does not; names the field.
    """
    sizes: dict[str, int] = {}
    for profile in profiles:
        _count_tasks(profile, known, path, [], sizes)


def _parallel(fields: Fields, common: Mapping[str, Any]) -> Parallel:
    cpu_flop, com_bytes = fields.amounts("cpu"), fields.amounts("com")
    if not cpu_flop:
        raise fields.wrong("cpu", "is empty; it must have an amount for each host")
    if len(com_bytes) not in (0, len(cpu_flop) ** 2):
        raise fields.wrong(
            "com",
            f"has {len(com_bytes)} amounts; for {len(cpu_flop)} hosts there must be "
            f"{len(cpu_flop) ** 2}, one for each pair, or none",
        )
    return Parallel(**common, cpu_flop=cpu_flop, com_bytes=com_bytes)


def _composed(fields: Fields, common: Mapping[str, Any]) -> Composed:
    names = fields.array("seq")
    if not names:
        raise fields.wrong("seq", "is empty; it must name a profile")
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise fields.wrong(f"seq[{i}]", f"must be a profile's name, not {kind_of_value(name)}")
    repeat = fields.whole("repeat", 1) if "repeat" in fields.raw else 1
    return Composed(**common, sequence=tuple(names), repeat=repeat)


def _count_tasks(
    profile: Profile,
    known: Mapping[str, Profile],
    path: str,
    above: list[str],
    sizes: dict[str, int],
) -> int:
    """Return of how many tasks a profile is made, its repeats not counted.

    Args:
        profile: which.
        known: all of its workload.
        path: the file.
        above: names of the profiles it is looked at as a part of.
        sizes: what came of others before, by name; this one's is added.
    """
    if not isinstance(profile, Composed):
        return 1
    if profile.name in sizes:
        return sizes[profile.name]
    inside = [*above, profile.name]
    count = 0
    for i, name in enumerate(profile.sequence):
        where = f"profiles.{profile.name}.seq[{i}]"
        if name not in known:
            raise InputError(path, where, f"there is no profile {name!r}")
        if name in inside:
            raise InputError(path, where, f"{name!r} would be a part of itself")
        if len(inside) > MAX_DEPTH:
            raise InputError(path, where, f"is more than {MAX_DEPTH} profiles deep")
        count += _count_tasks(known[name], known, path, inside, sizes)
    if count > MAX_TASKS:
        where = f"profiles.{profile.name}.seq"
        raise InputError(path, where, f"is made of {count} tasks; at most {MAX_TASKS} can be")
    sizes[profile.name] = count
    return count


def _unknown_type(kind: str) -> str:
    if kind in _NOT_HERE:
        return f"the profile type {kind!r} is not supported: there is no {_NOT_HERE[kind]} here"
    if kind in _RENAMED:
        return f"{kind!r} is of Batsim 5; here it is called {_RENAMED[kind]!r}"
    return f"there is no profile type {kind!r}; there are {', '.join(_TYPES)}"
