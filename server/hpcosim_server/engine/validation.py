"""What must hold in a simulation at any time. The functions only look; nothing changes."""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy

from hpcosim_server.engine.jobs import JobRegister, SimulatedJob
from hpcosim_server.errors import InvariantError
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.node_power import NodePower
from hpcosim_server.physics.power import NODE_STATES
from hpcosim_server.record.recording import STATES, Recording
from hpcosim_server.record.run_record import record_of
from hpcosim_server.record.timeline import node_spans

REL_TOL, ABS_TOL = 1e-11, 1e-6
"""How far sums of the same energies (J) or times (s) in another order may be apart."""


def check_cores(cluster: Cluster, jobs: JobRegister) -> None:
    """Check that no core is held twice or lost, and that tasks run only for jobs that run.

    Raises:
        InvariantError: names the node.
    """
    held: Counter[int] = Counter()
    tasks: Counter[int] = Counter()
    for job in (*jobs.running.values(), *jobs.allocated.values()):
        held.update(dict(zip(job.nodes, job.held, strict=True)))
    for job in jobs.running.values():
        tasks.update(dict(zip(job.nodes, job.tasks, strict=True)))
    levels = cluster.levels(range(len(cluster.capacity)))
    for node, capacity in enumerate(cluster.capacity):
        free, busy = cluster.free[node], sum(levels[node])
        _must(free >= 0, f"node {node} has {free} free cores")
        _must(
            free + held[node] == capacity,
            f"node {node} has {capacity} cores; {free} are free and {held[node]} are held",
        )
        _must(
            busy == tasks[node],
            f"node {node} has {busy} tasks; the jobs that run have {tasks[node]} there",
        )


def check_jobs(jobs: JobRegister, recording: Recording, power: NodePower, now_s: float) -> None:
    """Check that every job is in one state, holds what the state says, and has its times in order.

    Raises:
        InvariantError: names the job.
    """
    for state, held in (
        ("waiting", jobs.waiting),
        ("allocated", jobs.allocated),
        ("running", jobs.running),
    ):
        for job in held.values():
            _must(job.state == state, f"job {job.spec.job_id} is {job.state} and {state}")
            _check_job(job, power)
    states = Counter(STATES[code] for code in recording.state)
    _must(
        states["waiting"] == len(jobs.waiting) + len(jobs.allocated)
        and states["running"] == len(jobs.running)
        and states.total() - states["waiting"] - states["running"] == recording.over,
        f"the recording has jobs in the states {dict(states)}, {recording.over} of them over; "
        f"{len(jobs.waiting)} wait, {len(jobs.allocated)} are allocated, "
        f"{len(jobs.running)} run",
    )
    for row in range(len(recording)):
        _check_row(recording, row, now_s)


def check_energy(cluster: Cluster, recording: Recording, start_s: float, now_s: float) -> None:
    """Check that every node is in one state at any time, and the meters against the recording.

    Raises:
        InvariantError: names the node or the state.
    """
    energy_j, node_s = dict.fromkeys(NODE_STATES, 0.0), dict.fromkeys(NODE_STATES, 0.0)
    reached_s = dict.fromkeys(range(len(cluster.capacity)), start_s)
    # A copy, as to settle the meters themselves would change how their sums are rounded.
    record = record_of(deepcopy(cluster), recording, start_s, now_s)
    for span in node_spans(record):
        span_s = (span.end_s - span.start_s) * len(span.nodes)
        _must(span_s > 0, f"the nodes {span.nodes} have an empty span at {span.start_s} s")
        energy_j[span.state] += span.power_w * span_s
        node_s[span.state] += span_s
        for node in span.nodes:
            _must(
                reached_s[node] == span.start_s,
                f"node {node} has a gap or an overlap at {span.start_s} s",
            )
            reached_s[node] = span.end_s
    for node, end_s in reached_s.items():
        _must(end_s == now_s, f"node {node} has a state up to {end_s} s only")
    for state in NODE_STATES:
        _must_equal(record.state_energy_j[state], energy_j[state], f"J of nodes that are {state}")
        _must_equal(
            record.state_node_s[state], node_s[state], f"node-seconds of nodes that are {state}"
        )


def _check_job(job: SimulatedJob, power: NodePower) -> None:
    name = f"job {job.spec.job_id}"
    off = sum(power.state[node] != "on" for node in job.nodes)
    if job.state == "waiting":
        _must(not job.nodes, f"{name} waits and holds the nodes {job.nodes}")
    elif job.state == "allocated":
        _must(
            not job.parts and off == job.off > 0,
            f"{name} is allocated and waits for {job.off} nodes; {off} of its nodes are not on",
        )
    else:
        _must(off == 0, f"{name} runs, and {off} of its nodes are not on")


def _check_row(recording: Recording, row: int, now_s: float) -> None:
    times_s = [recording.submit_s[row], recording.start_s[row], recording.end_s[row], now_s]
    known_s = [time_s for time_s in times_s if not math.isnan(time_s)]
    _must(
        known_s == sorted(known_s),
        f"job {recording.job_id[row]} has times out of order: submitted, started, ended, now: "
        f"{times_s}",
    )
    if not math.isnan(recording.start_s[row]):
        tasks = sum(recording.tasks_of(row))
        _must(
            tasks == recording.cores[row],
            f"job {recording.job_id[row]} asks for {recording.cores[row]} cores and ran on {tasks}",
        )


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(otherwise)


def _must_equal(metered: float, recorded: float, what: str) -> None:
    same = math.isclose(metered, recorded, rel_tol=REL_TOL, abs_tol=ABS_TOL)
    _must(same, f"the meters have {metered} {what}; by the recording they are {recorded}")
