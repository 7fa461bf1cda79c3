"""A scheduler of Batsim's protocol (4.2.1) as a scheduler of this one.

    pybatsim easyBackfill -s tcp://127.0.0.1:28000 -t 0 &
    python batsim_scheduler.py tcp://127.0.0.1:28080 tcp://127.0.0.1:28000

The Batsim scheduler listens at the second address. pybatsim ends when it gets no message for the
timeout `-t`, by default 2000 ms; 0 is none, for a live cluster. It gives hosts to jobs, so the
nodes of the cluster have one core each. Times are s after the start. Its decisions EXECUTE_JOB,
REJECT_JOB, KILL_JOB and CALL_ME_LATER are carried out. Batsim has no message for a rejected
EXECUTE_JOB: the scheduler is told nothing then, and the job waits.
"""

import json
import sys
from contextlib import closing
from typing import Any

import zmq

from hpcosim_client import ClientError, PolicyError, View, run
from hpcosim_protocol import KillJob, RejectJob

WORKLOAD = "w0"
CONFIG = (
    "redis-enabled",
    "profiles-forwarded-on-submission",
    "dynamic-jobs-enabled",
    "dynamic-jobs-acknowledged",
    "profile-reuse-enabled",
    "forward-unknown-events",
)
TIMEOUT_MS = 60_000


class BatsimScheduler:
    """A policy that asks a Batsim scheduler.

    Args:
        address: where it listens.
    """

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
        self._socket.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, TIMEOUT_MS)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)
        self._began_s: float | None = None
        self._told: dict[int, str] = {}  # allocation of each job that is not over; empty: it waits
        self._calls: dict[int, float] = {}  # alarms

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __call__(self, view: View) -> None:
        """Tell the scheduler what has changed, and carry out its decisions."""
        events = []
        if self._began_s is None:
            self._began_s = view.now_s
            events.append(self._event(view, "SIMULATION_BEGINS", begins(len(view.nodes.free))))
        events += self._changes(view)
        if events:
            for decision in self._ask(view, events):
                self._carry_out(view, decision["type"], decision.get("data", {}))

    def _changes(self, view: View) -> list[dict[str, Any]]:
        events = []
        for job_id in [each for each in self._told if each not in view.queue]:
            if job_id not in view.running:
                data: dict[str, Any] = {"job_id": f"{WORKLOAD}!{job_id}", "return_code": 0}
                data |= {"job_state": "COMPLETED_SUCCESSFULLY", "alloc": self._told.pop(job_id)}
                events.append(self._event(view, "JOB_COMPLETED", data))
        for job in view.queue.values():
            if job.job_id not in self._told:
                self._told[job.job_id] = ""
                name = f"{WORKLOAD}!{job.job_id}"
                shown: dict[str, Any] = {"id": name, "subtime": 0.0, "profile": "unknown"}
                shown |= {"res": job.cores, "walltime": job.requested_s}
                events.append(self._event(view, "JOB_SUBMITTED", {"job_id": name, "job": shown}))
        for alarm, at_s in list(self._calls.items()):
            if at_s <= view.now_s:
                del self._calls[alarm]
                events.append(self._event(view, "REQUESTED_CALL", {}))
        return events

    def _event(self, view: View, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": self._time_s(view), "type": kind, "data": data}

    def _time_s(self, view: View) -> float:
        assert self._began_s is not None
        return view.now_s - self._began_s

    def _ask(self, view: View, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._socket.send_json({"now": self._time_s(view), "events": events})
        try:
            reply: dict[str, Any] = json.loads(self._socket.recv())
        except zmq.Again:
            raise PolicyError("the Batsim scheduler does not reply") from None
        decisions: list[dict[str, Any]] = reply["events"]
        return decisions

    def _carry_out(self, view: View, kind: str, data: dict[str, Any]) -> None:
        if kind == "CALL_ME_LATER":
            assert self._began_s is not None
            alarm = view.new_alarm()
            self._calls[alarm] = max(self._began_s + data["timestamp"], view.now_s)
            view.set_alarm(self._calls[alarm], alarm)
        elif kind == "EXECUTE_JOB":
            job_id = number_of(data["job_id"])
            if job_id in view.queue and view.start(view.queue[job_id], hosts_of(data["alloc"])):
                self._told[job_id] = data["alloc"]
        elif kind == "REJECT_JOB":
            view.decisions.append(RejectJob(number_of(data["job_id"])))
        elif kind == "KILL_JOB":
            view.decisions += [KillJob(number_of(name)) for name in data["job_ids"]]
        elif kind != "NOTIFY":
            raise PolicyError(f"the Batsim scheduler sends {kind}, which is not carried out")


def begins(hosts: int) -> dict[str, Any]:
    """Return the data of SIMULATION_BEGINS for a number of hosts."""
    return {
        "nb_resources": hosts,
        "nb_compute_resources": hosts,
        "nb_storage_resources": 0,
        "allow_compute_sharing": False,
        "allow_storage_sharing": True,
        "config": dict.fromkeys(CONFIG, False),
        "compute_resources": [
            {"id": host, "name": f"host{host}", "state": "idle", "properties": {}}
            for host in range(hosts)
        ],
        "storage_resources": [],
        "workloads": {WORKLOAD: ""},
        "profiles": {WORKLOAD: {}},
    }


def number_of(name: str) -> int:
    """Return the number of a job of its Batsim name."""
    return int(name.rpartition("!")[2])


def hosts_of(text: str) -> list[int]:
    """Return the hosts of intervals such as `0-2 5`."""
    ends = [part.split("-") for part in text.replace(",", " ").split()]
    return [host for end in ends for host in range(int(end[0]), int(end[-1]) + 1)]


if __name__ == "__main__":
    try:
        with closing(BatsimScheduler(sys.argv[2])) as scheduler:
            run(scheduler, sys.argv[1], name="batsim")
    except ClientError as error:
        sys.exit(f"error: {error}")
