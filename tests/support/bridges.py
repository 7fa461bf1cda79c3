"""Bridges over a cluster in memory, with a clock that tests set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcosim_protocol import (
    Event,
    Events,
    Hello,
    ServerMessage,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_protocol.client_messages import Decisions
from hpcosim_slurm.bridge.bridge import Bridge
from hpcosim_slurm.bridge.run import began_now, course_of, listening, serve
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.site import Site
from support.fake_cluster import EPOCH_S, FakeCluster

CLIENT = (b"client",)
SITE = Site(name="fake")


def bridge_of(cluster: FakeCluster, journal: Path | None = None) -> Bridge:
    """Return a bridge that has seen a cluster, at the clock of the cluster."""
    began = began_now(SITE, "shadow", "test", cluster.now_s)
    course, opened = course_of(journal, began, ShadowWorld, lambda _: None)
    bridge = Bridge(course, opened, lambda: cluster.now_s)
    bridge.note(cluster.state())
    return bridge


class Talk:
    """A scheduler that talks to a bridge without a socket.

    Args:
        bridge: the bridge.
        hello: fields of its hello.
    """

    def __init__(self, bridge: Bridge, **hello: Any) -> None:
        self.bridge = bridge
        self.seq = 0
        welcome = self.say(Hello(versions=[1], workload_manager=True, **hello))
        assert isinstance(welcome, Welcome), welcome
        self.welcome = welcome

    def say(self, message: Any, envelope: tuple[bytes, ...] = CLIENT) -> ServerMessage | None:
        """Send a message; return the reply, None: there is none now."""
        data = encode(message)
        reply = self.bridge.answer(data, len(data), envelope)
        return decode_server_message(reply) if reply else None

    def ask(self, *decisions: Any, **fields: Any) -> ServerMessage | None:
        """Send the next request."""
        self.seq += 1
        name = self.welcome.session
        return self.say(Decisions(session=name, seq=self.seq, decisions=list(decisions), **fields))

    def due(self) -> list[Event]:
        """Return the events of the reply that is due; empty: none is."""
        found: list[Event] = []
        for envelope, reply in self.bridge.due():
            assert envelope == CLIENT
            message = decode_server_message(reply)
            assert isinstance(message, Events)
            found += message.events
        return found

    def decide(self, *decisions: Any, **fields: Any) -> list[Event]:
        """Send the next request, and return the events of its reply if it is due at once."""
        assert self.ask(*decisions, **fields) is None
        return self.due()


class FastStates:
    """States of a cluster whose time passes faster than that of the wall.

    Args:
        cluster: the cluster.
        factor: seconds of the cluster per second.
    """

    def __init__(self, cluster: FakeCluster, factor: float) -> None:
        self.cluster = cluster
        self._factor = factor
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        """Return the time of the cluster, s."""
        return EPOCH_S + (time.monotonic() - self._began_s) * self._factor

    def take(self) -> ClusterState | SlurmError | None:
        """Return the present state, once a step."""
        self._is_new = not getattr(self, "_is_new", False)
        if not self._is_new:
            return None
        self.cluster.advance(self.now_s())
        return self.cluster.state()


@contextmanager
def served(cluster: FakeCluster, address: str, factor: float = 50.0) -> Iterator[Bridge]:
    """Serve a bridge at an address, in a thread."""
    states = FastStates(cluster, factor)
    began = began_now(SITE, "shadow", "test", states.now_s())
    course, journal = course_of(None, began, ShadowWorld, lambda _: None)
    bridge, over = Bridge(course, journal, states.now_s), threading.Event()
    bridge.note(cluster.state())
    with listening(address) as listener:
        thread = threading.Thread(
            target=serve,
            args=(bridge, states, listener, lambda: "end" if over.is_set() else ""),
            kwargs={"continues": False},
        )
        thread.start()
        try:
            yield bridge
        finally:
            over.set()
            thread.join(10.0)
            assert not thread.is_alive()
