"""A pass of the backfill scheduler starts the jobs that a slow and obvious one starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_client.demand import Demand, NodeChoice
from hpcosim_client.job import Job
from hpcosim_protocol import JobRequest, NodeGroup, Platform, Processor, Switch
from hpcosim_schedulers.slurm import policy
from hpcosim_schedulers.slurm.future import consecutive_nodes, mask_of, set_of
from hpcosim_schedulers.slurm.select import NodeOrder, choose_nodes
from hpcosim_schedulers.slurm.settings import Selection, parse_site
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import job_table_of
from support.simulating import cluster_of, simulate
from support.slow_backfill import slow_backfill

Requests = st.builds(
    lambda numbers, **fields: JobRequest(nodes_min=numbers[0], nodes_max=numbers[1], **fields),
    st.sampled_from([(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (0, 2), (2, 3)]),
    tasks_per_node=st.integers(0, 3),
    features=st.sampled_from(["", "a", "b", "a|b"]),
    memory_per_node_mb=st.sampled_from([0.0, 0.0, 600.0, 3000.0]),
    gres_per_node=st.sampled_from([{}, {}, {}, {"gpu": 1}, {"gpu": 0.5}]),
)
Waiting = st.tuples(
    st.integers(0, 600),  # submission, s
    st.integers(1, 900),  # run time, s
    st.integers(0, 600),  # what the limit adds to it, s
    st.integers(1, 12),  # cores
    st.sampled_from(["cores", "whole_nodes", "one_node"]),
    Requests,
)


def play(platform: Platform, jobs: list[JobSpec], scheduler: dict[str, Any]) -> list[Any]:
    """Return start, nodes and scheduler of each job."""
    decide = policy.slurm(parse_site({"scheduler": scheduler}))
    recording = simulate(platform, job_table_of(jobs), decide).recording
    started_by = decide.started_by
    return [
        (job_id, repr(recording.start_s[row]), recording.nodes_of(row), started_by.get(job_id))
        for row, job_id in enumerate(recording.job_id)
    ]


def compare(platform: Platform, jobs: list[JobSpec], **scheduler: Any) -> None:
    """Compare both passes; settings as in `scheduler.settings`."""
    found = play(platform, jobs, scheduler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "backfill", slow_backfill)
        assert play(platform, jobs, scheduler) == found


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(Waiting, min_size=4, max_size=25), st.booleans(), st.booleans(), st.integers(0, 2))
def test_pass_starts_what_a_pass_over_all_jobs_starts(
    drawn: list[tuple[Any, ...]], leaves: bool, memory: bool, most: int
) -> None:
    """Jobs with features, memory, devices and limits of nodes start at the same times and nodes."""
    switches = (Switch(name="s", nodes=((0, 2),)), Switch(name="t", nodes=((3, 5),)))
    platform = Platform(
        (
            NodeGroup(3, (Processor(4),), 2000.0, features=("a",)),
            NodeGroup(3, (Processor(2),), 4000.0, features=("b",), gres={"gpu": 2}),
        ),
        consumable=("cores", "memory") if memory else ("cores",),
        switches=switches if leaves else (),
    )
    jobs = [
        JobSpec(n, submit, run, run + more, cores, placement, request=request)
        for n, (submit, run, more, cores, placement, request) in enumerate(drawn, 1)
    ]
    compare(platform, jobs, bf_max_job_start=most)


def test_job_for_one_node_starts_on_one_whatever_its_request_allows() -> None:
    """A greatest number of nodes does not make a job for one node ask for several."""
    platform = Platform((NodeGroup(3, (Processor(4),)),))
    job = JobSpec(1, 0, 10, 20, 3, "one_node", request=JobRequest(nodes_max=2))
    [(_, _, nodes, _)] = play(platform, [job], {})
    assert nodes == [0]


def test_job_that_fits_only_on_nodes_without_a_switch_is_refused() -> None:
    """Nodes without a switch take no part in a topology, so no job waits for them for ever."""
    platform = Platform(
        (NodeGroup(3, (Processor(2),)),), switches=(Switch(name="s", nodes=((0, 1),)),)
    )
    jobs = [JobSpec(1, 0, 10, 20, 4, "cores"), JobSpec(2, 0, 10, 20, 5, "cores")]
    [(_, _, first, _), (_, _, second, _)] = play(platform, jobs, {})
    assert (first, second) == ([0, 1], [])


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(Waiting, min_size=4, max_size=40))
def test_pass_starts_the_same_on_nodes_of_one_core(drawn: list[tuple[Any, ...]]) -> None:
    """Jobs of cores only start at the same times on the same nodes."""
    platform = Platform((NodeGroup(12, (Processor(1),)),))
    jobs = [
        JobSpec(n, submit, run, run + more, cores, "cores")
        for n, (submit, run, more, cores, _, _) in enumerate(drawn, 1)
    ]
    compare(platform, jobs)


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 40))
def test_runs_of_single_cores_are_chosen_as_those_of_more_cores(nodes: set[int], need: int) -> None:
    """The choice among nodes of one core is that of the general rule, in the same order."""
    job = Job(1, 0.0, min(need, len(nodes)), 60.0)
    choice = NodeChoice("", np.ones(41, dtype=np.bool_))
    order = NodeOrder.of(cluster_of(41), Selection())
    cores = mask_of(set_of(nodes), 41).astype(np.int64)
    found = choose_nodes(job, Demand(JobRequest(), (choice,)), choice, cores, order)
    assert found is not None
    assert consecutive_nodes(set_of(nodes), job.cores) == (found.tolist(), set_of(found.tolist()))
