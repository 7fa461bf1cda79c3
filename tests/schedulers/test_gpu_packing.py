"""Policies that pack jobs with GPUs, by hand and against the definition of fragmentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy, View
from hpcosim_client.job import Job
from hpcosim_protocol import (
    AllocateJob,
    JobRequest,
    JobSubmitted,
    NodeGroup,
    Platform,
    Processor,
)
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.gpu_packing import GpuNeed, JobMix, fgd, gpu_need, gpu_nodes
from hpcosim_workloads.table import JobSpec
from support.examples import examples
from support.golden_slurm import job_table_of
from support.simulating import simulate

TWO_KINDS = Platform(
    (
        NodeGroup(1, (Processor(8),), gres={"gpu:a": 4}),
        NodeGroup(2, (Processor(8),), gres={"gpu:a": 1, "gpu:b": 1}),
    )
)


def submitted(job_id: int, gpus: float, cores: int = 1, name: str = "gpu") -> JobSubmitted:
    """Return the submission of a job on one node."""
    request = JobRequest(gres_per_node={name: gpus} if gpus else {})
    return JobSubmitted(0.0, job_id, cores, 10.0, "one_node", request=request)


def places(policy: Policy, *gpus: float, cores: int = 1) -> list[tuple[int, dict[str, list[int]]]]:
    """Return node and GPUs of jobs with these GPUs, which arrive one after the other."""
    view = View(TWO_KINDS)
    found = []
    for number, amount in enumerate(gpus):
        view.apply(0.0, [submitted(number, amount, cores)])
        policy(view)
        (decision,) = [each for each in view.decisions if isinstance(each, AllocateJob)]
        found.append((decision.nodes[0], decision.gres[0] if decision.gres else {}))
    return found


def test_tables_of_gpus_are_as_wide_as_the_largest_node() -> None:
    """GPUs of several types share columns, in the platform's order of types."""
    gpus = gpu_nodes(View(TWO_KINDS).nodes)
    assert gpus.total.tolist() == [[1000] * 4, [1000, 1000, 0, 0], [1000, 1000, 0, 0]]


def test_best_fit_leaves_the_least_and_fills_the_fullest_gpu() -> None:
    """Shares go to the smaller node and share a GPU; four GPUs are only on the large node."""
    expected = [(1, {"gpu:a": [0]}), (1, {"gpu:a": [0]}), (0, {"gpu:a": [0, 1, 2, 3]})]
    assert places(make_policy("best-fit"), 0.5, 0.25, 4.0) == expected


def test_gpu_packing_uses_gpus_in_use_first() -> None:
    """A share joins a GPU in use, a whole GPU is on the node in use, then on an idle node."""
    expected = [(1, {"gpu:a": [0]}), (1, {"gpu:a": [0]}), (1, {"gpu:b": [0]}), (2, {"gpu:a": [0]})]
    assert places(make_policy("gpu-packing"), 0.5, 0.5, 1.0, 1.0) == expected


def test_gpu_packing_leaves_cores_aside() -> None:
    """A job without GPU goes to the first node, whose GPUs stay idle for the choice of nodes."""
    expected = [(1, {"gpu:a": [0]}), (0, {}), (1, {"gpu:b": [0]}), (2, {"gpu:a": [0]})]
    assert places(make_policy("gpu-packing"), 1.0, 0.0, 1.0, 1.0) == expected


@pytest.mark.slow
@examples(60)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.24, 0.26, 0.5, 0.71, 1.0, 2.0]), st.integers(1, 4)),
        max_size=16,
    )
)
def test_gpu_packing_takes_the_first_node_of_best_score(jobs: list[tuple[float, int]]) -> None:
    """No node with room has a better score, none before it the same; a GPU in use is filled."""
    view, policy = View(TWO_KINDS), make_policy("gpu-packing")
    for number, (amount, cores) in enumerate(jobs):
        free_cores, free, capacity = state_of(view)
        view.apply(0.0, [submitted(number, amount, cores)])
        need = gpu_need(view.queue[number])
        policy(view)
        scores = [
            slow_score(need, gpus, total)
            if free_cores[node] >= cores and sum(each >= need.part for each in gpus) >= need.gpus
            else -1
            for node, (gpus, total) in enumerate(zip(free, capacity, strict=True))
        ]
        if max(scores) < 0:
            assert not view.decisions
            view.queue.pop(number)
            continue
        decision = view.decisions[0]
        assert isinstance(decision, AllocateJob)
        assert decision.nodes[0] == scores.index(max(scores))
        if 0 < need.part < 1000:
            room = [each for each in free[decision.nodes[0]] if each >= need.part]
            left = sorted(state_of(view)[1][decision.nodes[0]])
            room_left = sorted(free[decision.nodes[0]])
            room_left.remove(min(room))
            assert left == sorted([*room_left, min(room) - need.part])


def state_of(view: View) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return free cores, free thousandths of the GPUs, and thousandths of idle GPUs by node."""
    here = gpu_nodes(view.nodes)
    there = [row > 0 for row in here.total]
    free = [gpus[has].tolist() for gpus, has in zip(here.gpus, there, strict=True)]
    total = [gpus[has].tolist() for gpus, has in zip(here.total, there, strict=True)]
    return here.cores.tolist(), free, total


def slow_score(need: GpuNeed, gpus: list[int], capacity: list[int]) -> int:
    """Return the score of a node, 0 to 100, as the program of the paper has it."""
    if need.gpus == 0:
        return 0
    if gpus == capacity:
        return 33 - len(gpus)
    chosen = sorted(free for free in gpus if free >= need.part)[: need.gpus]
    idle = chosen.count(1000)
    return 50 - idle if idle else 100 - sum(chosen) // 100


def test_random_uses_only_gpus_with_room() -> None:
    """Seven jobs with a whole GPU and one that needs none all start; each GPU has one job."""
    found = places(make_policy("gpu-random"), *[1.0] * 7, 0.0)
    taken = [(node, name, n) for node, gpus in found for name, ns in gpus.items() for n in ns]
    assert len(set(taken)) == len(taken) == 7


def test_fgd_keeps_whole_gpus_for_jobs_that_need_them() -> None:
    """In a mix of shares and whole GPUs, a share joins the GPU of another share."""
    assert places(fgd(exact=True), 1.0, 0.5, 0.5)[1:] == [(0, {"gpu:a": [1]})] * 2


def slow_fragmentation(jobs: list[Job], cores: int, gpus: list[int]) -> float:
    """Return the fragmentation of a node that every job may use, by the definition."""
    total = 0.0
    for job in jobs:
        need = gpu_need(job)
        room = [free for free in gpus if need.part and free >= need.part]
        runs = job.cores <= cores and need.gpus > 0 and len(room) >= need.gpus
        total += sum(gpus) - sum(room) if runs else sum(gpus)
    return total / len(jobs)


@examples(100)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0])), min_size=1),
    st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(0, 1000), min_size=4, max_size=4))),
)
def test_fragmentation_is_that_of_the_definition(
    needs: list[tuple[int, float]], nodes: list[tuple[int, list[int]]]
) -> None:
    """Whatever the mix and the state of a node."""
    view, mix = View(TWO_KINDS), JobMix()
    view.apply(0.0, [submitted(i, gpus, cores) for i, (cores, gpus) in enumerate(needs)])
    for job in view.queue.values():
        mix.add(job)
    found = mix.classes(3).fragmentation(
        np.zeros(len(nodes), dtype=np.int64),
        np.array([cores for cores, _ in nodes], dtype=np.int64),
        np.array([gpus for _, gpus in nodes], dtype=np.int64).reshape(-1, 4),
    )
    slow = [slow_fragmentation(view.queue.values(), *node) for node in nodes]
    assert found.tolist() == pytest.approx(slow)


@pytest.mark.slow
@examples(40)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0, 2.0]), max_size=12))
def test_fgd_takes_the_place_with_the_least_increase(amounts: list[float]) -> None:
    """The increase of the chosen place is the least over all nodes and GPUs."""
    view, policy, seen = View(TWO_KINDS), fgd(exact=True), []
    for number, amount in enumerate(amounts):
        before = gpu_nodes(view.nodes)
        cores, gpus = before.cores.copy(), before.gpus.copy()
        view.apply(0.0, [submitted(number, amount)])
        job = view.queue[number]
        seen.append(job)
        policy(view)
        if not view.decisions:
            view.queue.pop(number)
            continue
        decision = view.decisions[0]
        assert isinstance(decision, AllocateJob)
        node, after = decision.nodes[0], gpu_nodes(view.nodes).gpus
        least = min(increases(seen, job, cores.tolist(), gpus.tolist()), default=math.inf)
        found = increase(seen, job, int(cores[node]), gpus[node].tolist(), after[node].tolist())
        assert found == pytest.approx(least)


def increase(seen: list[Job], job: Job, cores: int, gpus: list[int], after: list[int]) -> float:
    """Return by how much a job increases the fragmentation of a node."""
    later = slow_fragmentation(seen, cores - job.cores, after)
    return later - slow_fragmentation(seen, cores, gpus)


def increases(seen: list[Job], job: Job, cores: list[int], gpus: list[list[int]]) -> list[float]:
    """Return the increase of every place for a job."""
    need, found = gpu_need(job), []
    for free_cores, free in zip(cores, gpus, strict=True):
        room = [at for at, amount in enumerate(free) if need.part and amount >= need.part]
        if free_cores < job.cores or len(room) < need.gpus:
            continue
        for first in room if need.gpus == 1 else [0]:
            taken = {first} if need.gpus == 1 else set(room[: need.gpus])
            after = [amount - need.part * (at in taken) for at, amount in enumerate(free)]
            found.append(increase(seen, job, free_cores, free, after))
    return found


REQUESTS = {
    "for each node": (JobRequest(gres_per_node={"gpu": 2.0}), (1000, 2)),
    "for each task": (JobRequest(gres_per_task={"gpu:a": 1.0}, cores_per_task=2), (1000, 2)),
    "shares for each task": (JobRequest(gres_per_task={"gpu": 0.5}), (500, 4)),
    "for the job": (JobRequest(gres_per_job={"gpu": 3.0}), (1000, 3)),
    "of a type": (JobRequest(gres_per_job={"gpu:b": 1.0}), (1000, 1)),
    "none": (JobRequest(licenses={}), (0, 0)),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_gpus_of_all_kinds_of_requests_count(name: str) -> None:
    """Requests for the node, each task and the job say what a job of four cores needs."""
    request, expected = REQUESTS[name]
    assert gpu_need(Job(1, 0.0, 4, 60.0, request=request)) == expected


@pytest.mark.parametrize("policy", ["best-fit", "fgd", "gpu-packing", "gpu-random"])
def test_jobs_with_any_request_start(policy: str) -> None:
    """Jobs start whatever their GPUs are for, on several nodes if one does not suffice."""
    requests = [
        *(request for request, _ in REQUESTS.values()),
        JobRequest(gres_per_job={"gpu": 7.0}),
        JobRequest(gres_per_node={"gpu:a": 1.0, "gpu:b": 1.0}),
        JobRequest(gres_per_node={"gpu": 1.0}, gres_per_job={"gpu": 2.0}),
        JobRequest(nodes_min=2),
    ]
    jobs = [
        JobSpec(n, 0.0, 60.0, 60.0, 4, "cores", request=each) for n, each in enumerate(requests, 1)
    ]
    simulation = simulate(TWO_KINDS, job_table_of(jobs), policy)
    assert not np.isnan(simulation.recording.start_s).any()
