"""A SimGrid platform and Batsim workloads as a scenario.

A host is a node with one core: jobs of Batsim have whole hosts. Its power is that of a host whose
cores all compute, or that of an idle host. The run time of a job is that of its profile on the
first hosts. Where hosts differ in speed, the work of a job that only computes is stated instead, so
that its run time follows from its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from hpcosim_batsim.errors import InputError as BatsimInputError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import parts, shares_resources, task_of
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.inputs.workload_model import (
    BatsimJob,
    BatsimWorkload,
    Delay,
    ParallelHomogeneous,
)
from hpcosim_protocol.hosts import compress
from hpcosim_slurm.files.output import InputError, check_outputs, scenario_text, write_jobs
from hpcosim_slurm.files.report import ImportReport, readable

OPS_PER_GHZ = 1e9
UNLIMITED_S = 1e9
"""Requested time of jobs without a walltime, s."""
DIGITS = 6
"""Digits after the point of powers and times."""


def import_batsim(
    platform: Path, workloads: Sequence[Path], out: Path, jobs: str, *, force: bool = False
) -> ImportReport:
    """Write a scenario and its jobs from Batsim's files.

    Args:
        jobs: the file of jobs to write, relative to the folder of the scenario.

    Raises:
        InputError: a file cannot be read, is invalid, exists or cannot be written; no job can run.
            Nothing is written then.
    """
    report, lines_of = ImportReport(), out.parent / jobs
    check_outputs([out, lines_of], [platform, *workloads], None)
    try:
        found = read_platform(platform)
        read = read_workloads(workloads)
    except BatsimInputError as error:
        raise InputError(str(error)) from None
    report.facts["second 0 of the simulation"] = "time 0 of Batsim"
    if found.storage:
        report.add("not modelled", "storage hosts", count=len(found.storage))
    plain = list(_lines(found, read, report))
    lines = readable(plain, [line["name"] for line in plain], report)
    if not lines:
        raise InputError("no job of the workloads can run on the platform", workloads[0])
    scenario = {
        "name": out.stem,
        "platform": {"nodes": list(_nodes(found, report))},
        "workload": {"json": jobs},
        "scheduler": "easy",
        "kill_at_walltime": True,
    }
    text = scenario_text(scenario, report, "import batsim").encode()
    report.written = [f"{out}: {len(found.hosts):,} nodes"]
    report.written += write_jobs(lines_of, lines, (), {}, {out: text}, force=force)
    return report


def _nodes(platform: BatsimPlatform, report: ImportReport) -> Iterator[dict[str, Any]]:
    """Yield a node group for each run of equal hosts, in the order of their numbers."""
    described = [(host.name, _node(host, report)) for host in platform.hosts]
    for node, hosts in groupby(described, key=lambda each: each[1]):
        names = [name for name, _ in hosts]
        yield {"count": len(names), "names": compress(names), **node}


def _node(host: Host, report: ImportReport) -> dict[str, Any]:
    watts = host.watts[host.pstate] if host.watts else None
    processor: dict[str, Any] = {"cores": 1, "clock_ghz": host.speeds[host.pstate] / OPS_PER_GHZ}
    if watts is None:
        report.add("guessed", "power of hosts without a wattage: 0 W")
        processor |= {"static_w": 0.0, "dynamic_w": 0.0}
    else:
        busy_w = max(watts.all_w, watts.idle_w)
        share = watts.idle_w / busy_w if busy_w else 1.0
        processor |= {"static_w": busy_w, "dynamic_w": 0.0, "idle_fraction": share}
    if host.cores > 1:
        report.add("not modelled", "several cores of a host: a job has one process on each host")
    if len(host.speeds) > 1 + 3 * len(host.sleep_states):
        report.add("not modelled", "other pstates in which hosts compute")
    node: dict[str, Any] = {"processors": [processor]}
    if host.sleep_states and host.watts:
        state = host.sleep_states[min(host.sleep_states)]
        node["power_states"] = {
            "sleep_w": host.watts[state.sleep].idle_w,
            "switch_on_s": round(host.switch_time_s(state.on), DIGITS),
            "switch_on_w": host.watts[state.on].idle_w,
            "switch_off_s": round(host.switch_time_s(state.off), DIGITS),
            "switch_off_w": host.watts[state.off].idle_w,
        }
    return node


def _lines(
    platform: BatsimPlatform, workloads: Sequence[BatsimWorkload], report: ImportReport
) -> Iterator[dict[str, Any]]:
    """Yield the jobs in the order of their submission, with new numbers and their ids as names."""
    pstates = [host.pstate for host in platform.hosts]
    speeds = {host.speeds[host.pstate] for host in platform.hosts}
    profiles = {workload.name: workload.profiles for workload in workloads}
    every = sorted((job for each in workloads for job in each.jobs), key=lambda job: job.order)
    for number, job in enumerate(every, start=1):
        if job.res > len(platform.hosts):
            report.add("dropped", "jobs that need more hosts than there are", job.full_id)
            continue
        own = profiles[job.workload]
        profile = own[job.profile]
        try:
            task = task_of(profile, own, platform, range(job.res), pstates)
        except BatsimInputError as error:
            report.add("dropped", f"jobs that cannot run: {error}", job.full_id)
            continue
        if shares_resources(task):
            report.add("not modelled", "other traffic on the network of a job", job.full_id)
        if any(load < 1.0 for part in parts(task) for load in part.loads.values()):
            report.add("not modelled", "hosts that compute at a part of their speed", job.full_id)
        if any(not part.loads for part in parts(task)):
            report.add("not modelled", "idle power of hosts while a job waits", job.full_id)
        line = _line(number, job)
        if len(speeds) > 1 and isinstance(profile, ParallelHomogeneous) and not profile.com_bytes:
            flop = profile.cpu_flop / job.res if profile.total else profile.cpu_flop
            line["req_ops"] = math.ceil(flop)
        else:
            if len(speeds) > 1 and not isinstance(profile, Delay):
                report.add("guessed", "run times, as on the first hosts", job.full_id)
            line["run_s"] = round(task.duration_s, DIGITS)
        yield line


def _line(number: int, job: BatsimJob) -> dict[str, Any]:
    return {
        "job_id": number,
        "name": job.full_id,
        "submit_s": max(job.submit_s, 0.0),
        "cores": job.res,
        "requested_s": UNLIMITED_S if job.walltime_s is None else job.walltime_s,
    }
