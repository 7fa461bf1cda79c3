"""Where the view finds room for jobs with requests, against slow and obvious rules."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcosim_client import View
from hpcosim_protocol import AllocateJob, JobRequest, Platform
from hpcosim_workloads.table import JobSpec
from support.allocation_oracle import (
    Held,
    allocations,
    fault,
    is_whole,
    memory_of,
    parts_on,
    stated_devices_are_right,
)
from support.allocation_oracle import _assign as assign
from support.examples import examples
from support.simulating import cluster_of
from support.site_worlds import jobs, platforms, submissions


def hold(held: Held, spec: JobSpec, decision: AllocateJob) -> None:
    """Check a decision with the slow rules, and note what the job holds from now on."""
    nodes, request = decision.nodes, spec.request or JobRequest()
    cores = held.groups
    tasks = decision.cores or [1] * len(nodes)
    assert fault(held, spec, nodes, tasks, 0.0) == ""
    counts = [count // request.cores_per_task for count in tasks]
    devices = stated_devices_are_right(held, request, nodes, counts, decision.gres)
    assert devices is not None
    whole = is_whole(held.platform, spec, nodes)
    held.allocations[spec.job_id] = {
        "cores": {
            node: cores[node].cores if whole else count
            for node, count in zip(nodes, tasks, strict=True)
        },
        "memory": {
            node: memory_of(held, spec, node, count) if cores[node].memory_mb else Fraction(0)
            for node, count in zip(nodes, tasks, strict=True)
        },
        "devices": devices,
        "licenses": request.licenses,
    }


def free_devices_exist(held: Held, spec: JobSpec, nodes: list[int], tasks: list[int]) -> bool:
    """Return whether some free devices of the nodes meet the request of a job."""
    request = spec.request or JobRequest()
    needed = [
        (place, name, size)
        for place, cores in enumerate(tasks)
        for name, size in parts_on(request, cores // request.cores_per_task)
    ]
    for name, amount in request.gres_per_job.items():
        needed += [(-1, name, min(Fraction(round(amount * 1000), 1000), Fraction(1)))] * max(
            int(amount), 1
        )
    left = {
        (place, name, number): held.device(node, name, number)
        for place, node in enumerate(nodes)
        for name, count in held.groups[node].gres.items()
        for number in range(count)
    }
    return assign(needed, left)


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_a_job_starts_exactly_if_some_allocation_is_right(data: st.DataObject) -> None:
    """The view finds room for a job exactly if one of all allocations breaks no rule."""
    platform = data.draw(platforms())
    specs = [data.draw(jobs(platform, number)) for number in range(1, 5)]
    view, held = View(platform), Held(platform)
    view.apply(0.0, submissions(specs))
    for spec in specs:
        job = view.queue[spec.job_id]
        before = len(view.decisions)
        if view.start(job):
            decision = view.decisions[before]
            assert isinstance(decision, AllocateJob)
            hold(held, spec, decision)
        elif spec.partition != "q,p":  # nodes of a shared and of an earlier exclusive partition
            assert not any(
                fault(held, spec, nodes, tasks, 0.0) == ""
                and free_devices_exist(held, spec, nodes, tasks)
                for nodes, tasks in allocations(held, spec)
            )


def test_a_job_on_one_node_gets_the_devices_of_that_node() -> None:
    """The first node has the cores, the second one has the cores and the device."""
    node = cluster_of(1, cores=2).nodes[0]
    platform = Platform((node, replace(node, gres={"gpu": 1})))
    request = JobRequest(gres_per_job={"gpu": 0.5})
    view = View(platform)
    view.apply(0.0, submissions([JobSpec(1, 0.0, 2.0, 7.0, 2, "one_node", request=request)]))
    assert view.start(view.queue.first())
    (decision,) = view.decisions
    assert isinstance(decision, AllocateJob)
    assert decision.nodes == [1]


def test_a_node_with_more_cores_counts_for_a_feature() -> None:
    """Of the nodes that meet a count, those are taken with which the others are few enough."""
    small, large = cluster_of(2).nodes[0], cluster_of(1, cores=2).nodes[0]
    platform = Platform((replace(small, features=("ib", "fast")), replace(large, features=("ib",))))
    request = JobRequest(features="[ib*1&fast*1]", nodes_max=2)
    view = View(platform)
    view.apply(0.0, submissions([JobSpec(1, 0.0, 2.0, 7.0, 3, "cores", request=request)]))
    assert view.start(view.queue.first())
    (decision,) = view.decisions
    assert isinstance(decision, AllocateJob)
    assert sorted(decision.nodes) == [0, 2]
