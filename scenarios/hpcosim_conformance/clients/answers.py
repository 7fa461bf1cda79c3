"""Answers that a server may send though few do, and answers that no server may send.

Each function returns what is sent instead of an answer: a message, or the bytes of a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_protocol import JobSubmitted, NodeGroup, Processor, Welcome

Map = dict[str, Any]

LONG_NAME = ("é☃🜁'\"\\ /{}" * 20)[:200]
UNKNOWN_EVENT: Map = {"type": "node_painted", "node": 0, "colour": "blue", "job_id": 1}


def unchanged(answer: Map) -> Map:
    """Return the answer."""
    return answer


def _in_every_map(value: Any, change: Callable[[Map], Map]) -> Any:
    """Return a value with every map in it changed, the inner ones first."""
    if isinstance(value, list):
        return [_in_every_map(each, change) for each in value]
    if isinstance(value, dict):
        return change({key: _in_every_map(each, change) for key, each in value.items()})
    return value


def type_last(answer: Map) -> Map:
    """Reverse the order of the fields in every map."""
    changed: Map = _in_every_map(answer, lambda fields: dict(reversed(fields.items())))
    return changed


def unknown_fields(answer: Map) -> Map:
    """Add unknown fields to every map, except to the metrics: their keys are free."""
    changed: Map = _in_every_map(
        answer, lambda fields: UNKNOWN_FIELDS | fields | {"zz": [UNKNOWN_FIELDS]}
    )
    return changed | {key: answer[key] for key in ("metrics",) if key in answer}


def unknown_events(answer: Map) -> Map:
    """Put events of an unknown kind before, between and after the others."""
    events = answer.get("events")
    if not events:
        return answer
    mixed = [UNKNOWN_EVENT | {"time_s": events[0]["time_s"]}]
    for event in events:
        mixed += [event, UNKNOWN_EVENT | {"time_s": event["time_s"]}]
    return answer | {"events": mixed}


def defaults_left_out(answer: Map) -> Map:
    """Leave out of a `welcome` all fields that have defaults."""
    if answer["type"] != "welcome":
        return answer
    groups = [
        _required(NodeGroup, group)
        | {"processors": [_required(Processor, each) for each in group["processors"]]}
        for group in answer["platform"]["nodes"]
    ]
    changed = {"platform": {"nodes": groups}, "options": {}}
    return {"type": "welcome"} | _required(Welcome, answer) | changed


def _required(kind: type[msgspec.Struct], fields: Map) -> Map:
    known = msgspec.structs.fields(kind)
    return {field.name: fields[field.name] for field in known if field.required}


def defaults_written_out(answer: Map) -> Map:
    """Write every field of every submitted job."""
    known = msgspec.structs.fields(JobSubmitted)
    defaults = {field.name: field.default for field in known if not field.required}
    events = [
        defaults | event if event["type"] == "job_submitted" else event
        for event in answer.get("events", ())
    ]
    return answer | {"events": events} if events else answer


def no_wake_on_allocation(answer: Map) -> Map:
    """Leave the option `wake_on_allocation` out of a `welcome`, as a server of edition 1.0 does."""
    if answer["type"] != "welcome":
        return answer
    options = {key: each for key, each in answer["options"].items() if key != "wake_on_allocation"}
    return answer | {"options": options}


def long_session_name(answer: Map) -> Map:
    """Give the session the longest name there is, of all sorts of characters."""
    return answer | {"session": LONG_NAME} if answer["type"] == "welcome" else answer


def no_metrics(answer: Map) -> Map:
    """Send no metrics."""
    return answer | {"metrics": {}} if "metrics" in answer else answer


def error(code: str, *, fatal: bool = False, seq: int = 0) -> Map:
    """Return an error."""
    said = {"message": f"the conformance kit says {code}", "where": ""}
    return {"type": "error", "code": code, "fatal": fatal, "seq": seq, **said}


def half(answer: Map) -> bytes:
    """Send the first half of the bytes."""
    data = msgspec.msgpack.encode(answer)
    return data[: len(data) // 2]


def trailing_byte(answer: Map) -> bytes:
    """Send a byte after the message."""
    return msgspec.msgpack.encode(answer) + b"\x00"


def without_events(answer: Map) -> Map:
    """Leave out a required field."""
    return {key: answer[key] for key in answer if key != "events"}


def job_without_cores(answer: Map) -> Map:
    """Add a job that lacks a required field."""
    job = {"type": "job_submitted", "time_s": answer["now_s"], "job_id": 99, "requested_s": 1.0}
    return answer | {"events": [*answer["events"], job]}
