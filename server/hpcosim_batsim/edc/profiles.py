"""Profiles of Batsim 5: in workload files and in messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from hpcosim_batsim.errors import UnsupportedProfileError
from hpcosim_batsim.inputs import workload_model as model
from hpcosim_batsim.inputs.json_fields import Fields, kind_of_value
from hpcosim_batsim.inputs.usage_traces import usage_replay
from hpcosim_batsim.inputs.workload_json import ParseProfile, parse_profile

USAGE = "FractionalComputation"
TOTAL = "DefinedAmountsSpreadUniformly"
STRATEGIES = ("DefinedAmountsUsedForEachValue", TOTAL)

# Types that are not supported, and the missing feature.
_UNSUPPORTED: Mapping[str, str] = {
    "ForkJoinCompositionProfile": "tasks that fork and join",
    "ParallelTaskMergeCompositionProfile": "merged tasks",
    "ParallelTaskOnStorageHomogeneousProfile": "storage",
    "ParallelTaskDataStagingBetweenStoragesProfile": "storage",
}

# Type in Batsim 4.2.1, and the fields in a workload file by their names in messages.
_TYPES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "DelayProfile": ("delay", {"delay": "delay"}),
    "ParallelTaskProfile": (
        "parallel",
        {"computation_vector": "cpu", "communication_matrix": "com"},
    ),
    "ParallelTaskHomogeneousProfile": (
        "parallel_homogeneous",
        {
            "computation_amount": "cpu",
            "communication_amount": "com",
            "generation_strategy": "generation_strategy",
        },
    ),
    "SequentialCompositionProfile": (
        "composed",
        {"repetition_count": "repeat", "profile_ids": "seq"},
    ),
    "TraceReplayProfile": ("usage_trace", {"trace_type": "trace_type", "filename": "filename"}),
}


def parser_of(workload: str) -> ParseProfile:
    """Return the reader of the profiles of a workload."""

    def parse(name: str, raw: Any, path: str = "", where: str = "") -> model.BatsimProfile:
        fields = Fields(path, where or f"profiles.{name}", raw)
        return _parse(fields, name, workload)

    return parse


def _parse(fields: Fields, name: str, workload: str) -> model.BatsimProfile:
    kind = fields.text("type")
    if kind not in _TYPES:
        error = fields.error("type", _unknown_type(kind))
        raise UnsupportedProfileError(error.path, error.where, error.what)
    extra_data(fields)
    if kind == "TraceReplayProfile":
        if (trace := fields.text("trace_type")) != USAGE:
            what = f"trace type {trace!r}: hpcosim only supports {USAGE}, no MPI traces"
            error = fields.error("trace_type", what)
            raise UnsupportedProfileError(error.path, error.where, error.what)
        return usage_replay(fields, name, "filename")
    raw = {**fields.raw, "type": _TYPES[kind][0]}
    if kind == "ParallelTaskProfile":
        _complete_amounts(fields, raw)
    elif kind == "SequentialCompositionProfile":
        raw["seq"] = [
            each.removeprefix(f"{workload}!") if isinstance(each, str) else each
            for each in fields.array("seq")
        ]
    profile = parse_profile(name, raw, fields.path, fields.where)
    if isinstance(profile, model.ParallelHomogeneous):
        strategy = fields.raw.get("generation_strategy", STRATEGIES[0])
        if strategy not in STRATEGIES:
            expected = f"expected {' or '.join(STRATEGIES)}"
            raise fields.error("generation_strategy", f"{expected}, got {kind_of_value(strategy)}")
        total = strategy == TOTAL
        return msgspec.structs.replace(profile, raw=fields.raw, total=total, per_pair=total)
    return msgspec.structs.replace(profile, raw=fields.raw)


def _complete_amounts(fields: Fields, raw: dict[str, Any]) -> None:
    """Add the amounts of a parallel task that has only computations or only communications."""
    if "cpu" not in fields.raw:
        count = math.isqrt(len(fields.array("com"))) if "com" in fields.raw else 0
        if not count:
            raise fields.error("cpu", "is missing, and `com` too; hpcosim runs no empty task")
        raw["cpu"] = [0.0] * count
    raw.setdefault("com", [])


def _unknown_type(kind: str) -> str:
    if kind in _UNSUPPORTED:
        return f"profile type {kind!r}: hpcosim does not support {_UNSUPPORTED[kind]}"
    for name, (old, _) in _TYPES.items():
        if kind == old:
            return f"{kind!r} is a type of Batsim 4; its name in Batsim 5 is {name!r}"
    return f"unknown profile type {kind!r}; expected one of {', '.join(_TYPES)}"


def extra_data(fields: Fields) -> str:
    """Return the field `extra_data` of a job or profile as text; empty: there is none."""
    value = fields.raw.get("extra_data", "")
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    raise fields.error(
        "extra_data", f"must be a string, an object or an array, not {kind_of_value(value)}"
    )


def raw_of_message(kind: str, fields: Mapping[str, Any], extra: str) -> dict[str, Any]:
    """Return a profile of a message in the form of a workload file."""
    names = _TYPES.get(kind, ("", {}))[1]
    unknown = sorted(set(fields) - set(names))
    if unknown and kind in _TYPES:
        raise ValueError(f"profile: {kind} has no field {unknown[0]!r}")
    raw: dict[str, Any] = {"type": kind}
    raw |= {names[name]: value for name, value in fields.items() if name in names}
    if kind == "ParallelTaskHomogeneousProfile":
        raw = {"cpu": 0.0, "com": 0.0, **raw}
    return {**raw, "extra_data": extra} if extra else raw


def message_of(profile: model.BatsimProfile, workload: str) -> dict[str, Any]:
    """Return a profile as a table `ProfileAndId`."""
    kind = profile.raw["type"]
    fields = {name: profile.raw[key] for name, key in _TYPES[kind][1].items() if key in profile.raw}
    if isinstance(profile, model.Composed):
        fields["profile_ids"] = [f"{workload}!{each}" for each in profile.sequence]
        fields["repetition_count"] = profile.repeat
    if isinstance(profile, model.ParallelHomogeneous):
        fields.setdefault("generation_strategy", STRATEGIES[0])
    table = {"id": f"{workload}!{profile.name}", "profile_type": kind, "profile": fields}
    extra = extra_data(Fields("", "", dict(profile.raw)))
    return {**table, "extra_data": extra} if extra else table
