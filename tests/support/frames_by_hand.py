"""A small run as a frame whose numbers are computed by hand.

Nodes 0 and 1 have 4 cores (group `big`), node 2 has 2 (group `small`). Node 2 sleeps from 30 s to
60 s, switches on until 70 s and then runs job 4.
"""

from __future__ import annotations

from typing import Any

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_view.run.frame import Frame, frame
from hpcosim_workloads.table import PLACEMENTS

HOSTILE = "<script>alert('x')</script>\u202e[red],\"\n\x1b[31m" + "x" * 10_000
NAN = float("nan")
WATTS = [
    (0.0, "computing", 0.0),
    (0.0, "idle", 100.0),
    (5.0, "computing", 60.5),
    (5.0, "idle", 40.25),
    (30.0, "switching_off", 7.0),
    (40.0, "switching_off", 0.0),
    (40.0, "sleeping", 1.0),
    (60.0, "sleeping", 0.0),
    (60.0, "switching_on", 9.0),
    (70.0, "switching_on", 0.0),
    (70.0, "computing", 90.0),
    (100.0, "computing", 0.0),
    (100.0, "idle", 100.0),
]
NOW_S = 110.0
ENERGY_J = {
    "computing": 65 * 60.5 + 30 * 90.0,
    "idle": 5 * 100.0 + 95 * 40.25 + 10 * 100.0,
    "switching_off": 10 * 7.0,
    "sleeping": 20 * 1.0,
    "switching_on": 10 * 9.0,
}
"""Energy by node state, J: the integrals of `WATTS`."""


def small_run(**about: Any) -> Frame:
    """Return the run.

    Args:
        about: facts that replace those of the frame.
    """
    facts = {
        "scenario": "small",
        "scheduler": "easy",
        "seed": 3,
        "start_s": 0.0,
        "now_s": NOW_S,
        "nodes": [[2, 4, "big"], [1, 2, "small"]],
        "users": ["ann", HOSTILE],
        "groups": ["7"],
        "partitions": ["batch"],
        "reasons": ["Resources", "Priority"],
        "ended_because": "every job has ended",
        "complete": True,
        "metrics": {"energy_j": sum(ENERGY_J.values())},
        "warnings": [],
    }
    return frame(facts | about, {**_JOBS, **_STARTS, **_ENDS, **_NODES, **_EXPLANATIONS})


_JOBS: dict[str, Any] = {
    # Job 2 shares node 0 with job 1, job 3 has no duration, 5 is rejected, 6 waits for ever.
    "job.id": [1, 2, 3, 4, 5, 6],
    "job.submit_s": [5.0, 5.0, 10.5, 20.0, 21.0, 22.0],
    "job.requested_s": [120.0, 60.5, 1.0, 30.0, 10.0, NAN],
    "job.cores": [5, 2, 1, 2, 99, 8],
    "job.placement": [PLACEMENTS.index(rule) for rule in ["cores"] * 4 + ["one_node", "cores"]],
    "job.user": [0, 1, 0, -1, 0, 0],
    "job.group": [0, 0, -1, -1, 0, 0],
    "job.partition": [0, 0, 0, -1, 0, 0],
}
_STARTS: dict[str, Any] = {
    "start.job": [0, 1, 2, 3],
    "start.time_s": [5.0, 5.0, 12.25, 70.0],
    "start.boxes": [1, 2, 1, 1],
    # Job 1 has two cores of node 0 and three of node 1; job 2 has one core of each.
    "box.first": [2, 0, 7, 8, 8],
    "box.last": [6, 0, 7, 8, 9],
}
_ENDS: dict[str, Any] = {
    "end.job": [2, 4, 1, 0, 3],
    "end.time_s": [12.25, 21.0, 65.5, 70.0, 100.0],
    "end.state": [
        STATES.index(state) for state in ("completed", "rejected", "timeout", "completed", "killed")
    ],
    "end.energy_j": [0.0, 0.0, 500.0, 3000.0, 100.0],
}
_NODES: dict[str, Any] = {
    "power.time_s": [30.0, 40.0, 60.0, 70.0],
    "power.node": [2, 2, 2, 2],
    "power.state": [
        POWER_STATES.index(state) for state in ("switching_off", "sleeping", "switching_on", "on")
    ],
    "watts.time_s": [time_s for time_s, _, _ in WATTS],
    "watts.state": [NODE_STATES.index(state) for _, state, _ in WATTS],
    "watts.power_w": [power_w for _, _, power_w in WATTS],
}
_EXPLANATIONS: dict[str, Any] = {
    "explain.job": [3, 3, 5],
    "explain.time_s": [20.0, 25.0, 25.0],
    "explain.reason": [1, 0, 1],
    "explain.expected_start_s": [NAN, 65.0, 120.0],
}
