"""Reader of Batsim's workload files: jobs and profiles in JSON.

    {"nb_res": 4,
     "jobs": [{"id": 1, "subtime": 0, "res": 4, "walltime": 60, "profile": "sleep"}],
     "profiles": {"sleep": {"type": "delay", "delay": 10}}}

Unknown fields are preserved and sent to the scheduler. Profiles that no job uses may have any type.

What is invalid is an `InputError` that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcosim_batsim.errors import InputError, UnsupportedProfileError
from hpcosim_batsim.inputs import workload_model as model
from hpcosim_batsim.inputs.json_fields import Fields, kind_of_value, read_json
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.usage_traces import usage_replay
from hpcosim_workloads.table import MAX_TIME_S

MAX_DEPTH = 100  # nesting of composed profiles
RANKS = "smpi_ranks_to_hosts_mapping"

# Profile types of Batsim 4.2.1 that are not supported, and the missing feature.
_UNSUPPORTED: Mapping[str, str] = {
    "send": "messages between jobs and scheduler",
    "recv": "messages between jobs and scheduler",
    "smpi": "the replay of MPI traces",
}
# Profile types of Batsim 5, and their names in Batsim 4.2.1.
_RENAMED: Mapping[str, str] = {
    "ptask": "parallel",
    "ptask_homogeneous": "parallel_homogeneous",
    "sequential_composition": "composed",
}
_TYPES = (
    "delay",
    "parallel",
    "parallel_homogeneous",
    "parallel_homogeneous_total",
    "composed",
    "usage_trace",
    "parallel_homogeneous_pfs",
    "data_staging",
)


ParseProfile = Callable[[str, Any, str, str], model.BatsimProfile]
"""Returns a profile; arguments: its name, its JSON object, and file and field for errors."""


def read_workload(path: Path, name: str, parse: ParseProfile | None = None) -> model.BatsimWorkload:
    """Return the workload of a file.

    Args:
        parse: reader of profiles; default: `parse_profile`.
    """
    fields = Fields(str(path), "", read_json(path))
    profiles = fields.get("profiles")
    if not isinstance(profiles, dict):
        raise fields.error("profiles", f"must be an object, not {kind_of_value(profiles)}")
    known, unsupported = _profiles(profiles, str(path), parse or parse_profile)
    check_sequences(known.values(), known, str(path))
    jobs = [
        parse_job(raw, name, str(path), f"jobs[{i}]") for i, raw in enumerate(fields.array("jobs"))
    ]
    for job in jobs:
        if job.profile in unsupported:
            raise unsupported[job.profile]
    _check_jobs(jobs, known, str(path))
    return model.BatsimWorkload(
        name=name,
        path=str(path),
        nb_res=fields.integer("nb_res", 1),
        jobs=tuple(sorted(jobs, key=lambda job: job.order)),
        profiles=known,
    )


def read_workloads(paths: Sequence[Path]) -> list[model.BatsimWorkload]:
    """Return the workloads of files, named `w0`, `w1` and so on."""
    return [read_workload(path, f"w{i}") for i, path in enumerate(paths)]


def _profiles(
    profiles: Mapping[str, Any], path: str, parse: ParseProfile
) -> tuple[dict[str, model.BatsimProfile], dict[str, UnsupportedProfileError]]:
    """Return the supported profiles and, by name, the errors of those of other types.

    A composed profile with a part of another type is not supported, either.
    """
    known: dict[str, model.BatsimProfile] = {}
    errors: dict[str, UnsupportedProfileError] = {}
    for name, raw in profiles.items():
        try:
            known[name] = parse(name, raw, path, "")
        except UnsupportedProfileError as error:
            errors[name] = error
    unsupported = list(errors)
    while unsupported:
        part = unsupported.pop()
        for name, profile in list(known.items()):
            if isinstance(profile, model.Composed) and part in profile.sequence:
                errors[name] = errors[part]
                unsupported.append(name)
                del known[name]
    return known, errors


def in_order(workloads: Iterable[model.BatsimWorkload]) -> list[model.BatsimJob]:
    """Return the jobs of all workloads by submission time, then by full id as text."""
    jobs = [job for workload in workloads for job in workload.jobs]
    return sorted(jobs, key=lambda job: job.order)


def parse_job(raw: Any, workload: str, path: str = "", where: str = "job") -> model.BatsimJob:
    """Return a job of a workload file, or one that a scheduler registers."""
    fields = Fields(path, where, raw)
    name = _job_name(fields, workload)
    return model.BatsimJob(
        workload=workload,
        name=name,
        submit_s=fields.number("subtime"),
        res=fields.integer("res", 1),
        profile=fields.text("profile").removeprefix(f"{workload}!"),
        walltime_s=_walltime_s(fields),
        ranks=_ranks(fields),
        raw={**fields.raw, "id": f"{workload}!{name}"},
    )


def check_sizes(workloads: Iterable[model.BatsimWorkload], platform: BatsimPlatform) -> None:
    """Check that the platform has enough hosts for every job."""
    hosts = len(platform.hosts)
    for workload in workloads:
        for job in workload.jobs:
            if job.res > hosts:
                raise InputError(
                    workload.path,
                    f"job {job.full_id}",
                    f"requests {job.res} hosts; {platform.path} has {hosts} compute hosts",
                )


def _job_name(fields: Fields, workload: str) -> str:
    value = fields.get("id")
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise fields.error("id", f"must be a string or an integer, not {kind_of_value(value)}")
    name = str(value).removeprefix(f"{workload}!")
    if "!" in name or not name.isprintable():
        raise fields.error("id", f"is {value!r}; it must not contain ! or control characters")
    return name


def _walltime_s(fields: Fields) -> float | None:
    if fields.raw.get("walltime", -1) == -1:
        return None
    walltime_s = fields.number("walltime")
    if not 0 < walltime_s <= MAX_TIME_S:
        raise fields.error(
            "walltime",
            f"is {walltime_s:g}; it must be above 0, up to {MAX_TIME_S:g} s, or -1 for none",
        )
    return walltime_s


def _ranks(fields: Fields) -> tuple[int, ...]:
    ranks = fields.array(RANKS) if RANKS in fields.raw else []
    hosts = range(fields.integer("res", 1))
    for place, host in enumerate(ranks):
        if isinstance(host, bool) or not isinstance(host, int) or host not in hosts:
            what = f"expected a host of the allocation from 0 to {hosts[-1]}, got {host!r:.40}"
            raise fields.error(f"{RANKS}[{place}]", what)
    return tuple(ranks)


def _check_jobs(
    jobs: Sequence[model.BatsimJob], profiles: Mapping[str, model.BatsimProfile], path: str
) -> None:
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        if job.name in seen:
            what = f"another job has the id {job.name!r}; ids must be unique"
            raise InputError(path, f"jobs[{i}].id", what)
        seen.add(job.name)
        profile = profiles.get(job.profile)
        if profile is None:
            what = f"there is no profile {job.profile!r} in `profiles`"
            raise InputError(path, f"jobs[{i}].profile", what)


def parse_profile(name: str, raw: Any, path: str = "", where: str = "") -> model.BatsimProfile:
    """Return a profile of a workload file, or one that a scheduler registers.

    Raises:
        UnsupportedProfileError: the type of the profile is not supported.
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
        return model.Delay(**common, delay_s=delay_s)
    if kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        cpu_flop, com_bytes = fields.amount("cpu"), fields.amount("com")
        total = kind.endswith("total")
        return model.ParallelHomogeneous(
            **common, total=total, cpu_flop=cpu_flop, com_bytes=com_bytes
        )
    if kind == "parallel":
        return _parallel(fields, common)
    if kind == "composed":
        return _composed(fields, common)
    if kind == "parallel_homogeneous_pfs":
        return _storage_transfer(fields, common)
    if kind == "data_staging":
        size, source, target = fields.amount("nb_bytes"), fields.text("from"), fields.text("to")
        return model.DataStaging(**common, size_bytes=size, source=source, target=target)
    if kind == "usage_trace":
        return usage_replay(fields, name, "trace")
    error = fields.error("type", _unknown_type(kind))
    raise UnsupportedProfileError(error.path, error.where, error.what)


def check_sequences(
    profiles: Iterable[model.BatsimProfile],
    known: Mapping[str, model.BatsimProfile],
    path: str = "",
) -> None:
    """Check that composed profiles refer to existing profiles and not to themselves."""
    sizes: dict[str, int] = {}
    for profile in profiles:
        _count_tasks(profile, known, path, [], sizes)


def _parallel(fields: Fields, common: Mapping[str, Any]) -> model.Parallel:
    cpu_flop, com_bytes = fields.amounts("cpu"), fields.amounts("com")
    if not cpu_flop:
        raise fields.error("cpu", "is empty; it must have one number per host")
    if len(com_bytes) not in (0, len(cpu_flop) ** 2):
        raise fields.error(
            "com",
            f"has {len(com_bytes)} numbers; {len(cpu_flop)} hosts need {len(cpu_flop) ** 2}, one "
            "per pair of hosts, or none",
        )
    return model.Parallel(**common, cpu_flop=cpu_flop, com_bytes=com_bytes)


def _storage_transfer(fields: Fields, common: Mapping[str, Any]) -> model.StorageTransfer:
    sizes = ["bytes_to_read", "bytes_to_write"]
    if not any(name in fields.raw for name in sizes):
        raise fields.error(sizes[0], "is missing, and `bytes_to_write` too; expected one of them")
    read_bytes, write_bytes = (fields.amount(name) if name in fields.raw else 0.0 for name in sizes)
    label = next((name for name in ("storage", "host") if name in fields.raw), None)
    return model.StorageTransfer(
        **common,
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        storage="pfs" if label is None else fields.text(label),
    )


def _composed(fields: Fields, common: Mapping[str, Any]) -> model.Composed:
    names = fields.array("seq")
    if not names:
        raise fields.error("seq", "is empty; it must have at least one profile name")
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise fields.error(f"seq[{i}]", f"must be a profile name, not {kind_of_value(name)}")
    repeat = fields.integer("repeat", 1) if "repeat" in fields.raw else 1
    return model.Composed(**common, sequence=tuple(names), repeat=repeat)


def _count_tasks(
    profile: model.BatsimProfile,
    known: Mapping[str, model.BatsimProfile],
    path: str,
    above: list[str],
    sizes: dict[str, int],
) -> int:
    """Return the number of tasks of a profile, without repetitions."""
    if not isinstance(profile, model.Composed):
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
    if count > model.MAX_TASKS:
        where = f"profiles.{profile.name}.seq"
        raise InputError(path, where, f"has {count} tasks; it must have at most {model.MAX_TASKS}")
    sizes[profile.name] = count
    return count


def _unknown_type(kind: str) -> str:
    if kind in _UNSUPPORTED:
        return f"profile type {kind!r}: hpcosim does not support {_UNSUPPORTED[kind]}"
    if kind in _RENAMED:
        return f"{kind!r} is a type of Batsim 5; its name in Batsim 4 is {_RENAMED[kind]!r}"
    return f"unknown profile type {kind!r}; expected one of {', '.join(_TYPES)}"
