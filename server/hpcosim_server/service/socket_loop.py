"""The service on a ZeroMQ ROUTER."""

from __future__ import annotations

import math
import signal
import time
from types import FrameType

import structlog
import zmq

from hpcosim_server.errors import BindError
from hpcosim_server.service.held import Envelope
from hpcosim_server.service.service import Service

log = structlog.get_logger()

LOCAL = ("tcp://127.", "tcp://[::1]", "ipc://", "inproc://")
TICK_MS = 100  # receive timeout: delay of signals, idle timeouts and results, ms
HELD_TICK_MS = 20  # receive timeout while a reply is held back: delay of the pace's controls, ms
MOST_FRAMES = 8  # frames of a message: identity, optional request number, delimiter, body
MAX_PORT = 65535
SHUTDOWN_S = 1.0  # duration of `shutting_down` replies before the socket closes, s
LINGER_MS = 2000  # timeout for sending the last reply, ms


def serve(service: Service, address: str) -> str:
    """Reply to requests until SIGTERM, SIGINT, or until the service is done.

    Args:
        service: the service.
        address: ZeroMQ endpoint to listen at, such as `tcp://127.0.0.1:28080` or
            `ipc:///run/x.sock`. Port `*` selects a free port; the log event `listening` names it.

    Returns:
        Reason for the end.

    Raises:
        BindError: the address is malformed, in use or not permitted.
    """
    stop = _Stop()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = LINGER_MS
        socket.rcvtimeo = TICK_MS
        # ZeroMQ disconnects a peer that exceeds this limit. Below it, the service replies with
        # the error `message_too_large`.
        socket.setsockopt(zmq.MAXMSGSIZE, 4 * service.limits.message_bytes)
        port = address.rpartition(":")[2]
        if port.isdigit() and int(port) > MAX_PORT:  # ZeroMQ would use it modulo 65536
            raise BindError(f"cannot listen at {address}: expected a port from 1 to {MAX_PORT}")
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise BindError(f"cannot listen at {address}: {error}") from error
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        log.info("listening", address=endpoint)
        if not endpoint.startswith(LOCAL):
            log.warning(
                "public_address",
                address=endpoint,
                hint="other hosts may reach this address, and the server has no access control",
            )
        while not stop.signal and not service.done:
            _answer_one(socket, service)
            if service.held:
                _send_due(socket, service)
            service.tidy()
        reason = f"stopped by {stop.signal}" if stop.signal else "all sessions are over"
        for envelope, reply in service.held.all():  # these clients learn of the end sooner
            _send(socket, envelope, reply)
        if service.stop(reason):
            _reply_shutting_down(socket, service)
        log.info("stopped", reason=reason)
        return reason


def _reply_shutting_down(socket: zmq.Socket[bytes], service: Service) -> None:
    """Reply to requests for `SHUTDOWN_S`, so that clients learn that the server has stopped."""
    until_s = time.monotonic() + SHUTDOWN_S
    while time.monotonic() < until_s:
        _answer_one(socket, service)


def _answer_one(socket: zmq.Socket[bytes], service: Service) -> None:
    try:
        frames = [socket.recv()]
    except zmq.Again:
        return
    while socket.getsockopt(zmq.RCVMORE):  # several times faster than `socket.rcvmore`
        frame = socket.recv()
        if len(frames) < MOST_FRAMES:
            frames.append(frame)
    if not 1 < len(frames) < MOST_FRAMES:  # the peer is neither a REQ nor a DEALER socket
        return
    *envelope, body = frames
    if answer := service.answer(body, envelope):
        _send(socket, envelope, answer)
    elif service.held:
        _wait_for_due(socket, service)


def _send(socket: zmq.Socket[bytes], envelope: Envelope, answer: bytes) -> None:
    for frame in envelope:  # identity and delimiter are returned unchanged
        socket.send(frame, zmq.SNDMORE)
    socket.send(answer)


def _send_due(socket: zmq.Socket[bytes], service: Service) -> None:
    """Send the held replies that are due."""
    for envelope, reply in service.due():
        _send(socket, envelope, reply)
    _wait_for_due(socket, service)


def _wait_for_due(socket: zmq.Socket[bytes], service: Service) -> None:
    """Set the receive timeout so that the next held reply is sent in time."""
    longest_ms = HELD_TICK_MS if service.held else TICK_MS
    socket.rcvtimeo = math.ceil(min(longest_ms, 1000 * service.held.wait_s()))


class _Stop:
    """Handler of SIGTERM and SIGINT.

    Attributes:
        signal: name of the first signal; empty before it.
    """

    def __init__(self) -> None:
        self.signal = ""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number).name
