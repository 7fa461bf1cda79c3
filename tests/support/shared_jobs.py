"""Jobs that share hosts and links, played through the bridge: each starts when it is submitted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.workload_model import BatsimJob, BatsimWorkload
from support.simgrid_tasks import MeasuredTask


def end_times_by_bridge_s(
    platform: BatsimPlatform, tasks: Sequence[MeasuredTask], *, share_hosts: bool
) -> dict[str, float]:
    """Return the end of each task that runs as a job, s.

    Args:
        platform: the platform.
        tasks: the tasks.
        share_hosts: whether a host may run several of them at the same time.
    """
    bridge = Bridge([workload_of(tasks)], platform, BatsimOptions(compute_sharing=share_hosts))
    by_name = {task.name: task for task in tasks}
    message = json.loads(bridge.first_message())
    while not bridge.ended:
        started = [
            by_name[event["data"]["job_id"].removeprefix("w0!")]
            for event in message["events"]
            if event["type"] == "JOB_SUBMITTED"
        ]
        now_s = message["now"]
        events = [
            {"timestamp": now_s, "type": "EXECUTE_JOB", "data": start_of(task)} for task in started
        ]
        reply = json.dumps({"now": now_s, "events": events})
        message = json.loads(bridge.next_message(reply.encode()))
    bridge.run.simulation.validate()
    assert {job.final for job in bridge.run.registry.jobs} == {"COMPLETED_SUCCESSFULLY"}
    recording, jobs = bridge.run.simulation.recording, bridge.run.registry.jobs
    ends = zip(recording.job_id, recording.end_s, strict=True)
    return {jobs[number].source.name: end_s for number, end_s in ends}


def workload_of(tasks: Sequence[MeasuredTask]) -> BatsimWorkload:
    """Return the workload of tasks that are submitted at their start."""
    jobs = [
        BatsimJob(
            workload="w0",
            name=task.name,
            submit_s=task.start_s,
            res=len(task.hosts),
            profile=task.name,
            raw={"id": f"w0!{task.name}"},
        )
        for task in sorted(tasks, key=lambda task: (task.start_s, task.name))
    ]
    profiles = {task.name: task.profile for task in tasks}
    return BatsimWorkload(name="w0", path="w", nb_res=1, jobs=tuple(jobs), profiles=profiles)


def start_of(task: MeasuredTask) -> dict[str, object]:
    """Return the data of the decision that starts a task on its hosts."""
    hosts = sorted(set(task.hosts))
    return {
        "job_id": f"w0!{task.name}",
        "alloc": " ".join(str(host) for host in hosts),
        "mapping": {str(i): str(hosts.index(host)) for i, host in enumerate(task.hosts)},
    }
