"""Jobs whose nodes must be switched on before a reservation begins."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_client.view import View
from hpcosim_protocol import (
    AllocateJob,
    Decision,
    NodeGroup,
    NodePowerChanged,
    NodeReservation,
    Platform,
    PowerStates,
    Processor,
    SetNodePower,
)
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Simulation
from support.site_scenes import job, rejection, table

SLEEPS = PowerStates(
    sleep_w=1.0, switch_on_s=20.0, switch_on_w=1.0, switch_off_s=5.0, switch_off_w=1.0
)


def platform(reserved: tuple[tuple[int, int], ...], nodes: int = 2) -> Platform:
    """Return nodes with a core that can sleep; some are reserved from 100 to 200 s."""
    window = NodeReservation(name="maint", nodes=reserved, start_s=100.0, end_s=200.0)
    group = NodeGroup(nodes, (Processor(1),), power_states=SLEEPS)
    return Platform((group,), reservations=(window,))


def asleep(platform: Platform, *jobs: Any, nodes: tuple[int, ...] = (0,)) -> Simulation:
    """Return a simulation, at its first submission, of which some nodes sleep."""
    simulation = Simulation(platform, table(job(99, cores=1, run_s=1.0), *jobs))
    simulation.advance(wake_on=["job_submitted"])
    last = platform.node_count - 1
    off = [SetNodePower(node, "sleeping") for node in nodes]
    simulation.advance([*off, AllocateJob(99, [last])], wake_on=["job_completed"])
    return simulation


def test_server_counts_the_time_of_switching_on() -> None:
    """A job that would end in a reservation because its node boots is rejected."""
    simulation = asleep(platform(((0, 0),)), job(1, 60.0, 30.0))
    simulation.advance(wake_on=["job_submitted"])
    assert rejection(simulation, AllocateJob(1, [0])) == (
        "reserved",
        "node 0 is reserved by maint from 100.0 to 200.0 s; job 1 would run until 110.0 s",
    )


def test_server_counts_what_is_left_of_switching_on() -> None:
    """Of a node that boots already, the rest of the mean time counts."""
    simulation = asleep(platform(((0, 0),)), job(1, 60.0, 30.0))
    simulation.advance([SetNodePower(0, "on")], elapsed_s=44.0, wake_on=["job_submitted"])
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_completed"])
    assert simulation.recording.start_s[1:].tolist() == [65.0]


@pytest.mark.parametrize(
    "name", ["fcfs", "easy", "conservative", "multifactor", "best-fit", "slurm"]
)
@pytest.mark.parametrize("reserved", [((0, 0),), ((0, 2),), ((2, 2),)])
@pytest.mark.parametrize("cores", [1, 2])
def test_policies_offer_what_the_server_accepts(
    name: str, reserved: tuple[tuple[int, int], ...], cores: int
) -> None:
    """No decision of a policy is rejected, and every job ends outside the windows."""
    cluster = platform(reserved, nodes=3)
    simulation = asleep(cluster, job(1, 60.0, 30.0, cores), nodes=(0, 1))
    policy, view = make_policy(name), View(cluster)
    decisions: list[Decision] = []
    view.apply(simulation.now_s, simulation.snapshot())
    while True:
        batch = simulation.advance(decisions)
        if batch.ended:
            break
        view.apply(batch.now_s, batch.events)
        policy(view)
        decisions = list(view.decisions)
    assert simulation.rejected == 0
    (start_s, end_s), nodes = (
        (column[1] for column in (simulation.recording.start_s, simulation.recording.end_s)),
        simulation.recording.periods.nodes_of(1),
    )
    inside = range(reserved[0][0], reserved[0][1] + 1)
    assert start_s >= 200.0 or end_s <= 100.0 or not set(nodes) & set(inside)


def test_nodes_that_are_on_are_taken_before_a_reservation() -> None:
    """A job that fits before the window only on nodes that are on gets those."""
    cluster, view = platform(((0, 3),), nodes=4), None
    view = View(cluster)
    simulation = Simulation(cluster, table(job(1, 60.0, 30.0, 2)))
    view.apply(0.0, simulation.advance(wake_on=["job_submitted"]).events)
    view.apply(60.0, [NodePowerChanged(60.0, 0, "sleeping"), NodePowerChanged(60.0, 2, "sleeping")])
    assert view.start(view.queue[1])
    assert view.decisions == [AllocateJob(1, [1, 3], [])]
