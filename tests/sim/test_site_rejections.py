"""Decisions against what the cluster and the user's declaration imply are rejected by name."""

from __future__ import annotations

import pytest

from hpcosim_protocol import AllocateJob, Decision, KillJob, RejectionCode, ResumeJob, SuspendJob
from hpcosim_sim.errors import InvariantError
from support.site_refusals import SITE_REFUSED, stage
from support.site_scenes import rejection


@pytest.mark.parametrize(("decision", "code", "reason"), SITE_REFUSED)
def test_decision_is_rejected_by_name(decision: Decision, code: RejectionCode, reason: str) -> None:
    """The rejection has the code and says what is wrong; nothing changes."""
    simulation = stage()
    free = list(simulation.cluster.free)
    memory = list(simulation.resources.free_memory)
    got = rejection(simulation, decision)
    assert got[0] == code
    assert reason in got[1]
    assert simulation.cluster.free == free
    assert simulation.resources.free_memory == memory
    simulation.validate()


def test_suspended_job_keeps_memory_devices_and_licences() -> None:
    """A suspended job frees its cores only; its end frees the rest."""
    simulation = stage()
    simulation.advance([SuspendJob(1)], wake_on=["job_suspended"])
    assert simulation.cluster.free[0] == 4
    assert rejection(simulation, AllocateJob(4, [0]))[0] == "insufficient_memory"
    assert rejection(simulation, AllocateJob(6, [2]))[0] == "insufficient_licenses"
    simulation.validate()
    simulation.advance([ResumeJob(1)], wake_on=["job_resumed"])
    simulation.validate()
    simulation.advance([KillJob(1)], wake_on=["job_completed"])
    assert simulation.resources.free_memory[0] == 16 * 2**20
    assert simulation.resources.free_devices[0] == {"gpu:a100": [1000, 1000]}
    assert simulation.resources.free_licenses == {"matlab": 1}


def test_job_of_an_exclusive_partition_holds_whole_nodes() -> None:
    """One core of the partition `gpu` takes all four cores of its node."""
    simulation = stage()
    simulation.advance([AllocateJob(8, [1])], wake_on=["job_started"])
    assert simulation.jobs.running[8].held == [4]
    assert simulation.cluster.free[1] == 0


@pytest.mark.spoils
@pytest.mark.parametrize("what", ["memory", "devices", "licenses"])
def test_validation_detects_resources_held_twice(what: str) -> None:
    """A lost byte, device or licence violates the invariant."""
    resources = (simulation := stage()).resources
    if what == "memory":
        resources.free_memory[0] -= 1
    elif what == "devices":
        resources.free_devices[0]["gpu:a100"][0] += 1000
    else:
        resources.free_licenses["matlab"] += 1
    with pytest.raises(InvariantError, match="are free, and the rest is not what jobs hold"):
        simulation.validate()
