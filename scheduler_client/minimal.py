"""First come, first served, in nothing but pyzmq and msgpack.

    python minimal.py tcp://127.0.0.1:28080

The smallest scheduler that speaks the protocol (`../protocol/README.md`), for whoever writes
one in another language. It takes cores of any nodes, lowest-numbered first.
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


def allocate(job: Message, free: list[int]) -> Message:
    """Take cores for a job, node by node, and return the decision to start it there."""
    nodes, missing = [], job["cores"]
    for node, cores in enumerate(free):
        if cores and missing:
            taken = min(cores, missing)
            free[node] -= taken
            missing -= taken
            nodes.append(node)
    return {"type": "allocate_job", "job_id": job["job_id"], "nodes": nodes}


def main(address: str) -> None:
    """Schedule one simulation."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    socket.connect(address)
    socket.rcvtimeo = 60_000
    welcome = ask(socket, type="hello", versions=[1], client="minimal")
    groups = welcome["platform"]["nodes"]
    free = [sum(p["cores"] for p in g["processors"]) for g in groups for _ in range(g["count"])]
    queue: deque[Message] = deque()
    running: dict[int, Message] = {}
    request: Message = {"session": welcome["session"], "seq": 0, "decisions": []}
    while True:
        request["seq"] += 1
        answer = ask(socket, type="decisions", **request)
        if answer["type"] == "simulation_ended":
            return
        for event in answer["events"]:
            if event["type"] == "job_submitted":
                queue.append(event)
            elif event["type"] == "job_started":
                running[event["job_id"]] = event
            elif event["type"] == "job_completed":
                job = running.pop(event["job_id"])
                for node, cores in zip(job["nodes"], job["cores"], strict=True):
                    free[node] += cores
        request["decisions"] = []
        while queue and queue[0]["cores"] <= sum(free):
            request["decisions"].append(allocate(queue.popleft(), free))


if __name__ == "__main__":
    main(sys.argv[1])
