"""First come, first served, in nothing but pyzmq and msgpack.

    python minimal.py tcp://127.0.0.1:28080

The smallest scheduler that speaks the protocol (`../protocol/README.md`). It takes cores of any
nodes, turns away jobs of other placements, and stops where a decision is rejected.
"""

import sys
from collections import deque
from typing import Any

import msgpack
import zmq

Message = dict[str, Any]


def ask(socket: "zmq.Socket[bytes]", **message: Any) -> Message:
    """Send a message and return the answer; an `error` ends the program."""
    socket.send(msgpack.packb(message))
    try:
        answer: Message = msgpack.unpackb(socket.recv())
    except zmq.Again:
        sys.exit("error: the server does not answer")
    if answer["type"] == "error":
        sys.exit(f"error: {answer['code']}: {answer['message']}")
    return answer


def allocate(job_id: int, missing: int, free: list[int]) -> Message:
    """Take cores for a job, node by node, and return the decision to start it there."""
    nodes = []
    for node, cores in enumerate(free):
        if cores and missing:
            taken = min(cores, missing)
            free[node] -= taken
            missing -= taken
            nodes.append(node)
    return {"type": "allocate_job", "job_id": job_id, "nodes": nodes}


def main(address: str) -> None:
    """Schedule one simulation."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    socket.connect(address)
    socket.rcvtimeo = 60_000
    welcome = ask(socket, type="hello", versions=[1], client="minimal")
    if welcome["version"] != 1:
        sys.exit(f"error: the server speaks version {welcome['version']}")
    groups = welcome["platform"]["nodes"]
    free = [sum(p["cores"] for p in g["processors"]) for g in groups for _ in range(g["count"])]
    queue: deque[tuple[int, int]] = deque()  # job, cores
    running: dict[int, Any] = {}  # nodes, and cores of each
    request: Message = {"session": welcome["session"], "seq": 0, "decisions": []}
    while True:
        request["seq"] += 1
        answer = ask(socket, type="decisions", **request)
        if answer["type"] == "simulation_ended":
            return
        request["decisions"] = []
        for event in answer["events"]:
            if event["type"] == "job_submitted" and event.get("placement", "cores") == "cores":
                queue.append((event["job_id"], event["cores"]))
            elif event["type"] == "job_submitted":
                request["decisions"].append({"type": "reject_job", "job_id": event["job_id"]})
            elif event["type"] == "job_started":
                running[event["job_id"]] = zip(event["nodes"], event["cores"], strict=True)
            elif event["type"] == "job_completed":
                for node, cores in running.pop(event["job_id"], ()):
                    free[node] += cores
            elif event["type"] == "decision_rejected":
                sys.exit(f"error: {event['reason']}")
        while queue and queue[0][1] <= sum(free):
            request["decisions"].append(allocate(*queue.popleft(), free))


if __name__ == "__main__":
    main(sys.argv[1])
