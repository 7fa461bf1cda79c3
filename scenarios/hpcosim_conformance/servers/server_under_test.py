"""A session with a server under test: its known state, and a first-come, first-served policy."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import zmq

from hpcosim_conformance.errors import (
    BrokenRuleError,
    CommandError,
    NoServerError,
    NotTriedError,
    expect,
)
from hpcosim_protocol import DEFAULT_WAKE_ON, DecodeError, decode_server_message
from hpcosim_protocol.keys import ClientKeys, connect_with

Map = dict[str, Any]
FoundT = TypeVar("FoundT")

MAX_REQUESTS = 3000  # to reach a state of the simulation; longer scenarios take too long


DELIMITER = b""
CONNECT_S = 3.0  # timeout for the connection, wall s
CHECK_S = 300.0  # timeout for all requests of a check, wall s
POLL_MS = 50


def of_kind(events: Sequence[Map], kind: str) -> list[Map]:
    """Return the events of a kind."""
    return [event for event in events if event["type"] == kind]


def rejection_codes(events: Sequence[Map]) -> list[str]:
    """Return the codes of the rejected decisions."""
    return [event["code"] for event in of_kind(events, "decision_rejected")]


@dataclass(slots=True)
class OpenSession:
    """A session with the state that the server has reported.

    Attributes:
        exchange: sends a message and returns the reply.
        welcome: the reply to the hello.
        seq: `seq` of the last answered request.
        now_s: simulated time, s.
        waiting: events `job_submitted` of the waiting jobs that are eligible, by job number.
        later: those of the waiting jobs that are not eligible.
        running: cores that a job holds on each node, by job number and node.
        free: number of free cores of each node.
        metrics: metrics of the simulation; None: it has not ended.
        log: all events so far.
        started: events `job_submitted` of the jobs that `step` started, by job number.
        pauses: whether an allocation of `step` was rejected and nothing has become free since.
    """

    exchange: Callable[[Map], Map]
    welcome: Map
    seq: int = 0
    now_s: float = 0.0
    waiting: dict[int, Map] = field(default_factory=dict)
    later: dict[int, Map] = field(default_factory=dict)
    running: dict[int, dict[int, int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    metrics: Map | None = None
    log: list[Map] = field(default_factory=list)
    pauses: bool = False
    started: dict[int, Map] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now_s = self.welcome.get("now_s", 0.0)
        self.free = self.capacity

    @property
    def name(self) -> str:
        """Name of the session."""
        name: str = self.welcome["session"]
        return name

    @property
    def options(self) -> Map:
        """Options of the session."""
        options: Map = self.welcome["options"]
        return options

    @property
    def capacity(self) -> list[int]:
        """Number of cores of each node."""
        return [
            sum(processor["cores"] for processor in group["processors"])
            for group in self.welcome["platform"]["nodes"]
            for _ in range(group["count"])
        ]

    # Requests and replies

    def request(self, *decisions: Map, **fields: Any) -> Map:
        """Return the next request without sending it."""
        named = {"type": "decisions", "session": self.name, "seq": self.seq + 1}
        return named | {"decisions": list(decisions)} | fields

    def decide(self, *decisions: Map, **fields: Any) -> list[Map]:
        """Send decisions and return the events of the reply; empty: the simulation ended.

        Raises:
            BrokenRuleError: the reply has a wrong type, or its events are out of order.
        """
        reply = self.exchange(self.request(*decisions, **fields))
        return self.read_reply(reply, by_default=not fields)

    def read_reply(self, reply: Map, *, by_default: bool = False) -> list[Map]:
        """Apply the reply to the next request and return its events.

        Args:
            by_default: whether the request had neither `wake_on` nor `elapsed_s`.

        Raises:
            BrokenRuleError: the reply has a wrong type, or its events are out of order.
        """
        kind = reply["type"]
        got = f"{kind} {reply.get('code', '')}: {reply.get('message', '')}"
        what = f"the reply to decisions is {got}; expected events"
        expect(kind in ("events", "simulation_ended"), "R-in-order", what)
        self.seq += 1
        what = f"the reply has seq {reply['seq']}; expected {self.seq}"
        expect(reply["seq"] == self.seq, "R-answered-seq", what)
        expect(reply["now_s"] >= self.now_s, "R-time", f"now_s decreased to {reply['now_s']}")
        self.now_s = reply["now_s"]
        if kind == "simulation_ended":
            self.metrics = reply["metrics"]
            return []
        events: list[Map] = reply["events"]
        self._check_events(events, by_default=by_default)
        for event in events:
            self._apply(event)
        self.log += events
        return events

    def _check_events(self, events: Sequence[Map], *, by_default: bool) -> None:
        expect(bool(events), "R-never-empty", "the reply has no events")
        times = [event["time_s"] for event in events]
        expect(times == sorted(times), "R-time", f"the times of the events are not sorted: {times}")
        expect(times[-1] <= self.now_s, "R-time", f"an event is after now_s, {self.now_s} s")
        if by_default:
            late = [e for e in events if e["type"] in DEFAULT_WAKE_ON and e["time_s"] < self.now_s]
            expect(not late, "R-wake-on", f"the server reported {late[:1]} only at {self.now_s} s")

    def _apply(self, event: Map) -> None:
        kind, number = event["type"], event.get("job_id")
        if kind in ("job_completed", "node_repaired"):
            self.pauses = False
        if kind == "job_submitted":
            jobs = self.waiting if event.get("eligible", True) else self.later
            jobs[event["job_id"]] = event
        elif kind == "job_eligible" and number in self.later:
            self.waiting[event["job_id"]] = self.later.pop(event["job_id"])
        elif kind == "job_completed":
            self.waiting.pop(event["job_id"], None)
            self.later.pop(event["job_id"], None)
            self._release(event["job_id"])
        elif kind == "job_requeued" and number in self.running:
            self.later[event["job_id"]] = self.started[event["job_id"]]
            self._release(event["job_id"])
        elif (kind, event.get("decision")) == ("decision_rejected", "allocate_job"):
            self._wait_on(event.get("job_id"))

    def _wait_on(self, number: int | None) -> None:
        """Note that an allocation was rejected; a job of `step` waits on."""
        if number is not None and number in self.running:
            self.waiting[number] = self.started[number]
            self._release(number)
            self.pauses = True

    def _release(self, number: int) -> None:
        for node, cores in self.running.pop(number, {}).items():
            self.free[node] += cores

    # First come, first served

    def step(self) -> list[Map]:
        """Start waiting jobs, first come, first served, and return the events of the reply."""
        decisions = []
        for job_id, job in [] if self.pauses else list(self.waiting.items()):
            place = self._place(job)
            if place is None:
                break
            for node, cores in place.items():
                self.free[node] -= cores
            self.started[job_id] = self.waiting.pop(job_id)
            self.running[job_id] = place
            decisions.append(_allocate(job, place))
        return self.decide(*decisions)

    def allocation(self) -> Map | None:
        """Return the decision that starts the first waiting job that fits; None: none fits."""
        for job in self.waiting.values():
            place = self._place(job)
            if place is not None:
                return _allocate(job, place)
        return None

    def _place(self, job: Map) -> dict[int, int] | None:
        """Return the cores of a job on the first suitable nodes; None: it does not fit."""
        placement, missing = job.get("placement", "cores"), job["cores"]
        held = {}
        for node, (free, cores) in enumerate(zip(self.free, self.capacity, strict=True)):
            whole = placement == "whole_nodes"
            if not free or (whole and free < cores) or (placement == "one_node" and free < missing):
                continue
            held[node] = free if whole else min(free, missing)
            missing -= held[node]
            if missing <= 0:
                return held
        return None

    def advance_until(
        self, find: Callable[[], FoundT | None], what: str, *, idle: bool = False
    ) -> FoundT:
        """Continue the simulation until a function returns a value, and return this value.

        Args:
            find: returns the value; None: continue.
            what: description of the state that `find` tests, a clause.
            idle: whether to start no jobs meanwhile.

        Raises:
            NotTriedError: the simulation does not reach the state.
        """
        for _ in range(MAX_REQUESTS):
            found = find()
            if found is not None:
                return found
            if self.metrics is not None:
                raise NotTriedError(f"the scenario has no instant at which {what}")
            if idle:
                self.decide()
            else:
                self.step()
        raise NotTriedError(f"after {MAX_REQUESTS} requests there was no instant at which {what}")

    def advance_until_a_job_can_start(self) -> Map:
        """Continue until a waiting job fits, and return the decision that starts it."""
        return self.advance_until(self.allocation, "a waiting job fits")


def _allocate(job: Map, place: dict[int, int]) -> Map:
    return {"type": "allocate_job", "job_id": job["job_id"], "nodes": list(place)}


def expect_seq(error: Map, seq: int) -> None:
    """Check that an error has the `seq` of its request."""
    what = f"the error has seq {error.get('seq')}; expected {seq}"
    expect(error.get("seq") == seq, "R-error-seq", what)


@contextmanager
def connected(
    address: str, scenario: str, timeout_s: float, keys: ClientKeys | None = None
) -> Iterator[ServerUnderTest]:
    """Yield a connection to a server. At the end of the block, close its sessions.

    Args:
        scenario: name of a scenario of the server; empty: its first scenario.
        timeout_s: timeout for each reply, wall s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        CommandError: the address is invalid.
    """
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        connect_with(socket, keys)
        socket.immediate = True  # send only through a connection, to notice that there is none
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise CommandError(
                f"--server: invalid address {address!r}; expected an address such as "
                "tcp://127.0.0.1:28080"
            ) from error
        server = ServerUnderTest(socket, address, scenario, timeout_s)
        yield server
        server.close_sessions()


class ServerUnderTest:
    """A connection to a server under test. See `connected`."""

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, scenario: str, timeout_s: float
    ) -> None:
        self.body = b""
        self._socket, self._address = socket, address
        self._scenario, self._timeout_s = scenario, timeout_s
        self._connect_s = min(timeout_s, CONNECT_S)
        socket.sndtimeo = int(1000 * self._connect_s)
        self._until_s = time.monotonic() + CHECK_S
        self._sessions: set[str] = set()  # names of the opened sessions

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message that consists of these frames.

        Raises:
            NoServerError: there is no connection to the server.
        """
        try:
            self._socket.send_multipart(list(frames))
        except zmq.Again:
            raise self._no_server() from None

    def receive(self) -> list[bytes]:
        """Return the frames of the next reply. The last is the body; see `read`.

        Raises:
            BrokenRuleError: the timeout expired.
            NoServerError: the connection to the server is lost.
            NotTriedError: the timeout of the whole check expired.
        """
        if time.monotonic() > self._until_s:
            raise NotTriedError(f"the check takes more than {CHECK_S:g} s")
        connected_s = time.monotonic()
        until_s = connected_s + self._timeout_s
        while not self._socket.poll(POLL_MS):
            now_s = time.monotonic()
            what = f"the server did not reply within {self._timeout_s:g} s"
            expect(now_s < until_s, "R-in-order", what)
            if self._socket.poll(0, zmq.POLLOUT):
                connected_s = now_s
            elif now_s > connected_s + self._connect_s:
                raise self._no_server()
        return self._socket.recv_multipart()

    def _no_server(self) -> NoServerError:
        return NoServerError(f"no server answers at {self._address}: waited {self._connect_s:g} s")

    def read(self, body: bytes) -> Map:
        """Return the message that the body of a reply encodes.

        Raises:
            BrokenRuleError: the body is not a message of a server.
        """
        self.body = body
        try:
            decode_server_message(body)
        except DecodeError as error:
            raise BrokenRuleError("R-body", f"the reply is not a valid message: {error}") from error
        reply: Map = msgspec.msgpack.decode(body)
        return reply

    def exchange(self, message: Map | bytes) -> Map:
        """Send a message, or the bytes of a body, and return the reply.

        Raises:
            BrokenRuleError: there is no reply, or it is not a message of a server.
        """
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        self.send([DELIMITER, body])
        *before, reply = self.receive()
        what = f"the reply has the frames {before} before the body; expected one empty frame"
        expect(before == [DELIMITER], "R-envelope", what)
        return self.read(reply)

    def expect_error(
        self,
        message: Map | bytes,
        code: str,
        rule_id: str,
        *,
        seq: int | None = None,
        request: str = "the request",
    ) -> Map:
        """Send a request, check that the reply is a non-fatal error, and return it.

        Args:
            message: the request, or the bytes of its body.
            code: the expected error code.
            rule_id: id of the rule that any other reply breaks.
            seq: the expected `seq` of the error; None: any.
            request: description of the request for the verdict.

        Raises:
            BrokenRuleError: the reply differs from the expected error.
        """
        reply = self.exchange(message)
        got = f"{reply['type']} {reply.get('code', '')}".strip()
        what = f"the reply to {request} is {got}; expected error {code}"
        expect(reply.get("code") == code, rule_id, what)
        expect(not reply.get("fatal"), "R-not-fatal", f"the error for {request} is fatal")
        if seq is not None:
            expect_seq(reply, seq)
        return reply

    # Sessions

    def hello(self, **fields: Any) -> Map:
        """Return a new hello with these fields."""
        named = {"type": "hello", "versions": [1], "client": "conformance"}
        return named | {"scenario": self._scenario, "nonce": secrets.token_hex(8)} | fields

    def welcome(self, hello: Map) -> Map:
        """Send a hello and return the welcome.

        Raises:
            BrokenRuleError: the reply is not a welcome.
        """
        reply = self.exchange(hello)
        got = f"{reply['type']} {reply.get('code', '')}: {reply.get('message', '')}"
        what = f"the reply to hello is {got}; expected welcome"
        expect(reply["type"] == "welcome", "R-hello", what)
        self._sessions.add(reply["session"])
        return reply

    def open(self, **fields: Any) -> OpenSession:
        """Open a session with a hello that has these fields.

        Raises:
            BrokenRuleError: the reply is not a welcome.
        """
        return OpenSession(self.exchange, self.welcome(self.hello(**fields)))

    def close_sessions(self) -> None:
        """Send bye in every opened session and ignore the replies."""
        for session in sorted(self._sessions):
            with suppress(BrokenRuleError, NotTriedError, NoServerError):
                self.exchange({"type": "bye", "session": session})
