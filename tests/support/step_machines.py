"""Machines with steps of a second, their jobs, and runs of step-based schedulers."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from hpcosim_client.view import Policy
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_workloads.table import JobTable
from support.simulating import jobs_of, simulate

Schedule = dict[int, tuple[float, int]]


CLOCKS_GHZ = (2.0, 1.0)


CORES = 4


class Drawn(NamedTuple):
    """A job; run times in steps on the faster machine."""

    submit_s: int
    expected: int
    actual: int
    cores: int


def machines(cores: int = CORES) -> Platform:
    """Return two machines; the second has half the speed and a tenth of the power."""
    groups = (
        NodeGroup(1, (Processor(cores, clock_ghz, 0.0, dynamic_w, 0.0),))
        for clock_ghz, dynamic_w in zip(CLOCKS_GHZ, (10.0, 1.0), strict=True)
    )
    return Platform(tuple(groups))


def table(drawn: list[Drawn]) -> JobTable:
    """Return a workload whose times hold on the slower machine."""
    return jobs_of(*((job.submit_s, 2 * job.actual, job.cores, 2 * job.expected) for job in drawn))


def simulated(policy: Policy, jobs: JobTable, cores: int = CORES) -> Simulation:
    """Return the completed simulation of a workload."""
    return simulate(machines(cores), jobs, policy, Rules(reference_ghz=1.0))


def schedule(policy: Policy, jobs: JobTable, cores: int = CORES) -> Schedule:
    """Return start step and machine of each job."""
    recording = simulated(policy, jobs, cores).recording
    return {
        recording.job_id[row]: (recording.start_s[row], recording.nodes_of(row)[0])
        for row in range(len(recording))
    }


workloads = st.lists(
    st.builds(
        Drawn,
        submit_s=st.integers(0, 12),
        expected=st.integers(1, 6),
        actual=st.integers(1, 8),
        cores=st.integers(1, CORES),
    ),
    min_size=1,
    max_size=14,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submit_s))
