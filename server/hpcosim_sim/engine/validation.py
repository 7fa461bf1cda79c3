"""Invariants of a simulation. The check functions read the state and leave it unchanged.

A violation is an `InvariantError` whose message names the node, job or licence.
"""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy

from hpcosim_sim.engine.jobs import JobRegister, SimulatedJob
from hpcosim_sim.errors import InvariantError
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.node_power import NodePower
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.physics.resources import Resources
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_sim.record.run_record import node_spans, record_of

REL_TOL, ABS_TOL = 1e-11, 1e-6
"""Tolerances for sums of the same energies (J) or times (s) in different orders."""


def check_cores(cluster: Cluster, jobs: JobRegister) -> None:
    """Check that free and held cores sum to the capacity and that only running jobs have tasks."""
    held: Counter[int] = Counter()
    tasks: Counter[int] = Counter()
    for job in (*jobs.running.values(), *jobs.allocated.values()):
        held.update(dict(zip(job.nodes, job.held, strict=True)))
    for job in jobs.running.values():
        tasks.update(dict(zip(job.nodes, job.tasks, strict=True)))
    levels = cluster.levels(range(len(cluster.capacity)))
    for node, capacity in enumerate(cluster.capacity):
        free, busy = cluster.free[node], sum(levels[node])
        _require(free >= 0, f"node {node} has {free} free cores")
        _require(
            free + held[node] == capacity,
            f"node {node} has {capacity} cores, but {free} free and {held[node]} held ones",
        )
        _require(
            busy == tasks[node],
            f"node {node} has {busy} tasks, but its running jobs have {tasks[node]}",
        )


def check_resources(resources: Resources, jobs: JobRegister) -> None:
    """Check that free and held memory, devices and licences sum to what the cluster has."""
    held: Counter[tuple[object, ...]] = Counter()
    for job in jobs.in_order():
        if job.resources is not None:
            _require(job.state != "waiting", f"job {job.spec.job_id} waits, but holds resources")
            held.update(job.resources.amounts())
    for key, total, free in resources.balance():
        _require(
            free >= 0 and free + held.pop(key, 0) == total,
            f"{key}: of {total}, {free} are free, and the rest is not what jobs hold",
        )
    _require(not held, f"jobs hold what the cluster lacks: {dict(held)}")


def check_jobs(jobs: JobRegister, recording: Recording, power: NodePower, now_s: float) -> None:
    """Check that each job has one state, the resources of that state, and times in order."""
    for state, held in (
        ("waiting", jobs.waiting),
        ("allocated", jobs.allocated),
        ("running", jobs.running),
        ("suspended", jobs.suspended),
    ):
        for job in held.values():
            _require(
                job.state == state, f"job {job.spec.job_id} is {job.state}, but listed as {state}"
            )
            _check_job(job, power)
    states = Counter(STATES[code] for code in recording.state)
    _require(
        states["waiting"] == len(jobs.waiting) + len(jobs.allocated)
        and states["running"] == len(jobs.running) + len(jobs.suspended)
        and states.total() - states["waiting"] - states["running"] == recording.over,
        f"the recording counts {dict(states)} and {recording.over} jobs that are over; "
        f"the engine has {len(jobs.waiting)} waiting, {len(jobs.allocated)} allocated, "
        f"{len(jobs.running)} running and {len(jobs.suspended)} suspended jobs",
    )
    for row in range(len(recording)):
        _check_row(recording, row, now_s)


def check_energy(cluster: Cluster, recording: Recording, start_s: float, now_s: float) -> None:
    """Check that each node has one state at any time and that meters and recording agree."""
    energy_j, node_s = dict.fromkeys(NODE_STATES, 0.0), dict.fromkeys(NODE_STATES, 0.0)
    reached_s = dict.fromkeys(range(len(cluster.capacity)), start_s)
    # A copy: settling the meters of the simulation would change the rounding of their sums.
    record = record_of(deepcopy(cluster), recording, start_s, now_s)
    for span in node_spans(record):
        span_s = (span.end_s - span.start_s) * len(span.nodes)
        _require(span_s > 0, f"the nodes {span.nodes} have an empty span at {span.start_s} s")
        energy_j[span.state] += span.power_w * span_s
        node_s[span.state] += span_s
        for node in span.nodes:
            _require(
                reached_s[node] == span.start_s,
                f"node {node}: the spans have a gap or an overlap at {span.start_s} s",
            )
            reached_s[node] = span.end_s
    for node, end_s in reached_s.items():
        _require(end_s == now_s, f"node {node}: the last span ends at {end_s} s, before {now_s} s")
    for state in NODE_STATES:
        _require_equal(record.state_energy_j[state], energy_j[state], f"J of {state} nodes")
        _require_equal(record.state_node_s[state], node_s[state], f"node-seconds of {state} nodes")


def _check_job(job: SimulatedJob, power: NodePower) -> None:
    name = f"job {job.spec.job_id}"
    off = sum(power.state[node] != "on" for node in job.nodes)
    if job.state == "waiting":
        _require(not job.nodes, f"{name} is waiting, but holds the nodes {job.nodes}")
    elif job.state == "allocated":
        _require(
            not job.parts and off == job.nodes_off > 0,
            f"{name} is allocated and waits for {job.nodes_off} nodes, but {off} of its nodes are "
            "not on",
        )
    else:
        _require(off == 0, f"{name} is running, but {off} of its nodes are not on")


def _check_row(recording: Recording, row: int, now_s: float) -> None:
    times_s = [recording.submit_s[row], recording.start_s[row], recording.end_s[row], now_s]
    known_s = [time_s for time_s in times_s if not math.isnan(time_s)]
    _require(
        known_s == sorted(known_s),
        f"job {recording.job_id[row]}: times out of order (submission, start, end, now): {times_s}",
    )
    if not math.isnan(recording.start_s[row]):
        tasks = sum(recording.tasks_of(row))
        _require(
            tasks == recording.cores[row],
            f"job {recording.job_id[row]} requests {recording.cores[row]} cores, but has {tasks} "
            "tasks",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(message)


def _require_equal(metered: float, recorded: float, what: str) -> None:
    same = math.isclose(metered, recorded, rel_tol=REL_TOL, abs_tol=ABS_TOL)
    _require(same, f"{what}: the meters have {metered}, the recording gives {recorded}")
