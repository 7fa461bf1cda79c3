"""Requests of clients: decoding, and the options of a session in the reply to `hello`."""

from __future__ import annotations

from hpcosim_protocol import (
    ClientMessage,
    DecodeError,
    Error,
    ErrorCode,
    Hello,
    Options,
    UnsupportedVersionError,
    decode_client_message,
    encode,
)
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.session import Opened


def decode_request(data: bytes, max_bytes: int) -> ClientMessage | Error:
    """Return the message in bytes, or the error to reply with.

    Args:
        data: the bytes.
        max_bytes: maximum size of a message, bytes.
    """
    if len(data) > max_bytes:
        return Error(code="message_too_large", message=_too_large(len(data), max_bytes))
    try:
        return decode_client_message(data)
    except UnsupportedVersionError as error:
        return Error(code="unsupported_version", message=str(error))
    except DecodeError as error:
        return Error(code="invalid_message", message=error.what, where=error.where)


def error_reply(code: ErrorCode, message: str, *, fatal: bool = False, seq: int = 0) -> bytes:
    """Return an encoded error."""
    return encode(Error(code=code, message=message, fatal=fatal, seq=seq))


def options_of(opened: Opened, limits: Limits, hello: Hello) -> Options:
    """Return the options of a session that a hello opens."""
    rules = opened.simulation.rules
    return Options(
        kill_at_walltime=rules.kill_at_walltime,
        dynamic_jobs=rules.dynamic_jobs,
        wake_on_allocation=rules.wake_on_allocation,
        signals=bool(opened.simulation.signals),
        explain=True,
        workload_manager=hello.workload_manager,
        realtime=opened.run.realtime is not None,
        max_message_bytes=limits.message_bytes,
        max_decisions=limits.decisions,
        idle_timeout_s=limits.idle_s,
    )


def too_large(size: int, max_bytes: int) -> bytes:
    """Return the encoded reply to a message that is too large.

    Args:
        size: its size, bytes.
        max_bytes: maximum size, bytes.
    """
    return error_reply("message_too_large", _too_large(size, max_bytes))


def _too_large(size: int, max_bytes: int) -> str:
    what = f"the message has {size} bytes; expected at most {max_bytes}"
    return f"{what}, the maximum of this server (--max-message-bytes)"
