"""The layout of jobs in a Gantt chart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_scenarios.figures.gantt import Box, JobRow, boxes
from hpcosim_workloads.synthetic.poisson import poisson
from support.simulating import cluster_of, simulate


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 6), cores=st.integers(1, 8))
def test_no_core_is_drawn_twice_and_none_is_left_out(seed: int, nodes: int, cores: int) -> None:
    """At any time a core is in at most one box, and every job has all of its cores."""
    table = poisson(
        np.random.default_rng(seed),
        jobs=20,
        mean_interarrival_s=50.0,
        cores=(1, nodes * cores),
        run_s=(10.0, 200.0),
        overestimate=1.5,
    )
    recording = simulate(cluster_of(nodes, cores), table, "easy").recording
    jobs = [
        JobRow(
            recording.submit_s[row],
            recording.start_s[row],
            recording.end_s[row],
            "completed",
            recording.cores[row],
            [(node, node) for node in sorted(recording.nodes_of(row))],
        )
        for row in range(len(recording))
    ]
    drawn = boxes(jobs, [cores] * nodes)
    for row, job in enumerate(jobs):
        assert sum(box.last - box.first + 1 for box in drawn if box.row == row) == job.cores
    for i, one in enumerate(drawn):
        assert not any(_overlap(one, other, jobs) for other in drawn[:i])


def _overlap(one: Box, other: Box, jobs: list[JobRow]) -> bool:
    a, b = jobs[one.row], jobs[other.row]
    assert a.start_s is not None
    assert b.start_s is not None
    assert a.end_s is not None
    assert b.end_s is not None
    beside = one.last < other.first or other.last < one.first
    apart = a.end_s <= b.start_s or b.end_s <= a.start_s
    return not beside and not apart
