"""A scenario: platform, workload, scheduler, seed and rules; `model.file` reads one."""

from __future__ import annotations

from msgspec import Struct

from hpcosim_protocol import Contention, NodeGroup, Platform, PowerStates, Processor
from hpcosim_scenarios.model.bounds import Count, Name
from hpcosim_scenarios.model.scheduler import Scheduler
from hpcosim_scenarios.model.workload import (
    Bernoulli,
    Lublin,
    Poisson,
    Sampled,
    Seasonal,
    Workload,
)
from hpcosim_workloads.logs.job_line import JobLine, JobProfile

Scalar = bool | int | float | str | None
"""A value that a client can set over the wire."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that a result follows from.

    Attributes:
        name: for results and figures.
        seed: of all random draws.
        platform: the cluster.
        workload: the jobs.
        scheduler: who decides.
        kill_at_walltime: whether a job is killed once it has run for its requested time.
        dynamic_jobs: whether the scheduler may submit jobs of its own.
        wake_on_allocation: whether a job may be given nodes that sleep or are being switched on; it
            holds them until the last is on, and starts then.
    """

    name: Name
    seed: Count = 0
    platform: Platform
    workload: Workload
    scheduler: Scheduler = Scheduler()
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True


KINDS: tuple[type[Struct], ...] = (
    Scenario,
    Platform,
    NodeGroup,
    PowerStates,
    Processor,
    Contention,
    Workload,
    JobProfile,
    JobLine,
    Lublin,
    Poisson,
    Bernoulli,
    Sampled,
    Seasonal,
    Scheduler,
)
"""Every kind of mapping in a scenario, for advice about unknown keys."""
