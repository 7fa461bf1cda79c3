"""Recorded scenes of a real Slurm, turned into jobs and actions."""

from __future__ import annotations

import gzip
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from hpcosim_protocol import JobRequest, NodeReservation
from hpcosim_sim.engine.site_events import JobAction, NodeChange, SiteEvents
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import (
    GOLDEN_SLURM,
    RecordedRun,
    loop_begin,
    micro_cluster,
    micro_settings,
)
from support.sbatch_jobs import NODES, host_names
from support.scene_jobs import TASKS, Scene, submit
from support.scene_runs import recorded_runs

SCENES = ("deps", "arrays", "begin_hold", "limits", "resv", "node_fail", "preempt_qos", "shapes")
LATEST_S = 0.99
"""Slurm compares whole seconds: a job may end up to so much after the begin of a reservation, s."""

EXTRA: dict[str, dict[str, Any]] = {
    "limits": {
        "qos": {
            "two": {"max_jobs_per_user": 2, "max_submit_jobs_per_user": 6},
            "cpu36": {"grp_tres": {"cpu": 36}},
            "gpu1": {"max_tres_per_user": {"gres/gpu": 1}},
            "wall1": {"max_wall_s": 120, "flags": ["deny_on_limit"]},
        },
        "account2": {"grp_tres": {"cpu": 48}},
        "user3": {"max_jobs": 3},
    },
    "preempt_qos": {
        "qos": {
            "low": {},
            "lowcancel": {"preempt_mode": "cancel"},
            "lowgrace": {"preempt_mode": "cancel", "grace_time_s": 20},
            "urgent": {"priority": 100, "preempt": ["low", "lowcancel", "lowgrace"]},
        },
        "preemption": {"type": "qos", "mode": "requeue"},
    },
}
"""Settings of scenes beside those of the cluster; see their `sacctmgr.extra` and `conf.extra`."""


def read_scene(name: str) -> Scene:
    """Read a scene."""
    folder = GOLDEN_SLURM / "scenes" / name
    text = (folder / "t0.txt").read_text(encoding="utf-8")
    t0 = float(re.search(r"^T0 (\S+)", text, re.M)[1])  # type: ignore[index]
    run = RecordedRun({}, -20.0, t0, loop_begin_s=loop_begin(20.0 + _first_pass(folder, t0)))
    settings = micro_settings(run)
    extra = EXTRA.get(name, {})
    settings["qos"].update(extra.get("qos", {}))
    settings["preemption"] = extra.get("preemption", {})
    settings["accounts"]["account2"].update(extra.get("account2", {}))
    settings["accounts"]["account1"]["users"]["user3"].update(extra.get("user3", {}))
    scene = Scene([], {}, SiteEvents(), micro_cluster(), settings)
    actions: list[JobAction] = []
    changes: list[NodeChange] = []
    for line in (folder / "cmd.log").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\s*(\S+) (sub|run) (.*?) ->(.*)$", line)
        if found is None:
            continue
        at_s, kind, words, answer = float(found[1]), found[2], found[3], found[4].strip()
        if kind == "sub":
            submit(scene, at_s, words, answer)
        else:
            _run(scene, at_s, words.split(), answer, actions, changes)
    _clear(folder, scene, actions)
    scene.events = SiteEvents(tuple(changes), tuple(actions))
    scene.runs = recorded_runs(folder, t0)
    return scene


def _first_pass(folder: Path, t0: float) -> float:
    """Return the time of the first pass of the main scheduler after T0, s after T0."""
    with gzip.open(folder / "sched.log.gz", "rt", encoding="utf-8") as file:
        for line in file:
            found = re.match(r"sched: \[(\S+)\] Running job scheduler", line)
            if found is not None:
                at_s = datetime.fromisoformat(found[1] + "+00:00").timestamp() - t0
                if at_s > 0:
                    return at_s
    raise ValueError(f"{folder}: no pass")


def _run(
    scene: Scene,
    at_s: float,
    words: list[str],
    answer: str,
    actions: list[JobAction],
    changes: list[NodeChange],
) -> None:
    """Add what an administrator's command does."""
    if "disabled" in answer:
        return
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    if words[:2] == ["scontrol", "update"] and "NodeName" in fields:
        kind = {"DRAIN": "drain", "DOWN": "fail", "RESUME": "repair"}[fields["State"]]
        nodes = tuple(NODES.index(name) for name in host_names(fields["NodeName"]))
        changes.append(NodeChange(at_s, nodes, kind))  # type: ignore[arg-type]
    elif words[:2] == ["scontrol", "update"]:
        for number in _jobs(scene, fields["JobId"]):
            limit = fields.get("TimeLimit")
            actions.append(
                JobAction(
                    at_s=at_s,
                    job_id=number,
                    kind="update",
                    requested_s=60.0 * float(limit) if limit else None,
                    priority=int(fields["Priority"]) if "Priority" in fields else None,
                    array_limit=int(fields.get("ArrayTaskThrottle", 0)) or None,
                )
            )
    elif words[0] == "scontrol" and words[1] == "create":
        _reserve(scene, fields)
        # The command wakes the main scheduler, as the submission of a held job does.
        number = len(scene.jobs) + 1
        request = JobRequest(hold=True)
        scene.jobs.append(
            JobSpec(number, at_s, 1.0, 1.0, 1, "cores", user="user1", request=request)
        )
        scene.names[number] = f"reservation {number}"
        actions.append(JobAction(at_s=400.0, job_id=number, kind="cancel"))
    elif words[0] == "scontrol" and words[1] in (
        "hold",
        "release",
        "suspend",
        "resume",
        "requeue",
        "requeuehold",
    ):
        kind = words[1].removesuffix("hold") if words[1] == "requeuehold" else words[1]
        for number in _jobs(scene, words[2]):
            hold = words[1] == "requeuehold"
            actions.append(
                JobAction(
                    at_s=at_s,
                    job_id=number,
                    kind=kind,  # type: ignore[arg-type]
                    hold=hold,
                    begin_s=at_s + 121.0 if kind == "requeue" else None,
                )
            )
    elif words[0] == "scancel":
        users = [w.split("=")[1] for w in words if w.startswith("--user=")]
        numbers = [j.job_id for j in scene.jobs if j.user in users] if users else []
        if not users:
            numbers = _jobs(scene, words[-1])
        actions += [JobAction(at_s=at_s, job_id=number, kind="cancel") for number in numbers]


def _jobs(scene: Scene, text: str) -> list[int]:
    """Return the numbers of a job, an array, a task or a range of tasks."""
    array, _, part = text.partition("_")
    if not part:
        of_array = [n for n, shown in scene.names.items() if shown.startswith(f"{array}_")]
        return of_array or [int(array) * TASKS]
    first, _, last = part.strip("[]").partition("-")
    return [int(array) * TASKS + index for index in range(int(first), int(last or first) + 1)]


def _reserve(scene: Scene, fields: dict[str, str]) -> None:
    """Add a reservation to the platform."""
    t0 = datetime.fromisoformat(scene.settings["priority"]["start_time"])
    start_s = (datetime.fromisoformat(fields["StartTime"]) - t0).total_seconds()
    names = NODES if fields["Nodes"] == "ALL" else host_names(fields["Nodes"])
    nodes = sorted(NODES.index(name) for name in names)
    reservation = NodeReservation(
        name=fields["ReservationName"],
        nodes=tuple((node, node) for node in nodes),
        start_s=start_s + (LATEST_S if "Flags" in fields else 0.0),
        end_s=start_s + 60.0 * float(fields["Duration"]),
        users=(fields["Users"],),
        flags=tuple(fields["Flags"].split(",")) if "Flags" in fields else (),  # type: ignore[arg-type]
    )
    old = scene.platform
    scene.platform = changed(old, reservations=(*old.reservations, reservation))


def _clear(folder: Path, scene: Scene, actions: list[JobAction]) -> None:
    """Add the cancelling of all jobs by `clear_all`, whose commands the log leaves out."""
    for line in (folder / "cmd.log").read_text(encoding="utf-8").splitlines():
        if "-- cleared" in line:
            at_s = float(line.split()[0]) - 0.2
            actions += [
                JobAction(at_s=at_s, job_id=job.job_id, kind="cancel")
                for job in scene.jobs
                if job.submit_s < at_s
            ]
