"""`BatsimRun`: the simulation of a run and the state of Batsim's protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

import hpcosim_protocol as protocol
from hpcosim_batsim.bridge.event_queue import EventQueue, Submitter, SubmitterGroup, Wait
from hpcosim_batsim.bridge.executions import Executions, SteppedEngine
from hpcosim_batsim.bridge.front import Front
from hpcosim_batsim.bridge.host_states import HostStates, cluster_of
from hpcosim_batsim.bridge.jobs import JobRegistry, RunJob
from hpcosim_batsim.errors import UnknownEnergyError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host
from hpcosim_batsim.inputs.tasks import HostTask, capacity_of, parts
from hpcosim_batsim.inputs.workload_model import BatsimWorkload, used_profiles
from hpcosim_sim.engine.engine import Rules

Loads = Mapping[int, float]

SHARED_SLOTS = 1000  # maximum number of jobs on a host with compute sharing
_RULES = Rules(kill_at_walltime=True, wake_on_allocation=False, initial_time_s=0.0)


def phases(task: HostTask) -> Iterator[tuple[float, Loads]]:
    """Yield the phases of a task in order: duration, s, and load by host number, 0 to 1."""
    for part in parts(task):
        yield part.latency_s, {}
        yield part.duration_s - part.latency_s, part.loads


@dataclass(slots=True)
class BatsimRun:
    """State of a run.

    Attributes:
        registering: the scheduler may still register jobs.
        without_power: hosts without power, for messages; "": all have, or energy is not simulated.
        stopped: the scheduler has ended the simulation.
        running: the running jobs, by number.
        phases: remaining phases of each running job, by number.
        executions: running jobs whose tasks share resources.
        calls: waits for calls that the scheduler has requested, by their numbers.
        submitters: submitters of the workloads, by name.
        external: submitter of external events; None: there is no file of them.
        availability: time, hosts, and whether they became unavailable (True) or available.
    """

    front: Front
    options: BatsimOptions
    platform: BatsimPlatform
    workloads: Sequence[BatsimWorkload]
    registry: JobRegistry
    simulation: SteppedEngine
    hosts: HostStates
    executions: Executions
    queue: EventQueue
    registering: bool
    without_power: str = ""
    stopped: bool = False
    running: dict[int, RunJob] = field(default_factory=dict)
    phases: dict[int, Iterator[tuple[float, Loads]]] = field(default_factory=dict)
    calls: dict[int, Wait] = field(default_factory=dict)
    submitters: dict[str, Submitter] = field(default_factory=dict)
    external: Submitter | None = None
    availability: list[tuple[float, tuple[int, ...], bool]] = field(default_factory=list)


def new_run(
    front: Front,
    workloads: Sequence[BatsimWorkload],
    platform: BatsimPlatform,
    options: BatsimOptions,
) -> BatsimRun:
    """Return a run at time 0 with the event that it begins in its queue."""
    registry = JobRegistry(workloads)
    slots = SHARED_SLOTS if options.compute_sharing else 1
    pstates = [host.pstate for host in platform.hosts]
    cluster = cluster_of(platform, pstates, slots, energy=options.energy)
    simulation = SteppedEngine(cluster, registry.table(), _RULES)
    hosts = HostStates(platform, simulation, slots, energy=options.energy)
    executions = Executions(
        simulation,
        lambda resource: capacity_of(resource, platform, hosts.pstates),
        hosts.set_loads,
    )
    run = BatsimRun(
        front,
        options,
        platform,
        workloads,
        registry,
        simulation,
        hosts,
        executions,
        EventQueue(),
        options.dynamic_jobs,
        without_power=platform.hosts_without_power() if options.energy else "",
    )
    run.queue.add(front.begins(run))
    group = SubmitterGroup(len(workloads), front.no_more_jobs)
    for workload in workloads:
        run.submitters[workload.name] = run.queue.add_submitter(group, len(workload.jobs))
    return run


def set_call(run: BatsimRun, at_s: float) -> Wait:
    """Let `Front.on_call` be called at a time, and return its wait; its alarm has its number."""
    wait = run.queue.begin_wait(run.simulation.now_s)
    run.simulation.carry_out(protocol.SetAlarm(at_s, wait.number))
    run.calls[wait.number] = wait
    return wait


def check_energy(run: BatsimRun) -> None:
    """Check that the energy of all hosts is known if it is simulated.

    Batsim reads it when the first job of a workload is submitted, when a job starts or ends, at
    requests to set pstates and at queries, and aborts then.

    Raises:
        UnknownEnergyError: a host has no power.
    """
    if run.without_power:
        raise UnknownEnergyError(run.simulation.now_s, run.without_power)


class BatsimOptions(Struct, frozen=True, kw_only=True):
    """Options of a run, named as Batsim's.

    Attributes:
        compute_sharing: a host may run several jobs at the same time.
        storage_sharing: a storage host may be used by several jobs at the same time; only reported
            to the scheduler.
        profile_reuse: the scheduler may reuse profiles of finished jobs; only reported to it, as
            profiles are always kept.
    """

    energy: bool = False
    compute_sharing: bool = False
    storage_sharing: bool = True
    forward_profiles: bool = False
    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = False
    profile_reuse: bool = False
    forward_unknown_events: bool = False
    sched_config: str = ""


def simulation_begins_data(
    platform: BatsimPlatform,
    workloads: Iterable[BatsimWorkload],
    options: BatsimOptions,
) -> dict[str, Any]:
    """Return the data of `SIMULATION_BEGINS`."""
    hosts = len(platform.hosts)
    workloads = list(workloads)
    return {
        "nb_resources": hosts + len(platform.storage),
        "nb_compute_resources": hosts,
        "nb_storage_resources": len(platform.storage),
        "allow_compute_sharing": options.compute_sharing,
        "allow_storage_sharing": options.storage_sharing,
        "config": {
            "redis-enabled": False,
            "redis-hostname": "127.0.0.1",
            "redis-port": 6379,
            "redis-prefix": "default",
            "profiles-forwarded-on-submission": options.forward_profiles,
            "dynamic-jobs-enabled": options.dynamic_jobs,
            "dynamic-jobs-acknowledged": options.acknowledge_dynamic_jobs,
            "profile-reuse-enabled": options.profile_reuse,
            "sched-config": options.sched_config,
            "forward-unknown-events": options.forward_unknown_events,
        },
        "compute_resources": [
            _resource(number, host) for number, host in enumerate(platform.hosts)
        ],
        "storage_resources": [
            _resource(number, host) for number, host in enumerate(platform.storage, start=hosts)
        ],
        "workloads": {workload.name: str(Path(workload.path).absolute()) for workload in workloads},
        "profiles": {
            workload.name: {name: profile.raw for name, profile in used_profiles(workload).items()}
            for workload in workloads
        },
    }


def _resource(number: int, host: Host) -> dict[str, Any]:
    return {
        "id": number,
        "name": host.name,
        "state": "idle",
        "properties": host.properties,
        "zone_properties": host.zone_properties,
    }
