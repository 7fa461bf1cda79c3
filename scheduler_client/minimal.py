"""A first-come, first-served scheduler that needs only pyzmq and msgpack.

    python minimal.py tcp://127.0.0.1:28080 [TIMEOUT_S]

It rejects jobs of a placement other than `cores`. A rejected decision ends the program.
"""

import sys
from typing import Any

import msgpack
import zmq

Message = dict[str, Any]
TIMEOUT_S = int(sys.argv[2]) if len(sys.argv) > 2 else 60


def exchange(socket: "zmq.Socket[bytes]", **message: Any) -> Message:
    """Send a message and return the reply. An `error` ends the program."""
    socket.send(msgpack.packb(message))
    try:
        reply: Message = msgpack.unpackb(socket.recv())
    except zmq.Again:
        sys.exit(f"error: no reply from {sys.argv[1]} in {TIMEOUT_S} s: no server, or a pause")
    if reply["type"] == "error":
        sys.exit(f"error: {reply['code']}: {reply['message']}")
    return reply


def allocate(job_id: int, missing: int, free: list[int]) -> Message:
    """Take free cores for a job, node by node, and return the decision that starts it."""
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
    socket.rcvtimeo = 1000 * TIMEOUT_S
    welcome = exchange(socket, type="hello", versions=[1], client="minimal")
    if welcome["version"] != 1:
        sys.exit(f"error: expected protocol version 1, got {welcome['version']}")
    groups = welcome["platform"]["nodes"]
    free = [sum(p["cores"] for p in g["processors"]) for g in groups for _ in range(g["count"])]
    queue: list[tuple[int, int]] = []  # job number, cores
    running: dict[int, Any] = {}  # by job number: pairs of node and cores
    request: Message = {"session": welcome["session"], "seq": 0, "decisions": []}
    while True:
        request["seq"] += 1
        reply = exchange(socket, type="decisions", **request)
        if reply["type"] == "simulation_ended":
            sys.exit(reply.get("results_error"))
        request["decisions"] = []
        for event in reply["events"]:
            if event["type"] == "job_submitted" and event.get("placement", "cores") == "cores":
                queue.append((event["job_id"], event["cores"]))
            elif event["type"] == "job_submitted":
                request["decisions"].append({"type": "reject_job", "job_id": event["job_id"]})
            elif event["type"] == "job_started":
                running[event["job_id"]] = zip(event["nodes"], event["cores"], strict=True)
            elif event["type"] == "job_completed":  # a waiting job too, if its user cancels it
                queue = [job for job in queue if job[0] != event["job_id"]]
                for node, cores in running.pop(event["job_id"], ()):
                    free[node] += cores
            elif event["type"] == "decision_rejected":
                sys.exit(f"error: {event['reason']}")
        while queue and queue[0][1] <= sum(free):
            request["decisions"].append(allocate(*queue.pop(0), free))


if __name__ == "__main__":
    main(sys.argv[1])
