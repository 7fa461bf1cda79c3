"""Policies on clusters with partitions, devices, memory and reservations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcosim_client import play
from hpcosim_protocol import DecisionRejected, Partition, Platform
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Batch, Simulation
from support.examples import examples
from support.simulating import cluster_of
from support.site_scenes import final_states, job, table
from support.site_worlds import jobs, platforms

POLICIES = ("fcfs", "easy", "conservative", "sjf", "wfp3", "first-high-cores", "low-mem-low-power")


def with_partitions(*partitions: Partition) -> Platform:
    """Return two nodes of one core and the feature `fast`, with these partitions."""
    group = replace(cluster_of(2).nodes[0], features=("fast",))
    return Platform((group,), partitions=partitions)


def run(simulation: Simulation, platform: Platform, policy: str) -> list[DecisionRejected]:
    """Run a simulation to its end, and return the rejected decisions."""
    rejected: list[DecisionRejected] = []
    decide = make_policy(policy)

    def send(decisions, wake_on, elapsed_s):  # type: ignore[no-untyped-def]
        batch: Batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        rejected.extend(each for each in batch.events if isinstance(each, DecisionRejected))
        return batch

    play(decide, platform, send)
    return rejected


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_every_job_runs_to_its_end(data: st.DataObject) -> None:
    """No decision is rejected, and every job that can run runs."""
    platform = data.draw(platforms())
    specs = [data.draw(jobs(platform, number)) for number in range(1, 6)]
    policy = data.draw(st.sampled_from(POLICIES))
    specs.sort(key=lambda spec: spec.submit_s)
    simulation = Simulation(platform, table(*specs))
    assert run(simulation, platform, policy) == []
    states = final_states(simulation)
    assert set(states.values()) <= {"completed", "rejected"}
    assert len(states) == len(specs)


@pytest.mark.parametrize("name", [*POLICIES, "slurm"])
def test_a_counted_feature_of_nodes_behind_an_exclusive_partition(name: str) -> None:
    """The node outside the exclusive partition is one of the two that the job asks for."""
    exclusive = Partition(name="q", nodes=((1, 1),), exclusive=True)
    platform = with_partitions(Partition(name="p", nodes=((0, 1),)), exclusive)
    simulation = Simulation(
        platform, table(job(1, cores=2, spec={"partition": "q,p"}, features="fast*2"))
    )
    assert run(simulation, platform, name) == []
    assert final_states(simulation) == {1: "completed"}


@pytest.mark.parametrize("name", ["first-high-cores", "best-fit"])
def test_job_with_a_required_node_and_more_cores_takes_several_nodes(name: str) -> None:
    """A node that lacks the required node is no allocation, however many cores it has."""
    platform = Platform((cluster_of(1).nodes[0], *cluster_of(1, 2).nodes, cluster_of(1).nodes[0]))
    simulation = Simulation(platform, table(job(1, cores=2, required_nodes=(0,))))
    assert run(simulation, platform, name) == []
    assert final_states(simulation) == {1: "completed"}
