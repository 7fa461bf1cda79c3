"""A simulation for a scheduler of Batsim's, and what is known of it beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from hpcosim_batsim.bridge import events as say
from hpcosim_batsim.bridge.hosts import Hosts
from hpcosim_batsim.bridge.jobs import KnownJob, KnownJobs
from hpcosim_batsim.bridge.node_kinds import cluster_of
from hpcosim_batsim.bridge.opening import Options, opening
from hpcosim_batsim.bridge.phases import Loads
from hpcosim_batsim.bridge.stepping import SteppedEngine
from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import Platform
from hpcosim_batsim.inputs.workload_model import Workload
from hpcosim_server.engine.rules import Rules

SHARED_SLOTS = 1000  # jobs on a host at a time, with sharing
FIRST_CALL = 2**40  # alarms of lower numbers are of jobs

_RULES = Rules(kill_at_walltime=True, wake_on_allocation=False, initial_time_s=0.0)


@dataclass(slots=True)
class Run:
    """What there is, and what was not told yet.

    Attributes:
        options: what holds.
        platform: the hosts as they were read.
        known: the jobs.
        simulation: the simulation.
        hosts: their states.
        queue: events that the next message tells.
        registering: the scheduler may still submit jobs.
        phases: of jobs that run, what is still to come of each.
        call_ids: numbers for alarms that the scheduler asks for.
        switch_requests: how often power states were asked to change.
        availability: when hosts became unavailable (True) or available again.
    """

    options: Options
    platform: Platform
    known: KnownJobs
    simulation: SteppedEngine
    hosts: Hosts
    queue: list[str]
    registering: bool
    phases: dict[int, Iterator[tuple[float, Loads]]] = field(default_factory=dict)
    call_ids: Iterator[int] = field(default_factory=lambda: count(FIRST_CALL))
    switch_requests: int = 0
    availability: list[tuple[float, tuple[int, ...], bool]] = field(default_factory=list)


def new_run(workloads: Sequence[Workload], platform: Platform, options: Options) -> Run:
    """Return a run that is to begin; its first event is to be told.

    Raises:
        InputError: this can't be simulated.
    """
    known = KnownJobs(workloads)
    _check(platform, workloads, known, options)
    slots = SHARED_SLOTS if options.compute_sharing else 1
    pstates = [host.pstate for host in platform.hosts]
    cluster = cluster_of(platform, pstates, slots, energy=options.energy)
    simulation = SteppedEngine(cluster, known.table(), _RULES)
    hosts = Hosts(platform, simulation, slots, energy=options.energy)
    begins = say.event(0.0, "SIMULATION_BEGINS", say.to_json(opening(platform, workloads, options)))
    return Run(options, platform, known, simulation, hosts, [begins], options.dynamic_jobs)


def _check(
    platform: Platform, workloads: Sequence[Workload], known: KnownJobs, options: Options
) -> None:
    if options.energy:
        for host in platform.hosts:
            if not host.watts:
                raise InputError(
                    platform.path,
                    f"host {host.name}",
                    "has no wattage_per_state; --energy (-E) needs it",
                )
    for job in known.jobs:
        try:
            check_sharing(job, known, options)
        except ValueError as error:
            raise InputError(_path_of(job, workloads), "", str(error)) from None


def _path_of(job: KnownJob, workloads: Sequence[Workload]) -> str:
    return next(one.path for one in workloads if one.name == job.about.workload)


def check_sharing(job: KnownJob, known: KnownJobs, options: Options) -> None:
    """Make sure that a job can be simulated with others on its hosts, if it may have to be.

    Raises:
        ValueError: it can't.
    """
    if options.compute_sharing and known.computes(job):
        raise ValueError(
            f"job {job.full_id} computes; with --enable-compute-sharing only delays are "
            "simulated: how jobs on one host slow each other down is not"
        )
