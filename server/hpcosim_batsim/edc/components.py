"""Components: shared libraries, and processes that listen on a socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import zmq
from msgspec import Struct

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import BatsimTimeouts, Requester, WallTimes, printable
from hpcosim_batsim.edc import messages
from hpcosim_batsim.edc.batsim5 import BINARY, JSON, Format
from hpcosim_batsim.edc.library import FLAGS, FORMAT_BINARY, FORMAT_JSON, Interface, Library
from hpcosim_batsim.edc.schema import VERSION
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

    def decide(self, message: bytes) -> bytes:
        """Return its reply to a message."""

    def say_goodbye(self, message: bytes) -> None:
        """Send the last message; the reply has no effect."""


class NewComponent(Component, Protocol):
    """A component that has not begun."""

    def begin(self, init: bytes, interface: Interface | None) -> tuple[int, bytes]:
        """Initialize the component, and return its flags and its hello.

        The hello is empty with the interface `flags`.
        """


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
def open_component(
    plan: ComponentPlan, timeouts: BatsimTimeouts, show: Show | None
) -> Iterator[NewComponent]:
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


class Introduction(NamedTuple):
    """What a component has said at its begin.

    Attributes:
        form: the form of its messages.
        interface: version of its interface.
    """

    hello: messages.Hello
    form: Format
    interface: Interface


def introduce(component: NewComponent, plan: ComponentPlan, version: str) -> Introduction:
    """Initialize a component, and return what it says.

    Raises:
        SchedulerError: it fails, or does not say hello.
    """
    flags, data = component.begin(plan.init, plan.interface)
    form = form_of(flags)
    interface: Interface = "hello" if data else "flags"
    if not data:
        hello = {"batprotocol_version": "0.1.0", "batsim_version": version, "batsim_commit": ""}
        event = {"timestamp": 0.0, "event_type": "BatsimHelloEvent", "event": hello}
        data = component.decide(form.encode({"now": 0.0, "events": [event]}))
    try:
        hello_event = _hello_of(data, form)
    except BadReplyError as error:
        hint = f"; {KNOWN_BINARY}" if form is BINARY else ""
        raise BadReplyError(f"{error.what}{hint}", error.where) from None
    _check_features(hello_event, form)
    return Introduction(hello_event, form, interface)


def _hello_of(data: bytes, form: Format) -> messages.Hello:
    reply = messages.read_message(data, form.decode)
    hellos: list[Any] = [decision.data for decision in reply.decisions]
    if len(hellos) != 1 or not isinstance(hellos[0], messages.Hello):
        names = ", ".join(map(messages.name_of, hellos)) or "no event"
        raise BadReplyError(f"expected an EDCHelloEvent, got {names}", "$.events")
    return hellos[0]


KNOWN_BINARY = (
    f"hpcosim knows the numbers of the binary form of batprotocol {VERSION} only; let the "
    "component use JSON"
)


def _check_features(hello: messages.Hello, form: Format) -> None:
    """Check that what a component requests is supported."""
    where, unknown = "$.events[0].event", "no published source shows the field of the profiles in"
    features = hello.requested_simulation_features
    if features.forward_profiles_on_jobs_killed:
        raise BadReplyError(
            f"forward_profiles_on_jobs_killed is not supported: {unknown} JobsKilledEvent",
            f"{where}.requested_simulation_features",
        )
    if form is not BINARY:
        return
    if not hello.batprotocol_version.startswith("0."):
        raise BadReplyError(
            f"the component has batprotocol {hello.batprotocol_version[:40]!r}; {KNOWN_BINARY}",
            f"{where}.batprotocol_version",
        )
    if features.forward_profiles_on_job_submission:
        raise BadReplyError(
            "forward_profiles_on_job_submission is not supported in the binary form: "
            f"{unknown} JobSubmittedEvent there; let the component use JSON",
            f"{where}.requested_simulation_features",
        )


def form_of(flags: int) -> Format:
    """Return the form of messages that a component has chosen."""
    if flags & FORMAT_JSON:
        return JSON
    if flags & FORMAT_BINARY:
        return BINARY
    raise ComponentError(
        f"the component has the flags {flags}; expected {FORMAT_BINARY} for the binary form, or "
        f"{FORMAT_JSON} for JSON"
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
