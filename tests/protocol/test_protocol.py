"""Comparison of the specification with the types and the server."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any, get_args

import msgpack
import msgspec
import pytest

import hpcosim_server.service.session
from hpcosim_protocol import (
    ALWAYS_WAKE_ON,
    DEFAULT_WAKE_ON,
    PROTOCOL_VERSION,
    AllocateJob,
    Decision,
    DecisionRejected,
    ErrorCode,
    Event,
    Hello,
    JobState,
    KillJob,
    NodeGroup,
    Placement,
    Platform,
    PowerState,
    PowerStates,
    RejectionCode,
    SetAlarm,
    SetNodePower,
)
from hpcosim_protocol.zmtp import MOST_FRAMES
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.outcomes import REMEMBERED
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import MAX_REJECTED_IN_A_ROW, Rules, Simulation
from hpcosim_sim.physics.node_power import NEXT
from hpcosim_sim.record.results import Run, metrics_of
from support.protocol import (
    DECISIONS,
    EVENTS,
    EXCHANGE,
    MESSAGES,
    REJECT,
    SPECIFICATION,
    STRUCTS,
    in_json,
    name_of,
)
from support.simulating import cluster_of, jobs_of


def section(title: str) -> str:
    """Return the text of a section of the specification, without its subsections."""
    found = re.search(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", SPECIFICATION, re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"no section {title}"
    return found[1]


def table(text: str, first_column: str) -> list[list[str]]:
    """Return the rows of all tables whose first column matches a pattern."""
    found = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    rows = [row for each in found for row in each.splitlines()]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def specified_fields(name: str) -> dict[str, str]:
    """Return the fields of a type in the specification.

    The basic profile has the default of each field, without which it is `required`. The extensions
    have no defaults; the default is then empty here.
    """
    basic, _, extensions = SPECIFICATION.partition("\n## 11. Extensions\n")
    heading = f"#### `{name}`\n"
    is_described = heading in basic or heading in extensions
    fields = listed_fields(section(f"`{name}`")) if is_described else {}
    assert all(bool(default) == (heading in basic) for default in fields.values())
    others = rf"^Fields of (?:`\w+`, )*`{name}`(?:, `\w+`)*:\n\n((?:[- ] .+\n)+)"
    for text in re.findall(others, SPECIFICATION, re.MULTILINE):
        fields |= listed_fields(text)
    if name in ("hello", "options"):
        column = 1 if name == "hello" else 2
        for row in table(extensions, "Extension"):
            fields |= dict.fromkeys(re.findall(r"`(\w+)`", row[column])[:1], "")
    return fields


def listed_fields(text: str) -> dict[str, str]:
    """Return the default of each field of a list: `- name (type = default): meaning`."""
    fields: dict[str, str] = {}
    for names, kind in re.findall(r"^- (`\w+`(?:,\s+`\w+`)*)(\s+\([^)]+\))?:", text, re.MULTILINE):
        default = " ".join(kind.split()).strip("()").partition(" = ")[2] or "required"
        fields |= dict.fromkeys(re.findall(r"`(\w+)`", names), default if kind else "")
    return fields


def common_fields(name: str) -> set[str]:
    """Return the common fields of a type, by the table in section 1."""
    is_event = name in map(name_of, EVENTS)
    found = {"time_s"} if is_event else set()
    is_part = name not in map(name_of, (*MESSAGES, *EVENTS, *DECISIONS))
    for cell, where, *_ in () if is_part else table(SPECIFICATION, "Common field")[1:]:
        if any(fnmatch(name, each) for each in re.findall(r"`([\w*]+)`", where)):
            found.add(re.findall(r"`(\w+)`", cell)[0])
    return found


def defaults_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the default of each field, in the notation of the specification."""
    defaults = {}
    for field in msgspec.structs.fields(struct):
        if field.required:
            defaults[field.encode_name] = "required"
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.encode_name] = f"`{json.dumps(field.default_factory())}`"
        else:
            defaults[field.encode_name] = f"`{json.dumps(field.default)}`"
    return defaults


IN_THE_SCHEMA = {"server_status", "session_status", "get_status", "partition", "switch"}
"""Types that the specification names and only the schema describes."""


@pytest.mark.parametrize("struct", STRUCTS, ids=name_of)
def test_spec_has_exactly_the_fields_of_each_type(struct: type[msgspec.Struct]) -> None:
    """The tables have the fields of each type and, in the basic profile, their defaults."""
    name, expected = name_of(struct), defaults_of(struct)
    if name in IN_THE_SCHEMA:
        assert f"`{name}`" in SPECIFICATION
        return
    for common in common_fields(name):
        assert expected.pop(common) == "required"
    specified = specified_fields(name)
    assert {field: default or expected.get(field) for field, default in specified.items()} == (
        expected
    )


def test_spec_describes_only_existing_types() -> None:
    """Every type in a heading or a table of the specification exists, and the reverse."""
    described = re.findall(r"^#### `(\w+)`$", SPECIFICATION, re.MULTILINE)
    for cell, meaning, *_ in table(SPECIFICATION, "(?:Event|Decision)"):
        described += re.findall(r"^`(\w+)`|, `(\w+)`", cell) if meaning[0].isupper() else []
    names = {"".join(name) for name in described} | IN_THE_SCHEMA
    assert names == set(map(name_of, STRUCTS))


def test_spec_lists_exactly_the_error_codes() -> None:
    """The table of errors has exactly the codes that a server can send."""
    assert {row[0] for row in table(SPECIFICATION, "Error code")} == {
        f"`{code}`" for code in get_args(ErrorCode)
    }


def test_spec_lists_exactly_the_rejection_codes() -> None:
    """The table of rejections has exactly the codes of `decision_rejected`."""
    basic = {row[0].strip("`") for row in table(SPECIFICATION, "Rejection code")}
    extensions = SPECIFICATION.partition("\n## 11. Extensions\n")[2]
    assert basic <= set(get_args(RejectionCode))
    assert basic | set(re.findall(r"`(\w+)`", extensions)) >= set(get_args(RejectionCode))


@pytest.mark.parametrize("values", [JobState, PowerState, Placement])
def test_spec_names_every_value(values: Any) -> None:
    """The specification names every job state, power state and placement."""
    assert [value for value in get_args(values) if f"`{value}`" not in SPECIFICATION] == []


def test_spec_has_the_version_of_the_code() -> None:
    """The specification has the version of the code."""
    version = re.search(r"^\*\*Version (\d+)\*\*$", SPECIFICATION, re.MULTILINE)
    assert version is not None
    assert int(version[1]) == PROTOCOL_VERSION


def test_spec_has_the_wake_sets_of_the_code() -> None:
    """The event kinds that wake a client, by default and always, are those of the code."""
    text = section("4.3 Wake-up")
    default = re.search(r"^- Default set \(.*?\): (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    always = re.search(r" Always, .*?: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert default is not None
    assert always is not None
    assert set(re.findall(r"`(\w+)`", default[1])) == DEFAULT_WAKE_ON
    assert set(re.findall(r"`(\w+)`", always[1])) == ALWAYS_WAKE_ON


def test_spec_has_the_limits_of_the_code() -> None:
    """The limits of this server in the specification are those of its code."""
    words = " ".join(SPECIFICATION.split())
    assert f"at most {MOST_FRAMES} frames as the client sends them" in words
    assert f"more than {MAX_REJECTED_IN_A_ROW} requests in a row" in words
    assert f"for the last {REMEMBERED} sessions" in words
    assert f"({Limits().message_bytes // 2**20} MiB in this server" in words


# The specification on power states


def switched(*, wake_on_allocation: bool = True) -> Simulation:
    """Return a simulation at its first submission; nodes 0 and 1 have power states, 2 has none.

    Switching on takes 5 s, switching off 3 s. Jobs of 2, 1 and 1 cores arrive at 0, 0 and 8 s.
    """
    states = PowerStates(
        sleep_w=7.0, switch_on_s=5.0, switch_on_w=80.0, switch_off_s=3.0, switch_off_w=60.0
    )
    (group,) = cluster_of(1, 2).nodes
    platform = Platform((NodeGroup(2, group.processors, power_states=states), group))
    jobs = jobs_of((0.0, 8.0, 2), (0.0, 1.0, 1), (8.0, 1.0, 1))
    simulation = Simulation(platform, jobs, Rules(wake_on_allocation=wake_on_allocation))
    simulation.advance()
    return simulation


def times_and_states(events: Sequence[Event]) -> list[tuple[float, object]]:
    """Return the time of each event, with its state or, without one, its kind."""
    return [(event.time_s, getattr(event, "state", name_of(type(event)))) for event in events]


def test_spec_has_the_transitions_of_the_code() -> None:
    """The table of power states has each state with its successor."""
    rows = table(section("11.1 Power states"), "Power state")
    assert {row[0].strip("`"): row[1].strip("`") for row in rows} == NEXT


def test_spec_has_the_rejection_codes_of_set_node_power_in_order() -> None:
    """`set_node_power` is rejected with the first code of the table that applies."""
    decisions_by_code: dict[str, list[Decision]] = {
        "unknown_node": [SetNodePower(3, "switching_on")],
        "not_allowed": [AllocateJob(1, [2]), SetNodePower(2, "switching_on")],
        "wrong_power_state": [AllocateJob(1, [0]), SetNodePower(0, "on")],
        "node_busy": [AllocateJob(1, [0]), SetNodePower(0, "sleeping")],
    }
    rows = table(section("11.1 Power states"), "Code")
    assert [row[0].strip("`") for row in rows] == list(decisions_by_code)
    for code, decisions in decisions_by_code.items():
        *_, last = switched().advance(decisions).events
        assert isinstance(last, DecisionRejected)
        assert (last.decision, last.code) == ("set_node_power", code)


def test_node_that_is_not_on_is_allocated_as_specified() -> None:
    """A sleeping node is switched on for a job if the option allows it; others are rejected."""
    for wakes in (True, False):
        simulation = switched(wake_on_allocation=wakes)
        off = simulation.advance([SetNodePower(0, "sleeping"), AllocateJob(1, [0])])
        assert times_and_states(off.events)[1:] == [(0.0, "decision_rejected")]
        assert times_and_states(simulation.advance().events) == [(3.0, "sleeping")]
        reply = simulation.advance([AllocateJob(1, [0])])
        if not wakes:
            assert times_and_states(reply.events) == [(3.0, "decision_rejected")]
            continue
        assert times_and_states(reply.events) == [(3.0, "job_allocated"), (3.0, "switching_on")]
        kinds = [name_of(type(event)) for event in simulation.snapshot()]
        assert kinds == [
            "simulation_began",
            "node_power_changed",
            *["job_submitted"] * 2,
            "job_allocated",
        ]
        killed = simulation.advance([KillJob(1)])
        assert times_and_states(killed.events) == [(3.0, "killed")]
        assert times_and_states(simulation.advance().events)[0] == (8.0, "on")


def test_order_within_an_instant_is_as_specified() -> None:
    """Jobs complete, then transitions end and allocated jobs start, then jobs are submitted."""
    simulation = switched()
    simulation.advance([AllocateJob(1, [2]), SetAlarm(8.0), SetNodePower(0, "sleeping")])
    simulation.advance()
    simulation.advance([AllocateJob(2, [0])])
    assert times_and_states(simulation.advance(wake_on=["job_completed"]).events) == [
        (8.0, "completed"),
        (8.0, "on"),
        (8.0, "job_started"),
        (8.0, "job_submitted"),
        (8.0, "no_more_jobs"),
        (8.0, "alarm"),
    ]


def test_nodes_in_transition_do_not_prolong_a_simulation() -> None:
    """When all jobs are over, a node can be switched, but time does not advance."""
    simulation = switched()
    simulation.advance([AllocateJob(1, [2]), AllocateJob(2, [0])], wake_on=["job_submitted"])
    simulation.advance([AllocateJob(3, [2])])
    off = simulation.advance([SetNodePower(0, "sleeping")])
    assert (times_and_states(off.events), off.ended) == ([(9.0, "switching_off")], False)
    assert simulation.advance(elapsed_s=100.0) == (9.0, [], True)


# The example exchange


def service() -> Service:
    """Return a server with one scenario: one job on one node."""

    def opened(hello: Hello) -> Opened:
        simulation = Simulation(cluster_of(1), jobs_of((0.0, 10.0, 1, 20.0)))
        return Opened(simulation, Run(hpcosim="0", scenario="demo", scheduler="", seed=0), 1)

    return Service(opened, name=lambda: "0123456789abcdef")


def example_exchange() -> list[tuple[str, str, int, Any, bytes]]:
    """Return sender, message type, length, JSON and bytes of each step of the example."""
    steps = re.findall(
        r"^\d+\. (Client|Server), `(\w+)`, (\d+) bytes:\n\n```json\n(.*?)```\n\n```hex\n(.*?)```",
        EXCHANGE,
        re.MULTILINE | re.DOTALL,
    )
    return [
        (who, kind, int(length), json.loads(text), bytes.fromhex(digits))
        for who, kind, length, text, digits in steps
    ]


def test_server_sends_the_bytes_of_the_example_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server replies to the client's bytes in the example with the bytes listed there."""
    monkeypatch.setattr(
        hpcosim_server.service.session,
        "metrics_of",
        lambda *args: {name: metrics_of(*args)[name] for name in ("jobs", "makespan_s")},
    )
    steps, server = example_exchange(), service()
    assert [who for who, *_ in steps] == ["Client", "Server"] * 4
    for (*_, request), (*_, reply) in zip(steps[::2], steps[1::2], strict=True):
        assert server.answer(request).hex(" ") == reply.hex(" ")


def test_example_exchange_describes_its_bytes() -> None:
    """The type, length and JSON of each step match its bytes."""
    for _, kind, length, value, data in example_exchange():
        assert (value["type"], len(data)) == (kind, length)
        assert in_json(msgpack.unpackb(data)) == in_json(value)


@pytest.mark.parametrize(
    "vector",
    [vector for vector in REJECT if vector["direction"] == "client"],
    ids=lambda vector: vector["name"],
)
def test_server_rejects_what_must_be_rejected(vector: dict[str, Any]) -> None:
    """The server's error for an invalid message has the code and field of the vector."""
    answer = msgpack.unpackb(service().answer(bytes.fromhex(vector["hex"])))
    assert (answer["type"], answer["code"]) == ("error", vector["code"])
    assert (answer["where"], answer["fatal"], answer["seq"]) == (vector["where"], False, 0)
