"""Requests of a client. See `specification.md`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from hpcosim_protocol.decisions import Decision
from hpcosim_protocol.errors import DecodeError
from hpcosim_protocol.events import EventKind
from hpcosim_protocol.platform import NotNegative
from hpcosim_protocol.requests import Name, snake_case

Seq = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Override = bool | int | float | Annotated[str, Meta(max_length=200)]


MAX_POLICY_ENTRIES = 50
MAX_POLICY_BYTES = 16 * 2**10  # of the encoded field
MAX_POLICY_NESTING = 4
IN_AN_ENTRY = "$.policy[...]"


class Hello(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Open a session or resume one.

    Attributes:
        versions: all protocol versions that the client supports.
        client: name of the client, for logs and the results folder.
        nonce: any text, different for each new session. A resent hello with the same nonce gets
            the same reply and opens no second session.
        scenario: name of a scenario of the server; empty: its first scenario.
        seed: random seed; None: the scenario's seed.
        overrides: scalar values of the scenario to change, by dotted path.
        session: name of the session to resume; empty: open a new one.
        policy: description of the policy, which the server records with the results. Values are
            plain data: null, bool, int, float, text, lists and maps. Recommended keys: `name`,
            `settings`, `model_sha256`, `packages`. Limits: see `check_policy`.
        held_replies: whether the client understands `held`.
        workload_manager: whether the client understands the events of jobs that are not eligible,
            are requeued, suspended or updated. Other clients receive the events of the basic
            profile instead.
        history: whether a client that resumes a session asks for its history instead of a
            snapshot. A server that has no history sends a snapshot.
    """

    versions: Annotated[list[int], Meta(max_length=100)]
    client: Name = ""
    nonce: Name = ""
    scenario: Name = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    overrides: Annotated[dict[Name, Override], Meta(max_length=100)] = {}
    session: Name = ""
    policy: Annotated[dict[Name, Any], Meta(max_length=MAX_POLICY_ENTRIES)] = {}
    held_replies: bool = False
    workload_manager: bool = False
    history: bool = False


class Decisions(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Send decisions and continue the simulation.

    Attributes:
        session: name of the session.
        seq: sequence number: 1 for the first request, then one more for each. A resent request
            has the same number.
        decisions: decisions to execute now, in this order.
        wake_on: event kinds that wake the scheduler; None: `DEFAULT_WAKE_ON`.
        elapsed_s: simulated time that the scheduler took to decide, s. It passes before the
            decisions are executed.
    """

    session: Name
    seq: Seq
    decisions: list[Decision] = []
    wake_on: Annotated[list[EventKind], Meta(max_length=100)] | None = None
    elapsed_s: NotNegative = 0.0


class GetHistory(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Ask for requests and replies of a session; the server must have said that it has them.

    Attributes:
        session: name of the session.
        after: `seq` of the last request whose reply the client has; 0: none.
    """

    session: Name
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class GetStatus(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Ask what the server does. It needs no session."""


class Bye(Struct, tag_field="type", tag=snake_case, kw_only=True):
    """Close a session. The server writes the results recorded so far."""

    session: Name


ClientMessage = Hello | Decisions | GetHistory | GetStatus | Bye


def check_policy(policy: Mapping[str, object], encoded_bytes: int) -> None:
    """Check the limits that the type of the field does not express.

    Args:
        policy: the decoded field.
        encoded_bytes: size of the field as the peer encoded it.

    Raises:
        DecodeError: the field is too large, nests too deep, or has a value that is not plain data.
    """
    if encoded_bytes > MAX_POLICY_BYTES:
        what = f"Expected `policy` of at most {MAX_POLICY_BYTES} bytes, got {encoded_bytes}"
        raise DecodeError(what, "$.policy")
    for value in policy.values():
        _check_value(value, MAX_POLICY_NESTING)


def _check_value(value: object, levels: int) -> None:
    """Check a value that may hold at most `levels` levels of lists and maps."""
    if value is None or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DecodeError(f"Expected a finite number, got {value}", IN_AN_ENTRY)
        return
    if not isinstance(value, list | dict):
        what = f"Expected null, bool, int, float, text, list or map, got {type(value).__name__}"
        raise DecodeError(what, IN_AN_ENTRY)
    if levels == 0:
        what = f"Expected at most {MAX_POLICY_NESTING} levels of lists and maps, got more"
        raise DecodeError(what, IN_AN_ENTRY)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise DecodeError(f"Expected text as key, got {type(key).__name__}", IN_AN_ENTRY)
    for each in value.values() if isinstance(value, dict) else value:
        _check_value(each, levels - 1)
