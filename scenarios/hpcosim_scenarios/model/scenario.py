"""The top level of a scenario: platform, workload, scheduler, seed and rules."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hpcosim_protocol import (
    Contention,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    PowerStates,
    Processor,
    Switch,
)
from hpcosim_scenarios.model.actions import Action
from hpcosim_scenarios.model.bounds import Count, Name
from hpcosim_scenarios.model.economics import Economics
from hpcosim_scenarios.model.failures import Failures, NodeEvent, RandomFailures, Times
from hpcosim_scenarios.model.scheduler import Scheduler
from hpcosim_scenarios.model.signals import Signals, SignalSource
from hpcosim_scenarios.model.workload import (
    Bernoulli,
    Lublin,
    Poisson,
    Sampled,
    Seasonal,
    Workload,
)
from hpcosim_workloads.logs.job_line import JobLine, JobProfile
from hpcosim_workloads.logs.requirements import JobCheckpoints

Scalar = bool | int | float | str | None
"""A value that a client can set over the wire."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A simulation experiment: the file states everything that its results depend on.

    Attributes:
        name: name of the scenario in results, figures and the list of a server.
        seed: seed of all random numbers: synthetic jobs, times of switching nodes, and policies
            that draw numbers.
        platform: the simulated cluster.
        workload: the jobs.
        scheduler: the scheduler of `hpcosim run`: a mapping, or the name of a job scheduler.
        economics: price and carbon intensity of electricity. Null: no metrics of cost and CO2.
        kill_at_walltime: kill a job when it has run for its requested time, which is wall time on
            every node: a request does not grow on slower nodes, though the run time does. False:
            jobs run to their end.
        dynamic_jobs: allow the scheduler to submit jobs during the simulation.
        wake_on_allocation: allow the scheduler to allocate nodes that are asleep or being switched.
            They are switched on, and the job starts when the last of them is on. False: such an
            allocation is rejected.
        stuck_after_wakeups: number of times that the scheduler may wake in a row while no job is
            submitted, starts or ends; then the run ends with an error that names the waiting jobs.
            While a job runs, 20 times as many are permitted.
        signals: carbon intensity, electricity price and power cap over time, of which the scheduler
            is told with forecasts. Null: none.
        failures: failures, drains and repairs of nodes. Null: none.
        actions: what users and administrators do to jobs, such as `cancel` and `hold`.
    """

    name: Name
    seed: Count = 0
    platform: Platform
    workload: Workload
    scheduler: Scheduler = Scheduler()
    economics: Economics | None = None
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True
    stuck_after_wakeups: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 50_000
    signals: Signals | None = None
    failures: Failures | None = None
    actions: Annotated[tuple[Action, ...], Meta(max_length=100_000)] = ()

    @property
    def currency(self) -> str:
        """Currency of the metrics of cost; empty: the scenario has no `economics`."""
        return self.economics.currency if self.economics else ""


KINDS: tuple[type[Struct], ...] = (
    Scenario,
    Platform,
    NodeGroup,
    PowerStates,
    Processor,
    Contention,
    Partition,
    NodeReservation,
    Switch,
    Workload,
    JobProfile,
    JobLine,
    JobCheckpoints,
    Lublin,
    Poisson,
    Bernoulli,
    Sampled,
    Seasonal,
    Scheduler,
    Economics,
    Signals,
    SignalSource,
    Failures,
    NodeEvent,
    RandomFailures,
    Times,
    Action,
)
"""The types of all mappings in a scenario, for messages; the first is that of the whole file."""
