"""`BatsimRun`: the simulation of a run and the state of Batsim's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from hpcosim_batsim.bridge import messages
from hpcosim_batsim.bridge.event_queue import EventQueue
from hpcosim_batsim.bridge.executions import Executions
from hpcosim_batsim.bridge.host_states import HostStates
from hpcosim_batsim.bridge.jobs import JobRegistry
from hpcosim_batsim.bridge.node_kinds import cluster_of
from hpcosim_batsim.bridge.simulation_begins import BatsimOptions, simulation_begins_data
from hpcosim_batsim.bridge.stepping import SteppedEngine
from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.demand import capacity_of
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.tasks import HostTask, parts
from hpcosim_batsim.inputs.workload_model import BatsimWorkload
from hpcosim_sim.engine.rules import Rules

# Phases of a task: the load of its hosts over time.

Loads = Mapping[int, float]


def phases(task: HostTask) -> Iterator[tuple[float, Loads]]:
    """Yield the phases of a task in order: duration, s, and load by host number, 0 to 1."""
    for part in parts(task):
        yield part.latency_s, {}
        yield part.duration_s - part.latency_s, part.loads


SHARED_SLOTS = 1000  # maximum number of jobs on a host with compute sharing
FIRST_CALL_ID = 2**40  # first alarm id of CALL_ME_LATER; lower ids are phases of jobs

_RULES = Rules(kill_at_walltime=True, wake_on_allocation=False, initial_time_s=0.0)


@dataclass(slots=True)
class BatsimRun:
    """State of a run.

    Attributes:
        options: the run's options.
        platform: the platform file.
        registry: jobs and profiles.
        simulation: the simulation.
        hosts: state of the hosts.
        queue: events of the next message.
        registering: the scheduler may still register jobs.
        phases: remaining phases of each running job, by number.
        executions: running jobs whose tasks share resources.
        call_ids: alarm ids of `CALL_ME_LATER`.
        availability: time, hosts, and whether they became unavailable (True) or available.
    """

    options: BatsimOptions
    platform: BatsimPlatform
    registry: JobRegistry
    simulation: SteppedEngine
    hosts: HostStates
    executions: Executions
    queue: EventQueue
    registering: bool
    phases: dict[int, Iterator[tuple[float, Loads]]] = field(default_factory=dict)
    call_ids: Iterator[int] = field(default_factory=lambda: count(FIRST_CALL_ID))
    availability: list[tuple[float, tuple[int, ...], bool]] = field(default_factory=list)


def new_run(
    workloads: Sequence[BatsimWorkload], platform: BatsimPlatform, options: BatsimOptions
) -> BatsimRun:
    """Return a run at time 0 with `SIMULATION_BEGINS` in its queue.

    Raises:
        InputError: the combination of platform, workloads and options is not supported.
    """
    registry = JobRegistry(workloads)
    if options.energy:
        _check_power(platform)
    slots = SHARED_SLOTS if options.compute_sharing else 1
    pstates = [host.pstate for host in platform.hosts]
    cluster = cluster_of(platform, pstates, slots, energy=options.energy)
    simulation = SteppedEngine(cluster, registry.table(), _RULES)
    hosts = HostStates(platform, simulation, slots, energy=options.energy)
    data = messages.to_json(simulation_begins_data(platform, workloads, options))
    queue = EventQueue()
    queue.add(messages.event(0.0, "SIMULATION_BEGINS", data))
    executions = Executions(
        simulation,
        lambda resource: capacity_of(resource, platform, hosts.pstates),
        hosts.set_loads,
    )
    return BatsimRun(
        options, platform, registry, simulation, hosts, executions, queue, options.dynamic_jobs
    )


def _check_power(platform: BatsimPlatform) -> None:
    for host in platform.hosts:
        if not host.watts:
            raise InputError(
                platform.path,
                f"host {host.name}",
                "has no wattage_per_state; --energy (-E) requires it",
            )
