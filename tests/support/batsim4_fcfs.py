"""FCFS in Batsim's protocol 4: in this process, and as a program that listens at an address."""

from __future__ import annotations

import json
import sys
from typing import Any

import zmq


class Fcfs:
    """Jobs start in the order of submission, each on the free hosts with the lowest numbers."""

    def __init__(self) -> None:
        self._queue: list[tuple[str, int]] = []
        self._free: set[int] = set()
        self._used: dict[str, set[int]] = {}

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a message."""
        for event in message["events"]:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                self._free = {each["id"] for each in data["compute_resources"]}
            elif event["type"] == "JOB_SUBMITTED":
                self._queue.append((data["job_id"], data["job"]["res"]))
            elif event["type"] == "JOB_COMPLETED":
                self._free |= self._used.pop(data["job_id"])
        events = []
        while self._queue and self._queue[0][1] <= len(self._free):
            name, count = self._queue.pop(0)
            hosts = sorted(self._free)[:count]
            self._used[name] = set(hosts)
            self._free -= self._used[name]
            data = {"job_id": name, "alloc": " ".join(map(str, hosts))}
            events.append({"timestamp": message["now"], "type": "EXECUTE_JOB", "data": data})
        return {"now": message["now"], "events": events}


def main(address: str) -> None:
    """Serve one simulation."""
    scheduler, ended = Fcfs(), False
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(address)
        while not ended:
            message = json.loads(socket.recv())
            ended = any(event["type"] == "SIMULATION_ENDS" for event in message["events"])
            socket.send(json.dumps(scheduler.reply(message)).encode())


if __name__ == "__main__":
    main(sys.argv[1])
