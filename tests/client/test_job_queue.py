"""Tests of the queue of waiting jobs, and of the number of jobs on each node."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from hpcosim_client.job import Allocation, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.scheduler_state import JobQueue
from hpcosim_protocol import NodeGroup, Platform, Processor


def job(number: int) -> Job:
    """Return a job whose place in the order of submission is its number."""
    return Job(number, 0.0, 1, 10.0, order=number)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_job_is_that_of_an_ordered_dictionary(seed: int) -> None:
    """Jobs that leave the queue and come back at its end keep the head and the order right."""
    rng = np.random.default_rng(seed)
    queue, reference = JobQueue(), OrderedDict[int, Job]()
    for step in range(400):
        number = int(rng.integers(30))
        if number in reference:
            if rng.random() < 0.8:
                assert queue.pop(number) is reference.pop(number)
            else:
                queue[number] = reference[number] = job(number)
        elif not reference or number > next(reversed(reference)):
            queue[number] = reference[number] = job(number)
        if step % 50 == 49:
            queue = JobQueue(queue.items())
        assert queue.items() == list(reference.items())
        if reference:
            assert queue.first() is next(iter(reference.values()))


def test_a_job_that_comes_back_behind_another_is_not_the_first() -> None:
    """The former place of a job that left the queue is forgotten when another job joins."""
    queue = JobQueue([(1, job(1)), (9, job(9))])
    del queue[9]
    queue[5] = job(5)
    queue[9] = job(9)
    del queue[1]
    assert queue.first().job_id == 5


def test_an_empty_queue_has_no_first_job() -> None:
    """The first job of a queue from which all jobs left is missing."""
    queue = JobQueue([(1, job(1))])
    del queue[1]
    with pytest.raises(StopIteration):
        queue.first()


@pytest.mark.parametrize("read_between", [False, True])
def test_jobs_that_share_one_allocation_are_counted(read_between: bool) -> None:
    """Two jobs with the same allocation count twice on its nodes, and each leaves once."""
    node = NodeGroup(3, (Processor(4, 1.0, 100.0, 10.0, 0.5),))
    pool = NodePool(Platform((node,)))
    nodes, cores = np.array([0, 2]), np.array([1, 1])
    shared = Allocation(nodes, cores, cores, 2)
    pool.take(shared)
    pool.take(shared)
    if read_between:
        assert pool.jobs.tolist() == [2, 0, 2]
    pool.give_back(shared)
    assert pool.jobs.tolist() == [1, 0, 1]
    pool.give_back(shared)
    assert pool.jobs.tolist() == [0, 0, 0]
    assert pool.free.tolist() == [4, 4, 4]
