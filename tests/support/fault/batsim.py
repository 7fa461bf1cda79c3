"""A scheduler that speaks Batsim's protocol, and in which something goes wrong."""

from __future__ import annotations

import json
import math
import random
from collections import deque
from typing import Any

from hpcosim_batsim.errors import BadReplyError, UnreachableError

FAULTS = ("dies", "is slow", "sends frames", "sends garbage", "goes back", "is out of order")
"""What ends a run."""
HABITS = ("rounds down", "thinks", "asks again", "")
"""What does not."""


class FaultyBatsimScheduler:
    """First come, first served; stands for the socket of the bridge to a scheduler.

    Args:
        seed: draws what goes wrong.
        jobs: number of jobs of the workload.
        hosts: number of hosts.

    Attributes:
        fault: what goes wrong; empty: nothing.
        habit: what is unusual, but allowed.
        happened: whether the fault has happened.
        error: the error that the simulator reported at the end; None: none.
        ended: whether the simulator has said that the simulation is over.
        waited_s: time spent waiting for replies, s.
    """

    def __init__(self, seed: int, jobs: int, hosts: int) -> None:
        self._chance = random.Random(seed)
        self.fault = self._chance.choice((*FAULTS, ""))
        self.habit = self._chance.choice(HABITS)
        self.happened = self.ended = False
        self.error: str | None = None
        self.waited_s = 0.0
        self._fails_at = self._chance.randrange(3 * jobs)
        self._free = set(range(hosts))
        self._queue: deque[tuple[str, int]] = deque()
        self._running: dict[str, list[int]] = {}
        self._message: dict[str, Any] = {}
        self._received = 0
        self._ready_s = 0.0

    def __call__(self, *_: object) -> FaultyBatsimScheduler:
        """Return this scheduler, instead of a requester with a socket."""
        return self

    def connect(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def send(self, message: bytes) -> None:
        """Receive a message of the simulator."""
        self._message = json.loads(message)
        self._received += 1
        for event in self._message["events"]:
            if event["type"] == "SIMULATION_ENDS":
                self.ended, self.error = True, event["data"].get("error")

    def await_last_reply(self) -> None:
        """Acknowledge the end."""

    def receive(self, timeout_s: float) -> bytes:
        """Return the reply to the last message."""
        reply = self._reply()
        if self.fault and self._received > self._fails_at:
            self.happened = True
            return self._go_wrong(reply, timeout_s)
        self._ready_s = reply["now"]
        return json.dumps(reply).encode()

    def _reply(self) -> dict[str, Any]:
        now_s = self._message["now"]
        for event in self._message["events"]:
            self._note(event["type"], event["data"])
        started = []
        while self._queue and self._queue[0][1] <= len(self._free):
            job_id, res = self._queue.popleft()
            hosts = sorted(self._free)[:res]
            self._free -= set(hosts)
            self._running[job_id] = hosts
            alloc = " ".join(map(str, hosts))
            started.append(("EXECUTE_JOB", {"job_id": job_id, "alloc": alloc}))
        if self.habit == "asks again" and self._chance.random() < 0.1:
            started.append(("CALL_ME_LATER", {"timestamp": now_s + self._chance.uniform(1, 50)}))
        at_s = max(self._ready_s, math.floor(now_s)) if self.habit == "rounds down" else now_s
        events = [{"timestamp": at_s, "type": kind, "data": data} for kind, data in started]
        if self.habit == "thinks":
            at_s += self._chance.choice((0.0, 0.5, 7.0))
        return {"now": at_s, "events": events}

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "JOB_SUBMITTED":
            self._queue.append((data["job_id"], data["job"]["res"]))
        elif kind == "JOB_COMPLETED":
            self._free |= set(self._running.pop(data["job_id"]))

    def _go_wrong(self, reply: dict[str, Any], timeout_s: float) -> bytes:
        if self.fault == "dies":
            raise UnreachableError("the scheduler closed the connection")
        if self.fault == "is slow":
            raise UnreachableError(f"the scheduler did not reply within {timeout_s:g} s")
        if self.fault == "sends frames":
            raise BadReplyError("expected one ZeroMQ frame, got several")
        if self.fault == "goes back":
            reply["now"], reply["events"] = self._ready_s - 0.5, []
        elif self.fault == "is out of order":
            call = {"type": "CALL_ME_LATER", "data": {"timestamp": 1e6}}
            times_s = (reply["now"], reply["now"] - 0.25)
            reply["events"] = [{"timestamp": time_s, **call} for time_s in times_s]
        else:
            return self._garbage(json.dumps(reply).encode())
        return json.dumps(reply).encode()

    def _garbage(self, reply: bytes) -> bytes:
        chance, data = self._chance, bytearray(reply)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data) + 1)
            what = chance.randrange(4)
            if what == 0:
                del data[place:]
            elif what == 1:
                data[place:place] = chance.choice((b"\xff", b"[", b"-1", b"1e400", b'"', b"{}"))
            elif what == 2 and place < len(data):
                data[place] = chance.randrange(256)
            else:
                del data[place : place + 3]
        return bytes(data)
