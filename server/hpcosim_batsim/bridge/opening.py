"""What a scheduler is told at the start: the options of the run, the hosts, the workloads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from hpcosim_batsim.inputs.platform_model import Host, Platform
from hpcosim_batsim.inputs.workload_model import Workload


class Options(Struct, frozen=True, kw_only=True):
    """What holds in a run; the words are Batsim's.

    Attributes:
        energy: hosts draw power, and their power states may change.
        compute_sharing: a host may run several jobs at a time.
        storage_sharing: likewise for hosts of storage, on which nothing runs here.
        forward_profiles: jobs are told of with their profile.
        dynamic_jobs: the scheduler may submit jobs.
        acknowledge_dynamic_jobs: it is told of these, too.
        profile_reuse: it means to use profiles of jobs that are over.
        forward_unknown_events: it is told of external events of types not known here.
        sched_config: for the scheduler, whatever it may be.
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


def opening(
    platform: Platform,
    workloads: Iterable[Workload],
    options: Options,
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
            workload.name: {name: profile.raw for name, profile in workload.profiles.items()}
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
