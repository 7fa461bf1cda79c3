"""The codec: messages to msgpack and back."""

from __future__ import annotations

from typing import Annotated, NoReturn

import msgspec

from hpcosim_protocol.errors import DecodeError, UnsupportedVersionError
from hpcosim_protocol.events import Event
from hpcosim_protocol.messages import (
    PROTOCOL_VERSION,
    ClientMessage,
    Events,
    Hello,
    ServerMessage,
    Welcome,
)
from hpcosim_protocol.policy import check_policy


class _Tag(msgspec.Struct):
    type: str


class _Offer(msgspec.Struct):
    type: str
    versions: Annotated[list[int], msgspec.Meta(max_length=100)] = []


class _EncodedPolicy(msgspec.Struct):
    policy: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_client_decoder: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(ClientMessage)
_server_decoder: msgspec.msgpack.Decoder[ServerMessage] = msgspec.msgpack.Decoder(ServerMessage)
_tag_decoder = msgspec.msgpack.Decoder(_Tag)
_offer_decoder = msgspec.msgpack.Decoder(_Offer)
_policy_decoder = msgspec.msgpack.Decoder(_EncodedPolicy)
_fields_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_list_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])

encode = _encoder.encode

MOST_SAID = 300  # characters of an error: it quotes the peer, which may send any length


def decode_client_message(data: bytes) -> ClientMessage:
    """Return the client's message in `data`.

    Raises:
        UnsupportedVersionError: a hello that offers no version spoken here.
        DecodeError: the bytes are no message of a client.
    """
    try:
        message = _client_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # A hello of a later version may differ in any field but these two.
        _refuse_other_versions(data)
        _raise(error)
    if type(message) is Hello:
        if PROTOCOL_VERSION not in message.versions:
            raise UnsupportedVersionError(message.versions, PROTOCOL_VERSION)
        if message.policy:
            check_policy(message.policy, memoryview(_policy_decoder.decode(data).policy).nbytes)
    return message


def decode_server_message(data: bytes) -> ServerMessage:
    """Return the server's message in `data`, without events of unknown kinds.

    Raises:
        DecodeError: the bytes are no message of a server.
    """
    try:
        return _server_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = _without_unknown_events(data)
        if message is None:
            _raise(error)
        return message


def _refuse_other_versions(data: bytes) -> None:
    try:
        offer = _offer_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if offer.type == "hello" and PROTOCOL_VERSION not in offer.versions:
        raise UnsupportedVersionError(offer.versions, PROTOCOL_VERSION)


def _without_unknown_events(data: bytes) -> Events | Welcome | None:
    """Decode the message event by event; None: it has another fault than unknown events."""
    try:
        name = _EVENTS_OF[_tag_decoder.decode(data).type]
        fields = _fields_decoder.decode(data)
        events = _list_decoder.decode(fields[name])
        known = [each for each in events if _tag_decoder.decode(each).type in _EVENT_KINDS]
        fields[name] = msgspec.Raw(_encoder.encode(known))
        message = _server_decoder.decode(_encoder.encode(fields))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return None
    return message if isinstance(message, Events | Welcome) else None


def _raise(error: Exception) -> NoReturn:
    what, _, path = str(error).rpartition(" - at `")
    if not what:
        what, path = path, ""
    # For a key that is not text msgspec says "`key` in `$`".
    where = path.rstrip("`").rpartition("` in `")[2]
    raise DecodeError(what[:MOST_SAID], where[:MOST_SAID]) from None


_EVENTS_OF = {"events": "events", "welcome": "snapshot"}
_EVENT_KINDS = {str(kind.__struct_config__.tag) for kind in Event.__args__}
