"""The schedule of a complete simulation, the input of the oracle."""

from __future__ import annotations

import math

import numpy as np

from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.planning.cheapest_switching import Schedule
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.table import PLACEMENTS

WHOLE_NODES = PLACEMENTS.index("whole_nodes")


def starts_of(simulation: Simulation) -> dict[int, float]:
    """Return the start of each job that started, s, by its number."""
    recording = simulation.recording
    starts_s = zip(recording.job_id, recording.start_s, strict=True)
    return {job_id: start_s for job_id, start_s in starts_s if not math.isnan(start_s)}


def schedule_of(simulation: Simulation) -> Schedule:
    """Return the schedule of a complete simulation.

    Raises:
        OracleError: a job does not hold whole nodes.
    """
    recording, capacity = simulation.recording, simulation.cluster.capacity
    start_s = np.array(recording.start_s)
    ran = np.flatnonzero(~np.isnan(start_s))
    for row in ran.tolist():
        _check_holds_whole_nodes(recording, row, int(capacity[0]))
    return Schedule(
        nodes=len(capacity),
        start_s=simulation.start_s,
        end_s=simulation.now_s,
        job_start_s=start_s[ran],
        job_end_s=np.array(recording.end_s)[ran],
        job_nodes=np.array([len(recording.nodes_of(row)) for row in ran.tolist()], np.int64),
    )


def _check_holds_whole_nodes(recording: Recording, row: int, node_cores: int) -> None:
    if recording.placement[row] == WHOLE_NODES:
        return
    if any(tasks < node_cores for tasks in recording.tasks_of(row)):
        raise OracleError(
            f"the oracle plans for jobs that hold whole nodes, and job {recording.job_id[row]} "
            f"leaves cores of a node free; set workload.placement: whole_nodes"
        )
