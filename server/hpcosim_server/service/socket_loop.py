"""The service on a ZeroMQ ROUTER."""

from __future__ import annotations

import signal
import time
from types import FrameType

import structlog
import zmq

from hpcosim_server.errors import BindError
from hpcosim_server.service.service import Service

log = structlog.get_logger()

LOCAL = ("tcp://127.", "tcp://[::1]", "ipc://", "inproc://")
TICK_MS = 100  # how soon a signal, a silence or a finished session is noticed
MOST_FRAMES = 8  # of a message: identity, perhaps a request number, delimiter, body
MOST_PORTS = 65535
GOODBYE_S = 1.0
LINGER_MS = 2000  # how long the last answer may take to leave


def serve(service: Service, address: str) -> str:
    """Answer requests until told to stop, or until the service is done.

    Args:
        service: what answers.
        address: where to listen, such as `tcp://127.0.0.1:28080` or `ipc:///run/x.sock`;
            port `*` takes a free one, which the log names.

    Returns:
        Why it stopped.

    Raises:
        BindError: the address can't be had.
    """
    stop = _Stop()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = LINGER_MS
        socket.rcvtimeo = TICK_MS
        # A peer that sends far too much is cut off by ZeroMQ; one that sends a little too
        # much is told so by the service.
        socket.setsockopt(zmq.MAXMSGSIZE, 4 * service.limits.message_bytes)
        port = address.rpartition(":")[2]
        if port.isdigit() and int(port) > MOST_PORTS:  # ZeroMQ would take it modulo 65536
            raise BindError(f"can't listen at {address}: a port is at most {MOST_PORTS}")
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise BindError(f"can't listen at {address}: {error}") from error
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        log.info("listening", address=endpoint)
        if not endpoint.startswith(LOCAL):
            log.warning("open_to_others", hint="whoever reaches this address may use the server")
        while not stop.asked and not service.done:
            _answer_one(socket, service)
            service.tidy()
        why = f"the server was stopped by {stop.asked}" if stop.asked else "all sessions are over"
        if service.stop(why):
            _say_goodbye(socket, service)
        log.info("stopped", why=why)
        return why


def _say_goodbye(socket: zmq.Socket[bytes], service: Service) -> None:
    """Go on answering for a moment, so that nobody waits in vain for a server that stopped."""
    until_s = time.monotonic() + GOODBYE_S
    while time.monotonic() < until_s:
        _answer_one(socket, service)


def _answer_one(socket: zmq.Socket[bytes], service: Service) -> None:
    try:
        frames = [socket.recv()]
    except zmq.Again:
        return
    while socket.getsockopt(zmq.RCVMORE):  # several times as fast as `socket.rcvmore`
        frame = socket.recv()
        if len(frames) < MOST_FRAMES:
            frames.append(frame)
    if not 1 < len(frames) < MOST_FRAMES:  # a peer that is no REQ, nor like one
        return
    *envelope, body = frames
    answer = service.answer(body)
    for frame in envelope:  # the identity, and a REQ's delimiter, go back as they came
        socket.send(frame, zmq.SNDMORE)
    socket.send(answer)


class _Stop:
    """Remembers the first signal that asked to stop."""

    def __init__(self) -> None:
        self.asked = ""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _: FrameType | None) -> None:
        self.asked = self.asked or signal.Signals(number).name
