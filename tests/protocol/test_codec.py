"""The encoder and decoders, with valid messages and arbitrary bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from hpcosim_protocol import (
    PROTOCOL_VERSION,
    ClientMessage,
    DecodeError,
    Hello,
    ProtocolError,
    ServerMessage,
    decode_client_message,
    decode_server_message,
    encode,
)
from support.protocol import (
    ACCEPT,
)

scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20)
)
scalars |= st.floats(allow_nan=False, allow_infinity=False)
plain_data = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars)


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
        case inspect.AnyType():
            return plain_data
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.ListType(item_type=item):
            return st.lists(strategy_of(item), max_size=3)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(strategy_of(item), min_size=least or 0, max_size=3).map(tuple)
        case inspect.TupleType(item_types=types):
            return st.tuples(*map(strategy_of, types))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(strategy_of(key), strategy_of(value), max_size=3)
        case inspect.UnionType(types=types):
            return st.one_of([strategy_of(each) for each in types])
        case inspect.StructType(cls=struct, fields=fields):
            return st.builds(struct, **{field.name: strategy_of(field.type) for field in fields})
    raise NotImplementedError(kind)


def offering_our_version(message: ClientMessage) -> ClientMessage:
    """Return the message; a hello offers the supported version."""
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
    """Decoding an encoded message of a client gives the same message."""
    assert decode_client_message(encode(message)) == message


@given(server_messages)
def test_server_messages_survive_the_wire(message: ServerMessage) -> None:
    """Decoding an encoded message of a server gives the same message."""
    assert decode_server_message(encode(message)) == message


@given(client_messages)
def test_msgpack_reads_what_we_write(message: ClientMessage) -> None:
    """An independent msgpack library reads the same fields from an encoded message."""
    assert msgpack.unpackb(encode(message)) == msgspec.to_builtins(message)


def hello_with(policy: dict[str, Any]) -> bytes:
    """Return the body of a hello with this policy."""
    body: bytes = msgpack.packb({"type": "hello", "versions": [1], "policy": policy})
    return body


def test_policy_of_the_largest_size_is_accepted() -> None:
    """A policy with an encoded size of 16 KiB is accepted."""
    policy = {"x": "y" * (16 * 2**10 - 6)}
    assert len(msgpack.packb(policy)) == 16 * 2**10
    assert decode_client_message(hello_with(policy)) == Hello(versions=[1], policy=policy)


def test_policy_that_is_too_large_is_rejected() -> None:
    """A policy that is a byte larger than 16 KiB is an error at the field."""
    with pytest.raises(DecodeError, match="at most 16384 bytes, got 16385") as caught:
        decode_client_message(hello_with({"x": "y" * (16 * 2**10 - 5)}))
    assert caught.value.where == "$.policy"


def test_policy_of_the_deepest_nesting_is_accepted() -> None:
    """A policy with four nested lists is accepted."""
    policy: dict[str, Any] = {"x": [[[[]]]]}
    assert decode_client_message(hello_with(policy)) == Hello(versions=[1], policy=policy)


def check_only_protocol_errors(data: bytes) -> None:
    """Fail if decoding the bytes, from either side, raises another exception than ProtocolError."""
    for read in (decode_client_message, decode_server_message):
        with contextlib.suppress(ProtocolError):
            read(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    """Decoding arbitrary bytes raises only ProtocolError."""
    check_only_protocol_errors(data)


@given(st.sampled_from(ACCEPT), st.data())
def test_any_mutated_message_is_a_message_or_a_protocol_error(
    vector: dict[str, Any], data: st.DataObject
) -> None:
    """Decoding a message with some bytes replaced raises only ProtocolError."""
    message = bytes.fromhex(vector["hex"])
    start = data.draw(st.integers(0, len(message)))
    end = data.draw(st.integers(start, min(start + 4, len(message))))
    check_only_protocol_errors(message[:start] + data.draw(st.binary(max_size=6)) + message[end:])


@given(st.sampled_from(ACCEPT), st.data(), values)
def test_any_value_in_a_field_is_a_message_or_a_protocol_error(
    vector: dict[str, Any], data: st.DataObject, value: object
) -> None:
    """Decoding a message with an arbitrary value in one field raises only ProtocolError."""
    field = data.draw(st.sampled_from(sorted(vector["json"])))
    check_only_protocol_errors(msgpack.packb(vector["json"] | {field: value}))


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1x"], ids=["arrays", "maps"])
def test_deep_nesting_is_a_protocol_error(opening: bytes) -> None:
    """A message with a million nested levels in an unknown field is rejected."""
    bomb = b"\x83\xa4type\xa3bye\xa7session\xa1s\xa1x" + opening * 1_000_000 + b"\xc0"
    with pytest.raises(DecodeError):
        decode_client_message(bomb)
    check_only_protocol_errors(bomb)
