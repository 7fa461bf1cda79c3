"""Comparison of the golden vectors with the codec, the schema and another msgpack library."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args

import jsonschema
import msgpack
import msgspec
import pytest

from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    ErrorCode,
    EventKind,
    JobState,
    Placement,
    PowerState,
    ProtocolError,
    RejectionCode,
    ServerMessage,
    UnsupportedVersionError,
    decode_client_message,
    decode_server_message,
    encode,
)
from hpcosim_protocol.schema import schemas
from support.protocol import (
    ACCEPT,
    DECISIONS,
    EVENTS,
    MESSAGES,
    REJECT,
    in_json,
    name_of,
)

each_accepted = pytest.mark.parametrize("vector", ACCEPT, ids=lambda vector: vector["name"])
each_rejected = pytest.mark.parametrize("vector", REJECT, ids=lambda vector: vector["name"])


def decode(vector: dict[str, Any]) -> ClientMessage | ServerMessage:
    """Return the message of a vector, as its receiver decodes it."""
    data = bytes.fromhex(vector["hex"])
    if vector["direction"] == "client":
        return decode_client_message(data)
    return decode_server_message(data)


def filled_in(value: object) -> object:
    """Return a message as plain values, including fields that the encoder omits."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        fields = msgspec.structs.fields(value)
        return tag | {field.encode_name: filled_in(getattr(value, field.name)) for field in fields}
    if isinstance(value, list | tuple):
        return [filled_in(each) for each in value]
    return value


@each_accepted
def test_codec_reads_what_must_be_accepted(vector: dict[str, Any]) -> None:
    """A message that must be accepted decodes to the value of its vector."""
    expected = vector.get("read_as", vector["json"])
    assert in_json(filled_in(decode(vector))) == in_json(expected)


@each_accepted
def test_msgpack_reads_the_same(vector: dict[str, Any]) -> None:
    """An independent msgpack library decodes the bytes to the value in `json`."""
    assert in_json(msgpack.unpackb(bytes.fromhex(vector["hex"]))) == in_json(vector["json"])


@each_accepted
def test_codec_writes_canonical_bytes(vector: dict[str, Any]) -> None:
    """Encoding the decoded message gives the same bytes exactly for canonical vectors."""
    assert (encode(decode(vector)).hex() == vector["hex"]) == vector["canonical"]


@cache
def validators() -> dict[str, jsonschema.Draft202012Validator]:
    """Return the validators of the messages, by sender."""
    return {side: jsonschema.Draft202012Validator(schema) for side, schema in schemas().items()}


@each_accepted
def test_schema_allows_what_must_be_accepted(vector: dict[str, Any]) -> None:
    """A message that must be accepted is valid by the schema of its sender."""
    document = vector.get("read_as", vector["json"])
    validators()[vector["direction"]].validate(document)


@each_rejected
def test_codec_rejects_what_must_be_rejected(vector: dict[str, Any]) -> None:
    """A message that must be rejected raises the exception for its code, with the field."""
    with pytest.raises(ProtocolError) as caught:
        decode(vector)
    if vector["code"] == "unsupported_version":
        assert isinstance(caught.value, UnsupportedVersionError)
    else:
        assert isinstance(caught.value, DecodeError)
        assert caught.value.where == vector["where"]


def test_vectors_cover_every_kind() -> None:
    """The accept vectors contain every message, event, decision, code and state."""
    found = {type(message).__name__ for message in map(decode, ACCEPT)}
    texts: set[str] = set()
    for vector in ACCEPT:
        texts.update(re.findall(r'"(\w+)"', in_json(vector["json"])))
    assert {struct.__name__ for struct in MESSAGES} == found
    assert {name_of(struct) for struct in (*EVENTS, *DECISIONS)} <= texts
    for values in (ErrorCode, RejectionCode, EventKind, JobState, PowerState, Placement):
        assert set(get_args(values)) <= texts


def test_vector_names_are_unique() -> None:
    """No two vectors have the same name."""
    names = [vector["name"] for vector in (*ACCEPT, *REJECT)]
    assert len(names) == len(set(names))
