"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from hpcosim_client import Policy, make_policy, play
from hpcosim_protocol import NodeGroup, Placement, Platform, Processor
from hpcosim_server.simulation import Rules, Simulation
from hpcosim_server.workload.table import PLACEMENTS, JobTable, job_table
from invariants import check_invariants

SHARED = Path(__file__).parents[2] / "shared"

# Machines differ in speed; a property is no less true on a slow one.
settings.register_profile("hpcosim", deadline=None)
settings.load_profile("hpcosim")


@pytest.fixture(autouse=True)
def every_simulation_is_sound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check the invariants of every simulation a test made, after it."""
    made: list[Simulation] = []
    original = Simulation.__init__

    def remember(self: Simulation, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Simulation, "__init__", remember)
    yield
    for simulation in made:
        check_invariants(simulation)


@pytest.fixture
def traces() -> Path:
    """The folder of real job logs; a test that needs it is skipped where it is missing."""
    folder = SHARED / "traces"
    if not folder.is_dir():
        pytest.skip(f"the real job logs are not on this machine: no {folder}")
    return folder


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
) -> Simulation:
    """Run a workload to its end in process and return the simulation."""
    simulation = Simulation(platform, jobs, rules)
    decide = make_policy(policy) if isinstance(policy, str) else policy
    play(
        decide,
        platform,
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    return simulation


def starts(simulation: Simulation) -> dict[int, float]:
    """Return when each job started, by number."""
    recording = simulation.recording
    return dict(zip(recording.job_id, recording.start_s, strict=True))
