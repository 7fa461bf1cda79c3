"""Batsim's messages to a scheduler, protocol version 4.2.1.

As in Batsim, all numbers that are not integers have six decimals (C's `%f`), also those of jobs and
profiles: a scheduler compares them with the time of the message.

Each function except `to_json` and `message` returns one event as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hpcosim_sim.record.table_rows import intervals

Json = Mapping[str, Any]

_INTEGERS = range(-(2**63), 2**64)  # Batsim's JSON reader reads other integers as double precision


def to_json(value: object) -> str:
    """Return a value as JSON on one line; numbers that are not integers have six decimals."""
    return msgspec.json.encode(_with_six_decimals(value)).decode()


def message(now_s: float, events: Iterable[str]) -> bytes:
    """Return a message with these events."""
    return f'{{"now":{now_s:.6f},"events":[{",".join(events)}]}}'.encode()


def event(time_s: float, kind: str, data: str = "{}") -> str:
    """Return an event with this type and JSON data."""
    return f'{{"timestamp":{time_s:.6f},"type":"{kind}","data":{data}}}'


def job_submitted(time_s: float, job_id: str, job: Json, profile: Json | None) -> str:
    """Return `JOB_SUBMITTED`, with the profile unless it is None."""
    forwarded = "" if profile is None else f',"profile":{to_json(profile)}'
    data = f'{{"job_id":{to_json(job_id)},"job":{to_json(job)}{forwarded}}}'
    return event(time_s, "JOB_SUBMITTED", data)


def job_completed(
    time_s: float, job_id: str, state: str, return_code: int, hosts: Sequence[int]
) -> str:
    """Return `JOB_COMPLETED` of a job that ran on these hosts."""
    return event(
        time_s,
        "JOB_COMPLETED",
        f'{{"job_id":{to_json(job_id)},"job_state":"{state}","return_code":{return_code},'
        f'"alloc":"{intervals(hosts)}"}}',
    )


def job_killed(time_s: float, job_ids: Sequence[str], progress: Mapping[str, Json]) -> str:
    """Return `JOB_KILLED`.

    Args:
        time_s: simulated time, s.
        job_ids: the jobs of the kill request.
        progress: progress of each job that the request ended, by id.
    """
    by_job = ",".join(f"{to_json(job_id)}:{_progress(task)}" for job_id, task in progress.items())
    data = f'{{"job_ids":{to_json(job_ids)},"job_progress":{{{by_job}}}}}'
    return event(time_s, "JOB_KILLED", data)


def resource_state_changed(time_s: float, hosts: Sequence[int], pstate: int) -> str:
    """Return `RESOURCE_STATE_CHANGED`: all hosts of a request are in the requested pstate."""
    data = f'{{"resources":"{intervals(hosts)}","state":"{pstate}"}}'
    return event(time_s, "RESOURCE_STATE_CHANGED", data)


def notify(time_s: float, kind: str) -> str:
    """Return a `NOTIFY` whose data has only a type."""
    return event(time_s, "NOTIFY", f'{{"type":"{kind}"}}')


def availability(time_s: float, hosts: Sequence[int], unavailable: bool) -> str:
    """Return a `NOTIFY` that hosts became unavailable, or available again."""
    kind = "event_machine_unavailable" if unavailable else "event_machine_available"
    return event(time_s, "NOTIFY", f'{{"type":"{kind}","resources":"{intervals(hosts)}"}}')


def consumed_energy(time_s: float, energy_j: float) -> str:
    """Return the `ANSWER` to a query of the consumed energy, J."""
    return event(time_s, "ANSWER", f'{{"consumed_energy":{energy_j:.6f}}}')


def _with_six_decimals(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {
            key: each if type(each) is str else _with_six_decimals(each)
            for key, each in value.items()
        }
    if kind is list:
        return [_with_six_decimals(each) for each in value]
    if kind is float or (kind is int and value not in _INTEGERS):
        return msgspec.Raw(f"{value:.6f}".encode())
    return value


def _progress(task: Json) -> str:
    name = f'"profile_name":{to_json(task["profile_name"])}'
    if "progress" in task:
        return f'{{{name},"progress":{task["progress"]:.6f}}}'
    index, current = task["current_task_index"], _progress(task["current_task"])
    return f'{{{name},"current_task_index":{index},"current_task":{current}}}'
