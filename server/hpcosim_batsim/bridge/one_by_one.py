"""The jobs of a run one after the other, without a scheduler: Batsim's option `--no-sched`."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from hpcosim_batsim.bridge import messages
from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_sim.record.table_rows import intervals


def run_one_by_one(bridge: Bridge) -> None:
    """Run all jobs in order of submission, each alone on the hosts with the lowest numbers.

    A job starts when it is submitted and the job before it has ended. A job that requests more
    hosts than there are is rejected.

    Raises:
        SchedulerError: a job cannot run, such as on a host that is unavailable.
    """
    hosts = len(bridge.run.platform.hosts)
    waiting: deque[dict[str, Any]] = deque()
    running = False
    message = bridge.first_message()
    while not bridge.ended:
        received = msgspec.json.decode(message)
        for event in received["events"]:
            if event["type"] == "JOB_SUBMITTED":
                waiting.append(event["data"]["job"])
            elif event["type"] == "JOB_COMPLETED":
                running = False
        decisions = []
        while waiting and not running:
            job = waiting.popleft()
            running = job["res"] <= hosts
            data = {"job_id": job["id"]}
            if running:
                data["alloc"] = intervals(range(job["res"]))
            kind = "EXECUTE_JOB" if running else "REJECT_JOB"
            decisions.append({"timestamp": received["now"], "type": kind, "data": data})
        reply = {"now": received["now"], "events": decisions}
        message = bridge.next_message(messages.to_json(reply).encode())
