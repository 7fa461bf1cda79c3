"""What schedulers are told: Batsim's messages of version 4.2.1, with its times of six decimals.

Each function returns one event as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hpcosim_server.record.tables import intervals

Json = Mapping[str, Any]


def to_json(value: object) -> str:
    """Return JSON in one line."""
    return msgspec.json.encode(value).decode()


def message(now_s: float, events: Iterable[str]) -> bytes:
    """Return a message of these events."""
    return f'{{"now":{now_s:.6f},"events":[{",".join(events)}]}}'.encode()


def event(time_s: float, kind: str, data: str = "{}") -> str:
    """Return an event of this type."""
    return f'{{"timestamp":{time_s:.6f},"type":"{kind}","data":{data}}}'


def job_submitted(time_s: float, job_id: str, job: Json, profile: Json | None) -> str:
    """Return that a job joined the queue; its profile, if that is to be forwarded."""
    more = "" if profile is None else f',"profile":{to_json(profile)}'
    data = f'{{"job_id":{to_json(job_id)},"job":{to_json(job)}{more}}}'
    return event(time_s, "JOB_SUBMITTED", data)


def job_completed(
    time_s: float, job_id: str, state: str, return_code: int, hosts: Sequence[int]
) -> str:
    """Return that a job which ran on these hosts is over."""
    return event(
        time_s,
        "JOB_COMPLETED",
        f'{{"job_id":{to_json(job_id)},"job_state":"{state}","return_code":{return_code},'
        f'"alloc":"{intervals(hosts)}"}}',
    )


def job_killed(time_s: float, job_ids: Sequence[str], progress: Mapping[str, Json]) -> str:
    """Return that jobs were killed: how far each was; one that was over before is not in it."""
    told = ",".join(f"{to_json(job_id)}:{_progress(task)}" for job_id, task in progress.items())
    data = f'{{"job_ids":{to_json(job_ids)},"job_progress":{{{told}}}}}'
    return event(time_s, "JOB_KILLED", data)


def resource_state_changed(time_s: float, hosts: Sequence[int], pstate: int) -> str:
    """Return that all hosts of a request are in the power state it asked for."""
    data = f'{{"resources":"{intervals(hosts)}","state":"{pstate}"}}'
    return event(time_s, "RESOURCE_STATE_CHANGED", data)


def notify(time_s: float, kind: str) -> str:
    """Return a notification that has nothing but a type."""
    return event(time_s, "NOTIFY", f'{{"type":"{kind}"}}')


def availability(time_s: float, hosts: Sequence[int], gone: bool) -> str:
    """Return that hosts can't be used any more, or can again."""
    kind = "event_machine_unavailable" if gone else "event_machine_available"
    return event(time_s, "NOTIFY", f'{{"type":"{kind}","resources":"{intervals(hosts)}"}}')


def consumed_energy(time_s: float, energy_j: float) -> str:
    """Return the answer to a query."""
    return event(time_s, "ANSWER", f'{{"consumed_energy":{energy_j:.6f}}}')


def _progress(task: Json) -> str:
    name = f'"profile_name":{to_json(task["profile_name"])}'
    if "progress" in task:
        return f'{{{name},"progress":{task["progress"]:.6f}}}'
    index, below = task["current_task_index"], _progress(task["current_task"])
    return f'{{{name},"current_task_index":{index},"current_task":{below}}}'
