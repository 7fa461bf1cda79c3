"""The protocol's specification, types of messages and golden vectors."""

from __future__ import annotations

import json
from typing import get_args

import msgspec

from hpcosim_protocol import (
    Checkpointing,
    ClientMessage,
    Contention,
    Decision,
    Dependency,
    Event,
    Exchange,
    JobRequest,
    NodeGroup,
    NodeReservation,
    Options,
    Partition,
    Platform,
    PowerStates,
    Processor,
    ServerMessage,
    SessionStatus,
    Switch,
)
from hpcosim_protocol.requests import snake_case
from support.paths import ROOT

PROTOCOL = ROOT / "protocol"
SPECIFICATION = (PROTOCOL / "hpcosim_protocol" / "specification.md").read_text(encoding="utf-8")
EXCHANGE = (PROTOCOL / "vectors" / "exchange.md").read_text(encoding="utf-8")
ACCEPT = json.loads((PROTOCOL / "vectors" / "accept.json").read_text(encoding="utf-8"))
REJECT = json.loads((PROTOCOL / "vectors" / "reject.json").read_text(encoding="utf-8"))
MESSAGES = [*get_args(ClientMessage), *get_args(ServerMessage)]
EVENTS, DECISIONS = get_args(Event), get_args(Decision)
PARTS = [
    Platform,
    NodeGroup,
    Processor,
    Contention,
    PowerStates,
    Partition,
    NodeReservation,
    Switch,
    JobRequest,
    Dependency,
    Checkpointing,
    Exchange,
    SessionStatus,
    Options,
]
STRUCTS = [*MESSAGES, *EVENTS, *DECISIONS, *PARTS]


def in_json(value: object) -> str:
    """Return a value as JSON in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def name_of(struct: type[msgspec.Struct]) -> str:
    """Return the name of a type in the specification."""
    return snake_case(struct.__name__)
