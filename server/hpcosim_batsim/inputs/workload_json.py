"""Batsim's workload files: jobs and profiles in JSON.

    {"nb_res": 4,
     "jobs": [{"id": 1, "subtime": 0, "res": 4, "walltime": 60, "profile": "sleep"}],
     "profiles": {"sleep": {"type": "delay", "delay": 10}}}

Unknown fields are preserved: they go to the scheduler as they were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.json_fields import Fields, kind_of_value, read_json
from hpcosim_batsim.inputs.platform_model import Platform
from hpcosim_batsim.inputs.profile_json import check_sequences, parse_profile
from hpcosim_batsim.inputs.workload_model import Job, Profile, Workload
from hpcosim_workloads.table import LATEST_S


def read_workload(path: Path, name: str) -> Workload:
    """Return the workload of a file.

    Args:
        path: the file.
        name: what it is to be called: `w0` for the first.

    Raises:
        InputError: it can't be read, or asks for what can't be had; names the field.
    """
    fields = Fields(str(path), "", read_json(path))
    profiles = fields.get("profiles")
    if not isinstance(profiles, dict):
        raise fields.wrong("profiles", f"must be an object, not {kind_of_value(profiles)}")
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
    fields = Fields(path, where, raw)
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


def _job_name(fields: Fields, workload: str) -> str:
    value = fields.get("id")
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise fields.wrong("id", f"must be a string or a whole number, not {kind_of_value(value)}")
    name = str(value).removeprefix(f"{workload}!")
    if "!" in name or not name.isprintable():
        raise fields.wrong("id", f"is {value!r}; there can be no ! and no control character in it")
    return name


def _walltime_s(fields: Fields) -> float | None:
    if fields.raw.get("walltime", -1) == -1:
        return None
    walltime_s = fields.number("walltime")
    if not 0 < walltime_s <= LATEST_S:
        raise fields.wrong(
            "walltime",
            f"is {walltime_s:g}; it must be above 0, up to {LATEST_S:g} s, or -1 for none",
        )
    return walltime_s


def _check_jobs(jobs: Sequence[Job], profiles: Mapping[str, Profile], path: str) -> None:
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        if job.name in seen:
            raise InputError(path, f"jobs[{i}].id", f"there is another job {job.name!r}")
        seen.add(job.name)
        profile = profiles.get(job.profile)
        if profile is None:
            raise InputError(path, f"jobs[{i}].profile", f"there is no profile {job.profile!r}")
