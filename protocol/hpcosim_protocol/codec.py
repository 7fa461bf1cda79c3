"""Encoder and decoders of the messages, in msgpack."""

from __future__ import annotations

from functools import cache
from typing import Annotated, NoReturn

import msgspec

from hpcosim_protocol.client_messages import ClientMessage, Hello, check_policy
from hpcosim_protocol.errors import DecodeError, UnsupportedVersionError
from hpcosim_protocol.events import Event
from hpcosim_protocol.server_messages import ServerMessage

PROTOCOL_VERSION = 1

MAX_ERROR_CHARACTERS = 300  # error messages quote the peer, which can send text of any length
_EVENTS_OF = {"events": {"events"}, "welcome": {"snapshot"}, "history": {"snapshot"}}
_EVENT_KINDS = {str(kind.__struct_config__.tag) for kind in Event.__args__}


class _TypeField(msgspec.Struct):
    type: str


class _Offer(msgspec.Struct):
    type: str
    versions: Annotated[list[int], msgspec.Meta(max_length=100)] = []


class _EncodedPolicy(msgspec.Struct):
    policy: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_type_decoder = msgspec.msgpack.Decoder(_TypeField)
_offer_decoder = msgspec.msgpack.Decoder(_Offer)
_policy_decoder = msgspec.msgpack.Decoder(_EncodedPolicy)
_fields_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_list_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])

encode = _encoder.encode


@cache  # made by the first message: a process decodes those of one side at most
def _client_decoder() -> msgspec.msgpack.Decoder[ClientMessage]:
    return msgspec.msgpack.Decoder(ClientMessage)


@cache
def _server_decoder() -> msgspec.msgpack.Decoder[ServerMessage]:
    return msgspec.msgpack.Decoder(ServerMessage)


def decode_client_message(data: bytes) -> ClientMessage:
    """Return the message of a client that `data` encodes.

    Raises:
        UnsupportedVersionError: a hello offers only unsupported versions.
        DecodeError: the bytes are not a message of a client.
    """
    try:
        message = _client_decoder().decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # In a hello of a later version, only `type` and `versions` are sure to be readable.
        _raise_if_unsupported(data)
        _raise(error)
    if type(message) is Hello:
        if PROTOCOL_VERSION not in message.versions:
            raise UnsupportedVersionError(message.versions, PROTOCOL_VERSION)
        if message.policy:
            check_policy(message.policy, memoryview(_policy_decoder.decode(data).policy).nbytes)
    return message


def decode_server_message(data: bytes) -> ServerMessage:
    """Return the message of a server that `data` encodes, without events of unknown kinds.

    Raises:
        DecodeError: the bytes are not a message of a server.
    """
    try:
        return _server_decoder().decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = _without_unknown_events(data)
        if message is None:
            _raise(error)
        return message


def _raise_if_unsupported(data: bytes) -> None:
    try:
        offer = _offer_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if offer.type == "hello" and PROTOCOL_VERSION not in offer.versions:
        raise UnsupportedVersionError(offer.versions, PROTOCOL_VERSION)


def _without_unknown_events(data: bytes) -> ServerMessage | None:
    """Decode a message event by event; None: unknown events are not its only fault."""
    try:
        kind = _type_decoder.decode(data).type
        fields = _fields_decoder.decode(data)
        for name in _EVENTS_OF[kind] & fields.keys():
            fields[name] = _known(fields[name])
        if "exchanges" in fields and kind == "history":
            fields["exchanges"] = _known_exchanges(fields["exchanges"])
        return _server_decoder().decode(_encoder.encode(fields))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return None


def _known(data: msgspec.Raw) -> msgspec.Raw:
    """Return an encoded list of events without those of unknown kinds."""
    events = _list_decoder.decode(data)
    known = [each for each in events if _type_decoder.decode(each).type in _EVENT_KINDS]
    return msgspec.Raw(_encoder.encode(known))


def _known_exchanges(data: msgspec.Raw) -> msgspec.Raw:
    """Return encoded exchanges without events of unknown kinds."""
    exchanges = [_fields_decoder.decode(each) for each in _list_decoder.decode(data)]
    for exchange in exchanges:
        reply = _fields_decoder.decode(exchange["reply"])
        reply["events"] = _known(reply["events"])
        exchange["reply"] = msgspec.Raw(_encoder.encode(reply))
    return msgspec.Raw(_encoder.encode(exchanges))


def _raise(error: Exception) -> NoReturn:
    what, _, path = str(error).rpartition(" - at `")
    if not what:
        what, path = path, ""
    # For a key that is not text, the path in the error of msgspec is "`key` in `$`".
    where = path.rstrip("`").rpartition("` in `")[2]
    raise DecodeError(what[:MAX_ERROR_CHARACTERS], where[:MAX_ERROR_CHARACTERS]) from None
