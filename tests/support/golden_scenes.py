"""Recorded scenes of a real Slurm, turned into jobs and actions."""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from hpcosim_client import play
from hpcosim_client.slurm.policy import SlurmPolicy, slurm
from hpcosim_client.slurm.settings import parse_site
from hpcosim_protocol import Dependency, JobRequest, NodeReservation, Platform
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.engine.site_events import JobAction, NodeChange, SiteEvents
from hpcosim_server.record.periods import PERIOD_ENDS
from hpcosim_server.record.recording import STATES
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import (
    GOLDEN_SLURM,
    OVERHEAD_S,
    USER_ACCOUNTS,
    RecordedRun,
    job_table_of,
    loop_begin,
    micro_cluster,
    micro_settings,
)
from support.sbatch_jobs import NODES, host_names, sbatch_job, sbatch_options

SCENES = ("deps", "arrays", "begin_hold", "limits", "resv", "node_fail", "preempt_qos", "shapes")
TASKS = 1000  # task K of array A has the number A * TASKS + K

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
            _submit(scene, at_s, words, answer)
        else:
            _run(scene, at_s, words.split(), answer, actions, changes)
    _clear(folder, scene, actions)
    scene.events = SiteEvents(tuple(changes), tuple(actions))
    scene.runs = _recorded(folder, t0)
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


def _submit(scene: Scene, at_s: float, words: str, answer: str) -> None:
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


def _recorded(folder: Path, t0: float) -> dict[str, list[SceneRun]]:
    """Return the runs of each job by the name that sacct shows."""
    runs: dict[str, list[SceneRun]] = {}
    with (folder / "sacct.psv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            times = []
            for column in ("Start", "End"):
                shown = row[column]
                ran = re.match(r"\d{4}-", shown) is not None
                at = datetime.fromisoformat(shown + "+00:00").timestamp() - t0 if ran else None
                times.append(at)
            nodes = tuple(sorted(host_names(row["NodeList"]))) if times[0] is not None else ()
            if row["NodeList"].startswith("None"):
                times[0], nodes = None, ()
            state = row["State"].split()[0]
            runs.setdefault(row["JobID"], []).append(SceneRun(times[0], times[1], state, nodes))
    return runs


def play_scene(scene: Scene) -> tuple[dict[str, list[SceneRun]], SlurmPolicy]:
    """Return what happens to the jobs of a scene under the policy `slurm`."""
    policy = slurm(parse_site(scene.settings))
    simulation = Simulation(scene.platform, job_table_of(scene.jobs), site_events=scene.events)
    play(
        policy,
        scene.platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    return _simulated(simulation, scene.names), policy


def _simulated(simulation: Simulation, names: dict[int, str]) -> dict[str, list[SceneRun]]:
    """Return the runs of each job by the name that sacct shows."""
    recording = simulation.recording
    periods = recording.periods
    found: dict[str, list[SceneRun]] = {}
    of_run: dict[tuple[int, int], SceneRun] = {}
    for number in range(len(periods)):
        row, run = periods.row[number], periods.run[number]
        why = PERIOD_ENDS[periods.why[number]]
        end_s = periods.end_s[number]
        if (row, run) in of_run:
            of_run[row, run].end_s, of_run[row, run].state = end_s, why
            continue
        first = periods.first_place[number]
        places = periods.nodes[first : first + periods.places[number]]
        nodes = tuple(sorted(NODES[node] for node in places))
        of_run[row, run] = SceneRun(periods.start_s[number], end_s, why, nodes)
        found.setdefault(names[recording.job_id[row]], []).append(of_run[row, run])
    for row, job_id in enumerate(recording.job_id):
        if names[job_id] not in found:
            state = STATES[recording.state[row]]
            found[names[job_id]] = [SceneRun(None, float(recording.end_s[row]), state, ())]
    return found


STATES_OF_SACCT = {
    "requeued": "REQUEUED",
    "requeued_node_failed": "NODE_FAIL",
    "suspended_requeued": "REQUEUED",
    "suspended_requeued_node_failed": "NODE_FAIL",
    "node_failed": "NODE_FAIL",
    "killed": "CANCELLED",
}


def differences(name: str, scene: Scene, found: dict[str, list[SceneRun]]) -> list[str]:
    """Return the runs of jobs that differ from the recorded ones.

    A run is the same if it starts within 5 s, on the same nodes, and ends in the same state. Jobs
    that Slurm refused at their submission are left out.
    """
    wrong = []
    shown = {scene.names[job.job_id]: job for job in scene.jobs}
    for number, real_runs in scene.runs.items():
        if number not in shown:
            continue
        ours = found.get(number, [])
        request = shown[number].request
        label = f"{number} {request.name}" if request is not None else number
        for at, real in enumerate(real_runs):
            if at >= len(ours):
                wrong.append(f"{label}: run {at + 1} is missing")
                continue
            own = ours[at]
            state = STATES_OF_SACCT.get(own.state, own.state.upper())
            if name == "preempt_qos" and state == "REQUEUED":
                state = "PREEMPTED"  # sacct calls a preempted run so, whatever becomes of it
            same_start = (own.start_s is None) == (real.start_s is None) and (
                own.start_s is None or abs(own.start_s - (real.start_s or 0.0)) <= 5.0
            )
            if not (same_start and own.nodes == real.nodes and state == real.state):
                wrong.append(f"{label}: {_shown(own, state)}; real: {_shown(real, real.state)}")
    return wrong


def _shown(run: SceneRun, state: str) -> str:
    start = "never" if run.start_s is None else f"{run.start_s:.1f} s on {','.join(run.nodes)}"
    return f"{start}, {state}"
