"""The examples of policies."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from runpy import run_path
from threading import Event, Thread
from typing import Any

import numpy as np
import zmq
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View, profile_of
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_schedulers import make_policy
from hpcosim_workloads.synthetic.lublin import poisson
from support.paths import ROOT, SCENARIOS
from support.simulating import cluster_of, jobs_of, simulate, starts

EASY_SJBF = f"{ROOT / 'scheduler_client' / 'examples' / 'easy_sjbf.py'}:easy_sjbf"


def test_easy_sjbf_differs_from_fcfs_and_easy() -> None:
    """On the demo it waits less than both."""
    metrics = compare_schedulers(SCENARIOS / "demo.yaml", ["fcfs", "easy", EASY_SJBF])
    waits = {name: values["mean_wait_s"] for name, values in metrics.items()}
    assert waits[EASY_SJBF] < waits["easy"] < waits["fcfs"]


@given(seed=st.integers(0, 2**32))
def test_easy_sjbf_never_delays_the_head_s_reservation(seed: int) -> None:
    """A job starts no later than its shadow time when it became the head of the queue."""
    policy = make_policy(EASY_SJBF)
    shadows_s: dict[int, float] = {}

    def watched(view: View) -> None:
        policy(view)
        if view.queue:
            head = view.queue.first()
            shadow = profile_of(view).earliest(head)
            shadows_s.setdefault(head.job_id, math.inf if shadow is None else shadow.start_s)

    jobs = poisson(
        np.random.default_rng(seed),
        jobs=40,
        mean_interarrival_s=20.0,
        cores=(1, 16),
        run_s=(5, 200),
        overestimate=2.0,
    )
    started_s = starts(simulate(cluster_of(4, 4), jobs, watched))
    assert shadows_s
    for job_id, shadow_s in shadows_s.items():
        assert started_s[job_id] <= shadow_s


def first_come_first_served(address: str, over: Event, calls: list[float]) -> None:
    """Schedule in Batsim's protocol, and ask once to be called.

    Args:
        address: where to listen.
        over: set when no more requests come.
        calls: gets the times of calls, s.
    """
    queue: list[tuple[str, int]] = []
    free: set[int] = set()
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(address)
        while not over.is_set():
            if not socket.poll(50):
                continue
            message: Any = socket.recv_json()
            decisions: list[dict[str, Any]] = []
            for event in message["events"]:
                data = event["data"]
                match event["type"]:
                    case "SIMULATION_BEGINS":
                        free |= {host["id"] for host in data["compute_resources"]}
                        decisions.append({"type": "CALL_ME_LATER", "data": {"timestamp": 7.0}})
                    case "JOB_SUBMITTED":
                        queue.append((data["job_id"], data["job"]["res"]))
                    case "JOB_COMPLETED":
                        free |= {int(host) for host in data["alloc"].split()}
                    case "REQUESTED_CALL":
                        calls.append(message["now"])
            while queue and len(free) >= queue[0][1]:
                job, wanted = queue.pop(0)
                hosts = sorted(free)[:wanted]
                free -= set(hosts)
                data = {"job_id": job, "alloc": " ".join(map(str, hosts))}
                decisions.append({"type": "EXECUTE_JOB", "data": data})
            socket.send_json({"now": message["now"], "events": decisions})


def test_a_batsim_scheduler_schedules_a_simulation(tmp_path: Path) -> None:
    """The example translates: jobs start when they start under `fcfs`, and the call comes."""
    example = run_path(str(ROOT / "scheduler_client" / "examples" / "batsim_scheduler.py"))
    address, over, calls = f"ipc://{tmp_path}/batsim", Event(), list[float]()
    jobs = jobs_of(*((3.0 * at, 10.0 + at % 7, 1 + at % 3) for at in range(20)))
    scheduler = Thread(target=first_come_first_served, args=(address, over, calls))
    scheduler.start()
    try:
        with closing(example["BatsimScheduler"](address)) as policy:
            found = starts(simulate(cluster_of(4), jobs, policy))
    finally:
        over.set()
        scheduler.join()
    assert found == starts(simulate(cluster_of(4), jobs, "fcfs"))
    assert calls == [7.0]
