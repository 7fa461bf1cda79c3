"""The protocol: its specification, schema and golden vectors against the types and the server."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

import hpcosim_server.service.session
from hpcosim_protocol import (
    ALWAYS_WAKE_ON,
    DEFAULT_WAKE_ON,
    PROTOCOL_VERSION,
    AllocateJob,
    ClientMessage,
    Contention,
    Decision,
    DecisionRejected,
    DecodeError,
    ErrorCode,
    Event,
    EventKind,
    Hello,
    JobState,
    KillJob,
    NodeGroup,
    Options,
    Placement,
    Platform,
    PowerState,
    PowerStates,
    Processor,
    ProtocolError,
    RejectionCode,
    ServerMessage,
    SetAlarm,
    SetNodePower,
    UnsupportedVersionError,
    decode_client_message,
    decode_server_message,
    encode,
)
from hpcosim_protocol.events import snake_case
from hpcosim_protocol.schema import DIALECT, schemas, to_text, write
from hpcosim_server.engine.simulation import MAX_REJECTED_IN_A_ROW, Rules, Simulation
from hpcosim_server.physics.node_power import NEXT
from hpcosim_server.record.results import Run, metrics_of
from hpcosim_server.service.service import REMEMBERED, Limits, Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.socket_loop import MOST_FRAMES
from support.paths import ROOT
from support.simulating import cluster_of, jobs_of

PROTOCOL = ROOT / "protocol"
SPEC = (PROTOCOL / "README.md").read_text(encoding="utf-8")
ACCEPT = json.loads((PROTOCOL / "vectors" / "accept.json").read_text(encoding="utf-8"))
REJECT = json.loads((PROTOCOL / "vectors" / "reject.json").read_text(encoding="utf-8"))
MESSAGES = [*get_args(ClientMessage), *get_args(ServerMessage)]
EVENTS, DECISIONS = get_args(Event), get_args(Decision)
PARTS = [Platform, NodeGroup, Processor, Contention, PowerStates, Options]
STRUCTS = [*MESSAGES, *EVENTS, *DECISIONS, *PARTS]

each_accepted = pytest.mark.parametrize("vector", ACCEPT, ids=lambda vector: vector["name"])
each_rejected = pytest.mark.parametrize("vector", REJECT, ids=lambda vector: vector["name"])


def decode(vector: dict[str, Any]) -> ClientMessage | ServerMessage:
    """Return the message in a vector, as its receiver reads it."""
    data = bytes.fromhex(vector["hex"])
    if vector["direction"] == "client":
        return decode_client_message(data)
    return decode_server_message(data)


def filled_in(value: object) -> object:
    """Return a message as plain values, with the fields that are left out when written."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        fields = msgspec.structs.fields(value)
        return tag | {field.encode_name: filled_in(getattr(value, field.name)) for field in fields}
    if isinstance(value, list | tuple):
        return [filled_in(each) for each in value]
    return value


def in_json(value: object) -> str:
    """Return a value as JSON in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def name_of(struct: type[msgspec.Struct]) -> str:
    """Return the name by which the specification speaks of a type."""
    return snake_case(struct.__name__)


# Vectors


@each_accepted
def test_our_codec_reads_what_must_be_accepted(vector: dict[str, Any]) -> None:
    """A message that must be accepted reads as the vector says, defaults filled in."""
    expected = vector.get("read_as", vector["json"])
    assert in_json(filled_in(decode(vector))) == in_json(expected)


@each_accepted
def test_msgpack_reads_the_same(vector: dict[str, Any]) -> None:
    """An independent msgpack reader finds in the bytes the value beside them."""
    assert in_json(msgpack.unpackb(bytes.fromhex(vector["hex"]))) == in_json(vector["json"])


@each_accepted
def test_our_codec_writes_canonical_bytes(vector: dict[str, Any]) -> None:
    """Encoding what was read gives back the same bytes for canonical vectors, and only these."""
    assert (encode(decode(vector)).hex() == vector["hex"]) == vector["canonical"]


@each_accepted
def test_schema_allows_what_must_be_accepted(vector: dict[str, Any]) -> None:
    """What a message that must be accepted reads as is valid by the schema of its sender."""
    document = vector.get("read_as", vector["json"])
    jsonschema.Draft202012Validator(schemas()[vector["direction"]]).validate(document)


@each_rejected
def test_our_codec_rejects_what_must_be_rejected(vector: dict[str, Any]) -> None:
    """A message that must be rejected raises the error for its code, naming the field."""
    with pytest.raises(ProtocolError) as caught:
        decode(vector)
    if vector["code"] == "unsupported_version":
        assert isinstance(caught.value, UnsupportedVersionError)
    else:
        assert isinstance(caught.value, DecodeError)
        assert caught.value.where == vector["where"]


@pytest.mark.parametrize(
    "vector",
    [vector for vector in REJECT if vector["direction"] == "client"],
    ids=lambda vector: vector["name"],
)
def test_server_answers_what_must_be_rejected(vector: dict[str, Any]) -> None:
    """The server answers a message that must be rejected with the vector's code and field."""
    answer = msgpack.unpackb(service().answer(bytes.fromhex(vector["hex"])))
    assert (answer["type"], answer["code"]) == ("error", vector["code"])
    assert (answer["where"], answer["fatal"], answer["seq"]) == (vector["where"], False, 0)


def test_vectors_cover_every_kind() -> None:
    """Every message, event and decision, every code and every state is in an accept vector."""
    found = {type(message).__name__ for message in map(decode, ACCEPT)}
    texts: set[str] = set()
    for vector in ACCEPT:
        texts.update(re.findall(r'"(\w+)"', in_json(vector["json"])))
    assert {struct.__name__ for struct in MESSAGES} == found
    assert {name_of(struct) for struct in (*EVENTS, *DECISIONS)} <= texts
    for values in (ErrorCode, RejectionCode, EventKind, JobState, PowerState, Placement):
        assert set(get_args(values)) <= texts


def test_vector_names_are_unique() -> None:
    """A vector is found by its name."""
    names = [vector["name"] for vector in (*ACCEPT, *REJECT)]
    assert len(names) == len(set(names))


# Schema


@pytest.mark.parametrize("side", ["client", "server"])
def test_schema_files_are_current(side: str) -> None:
    """The schema files are what the types generate."""
    file = PROTOCOL / "schema" / f"{side}.json"
    assert file.read_text(encoding="utf-8") == to_text(schemas()[side]), (
        "run python -m hpcosim_protocol.schema protocol/schema"
    )


@pytest.mark.parametrize("side", ["client", "server"])
def test_schemas_are_schemas(side: str) -> None:
    """The documents are JSON Schema of the draft they name."""
    document = schemas()[side]
    assert document["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(document)


def test_schema_command_writes_both_files(tmp_path: Path) -> None:
    """`write` makes the folder and the two files in it, and nothing else."""
    write(tmp_path / "new")
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "client.json",
        "server.json",
    ]


def test_schema_refuses_wrong_types() -> None:
    """The schema is no rubber stamp: a decision whose job number is text is invalid by it."""
    message = {
        "type": "decisions",
        "session": "s",
        "seq": 1,
        "decisions": [{"type": "kill_job", "job_id": "1"}],
    }
    assert not jsonschema.Draft202012Validator(schemas()["client"]).is_valid(message)


# The specification


def section(title: str) -> str:
    """Return the text of a section of the specification, without those below it."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", SPEC, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no section {title}"
    return found[1]


def table(text: str, first_column: str) -> list[list[str]]:
    """Return the rows of the table whose first column is called so; none if there is no such."""
    found = re.search(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    rows = found[1].splitlines() if found else []
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def defaults_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return each field's default as the specification writes it."""
    defaults = {}
    for field in msgspec.structs.fields(struct):
        if field.required:
            defaults[field.encode_name] = "required"
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.encode_name] = f"`{json.dumps(field.default_factory())}`"
        else:
            defaults[field.encode_name] = f"`{json.dumps(field.default)}`"
    return defaults


@pytest.mark.parametrize("struct", STRUCTS, ids=name_of)
def test_spec_has_just_the_fields_of_each_type(struct: type[msgspec.Struct]) -> None:
    """The table of each message, event, decision and part has its fields and their defaults."""
    rows = table(section(f"`{name_of(struct)}`"), "Field")
    assert {row[0].strip("`"): row[3] for row in rows} == defaults_of(struct)


def test_spec_describes_nothing_that_is_not_there() -> None:
    """Every type the specification has a section on exists."""
    described = re.findall(r"^#### `(\w+)`$", SPEC, re.MULTILINE)
    assert sorted(described) == sorted(name_of(struct) for struct in STRUCTS)


def test_spec_lists_just_the_error_codes() -> None:
    """The table of errors has every code the server can send, and no other."""
    assert {row[0] for row in table(SPEC, "Error code")} == {
        f"`{code}`" for code in get_args(ErrorCode)
    }


def test_spec_lists_just_the_rejection_codes() -> None:
    """The table of rejections has every code a `decision_rejected` can have, and no other."""
    assert {row[0] for row in table(SPEC, "Rejection code")} == {
        f"`{code}`" for code in get_args(RejectionCode)
    }


@pytest.mark.parametrize("values", [JobState, PowerState, Placement])
def test_spec_names_every_value(values: Any) -> None:
    """Every job state, power state and placement is named."""
    assert [value for value in get_args(values) if f"`{value}`" not in SPEC] == []


def test_spec_has_the_version_of_the_code() -> None:
    """The specification's version is that of the wire, and its changelog ends with it."""
    version = re.search(r"^\*\*Version (\d+)\.(\d+)\*\*$", SPEC, re.MULTILINE)
    assert version is not None
    assert int(version[1]) == PROTOCOL_VERSION
    assert table(SPEC, "Version")[-1][0] == f"{version[1]}.{version[2]}"


def test_spec_has_the_wake_sets_of_the_code() -> None:
    """What wakes a client by default, and what always does, is as in the code."""
    text = section("4.3 What wakes a client")
    default = re.search(r"^- Default set \(.*?\): (.*?)\. So", text, re.MULTILINE | re.DOTALL)
    always = re.search(r"^- Always, .*?: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert default is not None
    assert always is not None
    assert set(re.findall(r"`(\w+)`", default[1])) == DEFAULT_WAKE_ON
    assert set(re.findall(r"`(\w+)`", always[1])) == ALWAYS_WAKE_ON


def test_spec_has_the_limits_of_the_code() -> None:
    """The numbers the specification gives for this server are those in its code."""
    words = " ".join(SPEC.split())
    assert f"at most {MOST_FRAMES - 2} frames as the client sends them" in words
    assert f"more than {MAX_REJECTED_IN_A_ROW} requests in a row" in words
    assert f"for the last {REMEMBERED} sessions" in words
    assert f"({Limits().message_bytes // 2**20} MiB in this server" in words


# The specification on power states


def switched(*, wake_on_allocation: bool = True) -> Simulation:
    """Return a simulation at its first submission; nodes 0 and 1 can be switched, 2 can't.

    To switch one on takes 5 s, off 3 s. Jobs of 2, 1 and 1 cores come at 0, 0 and 8 s.
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


def told(events: Sequence[Event]) -> list[tuple[float, object]]:
    """Return the time of each event, and the state it tells or else its kind."""
    return [(event.time_s, getattr(event, "state", name_of(type(event)))) for event in events]


def test_spec_has_the_transitions_of_the_code() -> None:
    """The table of power states has each, with the one that may follow it."""
    rows = table(section("5.7 Power states"), "Power state")
    assert {row[0].strip("`"): row[1].strip("`") for row in rows} == NEXT


def test_spec_has_the_refusals_of_set_node_power_in_order() -> None:
    """What `set_node_power` is refused with is as in the table, earlier codes before later."""
    provoking: dict[str, list[Decision]] = {
        "unknown_node": [SetNodePower(3, "switching_on")],
        "not_allowed": [AllocateJob(1, [2]), SetNodePower(2, "switching_on")],
        "wrong_power_state": [AllocateJob(1, [0]), SetNodePower(0, "on")],
        "node_busy": [AllocateJob(1, [0]), SetNodePower(0, "sleeping")],
    }
    rows = table(section("5.7 Power states"), "Code")
    assert [row[0].strip("`") for row in rows] == list(provoking)
    for code, decisions in provoking.items():
        *_, last = switched().advance(decisions).events
        assert isinstance(last, DecisionRejected)
        assert (last.decision, last.code) == ("set_node_power", code)


def test_node_that_is_not_on_is_given_to_a_job_as_specified() -> None:
    """A sleeping node is switched on for a job if the session allows; one on its way off is not."""
    for wakes in (True, False):
        simulation = switched(wake_on_allocation=wakes)
        off = simulation.advance([SetNodePower(0, "sleeping"), AllocateJob(1, [0])])
        assert told(off.events)[1:] == [(0.0, "decision_rejected")]
        assert told(simulation.advance().events) == [(3.0, "sleeping")]
        echo = simulation.advance([AllocateJob(1, [0])])
        if not wakes:
            assert told(echo.events) == [(3.0, "decision_rejected")]
            continue
        assert told(echo.events) == [(3.0, "job_allocated"), (3.0, "switching_on")]
        kinds = [name_of(type(event)) for event in simulation.snapshot()]
        assert kinds == [
            "simulation_began",
            "node_power_changed",
            *["job_submitted"] * 2,
            "job_allocated",
        ]
        killed = simulation.advance([KillJob(1)])
        assert told(killed.events) == [(3.0, "killed")]
        assert told(simulation.advance().events)[0] == (8.0, "on")


def test_order_within_an_instant_is_as_specified() -> None:
    """Jobs complete, then nodes are switched and jobs that waited start, then others come."""
    simulation = switched()
    simulation.advance([AllocateJob(1, [2]), SetAlarm(8.0), SetNodePower(0, "sleeping")])
    simulation.advance()
    simulation.advance([AllocateJob(2, [0])])
    assert told(simulation.advance(wake_on=["job_completed"]).events) == [
        (8.0, "completed"),
        (8.0, "on"),
        (8.0, "job_started"),
        (8.0, "job_submitted"),
        (8.0, "no_more_jobs"),
        (8.0, "alarm"),
    ]


def test_nodes_on_their_way_keep_no_simulation_alive() -> None:
    """When every job is over, a node is still switched, but no time passes for it."""
    simulation = switched()
    simulation.advance([AllocateJob(1, [2]), AllocateJob(2, [0])], wake_on=["job_submitted"])
    simulation.advance([AllocateJob(3, [2])])
    off = simulation.advance([SetNodePower(0, "sleeping")])
    assert (told(off.events), off.ended) == ([(9.0, "switching_off")], False)
    assert simulation.advance(elapsed_s=100.0) == (9.0, [], True)


# The worked exchange


def service() -> Service:
    """Return a server of one scenario: one job on one node."""

    def opened(hello: Hello) -> Opened:
        simulation = Simulation(cluster_of(1), jobs_of((0.0, 10.0, 1, 20.0)))
        return Opened(simulation, Run(hpcosim="0", scenario="demo", scheduler="", seed=0), 1)

    return Service(opened)


def worked_exchange() -> list[tuple[str, str, int, Any, bytes]]:
    """Return sender, message type, length, JSON and bytes of each step in the specification."""
    steps = re.findall(
        r"^\d+\. (Client|Server), `(\w+)`, (\d+) bytes:\n\n```json\n(.*?)```\n\n```hex\n(.*?)```",
        SPEC,
        re.MULTILINE | re.DOTALL,
    )
    return [
        (who, kind, int(length), json.loads(text), bytes.fromhex(digits))
        for who, kind, length, text, digits in steps
    ]


def test_worked_exchange_is_what_the_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers the client's bytes in the specification by those printed there."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0123456789abcdef")
    monkeypatch.setattr(
        hpcosim_server.service.session,
        "metrics_of",
        lambda *args: {name: metrics_of(*args)[name] for name in ("jobs", "makespan_s")},
    )
    steps, server = worked_exchange(), service()
    assert [who for who, *_ in steps] == ["Client", "Server"] * 4
    for (*_, asked), (*_, answered) in zip(steps[::2], steps[1::2], strict=True):
        assert server.answer(asked).hex(" ") == answered.hex(" ")


def test_worked_exchange_says_what_its_bytes_mean() -> None:
    """Type, length and JSON of each step are those of its bytes."""
    for _, kind, length, value, data in worked_exchange():
        assert (value["type"], len(data)) == (kind, length)
        assert in_json(msgpack.unpackb(data)) == in_json(value)


# Any bytes


def strategy_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type, within its bounds."""
    match kind:
        case inspect.IntType(ge=least, le=most, gt=above):
            low = least if least is not None else above + 1 if above is not None else -(2**63)
            return st.integers(low, most if most is not None else 2**64 - 1)
        case inspect.FloatType(ge=least, le=most, gt=above, lt=below):
            return st.floats(
                above if least is None else least,
                below if most is None else most,
                exclude_min=above is not None,
                exclude_max=below is not None,
                allow_nan=False,
            )
        case inspect.StrType(max_length=longest):
            return st.text(max_size=min(longest or 20, 20))
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.ListType(item_type=item):
            return st.lists(strategy_of(item), max_size=3)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(strategy_of(item), min_size=least or 0, max_size=3).map(tuple)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(strategy_of(key), strategy_of(value), max_size=3)
        case inspect.UnionType(types=types):
            return st.one_of([strategy_of(each) for each in types])
        case inspect.StructType(cls=struct, fields=fields):
            return st.builds(struct, **{field.name: strategy_of(field.type) for field in fields})
    raise NotImplementedError(kind)


def offering_our_version(message: ClientMessage) -> ClientMessage:
    """Return the message, changed so that a hello can be accepted."""
    if isinstance(message, Hello):
        message.versions.append(PROTOCOL_VERSION)
    return message


client_messages = strategy_of(inspect.type_info(ClientMessage)).map(offering_our_version)
server_messages = strategy_of(inspect.type_info(ServerMessage))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(client_messages)
def test_client_messages_survive_the_wire(message: ClientMessage) -> None:
    """A client's message read back is the message."""
    assert decode_client_message(encode(message)) == message


@given(server_messages)
def test_server_messages_survive_the_wire(message: ServerMessage) -> None:
    """A server's message read back is the message."""
    assert decode_server_message(encode(message)) == message


@given(client_messages)
def test_msgpack_reads_what_we_write(message: ClientMessage) -> None:
    """What our encoder writes, the independent reader reads as the same fields."""
    assert msgpack.unpackb(encode(message)) == msgspec.to_builtins(message)


def check_only_protocol_errors(data: bytes) -> None:
    """Fail if reading the bytes, from either side, raises anything but a ProtocolError."""
    for read in (decode_client_message, decode_server_message):
        with contextlib.suppress(ProtocolError):
            read(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    """Reading any bytes raises nothing but a ProtocolError."""
    check_only_protocol_errors(data)


@given(st.sampled_from(ACCEPT), st.data())
def test_any_mutated_message_is_a_message_or_a_protocol_error(
    vector: dict[str, Any], data: st.DataObject
) -> None:
    """Reading a message with some bytes replaced by any others raises only a ProtocolError."""
    message = bytes.fromhex(vector["hex"])
    start = data.draw(st.integers(0, len(message)))
    end = data.draw(st.integers(start, min(start + 4, len(message))))
    check_only_protocol_errors(message[:start] + data.draw(st.binary(max_size=6)) + message[end:])


@given(st.sampled_from(ACCEPT), st.data(), values)
def test_any_value_in_a_field_is_a_message_or_a_protocol_error(
    vector: dict[str, Any], data: st.DataObject, value: object
) -> None:
    """Reading a message with any value in one of its fields raises only a ProtocolError."""
    field = data.draw(st.sampled_from(sorted(vector["json"])))
    check_only_protocol_errors(msgpack.packb(vector["json"] | {field: value}))


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1x"], ids=["arrays", "maps"])
def test_deep_nesting_is_a_protocol_error(opening: bytes) -> None:
    """A whole message of a million levels, in a field nobody knows, is refused, not followed."""
    bomb = b"\x83\xa4type\xa3bye\xa7session\xa1s\xa1x" + opening * 1_000_000 + b"\xc0"
    with pytest.raises(DecodeError):
        decode_client_message(bomb)
    check_only_protocol_errors(bomb)
