"""The top level of a scenario: platform, workload, scheduler, seed and rules."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

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
from hpcosim_scenarios.model import Engine
from hpcosim_scenarios.model.events import Action, Failures, NodeEvent, RandomFailures, Times
from hpcosim_scenarios.model.messages import Count, Name
from hpcosim_scenarios.model.series import Economics, Signals, SignalSource
from hpcosim_scenarios.model.workload import Bernoulli, Lublin, Poisson, Sampled, Seasonal, Workload
from hpcosim_workloads.logs.job_lines import JobLine, JobProfile
from hpcosim_workloads.logs.requirements import JobCheckpoints

# The scheduler section of a scenario. Only the client validates its names and settings.

Path = Annotated[str, Meta(min_length=1, max_length=1000)]


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The job scheduler and the power manager of `hpcosim run`.

    A client that connects to `hpcosim serve` has its own settings, and the server does not read
    this section. `scheduler: easy` is short for `scheduler: {name: easy}`.

    Attributes:
        name: a job scheduler that `hpcosim schedulers` lists, or a policy of the user as
            `FILE.py:FUNCTION`.
        power: the power manager, which switches nodes: a mapping of its `name` and its settings, or
            the name alone. Paths are relative to the scenario's folder.
        power_awareness: treatment of nodes that are not on, by the job scheduler: `unaware` (as if
            they were on), `aware` (nodes that are on first; the time to boot counts), `planned`
            (nodes boot just in time for a reservation; only nodes that are on are allocated), or
            `ipm` (as `planned`, for the whole queue and with the least waste; `easy` and `snf`).
        explain: let the job scheduler say why jobs wait and when it expects to start them, for
            `explanations.csv`. It has no effect on the simulation. `--explain` is short for it.
        settings: settings of the job scheduler, for those that have some, such as accounts and
            priorities: a mapping.
        agents: names for trained schedulers with their models, such as
            `energy: pairing:models/energy.safetensors`, for `--scheduler energy`. Paths are
            relative to the scenario's folder.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "fcfs"
    power: dict[str, Any] = field(default_factory=lambda: {"name": "always-on"})
    power_awareness: str = "unaware"
    explain: bool = False
    agents: dict[Name, Path] = {}
    settings: dict[str, Any] = {}


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
        engine: what simulates: `reference` supports everything; `compiled` supports a part, is much
            faster, and has the same results; `auto` takes the compiled engine where it supports all
            of the run and saves time. `hpcosim validate` says which is taken, and why.
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
    engine: Engine = "auto"

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
