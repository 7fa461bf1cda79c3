"""`validate()` detects violations of each invariant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcosim_protocol import (
    AllocateJob,
    JobSubmitted,
    NodeGroup,
    NoMoreJobs,
    Platform,
    PowerStates,
    Processor,
    SetNodePower,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.errors import InvariantError
from support.simulating import jobs_of

STATES = PowerStates(5.0, 20.0, 80.0, 10.0, 30.0)
PLATFORM = Platform((NodeGroup(3, (Processor(2, 1.0, 50.3, 5.7),), power_states=STATES),))


def busy() -> Simulation:
    """Return 3 nodes: node 1 runs job 1, node 2 is being switched on for job 2, job 3 waits."""
    simulation = Simulation(PLATFORM, jobs_of((0, 90, 1), (0, 9, 2), (0, 9, 1)))
    simulation.advance()
    simulation.advance([AllocateJob(1, [1]), SetNodePower(2, "sleeping")])
    simulation.advance()
    simulation.advance([AllocateJob(2, [2])], wake_on=["job_allocated"])
    simulation.validate()
    return simulation


def _lose_a_core(simulation: Simulation) -> None:
    simulation.cluster.free[0] -= 1


def _forget_a_job(simulation: Simulation) -> None:
    del simulation.jobs.waiting[3]


def _have_a_job_in_two_states(simulation: Simulation) -> None:
    simulation.jobs.running[3] = simulation.jobs.waiting[3]


def _start_before_the_submission(simulation: Simulation) -> None:
    simulation.recording.start_s[0] = -1.0


def _lose_tasks(simulation: Simulation) -> None:
    simulation.cluster.vacate(simulation.now_s, simulation.jobs.running[1].parts)


def _start_on_a_node_that_is_not_on(simulation: Simulation) -> None:
    job = simulation.jobs.allocated[2]
    simulation.start(job)


def _lose_energy(simulation: Simulation) -> None:
    simulation.settle()
    simulation.cluster.meters[0].state_energy_j[0] *= 0.999


@pytest.mark.spoils
@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_lose_a_core, "node 0 has 2 cores, but 1 free and 0 held ones"),
        (_forget_a_job, "the engine has 0 waiting"),
        (_have_a_job_in_two_states, "job 3 is waiting, but listed as running"),
        (_start_before_the_submission, "job 1: times out of order"),
        (_lose_tasks, "node 1 has 0 tasks, but its running jobs have 1"),
        (_start_on_a_node_that_is_not_on, "job 2 is running, but 1 of its nodes"),
        (_lose_energy, "J of computing nodes: the meters have"),
    ],
)
def test_violation_is_detected(spoil: Callable[[Simulation], None], what: str) -> None:
    """Each violation raises an error that describes it."""
    simulation = busy()
    spoil(simulation)
    with pytest.raises(InvariantError, match=what):
        simulation.validate()


@pytest.mark.spoils
def test_rules_can_ask_for_a_check_after_each_batch() -> None:
    """With `validate`, the first batch after a violation raises an error."""
    simulation = Simulation(PLATFORM, jobs_of((0, 90, 1), (5, 9, 2)), Rules(validate=True))
    simulation.advance()
    simulation.cluster.free[0] -= 1
    with pytest.raises(InvariantError, match="node 0"):
        simulation.advance()


def test_check_changes_no_result() -> None:
    """Validation does not change the energies."""
    energies_j = []
    for validate in (False, True):
        waiting = [(0.37 * i, 1.0, 1) for i in range(1, 20)]
        simulation = Simulation(PLATFORM, jobs_of((0, 9, 1), *waiting), Rules(validate=validate))
        simulation.advance()
        batch = simulation.advance([AllocateJob(1, [1])])
        while isinstance(batch.events[-1], JobSubmitted | NoMoreJobs):
            batch = simulation.advance()
        simulation.settle()
        energies_j.append([meter.state_energy_j for meter in simulation.cluster.meters])
    assert energies_j[0] == energies_j[1]
