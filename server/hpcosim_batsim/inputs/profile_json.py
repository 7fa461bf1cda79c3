"""Reader of the profiles in Batsim's workload files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpcosim_batsim.errors import InputError, UnsupportedProfileError
from hpcosim_batsim.inputs.json_fields import Fields, kind_of_value
from hpcosim_batsim.inputs.workload_model import (
    BatsimProfile,
    Composed,
    Delay,
    Parallel,
    ParallelHomogeneous,
)
from hpcosim_workloads.table import MAX_TIME_S

MAX_DEPTH = 100  # nesting of composed profiles
MAX_TASKS = 100_000  # tasks of a composed profile

# Profile types of Batsim 4.2.1 that are not supported, and the missing feature.
_UNSUPPORTED: Mapping[str, str] = {
    "parallel_homogeneous_pfs": "a parallel file system",
    "data_staging": "storage",
    "send": "messages between jobs and scheduler",
    "recv": "messages between jobs and scheduler",
    "smpi": "the replay of MPI traces",
    "usage_trace": "the replay of usage traces",
}
# Profile types of Batsim 5, and their names in Batsim 4.2.1.
_RENAMED: Mapping[str, str] = {
    "ptask": "parallel",
    "ptask_homogeneous": "parallel_homogeneous",
    "sequential_composition": "composed",
}
_TYPES = ("delay", "parallel", "parallel_homogeneous", "parallel_homogeneous_total", "composed")


def parse_profile(name: str, raw: Any, path: str = "", where: str = "") -> BatsimProfile:
    """Return a profile of a workload file, or one that a scheduler registers.

    Args:
        name: name of the profile.
        raw: the decoded object.
        path: the file, for errors; "": a scheduler's message.
        where: path of the object in it, for errors; default: `profiles.NAME`.

    Raises:
        UnsupportedProfileError: the type of the profile is not supported.
        InputError: the profile is invalid; names the field.
    """
    fields = Fields(path, where or f"profiles.{name}", raw)
    kind = fields.text("type")
    ret = fields.integer("ret", 0) if "ret" in fields.raw else 0
    common: dict[str, Any] = {"name": name, "ret": ret, "raw": fields.raw}
    if kind == "delay":
        delay_s = fields.number("delay")
        if not 0 < delay_s <= MAX_TIME_S:
            raise fields.error(
                "delay", f"is {delay_s:g}; it must be above 0, up to {MAX_TIME_S:g} s"
            )
        return Delay(**common, delay_s=delay_s)
    if kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        cpu_flop, com_bytes = fields.amount("cpu"), fields.amount("com")
        total = kind.endswith("total")
        return ParallelHomogeneous(**common, total=total, cpu_flop=cpu_flop, com_bytes=com_bytes)
    if kind == "parallel":
        return _parallel(fields, common)
    if kind == "composed":
        return _composed(fields, common)
    error = fields.error("type", _unknown_type(kind))
    raise UnsupportedProfileError(error.path, error.where, error.what)


def check_sequences(
    profiles: Iterable[BatsimProfile], known: Mapping[str, BatsimProfile], path: str = ""
) -> None:
    """Check that composed profiles refer to existing profiles and not to themselves.

    Args:
        profiles: the profiles to check.
        known: all profiles of their workload, by name.
        path: the file, for errors; "": a scheduler's message.

    Raises:
        InputError: a reference is invalid; names the field.
    """
    sizes: dict[str, int] = {}
    for profile in profiles:
        _count_tasks(profile, known, path, [], sizes)


def _parallel(fields: Fields, common: Mapping[str, Any]) -> Parallel:
    cpu_flop, com_bytes = fields.amounts("cpu"), fields.amounts("com")
    if not cpu_flop:
        raise fields.error("cpu", "is empty; it must have one number per host")
    if len(com_bytes) not in (0, len(cpu_flop) ** 2):
        raise fields.error(
            "com",
            f"has {len(com_bytes)} numbers; {len(cpu_flop)} hosts need {len(cpu_flop) ** 2}, one "
            "per pair of hosts, or none",
        )
    return Parallel(**common, cpu_flop=cpu_flop, com_bytes=com_bytes)


def _composed(fields: Fields, common: Mapping[str, Any]) -> Composed:
    names = fields.array("seq")
    if not names:
        raise fields.error("seq", "is empty; it must have at least one profile name")
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise fields.error(f"seq[{i}]", f"must be a profile name, not {kind_of_value(name)}")
    repeat = fields.integer("repeat", 1) if "repeat" in fields.raw else 1
    return Composed(**common, sequence=tuple(names), repeat=repeat)


def _count_tasks(
    profile: BatsimProfile,
    known: Mapping[str, BatsimProfile],
    path: str,
    above: list[str],
    sizes: dict[str, int],
) -> int:
    """Return the number of tasks of a profile, without repetitions.

    Args:
        profile: the profile.
        known: all profiles of its workload, by name.
        path: the file, for errors.
        above: names of the composed profiles that contain it.
        sizes: numbers of tasks of the profiles counted before, by name; this one is added.
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
            raise InputError(path, where, f"{name!r} contains itself")
        if len(inside) > MAX_DEPTH:
            raise InputError(path, where, f"is nested more than {MAX_DEPTH} profiles deep")
        count += _count_tasks(known[name], known, path, inside, sizes)
    if count > MAX_TASKS:
        where = f"profiles.{profile.name}.seq"
        raise InputError(path, where, f"has {count} tasks; it must have at most {MAX_TASKS}")
    sizes[profile.name] = count
    return count


def _unknown_type(kind: str) -> str:
    if kind in _UNSUPPORTED:
        return f"profile type {kind!r}: hpcosim does not support {_UNSUPPORTED[kind]}"
    if kind in _RENAMED:
        return f"{kind!r} is a type of Batsim 5; its name in Batsim 4 is {_RENAMED[kind]!r}"
    return f"unknown profile type {kind!r}; expected one of {', '.join(_TYPES)}"
