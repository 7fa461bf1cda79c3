"""Requests of a client. See `specification.md`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from hpcosim_protocol.decisions import Decision
from hpcosim_protocol.events import EventKind
from hpcosim_protocol.platform import NotNegative
from hpcosim_protocol.policy import MAX_POLICY_ENTRIES
from hpcosim_protocol.requests import Name, snake_case

Seq = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Override = bool | int | float | Annotated[str, Meta(max_length=200)]


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
