"""Throughput of a server of many sessions, and where the CPU time goes."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Protocol

import msgspec
import zmq

from hpcosim_client import play
from hpcosim_protocol import (
    Decisions,
    Hello,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_protocol.zmtp import encoded, ready
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy

REPLY_S = 300.0
ROOM_BYTES = 2**22
"""More than any reply of the benchmark."""
TICKS = os.sysconf("SC_CLK_TCK")


class Asking(Protocol):
    """A client with prepared requests."""

    def ask(self, data: bytes) -> bytes:
        """Return the reply to an encoded message."""

    def hello(self, scenario: str, seed: int | None = None) -> str:
        """Open a session; return its name."""

    def prepared(self, data: bytes) -> bytes:
        """Return what to send for an encoded message."""

    def ask_prepared(self, data: bytes) -> None:
        """Send what is prepared, and receive the reply."""

    def reply(self) -> bytes:
        """Return the last reply of `ask_prepared`."""

    def close(self) -> None:
        """Close the connection."""


class Client:
    """A client with as little work as possible: encoded messages on a DEALER.

    Args:
        address: address of the server.
    """

    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.rcvtimeo = int(1000 * REPLY_S)
        self._socket.connect(address)
        self._reply = b""

    def ask(self, data: bytes) -> bytes:
        """Return the reply to an encoded message."""
        self._socket.send(data)
        return self._socket.recv()

    def hello(self, scenario: str, seed: int | None = None) -> str:
        """Open a session; return its name."""
        return _welcomed(self.ask(_hello(scenario, seed)))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._context.term()

    def prepared(self, data: bytes) -> bytes:
        """Return what to send for an encoded message."""
        return data

    def ask_prepared(self, data: bytes) -> None:
        """Send what is prepared, and receive the reply."""
        self._reply = self.ask(data)

    def reply(self) -> bytes:
        """Return the last reply of `ask_prepared`."""
        return self._reply


class PlainClient:
    """The cheapest client: prepared bytes on a plain socket, two calls of the kernel a message.

    Args:
        address: address of the server, `tcp://HOST:PORT`.
    """

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("tcp://").split(":")
        self._socket = socket.create_connection((host, int(port)), REPLY_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = memoryview(bytearray(ROOM_BYTES))
        self._socket.sendall(ready(b"DEALER"))
        self._socket.recv_into(self._room, len(ready(b"ROUTER")), socket.MSG_WAITALL)
        self._end = 0

    def ask(self, data: bytes) -> bytes:
        """Return the reply to an encoded message."""
        self.ask_prepared(self.prepared(data))
        return self.reply()

    def hello(self, scenario: str, seed: int | None = None) -> str:
        """Open a session; return its name."""
        return _welcomed(self.ask(_hello(scenario, seed)))

    def prepared(self, data: bytes) -> bytes:
        """Return what to send for an encoded message."""
        return b"".join(encoded([data]))

    def ask_prepared(self, data: bytes) -> None:
        """Send what is prepared, and receive the reply."""
        self._socket.send(data)
        end = self._socket.recv_into(self._room)
        while end < 2 or end < self._expected():
            end += self._socket.recv_into(self._room[end:])
        self._end = end

    def reply(self) -> bytes:
        """Return the last reply of `ask_prepared`."""
        return bytes(self._room[9 if self._room[0] else 2 : self._end])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _expected(self) -> int:
        """Return the number of bytes of the reply that has begun."""
        room = self._room
        return 9 + int.from_bytes(room[1:9], "big") if room[0] else 2 + room[1]


CLIENTS: dict[str, Callable[[str], Asking]] = {"libzmq": Client, "plain sockets": PlainClient}


def throughput(
    address: str, pid: int, client: str, requests: Sequence[Decisions], sessions: int
) -> dict[str, float]:
    """Return the messages a second of sessions that are played together, and the CPU time of each.

    Args:
        address: address of the server.
        pid: process id of the server.
        client: name of the client.
        requests: the requests of each session.
        sessions: number of sessions.
    """
    barrier = multiprocessing.Barrier(sessions + 1)
    pipes, players = [], []
    for _ in range(sessions):
        ours, theirs = multiprocessing.Pipe()
        play_it = partial(_play, CLIENTS[client], address, requests, barrier, theirs.send)
        players.append(multiprocessing.Process(target=play_it))
        players[-1].start()
        pipes.append(ours)
    barrier.wait()
    before, began_s = _cpu_s(pid), time.perf_counter()
    barrier.wait()
    used = [pipe.recv() for pipe in pipes]
    wall_s, after = time.perf_counter() - began_s, _cpu_s(pid)
    for player in players:
        player.join()
    count = sessions * len(requests)
    us = 1e6 / count
    return {
        "messages/s": count / wall_s,
        "us/message, server in Python": (after[0] - before[0]) * us,
        "us/message, server in the kernel": (after[1] - before[1]) * us,
        "us/message, clients in Python": sum(user_s for user_s, _ in used) * us,
        "us/message, clients in the kernel": sum(kernel_s for _, kernel_s in used) * us,
    }


def recorded(scenario: Path) -> Sequence[Decisions]:
    """Return the requests of FCFS, so that clients only send them."""
    opened = Library([scenario]).open(Hello(versions=[1]))
    requests: list[Decisions] = []

    def ask(decisions, wake_on, elapsed_s):  # type: ignore[no-untyped-def]
        waking = None if wake_on is None else sorted(wake_on)
        seq = len(requests) + 1
        made = Decisions(session="", seq=seq, decisions=list(decisions), wake_on=waking)
        requests.append(made)
        return opened.simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)

    play(make_policy("fcfs"), opened.simulation.cluster.platform, ask)
    return requests


def _play(
    connect: Callable[[str], Asking],
    address: str,
    requests: Sequence[Decisions],
    barrier: Barrier,
    tell: Callable[[tuple[float, float]], None],
) -> None:
    client = connect(address)
    session = client.hello("played")
    messages = [
        client.prepared(encode(msgspec.structs.replace(one, session=session))) for one in requests
    ]
    barrier.wait()
    barrier.wait()
    before = os.times()
    for message in messages:
        client.ask_prepared(message)
    after = os.times()
    tell((after.user - before.user, after.system - before.system))
    assert isinstance(decode_server_message(client.reply()), SimulationEnded)
    client.close()


def _cpu_s(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process and its children, in their code and in the kernel, s."""
    user = system = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if pid in (int(folder.name), int(words[1])):
            user, system = user + int(words[11]), system + int(words[12])
    return user / TICKS, system / TICKS


def _hello(scenario: str, seed: int | None) -> bytes:
    return encode(Hello(versions=[1], client="benchmark", scenario=scenario, seed=seed))


def _welcomed(reply: bytes) -> str:
    """Return the name of the session that was opened."""
    welcome = decode_server_message(reply)
    assert isinstance(welcome, Welcome), welcome
    return welcome.session
