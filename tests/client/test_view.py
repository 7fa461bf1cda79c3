"""The scheduler's mirror of the cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError, View, make_policy
from hpcosim_server.engine.simulation import Simulation
from hpcosim_workloads.synthetic.poisson import poisson
from support.simulating import cluster_of, jobs_of


@given(seed=st.integers(0, 2**32), name=st.sampled_from(["fcfs", "easy", "conservative", "sjf"]))
def test_view_stays_true_while_the_scheduler_takes_its_time(seed: int, name: str) -> None:
    """With thinking time, in which jobs end, no allocation is rejected and free cores agree."""
    rng = np.random.default_rng(seed)
    platform = cluster_of(4, 4)
    table = poisson(
        rng, jobs=30, mean_interarrival_s=20.0, cores=(1, 16), run_s=(5, 80), overestimate=2.0
    )
    simulation, view, decide = Simulation(platform, table), View(platform), make_policy(name)
    batch = simulation.advance()
    while not batch.ended:
        view.apply(batch.now_s, batch.events)
        assert not any(rejected.decision == "allocate_job" for rejected in view.rejected)
        assert view.nodes.free.tolist() == simulation.cluster.free
        decide(view)
        thought_s = float(rng.integers(0, 30))
        batch = simulation.advance(view.decisions, wake_on=view.wake_on, elapsed_s=thought_s)


def test_nodes_a_job_may_not_use_are_passed_over() -> None:
    """A job of whole nodes does not start on named nodes of which one is busy."""
    platform = cluster_of(2, 2)
    jobs = jobs_of((0.0, 5.0, 1), (1.0, 5.0, 4), placement="whole_nodes")
    simulation, view = Simulation(platform, jobs), View(platform)
    view.apply(*simulation.advance()[:2])
    assert view.start(view.queue[1], [0])
    view.apply(*simulation.advance(view.decisions)[:2])
    assert not view.start(view.queue[2], [0, 1])
    assert view.decisions == []


@pytest.mark.parametrize("node", [-1, 2])
def test_a_node_that_is_not_there_can_t_be_switched(node: int) -> None:
    """A policy that miscounts is told, before the view takes another node for it."""
    with pytest.raises(PolicyError, match=f"node {node} can't be switched"):
        View(cluster_of(2)).set_node_power(node, on=False)
