"""Small clusters, workloads and runs for tests."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_client import Policy, play
from hpcosim_protocol import NodeGroup, Placement, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table


def cluster_of(
    nodes: int,
    cores: int = 1,
    *,
    clock_ghz: float = 1.0,
    static_w: float = 100.0,
    dynamic_w: float = 10.0,
    idle_fraction: float = 0.5,
) -> Platform:
    """Return a platform of equal nodes of one processor."""
    processor = Processor(cores, clock_ghz, static_w, dynamic_w, idle_fraction)
    return Platform((NodeGroup(nodes, (processor,)),))


def jobs_of(
    *jobs: tuple[float, float, int] | tuple[float, float, int, float],
    placement: Placement = "cores",
) -> JobTable:
    """Return a workload of (submit_s, run_s, cores[, requested_s]), numbered from 1."""
    return job_table(
        job_id=range(1, len(jobs) + 1),
        submit_s=[job[0] for job in jobs],
        run_s=[job[1] for job in jobs],
        requested_s=[job[3] if len(job) > 3 else job[1] for job in jobs],
        cores=[job[2] for job in jobs],
        placement=PLACEMENTS.index(placement),
    )


def simulate(
    platform: Platform,
    jobs: JobTable,
    policy: Policy | str = "fcfs",
    rules: Rules | None = None,
    *,
    explain: bool = False,
    signals: Sequence[Signal] = (),
) -> Simulation:
    """Run a workload to its end in process and return the simulation."""
    simulation = Simulation(platform, jobs, rules, signals=signals)
    decide = make_policy(policy) if isinstance(policy, str) else policy
    play(
        decide,
        platform,
        simulation.advance,
        wake_on_allocation=simulation.rules.wake_on_allocation,
        explains=explain,
    )
    return simulation


def starts(simulation: Simulation) -> dict[int, float]:
    """Return the start time of each job by job id."""
    recording = simulation.recording
    return dict(zip(recording.job_id, recording.start_s, strict=True))
