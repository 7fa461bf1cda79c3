"""Components: shared libraries, and processes that listen on a socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import zmq
from msgspec import Struct

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import BatsimTimeouts, Requester, WallTimes, printable
from hpcosim_batsim.edc import messages
from hpcosim_batsim.edc.front import JSON, Format
from hpcosim_batsim.edc.library import FLAGS, FORMAT_JSON, Interface, Library
from hpcosim_batsim.errors import BadReplyError, ComponentError, SchedulerError

Show = Callable[[str], None]


class ComponentPlan(Struct, frozen=True, kw_only=True):
    """A component of a run.

    Attributes:
        kind: a shared library, or a process that listens at an address.
        target: path of the library, or address.
        init: initialization data, which the component gets.
        interface: version of its interface; None: the library tells by its hello.
    """

    kind: Literal["library", "process"]
    target: str
    init: bytes
    interface: Interface | None = None


class Component(Protocol):
    """A component that decides."""

    @property
    def waited_s(self) -> float:
        """Wall-clock time spent waiting for replies, s."""

    def begin(self, init: bytes, interface: Interface | None) -> tuple[int, bytes]:
        """Initialize the component, and return its flags and its hello.

        The hello is empty with the interface `flags`.
        """

    def decide(self, message: bytes) -> bytes:
        """Return its reply to a message."""

    def say_goodbye(self, message: bytes) -> None:
        """Send the last message; the reply has no effect."""


class _ProcessComponent:
    def __init__(self, requester: Requester, timeouts: BatsimTimeouts) -> None:
        self._requester = requester
        self._timeouts = timeouts

    @property
    def waited_s(self) -> float:
        return self._requester.waited_s

    def begin(self, init: bytes, interface: Interface | None) -> tuple[int, bytes]:
        message = FLAGS.pack(len(init)) + init
        if interface == "flags":
            message = FLAGS.pack(FORMAT_JSON) + message
        self._requester.send(message)
        reply = self._requester.receive(self._timeouts.first_reply_s)
        if interface == "flags":
            return FORMAT_JSON, b""
        if len(reply) < FLAGS.size:
            raise BadReplyError(
                f"expected {FLAGS.size} bytes of flags and a hello, got {len(reply)} bytes"
            )
        return FLAGS.unpack_from(reply)[0], reply[FLAGS.size :]

    def decide(self, message: bytes) -> bytes:
        self._requester.send(message)
        return self._requester.receive(self._timeouts.reply_s)

    def say_goodbye(self, message: bytes) -> None:
        self._requester.send(message)
        self._requester.await_last_reply()


class _LibraryComponent:
    def __init__(self, path: Path, show: Show | None) -> None:
        self._path = path
        self._show = show
        self._library: Library | None = None
        self.waited_s = 0.0

    def begin(self, init: bytes, interface: Interface | None) -> tuple[int, bytes]:
        try:
            return self._begin(init, interface or "hello")
        except ComponentError as error:
            if interface is not None:
                raise
            self.end()
            try:
                return self._begin(init, "flags")
            except ComponentError:
                raise error from None

    def _begin(self, init: bytes, interface: Interface) -> tuple[int, bytes]:
        self._library = Library(self._path, interface)
        flags, hello = self._library.begin(init)
        if interface == "hello" and not hello:
            raise ComponentError(
                f"{self._path}: batsim_edc_init returned no hello; expected an EDCHelloEvent"
            )
        return flags, hello

    def decide(self, message: bytes) -> bytes:
        assert self._library is not None
        if self._show is not None:
            self._show(f"Sending '{printable(message)}'")
        began_s = time.perf_counter()
        reply = self._library.decide(message)
        self.waited_s += time.perf_counter() - began_s
        if self._show is not None:
            self._show(f"Received '{printable(reply)}'")
        return reply

    def say_goodbye(self, message: bytes) -> None:
        self.decide(message)

    def end(self) -> None:
        if self._library is not None:
            self._library.end()


@contextmanager
def opened(plan: ComponentPlan, timeouts: BatsimTimeouts, show: Show | None) -> Iterator[Component]:
    """Load or connect to a component, and leave it at the end of the block."""
    if plan.kind == "library":
        library = _LibraryComponent(Path(plan.target), show)
        try:
            yield library
        finally:
            library.end()
        return
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        requester = Requester(socket, plan.target, show)
        try:
            requester.connect()
            yield _ProcessComponent(requester, timeouts)
        finally:
            requester.close()


def introduce(
    component: Component, plan: ComponentPlan, version: str
) -> tuple[messages.Hello, Format]:
    """Initialize a component, and return its hello and the form of its messages.

    Raises:
        SchedulerError: it fails, or does not say hello.
    """
    flags, data = component.begin(plan.init, plan.interface)
    form = form_of(flags)
    if not data:
        hello = {"batprotocol_version": "0.1.0", "batsim_version": version, "batsim_commit": ""}
        event = {"timestamp": 0.0, "event_type": "BatsimHelloEvent", "event": hello}
        data = component.decide(form.encode({"now": 0.0, "events": [event]}))
    reply = messages.read_message(data, form.decode)
    hellos: list[Any] = [decision.data for decision in reply.decisions]
    if len(hellos) != 1 or not isinstance(hellos[0], messages.Hello):
        names = ", ".join(map(messages.name_of, hellos)) or "no event"
        raise BadReplyError(f"expected an EDCHelloEvent, got {names}", "$.events")
    features = hellos[0].requested_simulation_features
    if features.forward_profiles_on_jobs_killed:
        raise BadReplyError(
            "forward_profiles_on_jobs_killed is not supported: no published source shows the "
            "field of the profiles in JobsKilledEvent",
            "$.events[0].event.requested_simulation_features",
        )
    return hellos[0], form


def form_of(flags: int) -> Format:
    """Return the form of messages that a component has chosen."""
    if flags & FORMAT_JSON:
        return JSON
    raise ComponentError(
        f"the component has the flags {flags}, flatbuffers' binary form; expected {FORMAT_JSON}, "
        "JSON: hpcosim does not support the binary form"
    )


def exchange(bridge: Bridge, component: Component, wall: WallTimes) -> None:
    """Exchange messages with a component until the simulation ends.

    Raises:
        SchedulerError: a reply is invalid, the component fails, or the simulation makes no
            progress.
    """
    began_s = time.perf_counter()
    try:
        message = bridge.first_message()
        while True:
            reply = component.decide(message)
            try:
                message = bridge.next_message(reply)
            except SchedulerError as error:
                _leave(component, bridge.error_message(error))
                raise
            if bridge.ended:
                component.say_goodbye(message)
                return
    finally:
        wall.scheduling_s = component.waited_s
        wall.simulation_s = time.perf_counter() - began_s


def _leave(component: Component, message: bytes) -> None:
    """Send the last message after an error, which is reported instead of another one."""
    try:
        component.say_goodbye(message)
    except SchedulerError:
        return


def context_of(address: str, prefix: str) -> str:
    """Return the execution context of Batsim 5 as JSON."""
    return msgspec.json.encode({"socket_endpoint": address, "export_prefix": prefix}).decode()
