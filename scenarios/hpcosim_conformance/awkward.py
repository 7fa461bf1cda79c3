"""What a server may send and few do, and what no server may send: answers to try a client with."""

from __future__ import annotations

from typing import Any

import msgspec

from hpcosim_conformance.script import Map

STRANGE: Map = {
    "flag": True,
    "nothing": None,
    "small": -(2**63),
    "large": 2**64 - 1,
    "float": 0.1,
    "text": "é ☃ 🜁",
    "bytes": b"\xff\x00",
    "nested": {"type": "job_submitted", "list": [[], [{"job_id": 1, "cores": 10**6}]]},
}
"""Fields of no edition."""

LONG_NAME = ("é☃🜁'\"\\ /{}" * 20)[:200]
NODE_PAINTED: Map = {"type": "node_painted", "node": 0, "colour": "blue", "job_id": 1}
LEFT_OUT = {
    "welcome": ("seq", "now_s", "snapshot"),
    "processors": (
        "clock_ghz",
        "static_w",
        "dynamic_w",
        "idle_fraction",
        "flops_per_cycle",
        "contention",
    ),
    "nodes": ("memory_mb", "power_states"),
}
JOB_DEFAULTS: Map = {
    "placement": "cores",
    "memory_mb": 0.0,
    "memory_volume_mb": 0.0,
    "max_energy_j": None,
    "profile": "",
}


def unknown_fields(number: int, answer: Map) -> Map:
    """Return an answer with unknown fields in every map whose keys are not free."""
    strange: Map = _strange(answer)
    return strange


def _strange(value: Any) -> Any:
    if isinstance(value, list):
        return [_strange(each) for each in value]
    if isinstance(value, dict):
        known = {key: each if key == "metrics" else _strange(each) for key, each in value.items()}
        return {"a_field_of_tomorrow": STRANGE} | known | {"zz": [STRANGE]}
    return value


def unknown_events(number: int, answer: Map) -> Map:
    """Return an answer with events of unknown kinds before, between and after the others."""
    events = answer.get("events")
    if not events:
        return answer
    mixed = [_painted(events[0]["time_s"])]
    for event in events:
        mixed += [event, _painted(event["time_s"])]
    return answer | {"events": mixed}


def _painted(time_s: float) -> Map:
    return NODE_PAINTED | {"time_s": time_s}


def type_last(number: int, answer: Map) -> Map:
    """Return an answer with the fields of every map in the opposite order."""
    turned: Map = _turned(answer)
    return turned


def _turned(value: Any) -> Any:
    if isinstance(value, list):
        return [_turned(each) for each in value]
    if isinstance(value, dict):
        return {key: _turned(each) for key, each in reversed(value.items())}
    return value


def defaults_left_out(number: int, answer: Map) -> Map:
    """Return an answer without the fields that have defaults."""
    if answer["type"] != "welcome":
        return answer
    groups = [
        _without(group, "nodes")
        | {"processors": [_without(each, "processors") for each in group["processors"]]}
        for group in answer["platform"]["nodes"]
    ]
    return _without(answer, "welcome") | {"platform": {"nodes": groups}, "options": {}}


def _without(fields: Map, part: str) -> Map:
    return {key: value for key, value in fields.items() if key not in LEFT_OUT[part]}


def defaults_written_out(number: int, answer: Map) -> Map:
    """Return an answer in which every job has every field."""
    events = [
        JOB_DEFAULTS | event if event["type"] == "job_submitted" else event
        for event in answer.get("events", ())
    ]
    return answer | {"events": events} if events else answer


def no_wake_on_allocation(number: int, answer: Map) -> Map:
    """Return an answer whose options do not name `wake_on_allocation`."""
    options = dict(answer.get("options", {}))
    options.pop("wake_on_allocation", None)
    return answer | {"options": options} if number == 0 else answer


def long_session_name(number: int, answer: Map) -> Map:
    """Return an answer with a session's name as long as names get, of all sorts of text."""
    return answer | {"session": LONG_NAME} if number == 0 else answer


def no_metrics(number: int, answer: Map) -> Map:
    """Return an answer without any metrics."""
    return answer | {"metrics": {}} if "metrics" in answer else answer


def a_version_not_offered(number: int, answer: Map) -> Map:
    """Return an answer whose version nobody offered."""
    return answer | {"version": 7} if number == 0 else answer


def error(code: str, fatal: bool, seq: int) -> Map:
    """Return an error."""
    said = {"message": f"the conformance kit says {code}", "where": ""}
    return {"type": "error", "code": code, "fatal": fatal, "seq": seq, **said}


def half(answer: Map) -> bytes:
    """Return the first half of an answer."""
    data = msgspec.msgpack.encode(answer)
    return data[: len(data) // 2]


def without_events(answer: Map) -> bytes:
    """Return an answer that lacks a required field."""
    return msgspec.msgpack.encode({key: answer[key] for key in answer if key != "events"})


def job_without_cores(answer: Map) -> bytes:
    """Return an answer with a job that lacks a required field."""
    job = {"type": "job_submitted", "time_s": answer["now_s"], "job_id": 99, "requested_s": 1.0}
    return msgspec.msgpack.encode(answer | {"events": [*answer["events"], job]})
