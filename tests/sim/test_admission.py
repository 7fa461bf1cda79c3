"""Rejection of jobs at submission that the empty platform cannot run."""

from __future__ import annotations

import math

import pytest

from hpcosim_protocol import NodeGroup, Placement, Platform, Processor, SubmitJob
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import PLACEMENTS, job_table
from support.simulating import simulate

# Alone, a job of 2 cores and 10 s costs 10 * (40 + 2 * 5) = 500 J on the slow node,
# 10 / 4 * (100 + 2 * 20) = 350 J on the fast one.
PLATFORM = Platform(
    (NodeGroup(2, (Processor(4, 1.0, 40.0, 5.0),)), NodeGroup(1, (Processor(2, 4.0, 100.0, 20.0),)))
)


def run_one(cores: int, placement: Placement, max_energy_j: float = math.inf) -> tuple[str, str]:
    """Return the state and the reason of a single job of 10 s."""
    jobs = job_table(
        job_id=[1],
        run_s=10.0,
        requested_s=10.0,
        cores=cores,
        placement=PLACEMENTS.index(placement),
        max_energy_j=max_energy_j,
    )
    recording = simulate(PLATFORM, jobs, "first-low-power").recording
    return STATES[recording.state[0]], recording.reasons.get(0, "")


@pytest.mark.parametrize(
    ("cores", "placement", "reason"),
    [
        (5, "one_node", "requests 5 cores on one node; the largest node has 4"),
        (11, "cores", "requests 11 cores; the platform has 10"),
        (11, "whole_nodes", "requests 11 cores; the platform has 10"),
    ],
)
def test_job_too_large_for_the_platform_is_rejected(
    cores: int, placement: Placement, reason: str
) -> None:
    """A job that exceeds every node or the platform is rejected with a reason."""
    assert run_one(cores, placement) == ("rejected", reason)


def test_energy_limit_below_every_estimate_is_rejected() -> None:
    """A job whose lowest energy estimate exceeds `max_energy_j` is rejected."""
    reason = "has max_energy_j 349.0; the lowest energy estimate of any node is 350.0 J"
    assert run_one(2, "one_node", 349.0) == ("rejected", reason)


def test_energy_limit_of_one_node_is_accepted() -> None:
    """A job whose energy estimate on some node equals `max_energy_j` runs there."""
    assert run_one(2, "one_node", 350.0) == ("completed", "")


def test_energy_estimates_ignore_nodes_that_are_too_small() -> None:
    """Nodes with too few cores do not contribute energy estimates."""
    # 3 cores need a slow node: 10 * (40 + 15) = 550 J.
    assert run_one(3, "one_node", 549.0)[0] == "rejected"
    assert run_one(3, "one_node", 550.0)[0] == "completed"


def test_job_over_several_nodes_has_no_estimate() -> None:
    """`max_energy_j` does not apply to a job that exceeds every node."""
    assert run_one(6, "cores", 1.0)[0] == "completed"


def test_submitted_job_is_rejected_with_the_same_reason() -> None:
    """A submit_job that no node can run is rejected with the same reason."""
    jobs = job_table(job_id=[1], run_s=1.0, requested_s=1.0)
    simulation = Simulation(PLATFORM, jobs, Rules(dynamic_jobs=True))
    simulation.advance()
    batch = simulation.advance([SubmitJob(2, 5, 1.0, placement="one_node")])
    assert "job 2 requests 5 cores on one node; the largest node has 4" in str(batch.events)
