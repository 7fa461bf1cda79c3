"""Scenes of a real Slurm and the jobs that are submitted in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace as changed

from hpcosim_protocol import Dependency, Platform
from hpcosim_sim.engine.site_events import SiteEvents
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import (
    OVERHEAD_S,
    USER_ACCOUNTS,
)
from support.sbatch_jobs import sbatch_job, sbatch_options

TASKS = 1000  # task K of array A has the number A * TASKS + K


@dataclass
class Scene:
    """A scene.

    Attributes:
        jobs: its jobs.
        names: the name that sacct shows for each, `1001` or `1001_3`.
        events: what the administrator did.
        platform: the cluster, with the scene's reservations.
        settings: the site's settings.
    """

    jobs: list[JobSpec]
    names: dict[int, str]
    events: SiteEvents
    platform: Platform
    settings: dict[str, Any]
    runs: dict[str, list[SceneRun]] = field(default_factory=dict)


@dataclass
class SceneRun:
    """A run of a job: start and end, s after T0 (None: it never ran), state, nodes."""

    start_s: float | None
    end_s: float | None
    state: str
    nodes: tuple[str, ...]


def submit(scene: Scene, at_s: float, words: str, answer: str) -> None:
    """Add the job of a submission that Slurm accepted to a scene."""
    head, _, options = words.partition("opts: ")
    fields = dict(part.split("=") for part in head.split()[1:])
    if not answer.isdigit():
        return
    number = int(answer)
    listed = [word for word in options.split() if word]
    account = USER_ACCOUNTS[fields["user"]]
    stated = sbatch_options(listed)
    job = sbatch_job(
        number * TASKS,
        at_s,
        float(fields["seconds"]),
        [*listed, "-J", head.split()[0], f"--uid={fields['user']}", "-A", account],
    )
    job = job._replace(
        run_s=job.run_s if float(fields["seconds"]) < 0 else job.run_s + OVERHEAD_S,
        fails="exitcode" in fields,
        request=_with_rest(job, stated, at_s, scene, fields["user"]),
        deadline_s=_deadline(stated, at_s),
    )
    if "array" not in stated:
        scene.jobs.append(job)
        scene.names[job.job_id] = str(number)
        return
    indices, _, limit = stated["array"].partition("%")
    for index in _indices(indices):
        assert job.request is not None
        request = job.request
        links = request.dependencies
        if stated.get("dependency", "").startswith("aftercorr"):
            parent = int(stated["dependency"].split(":")[1])
            links = (Dependency("afterok", (parent * TASKS + index,)),)
        request = changed(
            request,
            array_id=number,
            array_index=index,
            array_limit=int(limit or 0),
            dependencies=links,
        )
        scene.jobs.append(job._replace(job_id=job.job_id + index, request=request))
        scene.names[job.job_id + index] = f"{number}_{index}"


def _with_rest(job: JobSpec, stated: dict[str, str], at_s: float, scene: Scene, user: str) -> Any:
    """Return the request with dependencies, begin, hold, nice, requeue, reservation, switches."""
    links, any_of = _dependencies(stated.get("dependency", ""), scene)
    assert job.request is not None
    switches, _, wait = stated.get("switches", "0").partition("@")
    begin = stated.get("begin", "")
    return changed(
        job.request,
        dependencies=links,
        any_dependency=any_of,
        begin_s=at_s + float(begin.removeprefix("now+")) if begin else None,
        hold="hold" in stated,
        nice=int(stated.get("nice", 0)),
        requeue="requeue" in stated,
        reservation=stated.get("reservation", ""),
        switches=int(switches),
        switches_wait_s=float(wait.split(":")[-1]) if wait else 0.0,
    )


def _dependencies(text: str, scene: Scene) -> tuple[tuple[Dependency, ...], bool]:
    links = []
    for clause in re.split("[,?]", text) if text else ():
        kind, *parents = clause.split(":")
        numbers: list[int] = []
        delay_s = 0.0
        for parent in parents:
            name, _, minutes = parent.partition("+")
            delay_s = 60.0 * float(minutes or 0)
            array, _, index = name.partition("_")
            tasks = [n for n, shown in scene.names.items() if shown.startswith(f"{array}_")]
            if index:
                numbers.append(int(array) * TASKS + int(index))
            else:
                numbers += tasks or [int(array) * TASKS]
        if kind != "aftercorr":
            links.append(Dependency(kind, tuple(numbers), delay_s))  # type: ignore[arg-type]
    return tuple(links), "?" in text


def _deadline(stated: dict[str, str], at_s: float) -> float:
    found = re.match(r"now\+(\d+)(minutes|seconds)", stated.get("deadline", ""))
    if found is None:
        return float("inf")
    return at_s + int(found[1]) * (60 if found[2] == "minutes" else 1)


def _indices(text: str) -> list[int]:
    found = re.match(r"(\d+)-(\d+)(?::(\d+))?$", text)
    assert found is not None
    return list(range(int(found[1]), int(found[2]) + 1, int(found[3] or 1)))
