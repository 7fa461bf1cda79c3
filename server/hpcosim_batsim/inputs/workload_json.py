"""Batsim's workload files: jobs and profiles in JSON.

    {"nb_res": 4,
     "jobs": [{"id": 1, "subtime": 0, "res": 4, "walltime": 60, "profile": "sleep"}],
     "profiles": {"sleep": {"type": "delay", "delay": 10}}}

What a field is not named for here is kept, and goes to the scheduler as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.model import (
    Composed,
    Delay,
    Job,
    Parallel,
    ParallelHomogeneous,
    Platform,
    Profile,
    Workload,
)
from hpcosim_workloads.table import LATEST_S

MOST_BYTES = 2**30
MOST_NUMBER = 2**31 - 1
DEEPEST = 100  # composed profiles in each other
MOST_TASKS = 100_000  # in a composed profile

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


class _Fields:
    """An object of a file, its fields looked at one by one.

    Args:
        path: the file.
        where: the object's place in it.
        raw: the object.
    """

    def __init__(self, path: str, where: str, raw: Any) -> None:
        self.path = path
        self.where = where
        if not isinstance(raw, dict):
            raise InputError(path, where, f"must be an object, not {_kind(raw)}")
        self.raw: dict[str, Any] = raw

    def wrong(self, name: str, what: str) -> InputError:
        where = f"{self.where}.{name}" if self.where else name
        return InputError(self.path, where, what)

    def get(self, name: str) -> Any:
        if name not in self.raw:
            raise self.wrong(name, "is missing")
        return self.raw[name]

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, f"must be a string, not {_kind(value)}")
        return value

    def number(self, name: str) -> float:
        return self.as_number(name, self.get(name))

    def as_number(self, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"must be a number, not {_kind(value)}")
        if not -(LATEST_S**2) <= value <= LATEST_S**2:
            raise self.wrong(name, f"is {value}; no number may be that large")
        return float(value)

    def amount(self, name: str) -> float:
        return self.not_negative(name, self.number(name))

    def amounts(self, name: str) -> tuple[float, ...]:
        value = self.array(name)
        return tuple(
            self.not_negative(f"{name}[{i}]", self.as_number(f"{name}[{i}]", part))
            for i, part in enumerate(value)
        )

    def not_negative(self, name: str, value: float) -> float:
        if value < 0:
            raise self.wrong(name, f"is {value:g}; it must not be below 0")
        return value

    def whole(self, name: str, least: int, most: int = MOST_NUMBER) -> int:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, f"must be a whole number, not {_kind(value)}")
        if not least <= value <= most:
            raise self.wrong(name, f"is {value}; it must be from {least} to {most}")
        return value

    def array(self, name: str) -> Sequence[Any]:
        value = self.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, f"must be an array, not {_kind(value)}")
        return value


def read_workload(path: Path, name: str) -> Workload:
    """Return the workload of a file.

    Args:
        path: the file.
        name: what it is to be called: `w0` for the first.

    Raises:
        InputError: it can't be read, or asks for what can't be had; names the field.
    """
    fields = _Fields(str(path), "", _decode(path))
    profiles = fields.get("profiles")
    if not isinstance(profiles, dict):
        raise fields.wrong("profiles", f"must be an object, not {_kind(profiles)}")
    known = {key: parse_profile(key, raw, str(path)) for key, raw in profiles.items()}
    check_sequences(known.values(), known, str(path))
    jobs = [
        parse_job(raw, name, str(path), f"jobs[{i}]") for i, raw in enumerate(fields.array("jobs"))
    ]
    _check_jobs(jobs, known, str(path))
    return Workload(
        name=name,
        path=str(path),
        nb_res=fields.whole("nb_res", 1),
        jobs=tuple(sorted(jobs, key=lambda job: job.order)),
        profiles=known,
    )


def read_workloads(paths: Sequence[Path]) -> list[Workload]:
    """Return the workloads of files, called `w0`, `w1` and so on.

    Raises:
        InputError: as `read_workload`.
    """
    return [read_workload(path, f"w{i}") for i, path in enumerate(paths)]


def in_order(workloads: Iterable[Workload]) -> list[Job]:
    """Return the jobs of all workloads in the order in which they are submitted.

    It is that of submission time and, of jobs submitted at once, of full ids as text.
    """
    jobs = [job for workload in workloads for job in workload.jobs]
    return sorted(jobs, key=lambda job: job.order)


def parse_job(raw: Any, workload: str, path: str = "", where: str = "job") -> Job:
    """Return a job of a file, or one that came over the wire.

    Args:
        raw: the decoded object.
        workload: the name of its workload.
        path: the file, for the message; empty: the wire.
        where: its place there.

    Raises:
        InputError: it is no job; names the field.
    """
    fields = _Fields(path, where, raw)
    name = _job_name(fields, workload)
    submit_s = fields.amount("subtime")
    if submit_s > LATEST_S:
        raise fields.wrong("subtime", f"is {submit_s:g}; it must be at most {LATEST_S:g} s")
    return Job(
        workload=workload,
        name=name,
        submit_s=submit_s,
        res=fields.whole("res", 1),
        profile=fields.text("profile"),
        walltime_s=_walltime_s(fields),
        raw={**fields.raw, "id": f"{workload}!{name}"},
    )


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
    fields = _Fields(path, where or f"profiles.{name}", raw)
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


def check_sizes(workloads: Iterable[Workload], platform: Platform) -> None:
    """Make sure that the platform has the hosts that every job asks for.

    Raises:
        InputError: it has not; names the job.
    """
    there = len(platform.hosts)
    for workload in workloads:
        for job in workload.jobs:
            if job.res > there:
                raise InputError(
                    workload.path,
                    f"job {job.full_id}",
                    f"asks for {job.res} hosts; {platform.path} has {there} that jobs run on",
                )


def _decode(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), "", f"can't be read: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise InputError(str(path), "", f"is larger than {MOST_BYTES // 2**20} MiB, the most")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(path), _line(data, str(error)), f"is not JSON: {error}") from None


def _line(data: bytes, message: str) -> str:
    """Return the line of the byte that a message of msgspec's names."""
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        return ""
    before = data.count(b"\n", 0, int(found.group(1)))
    return f"line {before + 1}"


def _job_name(fields: _Fields, workload: str) -> str:
    value = fields.get("id")
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise fields.wrong("id", f"must be a string or a whole number, not {_kind(value)}")
    name = str(value).removeprefix(f"{workload}!")
    if "!" in name or not name.isprintable():
        raise fields.wrong("id", f"is {value!r}; there can be no ! and no control character in it")
    return name


def _walltime_s(fields: _Fields) -> float | None:
    if fields.raw.get("walltime", -1) == -1:
        return None
    walltime_s = fields.number("walltime")
    if not 0 < walltime_s <= LATEST_S:
        raise fields.wrong(
            "walltime",
            f"is {walltime_s:g}; it must be above 0, up to {LATEST_S:g} s, or -1 for none",
        )
    return walltime_s


def _parallel(fields: _Fields, common: Mapping[str, Any]) -> Parallel:
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


def _composed(fields: _Fields, common: Mapping[str, Any]) -> Composed:
    names = fields.array("seq")
    if not names:
        raise fields.wrong("seq", "is empty; it must name a profile")
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise fields.wrong(f"seq[{i}]", f"must be a profile's name, not {_kind(name)}")
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
        if len(inside) > DEEPEST:
            raise InputError(path, where, f"is more than {DEEPEST} profiles deep")
        count += _count_tasks(known[name], known, path, inside, sizes)
    if count > MOST_TASKS:
        where = f"profiles.{profile.name}.seq"
        raise InputError(path, where, f"is made of {count} tasks; at most {MOST_TASKS} can be")
    sizes[profile.name] = count
    return count


def _check_jobs(jobs: Sequence[Job], profiles: Mapping[str, Profile], path: str) -> None:
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        if job.name in seen:
            raise InputError(path, f"jobs[{i}].id", f"there is another job {job.name!r}")
        seen.add(job.name)
        profile = profiles.get(job.profile)
        if profile is None:
            raise InputError(path, f"jobs[{i}].profile", f"there is no profile {job.profile!r}")


def _unknown_type(kind: str) -> str:
    if kind in _NOT_HERE:
        return f"the profile type {kind!r} is not supported: there is no {_NOT_HERE[kind]} here"
    if kind in _RENAMED:
        return f"{kind!r} is of Batsim 5; here it is called {_RENAMED[kind]!r}"
    return f"there is no profile type {kind!r}; there are {', '.join(_TYPES)}"


def _kind(value: Any) -> str:
    """Return what a value is, for a person who knows JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else f"the number {value}"
