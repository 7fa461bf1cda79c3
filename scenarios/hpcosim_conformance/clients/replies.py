"""Altered replies: rare valid ones, and invalid ones.

Each function returns the replacement of a reply: a message or the bytes of a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hpcosim_conformance.encodings import UNKNOWN_FIELDS
from hpcosim_protocol import JobSubmitted, NodeGroup, Processor, Welcome

Map = dict[str, Any]

LONG_NAME = ("é☃🜁'\"\\ /{}" * 20)[:200]
FREE_KEYS = frozenset({"metrics", "licenses", "gres"})  # fields whose keys are not field names
UNKNOWN_EVENT: Map = {"type": "node_painted", "node": 0, "colour": "blue", "job_id": 1}


def unchanged(reply: Map) -> Map:
    """Return the reply unchanged."""
    return reply


def _in_every_map(value: Any, change: Callable[[Map], Map]) -> Any:
    """Return a value with every map of fields in it changed, inner maps first."""
    if isinstance(value, list):
        return [_in_every_map(each, change) for each in value]
    if isinstance(value, dict):
        return change(
            {
                key: each if key in FREE_KEYS else _in_every_map(each, change)
                for key, each in value.items()
            }
        )
    return value


def type_last(reply: Map) -> Map:
    """Reverse the order of the fields in every map."""
    changed: Map = _in_every_map(reply, lambda fields: dict(reversed(fields.items())))
    return changed


def unknown_fields(reply: Map) -> Map:
    """Add unknown fields to every map, except to those with free keys."""
    changed: Map = _in_every_map(
        reply, lambda fields: UNKNOWN_FIELDS | fields | {"zz": [UNKNOWN_FIELDS]}
    )
    return changed


def unknown_events(reply: Map) -> Map:
    """Insert events of an unknown kind before, between and after the others."""
    events = reply.get("events")
    if not events:
        return reply
    mixed = [UNKNOWN_EVENT | {"time_s": events[0]["time_s"]}]
    for event in events:
        mixed += [event, UNKNOWN_EVENT | {"time_s": event["time_s"]}]
    return reply | {"events": mixed}


def defaults_left_out(reply: Map) -> Map:
    """Omit all fields with defaults from a `welcome`."""
    if reply["type"] != "welcome":
        return reply
    groups = [
        _required(NodeGroup, group)
        | {"processors": [_required(Processor, each) for each in group["processors"]]}
        for group in reply["platform"]["nodes"]
    ]
    changed = {"platform": {"nodes": groups}, "options": {}}
    return {"type": "welcome"} | _required(Welcome, reply) | changed


def _required(kind: type[msgspec.Struct], fields: Map) -> Map:
    known = msgspec.structs.fields(kind)
    return {field.name: fields[field.name] for field in known if field.required}


def defaults_written_out(reply: Map) -> Map:
    """Write every field of every submitted job."""
    known = msgspec.structs.fields(JobSubmitted)
    defaults = {field.name: field.default for field in known if not field.required}
    events = [
        defaults | event if event["type"] == "job_submitted" else event
        for event in reply.get("events", ())
    ]
    return reply | {"events": events} if events else reply


def no_wake_on_allocation(reply: Map) -> Map:
    """Omit the option `wake_on_allocation` from a `welcome`, as a basic server does."""
    return _without_option("wake_on_allocation", reply)


def no_explain(reply: Map) -> Map:
    """Omit the option `explain` from a `welcome`, as a basic server does."""
    return _without_option("explain", reply)


def no_workload_manager(reply: Map) -> Map:
    """Omit the option `workload_manager` from a `welcome`, as a basic server does."""
    return _without_option("workload_manager", reply)


def _without_option(name: str, reply: Map) -> Map:
    if reply["type"] != "welcome":
        return reply
    return reply | {"options": {key: each for key, each in reply["options"].items() if key != name}}


def long_session_name(reply: Map) -> Map:
    """Give the session a name of 200 characters, many of them not ASCII."""
    return reply | {"session": LONG_NAME} if reply["type"] == "welcome" else reply


def no_metrics(reply: Map) -> Map:
    """Remove all metrics."""
    return reply | {"metrics": {}} if "metrics" in reply else reply


def error(code: str, *, fatal: bool = False, seq: int = 0) -> Map:
    """Return an error message of this code."""
    fields = {"message": f"the conformance kit sends {code}", "where": ""}
    return {"type": "error", "code": code, "fatal": fatal, "seq": seq, **fields}


def half(reply: Map) -> bytes:
    """Return the first half of the bytes."""
    data = msgspec.msgpack.encode(reply)
    return data[: len(data) // 2]


def trailing_byte(reply: Map) -> bytes:
    """Return the message with a byte after it."""
    return msgspec.msgpack.encode(reply) + b"\x00"


def without_events(reply: Map) -> Map:
    """Omit the required field `events`."""
    return {key: reply[key] for key in reply if key != "events"}


def job_without_cores(reply: Map) -> Map:
    """Add a job without the required field `cores`."""
    job = {"type": "job_submitted", "time_s": reply["now_s"], "job_id": 99, "requested_s": 1.0}
    return reply | {"events": [*reply["events"], job]}
